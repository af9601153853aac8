package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// choreName is the lease of whoever does this beat's chores.
const choreName = chorePrefix + "beat"

// upkeep is what a node remembers of the chores. Owned by the round.
type upkeep struct {
	joined  time.Time
	checked time.Time
	view    *view // what the last round saw
	waiting bool  // for this node's turn
}

// chores is what a node remembers of those that it does. They go on beside the beats, one turn at a
// time: a write may take as long as the store takes, and no renewal may wait for that.
type chores struct {
	turns chan *view // what the round saw that gave the turn; size 1

	// Owned by who takes the turns.
	freed   time.Time        // when this node looked for what the dead held
	swept   time.Time        // when it looked for leases that have passed
	members map[string]int64 // the nodes' tokens when it freed
}

const (
	buried     = 24 * time.Hour   // a dead node is shown for so long
	sweepEvery = 10 * time.Minute // leases that have passed are looked for
)

// turn does the chores when it is this node's turn: nobody else is at them in this beat, and it has
// waited longer the busier it is, so that the idlest node is the first to try. A lone node need not
// ask anybody.
func (s *Scheduler) turn(ctx context.Context, v *view) error {
	lone, self := v.alone(s.conf.Name), holderOf(s.conf.Name, s.conf.Start)
	s.upkeep.view = v
	switch {
	case !v.calm, s.leaving(), v.chore.Until > v.now && v.chore.Holder != self:
		s.upkeep.waiting = false
		s.chore.Stop()
		return nil
	case lone && v.told.equal(s.told(v)):
		s.offer(v)
		return nil
	case s.upkeep.waiting:
		return nil
	}
	if wait := balance.Wait(s.conf.Busy().Score()); wait > 0 && !lone {
		s.upkeep.waiting = true
		s.chore.Reset(wait)
		return nil
	}
	return s.Chore(ctx, v.at)
}

// Chore tries for this beat's chores, and has them done. Run calls it when the node has waited for
// its turn; Round does when there is nothing to wait for. Who gets their lease has it to the end of
// the beat.
func (s *Scheduler) Chore(ctx context.Context, now time.Time) error {
	s.upkeep.waiting = false
	v := s.upkeep.view
	if !s.keeper.Calm(now) {
		return nil // the store has been away since that round
	}
	self, ttl := holderOf(s.conf.Name, s.conf.Start),
		max(s.conf.Beat-max(now.Sub(v.at), 0), s.conf.Beat/4)
	// Two who do the chores at a time do no harm, so nobody's death is waited for.
	got, err := s.conf.Leases.AcquireAll(ctx, self, []store.Lease{{Name: choreName}}, ttl,
		math.MaxInt64)
	if err != nil {
		return fmt.Errorf("acquire %q: %w", choreName, err)
	}
	jump := time.Duration(got.Now-v.now)*time.Microsecond - time.Since(v.at)
	if len(got.Leases) == 0 || jump.Abs() > s.conf.TTL/4 {
		// another does them, or the store's clock has jumped, of which the next round sees more
		return nil
	}
	s.mu.Lock()
	s.judges = true
	s.mu.Unlock()
	s.offer(v)
	return nil
}

// offer gives the next turn at the chores, unless the last one has not begun.
func (s *Scheduler) offer(v *view) {
	select {
	case s.chores.turns <- v:
	default:
	}
	s.mayPrune(v)
}

// choresBeside takes the turns until ctx ends.
func (s *Scheduler) choresBeside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-s.chores.turns:
			if err := s.do(ctx, v); err != nil && ctx.Err() == nil && !outOfReach(err) {
				s.conf.Log.Error("chores", "error", err)
			}
		}
	}
}

// Chores does what a round has left to do, if anything, and returns when it is done. Run has it
// done beside the beats; it is for who calls Round.
func (s *Scheduler) Chores(ctx context.Context) error {
	select {
	case v := <-s.chores.turns:
		return s.do(ctx, v)
	default:
		return nil
	}
}

// Judges tells whether this node is to do now what one does for all beside its beat: it did the
// chores last, or nobody has lately. Several may be told so for a moment, and at any time one is,
// unless nobody is calm: a node judges nobody before it has heard the store for a whole lease.
func (s *Scheduler) Judges() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judges && s.keeper.Calm(time.Now())
}

// do is a turn: people are told, and what the dead held is freed. What it misses the next one does.
func (s *Scheduler) do(ctx context.Context, v *view) (err error) {
	for _, chore := range []func(context.Context, *view) error{s.tell, s.free, s.sweep} {
		ctx, cancel := s.bounded(ctx)
		err = errors.Join(err, chore(ctx, v))
		cancel()
	}
	return err
}

// free frees the spans of dead nodes: at once when a lease has expired or a node has come or gone,
// and every few beats in any case.
func (s *Scheduler) free(ctx context.Context, v *view) error {
	members := map[string]int64{}
	for _, m := range v.members {
		members[m.Name] = m.token
	}
	if !s.conf.Alone && !v.expired && v.at.Sub(s.chores.freed) < 5*s.conf.Beat &&
		maps.Equal(members, s.chores.members) {
		return nil
	}
	freed, err := s.conf.Chores.Free(ctx, store.Holder{Node: s.conf.Name, Token: s.node.Token()},
		microsOf(s.keeper.Judge(time.Now())))
	if err != nil {
		return fmt.Errorf("free what the dead held: %w", err)
	}
	s.chores.freed, s.chores.members = v.at, members
	if freed > 0 {
		s.conf.Log.Info("freed what dead nodes held", "spans", freed)
	}
	return nil
}

// sweep removes what nobody needs any more: the ended claims of keys that no longer exist, nodes
// dead for a day, and what has passed.
func (s *Scheduler) sweep(ctx context.Context, v *view) error {
	litter := slices.Clone(v.litter)
	for name, row := range v.claims {
		kind, _, _ := strings.Cut(name, "/")
		if row.Until == 0 && v.kinds[name] == nil && s.knows(kind) {
			litter = append(litter, row)
		}
	}
	for _, m := range v.members {
		if since := v.told.Nodes[m.Name].Gone; m.State == Offline && since != 0 &&
			since+buried.Microseconds() < v.now {
			litter = append(litter, store.Lease{Name: nodePrefix + m.Name, Token: m.token})
		}
	}
	passed, err := s.passed(ctx, v)
	if err != nil {
		return err
	}
	if litter = append(litter, passed...); len(litter) == 0 {
		return nil
	}
	slices.SortFunc(litter, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	if err := s.conf.Leases.EndAll(ctx, litter, true); err != nil {
		return fmt.Errorf("remove %d leases that nobody needs: %w", len(litter), err)
	}
	return nil
}

// passed are the leases that were to pass and have ended, now and then.
func (s *Scheduler) passed(ctx context.Context, v *view) ([]store.Lease, error) {
	if len(s.conf.Passing) == 0 || v.at.Sub(s.chores.swept) < sweepEvery {
		return nil, nil
	}
	beat, err := s.conf.Leases.Beat(ctx, nil, s.conf.TTL, s.conf.Passing...)
	if err != nil {
		return nil, fmt.Errorf("look for leases that have passed: %w", err)
	}
	s.chores.swept = v.at
	return slices.DeleteFunc(beat.Leases, func(l store.Lease) bool { return l.Until != 0 }), nil
}

func (s *Scheduler) knows(kind string) bool {
	for _, k := range s.kinds {
		if k.Name == kind {
			return true
		}
	}
	return false
}
