package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// Peers asks other nodes whether they serve.
type Peers interface {
	// Probe asks a node at an address. An error means: not reached, not healthy, or another node
	// answers there.
	Probe(ctx context.Context, name, address string) error
}

// Guard lets a process find out that another one is dead. It is a lock that a process keeps until
// its death, and that nobody else takes away.
type Guard interface {
	// Hold makes this process have the lock, if it has it not yet, and says at which place: of all
	// processes at a place one has it at a time. Processes at different places know nothing of each
	// other. An error says why it has not got the lock. It waits for nobody.
	Hold() (place string, err error)
}

// Config of a scheduler. Leases, Chores, Name and, unless Alone, Start are needed.
type Config struct {
	Leases Leases
	Chores Chores
	// Peers makes the mutual checks. Default: none are made.
	Peers Peers

	// Along are the beginnings of names of leases that others than the scheduler want to see: each
	// beat reads them along with its own.
	Along []string
	// Heard is told what each beat brought from the store, and when it was asked and answered. It
	// must not wait. Default: nobody is.
	Heard func(asked, answered time.Time, beat store.Beat)

	// Renewed is told of each renewal of this node's membership. It must not wait. Default: nobody
	// is.
	Renewed func(Renewal)

	// Passing are the beginnings of names of leases that nobody needs any more once they have
	// ended: the chores remove those rows.
	Passing []string

	// Name of the node.
	Name string
	// Start tells this start of the node from all others: a word that no two processes ever share.
	Start string
	// Alone: the store admits one process at a time, so that whatever stands in it is of the dead.
	Alone bool
	// Guard shows that an earlier start of the node is dead, so that its lease need not be waited
	// for. All starts of a node, and nobody else, have the same. Default: there is none, and each
	// lease is waited for.
	Guard Guard
	// Address at which other nodes reach this one; they don't check a node without.
	Address string

	// TTL of leases. Default 10 s.
	TTL time.Duration
	// Beat is the time between rounds. Default 1 s, at most a third of TTL.
	Beat time.Duration
	// StopGrace is how long a stopping node waits for those who look after its keys. Default 30 s.
	StopGrace time.Duration
	// Prune is how many rows one call deletes at most, of those that follow each other while much
	// is to be deleted. Default 5,000.
	Prune int

	// Weight is how many keys the node takes beside the others. Default 1.
	Weight int
	// Tolerance is how many nodes may die at once with every key still ownable. Default 1.
	Tolerance int
	// Alarm is raised when the node owns more keys than this. Default 0: never.
	Alarm int
	// Limits of what the node claims and gives back in one beat. Rebalance is what a new cluster
	// begins with.
	Limits balance.Limits
	// Chosen: somebody chose Limits.Rebalance, and is told when the cluster has another.
	Chosen bool
	// Busy says how busy the node is. Default: not at all.
	Busy func() balance.Busyness

	// Holds counts the tasks that the node holds: while there are any it is not drained. Default:
	// none.
	Holds func() int
	// Tell writes down what people want to know, once for the whole cluster: when it returns nil it
	// stands for good, and an event whose key stands already changes nothing. Default: nobody is
	// told.
	Tell func(context.Context, ...Event) error
	// Log is where the node tells what it does. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Leases == nil || c.Chores == nil {
		wrong = append(wrong, errors.New("no Leases or no Chores"))
	}
	if c.Name == "" {
		wrong = append(wrong, errors.New("no Name"))
	}
	if c.Start == "" && !c.Alone {
		wrong = append(wrong, errors.New("no Start, and not Alone"))
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = time.Second
	}
	if c.StopGrace == 0 {
		c.StopGrace = 30 * time.Second
	}
	if c.Prune == 0 {
		c.Prune = 5000
	}
	c.Weight, c.Tolerance = max(c.Weight, 1), max(c.Tolerance, 1)
	if c.Guard == nil {
		c.Guard = unguarded{}
	}
	if c.Busy == nil {
		c.Busy = func() balance.Busyness { return balance.Busyness{} }
	}
	if c.Holds == nil {
		c.Holds = func() int { return 0 }
	}
	if c.Tell == nil {
		c.Tell = func(context.Context, ...Event) error { return nil }
	}
	if c.Heard == nil {
		c.Heard = func(time.Time, time.Time, store.Beat) {}
	}
	if c.Renewed == nil {
		c.Renewed = func(Renewal) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(wrong...)
}

// Scheduler does one node's rounds. Join comes first, then Run; Leave comes last.
type Scheduler struct {
	conf       Config
	drawer     *drawer
	keeper     *lease.Keeper
	node       *lease.Lease // this node's membership; set by TryJoin
	before     store.Lease  // that of an earlier start, as TryJoin saw it last
	unresolved string       // why that start is not known to be dead
	looks      sync.WaitGroup
	asked      chan chan error // by who waits for a scan
	drains     atomic.Int64    // that were asked for here
	outage     outage
	chores     chores
	prune      pruning

	// Owned by the round.
	kinds   []*Kind
	full    bool // the store had no room at the last round
	alarmed bool
	alarms  int  // that were told, and their ends
	differs bool // that the cluster has another setting than this node was said, if it has
	checks  checks
	upkeep  upkeep

	mu     sync.Mutex
	posts  map[string]*post     // keys that this node holds, by kind and key
	since  map[string]time.Time // when this node first saw that a key is unowned
	seen   *view                // what the last round saw; not changed any more
	failed map[string]time.Time // when this node last gave a key back that others are to try first
	leave  bool                 // takes nothing new, for good
	judges bool                 // it did the chores last, or nobody has
	chore  *time.Timer          // fires when it is this node's turn to try for the chores
}

// New makes a scheduler for a node. It holds nothing before Join.
func New(conf Config) (*Scheduler, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure scheduler: %w", err)
	}
	s := &Scheduler{
		conf: conf, asked: make(chan chan error),
		drawer: &drawer{
			Leases: conf.Leases, prefixes: append(prefixes(), conf.Along...), heard: conf.Heard,
		},
		posts: map[string]*post{}, since: map[string]time.Time{}, failed: map[string]time.Time{},
	}
	s.keeper, err = lease.New(lease.Config{
		Store: s.drawer, Holder: holderOf(conf.Name, conf.Start), TTL: conf.TTL, Beat: conf.Beat,
		Alone: conf.Alone, Log: conf.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("configure scheduler: %w", err)
	}
	s.chores.turns, s.prune.turns = make(chan *view, 1), make(chan time.Time, 1)
	s.chore = time.NewTimer(conf.TTL)
	s.chore.Stop()
	return s, nil
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
	s.mu.Lock()
	s.leave = true
	for _, p := range s.posts {
		p.leave(ErrStopping)
	}
	s.mu.Unlock()
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

// bounded is the time that a part of a round may take: what hangs must not keep the next renewal
// from being made.
func (s *Scheduler) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.conf.TTL/3)
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
	if !s.conf.Alone && now.Sub(s.upkeep.checked) < 10*s.conf.Beat {
		return nil
	}
	s.upkeep.checked = now
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
