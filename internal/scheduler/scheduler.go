package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// Scheduler does one node's rounds. Join comes first, then Run; Leave comes last.
//
// It is made of parts, one for each thing that a round is about. All of them have the core, with
// the leases and the lock; what a part needs of another one it has a field for. Each can be read by
// itself, and their exported methods are the scheduler's.
type Scheduler struct {
	*core
	*joining   // this node becomes a member
	*renewals  // and stays one
	*probes    // mutual checks
	*holdings  // keys that this node holds
	*shares    // keys, and among whom they are shared out
	*decisions // what people decide about nodes and keys
	*claims    // what this node tries for, and gives back
	*news      // what people are told
	*pruner    // what is kept no longer
	*chores    // what one node does for all

	asked chan chan error // by who waits for a scan

	// Owned by the round.
	checked time.Time // when the store was checked
	full    bool      // the store had no room at the last round
}

// New makes a scheduler for a node. It holds nothing before Join.
func New(conf Config) (*Scheduler, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure scheduler: %w", err)
	}
	c := &core{conf: conf, drawer: &drawer{
		Leases: conf.Leases, prefixes: append(prefixes(), conf.Along...), heard: conf.Heard,
	}}
	c.keeper, err = lease.New(lease.Config{
		Store: c.drawer, Holder: holderOf(conf.Name, conf.Start), TTL: conf.TTL, Beat: conf.Beat,
		Alone: conf.Alone, Log: conf.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("configure scheduler: %w", err)
	}
	return newParts(c), nil
}

// newParts makes the parts around a core, each after those that it needs.
func newParts(c *core) *Scheduler {
	s := &Scheduler{
		core: c, probes: &probes{core: c}, news: &news{c},
		pruner:   &pruner{core: c, turns: make(chan time.Time, 1)},
		holdings: &holdings{core: c, posts: map[string]*post{}, failed: map[string]time.Time{}},
		asked:    make(chan chan error),
	}
	s.shares = &shares{core: c, holdings: s.holdings, since: map[string]time.Time{}}
	s.renewals = &renewals{core: c, shares: s.shares, probes: s.probes}
	s.joining = &joining{core: c, renewals: s.renewals}
	s.decisions = &decisions{core: c, shares: s.shares}
	s.claims = &claims{
		core: c, shares: s.shares, holdings: s.holdings, probes: s.probes, decisions: s.decisions,
	}
	s.chores = &chores{
		core: c, shares: s.shares, news: s.news, pruner: s.pruner,
		turns: make(chan *view, 1), chore: time.NewTimer(c.conf.TTL),
	}
	s.chore.Stop()
	return s
}

// ErrOusted ends Run: the node was not heard of for longer than its lease, or another process has
// its name now. What this process believes of the store is void, so it is a store.ErrBroken, too;
// nothing is wrong with the store itself.
var ErrOusted error = ousted{}

type ousted struct{}

func (ousted) Error() string        { return "this node's membership was ended by others" }
func (ousted) Is(target error) bool { return target == store.ErrBroken }

// Run does a round every beat until ctx ends or the store can't be trusted any more. Then it takes
// nothing new, and goes on renewing until all who look after its keys are done, at most for the
// grace.
func (s *Scheduler) Run(ctx context.Context) error {
	aside, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.choresBeside(aside) })
	beside.Go(func() { s.pruneBeside(aside) })
	defer beside.Wait() // the store bounds its calls; renewals go on meanwhile
	err := s.beat(ctx)
	stop()
	if err != nil {
		return errors.Join(err, s.part(0))
	}
	return s.part(s.conf.StopGrace)
}

func (s *Scheduler) beat(ctx context.Context) error {
	beat := time.NewTicker(s.conf.Beat)
	defer beat.Stop()
	for {
		if err := s.noted(ctx, "scheduler round", s.Round(ctx, time.Now())); err != nil {
			return err
		}
		for turn := true; turn; {
			select {
			case <-ctx.Done():
				return nil
			case done := <-s.asked:
				_, err := s.scan(ctx, time.Now())
				done <- err
				if err := s.noted(ctx, "scheduler scan", err); err != nil {
					return err
				}
			case <-s.chore.C:
				if err := s.noted(ctx, "chores", s.Chore(ctx, time.Now())); err != nil {
					return err
				}
			case <-beat.C:
				turn = false
			}
		}
	}
}

