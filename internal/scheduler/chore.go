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

// chores is what this node does for all when it is its turn. They go on beside the beats, one turn
// at a time: a write may take as long as the store takes, and no renewal may wait for that.
type chores struct {
	*core
	shares *shares
	news   *news
	pruner *pruner

	turns chan *view // what the round saw that gave the turn; size 1

	// Owned by the round.
	view    *view       // what the last round saw
	waiting bool        // for this node's turn
	chore   *time.Timer // fires when it is this node's turn to try for the chores

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
func (c *chores) turn(ctx context.Context, v *view) error {
	lone, self := v.alone(c.conf.Name), holderOf(c.conf.Name, c.conf.Start)
	c.view = v
	switch {
	case !v.calm, c.leaving(), v.chore.Until > v.now && v.chore.Holder != self:
		c.waiting = false
		c.chore.Stop()
		return nil
	case lone && v.told.equal(c.news.told(v)):
		c.offer(v)
		return nil
	case c.waiting:
		return nil
	}
	if wait := balance.Wait(c.conf.Busy().Score()); wait > 0 && !lone {
		c.waiting = true
		c.chore.Reset(wait)
		return nil
	}
	return c.Chore(ctx, v.at)
}

// Chore tries for this beat's chores, and has them done. Run calls it when the node has waited for
// its turn; Round does when there is nothing to wait for. Who gets their lease has it to the end of
// the beat.
func (c *chores) Chore(ctx context.Context, now time.Time) error {
	c.waiting = false
	v := c.view
	if !c.keeper.Calm(now) {
		return nil // the store has been away since that round
	}
	self, ttl := holderOf(c.conf.Name, c.conf.Start),
		max(c.conf.Beat-max(now.Sub(v.at), 0), c.conf.Beat/4)
	// Two who do the chores at a time do no harm, so nobody's death is waited for.
	got, err := c.conf.Leases.AcquireAll(ctx, self, []store.Lease{{Name: choreName}}, ttl,
		math.MaxInt64)
	if err != nil {
		return fmt.Errorf("acquire %q: %w", choreName, err)
	}
	jump := time.Duration(got.Now-v.now)*time.Microsecond - time.Since(v.at)
	if len(got.Leases) == 0 || jump.Abs() > c.conf.TTL/4 {
		// another does them, or the store's clock has jumped, of which the next round sees more
		return nil
	}
	c.mu.Lock()
	c.judges = true
	c.mu.Unlock()
	c.offer(v)
	return nil
}

// offer gives the next turn at the chores, unless the last one has not begun.
func (c *chores) offer(v *view) {
	select {
	case c.turns <- v:
	default:
	}
	c.pruner.mayPrune(v)
}

// choresBeside takes the turns until ctx ends.
func (c *chores) choresBeside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-c.turns:
			if err := c.do(ctx, v); err != nil && ctx.Err() == nil && !outOfReach(err) {
				c.conf.Log.Error("chores", "error", err)
			}
		}
	}
}

// Chores does what a round has left to do, if anything, and returns when it is done. Run has it
// done beside the beats; it is for who calls Round.
func (c *chores) Chores(ctx context.Context) error {
	select {
	case v := <-c.turns:
		return c.do(ctx, v)
	default:
		return nil
	}
}

// do is a turn: people are told, and what the dead held is freed. What it misses the next one does.
func (c *chores) do(ctx context.Context, v *view) (err error) {
	for _, chore := range []func(context.Context, *view) error{c.news.tell, c.free, c.sweep} {
		ctx, cancel := c.bounded(ctx)
		err = errors.Join(err, chore(ctx, v))
		cancel()
	}
	return err
}

// free frees the spans of dead nodes: at once when a lease has expired or a node has come or gone,
// and every few beats in any case.
func (c *chores) free(ctx context.Context, v *view) error {
	members := map[string]int64{}
	for _, m := range v.members {
		members[m.Name] = m.token
	}
	if !c.conf.Alone && !v.expired && v.at.Sub(c.freed) < 5*c.conf.Beat &&
		maps.Equal(members, c.members) {
		return nil
	}
	freed, err := c.conf.Chores.Free(ctx, store.Holder{Node: c.conf.Name, Token: c.node.Token()},
		microsOf(c.keeper.Judge(time.Now())))
	if err != nil {
		return fmt.Errorf("free what the dead held: %w", err)
	}
	c.freed, c.members = v.at, members
	if freed > 0 {
		c.conf.Log.Info("freed what dead nodes held", "spans", freed)
	}
	return nil
}

// sweep removes what nobody needs any more: the ended claims of keys that no longer exist, nodes
// dead for a day, and what has passed.
func (c *chores) sweep(ctx context.Context, v *view) error {
	litter := slices.Clone(v.litter)
	for name, row := range v.claims {
		kind, _, _ := strings.Cut(name, "/")
		if row.Until == 0 && v.kinds[name] == nil && c.shares.knows(kind) {
			litter = append(litter, row)
		}
	}
	for _, m := range v.members {
		if since := v.told.Nodes[m.Name].Gone; m.State == Offline && since != 0 &&
			since+buried.Microseconds() < v.now {
			litter = append(litter, store.Lease{Name: nodePrefix + m.Name, Token: m.token})
		}
	}
	passed, err := c.passed(ctx, v)
	if err != nil {
		return err
	}
	if litter = append(litter, passed...); len(litter) == 0 {
		return nil
	}
	slices.SortFunc(litter, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	if err := c.conf.Leases.EndAll(ctx, litter, true); err != nil {
		return fmt.Errorf("remove %d leases that nobody needs: %w", len(litter), err)
	}
	return nil
}

// passed are the leases that were to pass and have ended, now and then.
func (c *chores) passed(ctx context.Context, v *view) ([]store.Lease, error) {
	if len(c.conf.Passing) == 0 || v.at.Sub(c.swept) < sweepEvery {
		return nil, nil
	}
	beat, err := c.conf.Leases.Beat(ctx, nil, c.conf.TTL, c.conf.Passing...)
	if err != nil {
		return nil, fmt.Errorf("look for leases that have passed: %w", err)
	}
	c.swept = v.at
	return slices.DeleteFunc(beat.Leases, func(l store.Lease) bool { return l.Until != 0 }), nil
}