// part lets go of all keys, and goes on renewing until those who look after them are done. After
// the grace the contexts of what they have begun end, too.
func (s *Scheduler) part(grace time.Duration) error {
	s.holdings.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.looks.Wait()
	}()
	over := time.NewTimer(grace)
	defer over.Stop()
	beat := time.NewTicker(s.conf.Beat)
	defer beat.Stop()
	ctx := context.Background() // calls of the store are bounded by themselves
	for {
		select {
		case <-done:
			return s.giveBack(ctx)
		case <-beat.C:
			if err := s.Round(ctx, time.Now()); err != nil {
				s.conf.Log.Error("renew while stopping", "error", err)
			}
		case <-over.C:
			err := s.drop(ctx)
			<-done
			return err
		}
	}
}

// noted logs an error, unless it is one that the node can't live with: that comes back.
func (s *Scheduler) noted(ctx context.Context, verb string, err error) error {
	switch {
	case errors.Is(err, store.ErrBroken):
		return err
	case err != nil && ctx.Err() == nil && !outOfReach(err): // an outage is told of once
		s.conf.Log.Error(verb, "error", err)
	}
	return nil
}

// Rescan lets the node look at everything now, not with its next beat, and returns when it has done
// what followed.
func (s *Scheduler) Rescan(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case s.asked <- done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Round is what a beat does: a scan, then the checks of the other nodes, and the chores when it is
// this node's turn.
func (s *Scheduler) Round(ctx context.Context, now time.Time) error {
	v, err := s.scan(ctx, now)
	if v == nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.probe(ctx, v)
	return errors.Join(err, s.turn(ctx, v))
}

// scan renews all that the node holds and reads who holds what, in one statement; then it claims
// and gives back keys. Without a view it came to nothing. A membership that is gone is
// store.ErrBroken: this process holds nothing any more, and must not go on answering as if it did.
func (s *Scheduler) scan(ctx context.Context, now time.Time) (*view, error) {
	s.node.Set(s.self().value())
	err := s.renew(ctx, now)
	s.outage.note(err, now, s.conf.Log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.node.Err() == lease.ErrLost {
		return nil, s.ousted(ctx)
	}
	if err := s.check(ctx, now); err != nil {
		return nil, err
	}
	v := s.look(now)
	return &v, errors.Join(s.claim(ctx, &v), s.giveBack(ctx))
}

// ousted says why the membership is gone: others ended it, or it never stood in this store, which
// is another one.
func (s *Scheduler) ousted(ctx context.Context) error {
	if err := s.conf.Chores.Check(ctx); errors.Is(err, store.ErrBroken) {
		return fmt.Errorf("renew %q: %w", s.node.Name(), err)
	}
	return fmt.Errorf("renew %q: %w", s.node.Name(), ErrOusted)
}

// check says so, once, when the store has no room, and when it has again. A store of several
// processes is checked by using it.
func (s *Scheduler) check(ctx context.Context, now time.Time) error {
	if !s.conf.Alone && now.Sub(s.checked) < 10*s.conf.Beat {
		return nil
	}
	s.checked = now
	err := s.conf.Chores.Check(ctx)
	full := errors.Is(err, store.ErrFull)
	switch {
	case full && !s.full:
		s.conf.Log.Error("the disk is nearly full: submissions are refused, what runs goes on",
			"error", err)
	case !full && s.full && err == nil:
		s.conf.Log.Info("the disk has room again: submissions are accepted")
	}
	s.full = full
	if err != nil && !full {
		return fmt.Errorf("check store: %w", err)
	}
	return nil
}

// Leave ends the membership and all claims: what this node still holds is free at once for others.
// Run must have returned, and what the node holds of tasks been given back.
func (s *Scheduler) Leave(ctx context.Context) error {
	if err := errors.Join(
		s.drop(ctx), s.keeper.Remove(ctx, s.node), s.keeper.Close(ctx),
	); err != nil {
		return fmt.Errorf("leave as %q: %w", s.conf.Name, err)
	}
	return nil
}
