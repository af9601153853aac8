package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Config of a supervisor. Cache, Store, Group and Claim are needed.
type Config struct {
	Cache *ClusterCache
	Store Writer
	Group string
	Claim store.Lease // of the group: its Name, Holder and Token stand in all that is written

	// Beat is the time between rounds. Default 1 s.
	Beat time.Duration
	// Warmup is how long at most to wait for workers before anything is assigned, if the group's
	// policy does not say less. Default: what the policy says.
	Warmup time.Duration
	// Sources reads the group's source. The zero value reads files only.
	Sources Sources
	// Tell is told what people want to know. It must not wait. Default: nobody is.
	Tell func(store.Event)
	// Moved is told of each replica that is started, stopped or moved, once that is written down,
	// and Gone that the group is no more. They must not wait. Default: nobody is.
	Moved func(Change, Why)
	Gone  func()
	// Log is where the supervisor tells what it does. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var missing []error
	if c.Cache == nil || c.Store == nil {
		missing = append(missing, errors.New("no Cache or no Store"))
	}
	if c.Group == "" || c.Claim.Name == "" {
		missing = append(missing, errors.New("no Group or no Claim"))
	}
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Tell == nil {
		c.Tell = func(store.Event) {}
	}
	if c.Moved == nil {
		c.Moved = func(Change, Why) {}
	}
	if c.Gone == nil {
		c.Gone = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(missing...)
}

// Supervisor keeps the assignments of one group equal to its plan, as long as this node holds the
// claim on the group.
type Supervisor struct {
	conf   Config
	cache  *ClusterCache
	log    *slog.Logger
	warmup warmup
	source source
	alarms alarms

	asked      int64            // the group's Rebalance that was answered
	rest       map[string]int64 // by job: until when it does not move for the sake of balance
	unresolved bool             // the last write may or may not have worked
	next       bool             // another pass is to come soon
	pause      time.Time        // but not before
	seen       versions         // what the last decision was made from
	due        int64            // by the store's clock: then it is to be made again; 0 = never
	started    bool

	work    sync.WaitGroup
	changed chan struct{}
}

// New makes the supervisor of a group that this node has claimed.
func New(conf Config) (*Supervisor, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure supervisor: %w", err)
	}
	s := &Supervisor{
		conf: conf, cache: conf.Cache, log: conf.Log.With("group", conf.Group),
		rest: map[string]int64{}, changed: make(chan struct{}, 1),
	}
	s.source.done, s.warmup.limit = make(chan reading, 1), conf.Warmup
	s.alarms = alarms{tell: conf.Tell, group: conf.Group, token: conf.Claim.Token}
	return s, nil
}

// passEvery is the part of a beat after which the next pass comes, while nothing but the number of
// new replicas in one pass keeps something from being started.
const passEvery = 4

// Run does a round every beat, and when something changed, until ctx ends.
func (s *Supervisor) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer s.work.Wait()
	defer stop() // what is being read of a source
	s.cache.subscribe(s.changed)
	defer s.cache.unsubscribe(s.changed)
	for {
		err := s.Round(ctx, time.Now())
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrOutOfReach) {
			// of which the membership tells once
			s.log.Error("supervisor round", "error", err)
		}
		wait := s.conf.Beat
		if s.next {
			wait /= passEvery
		}
		turn := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			turn.Stop()
			return nil
		case <-turn.C:
		case <-s.changed:
			turn.Stop()
		}
	}
}

// Round looks at everything again that changed, and does what follows from it in one write. What is
// refused or lost is found by the next round.
func (s *Supervisor) Round(ctx context.Context, now time.Time) error {
	l, err := s.cache.Catch(ctx, s.conf.Group, s.unresolved)
	if errors.Is(err, errGroupGone) {
		s.conf.Gone()
		return nil // its claim will end, too
	}
	if err != nil {
		return err
	}
	s.unresolved = false
	err = s.readSource(ctx, l, now)
	return errors.Join(err, s.assign(ctx, l, now))
}

// assign decides, unless nothing changed since it did last, and writes down what was decided.
func (s *Supervisor) assign(ctx context.Context, l *groupCache, now time.Time) error {
	p, err := s.look(ctx, l, now)
	if p == nil || err != nil {
		return err
	}
	in, err := p.decide(s.rest)
	if err != nil {
		return err
	}
	if s.next = len(in.next) > 0; s.next {
		s.pause = now.Add(s.conf.Beat / passEvery)
	}
	in.later(s.alarms.short(p, in, now, s.conf.Beat))
	s.alarms.braked(in.brake)
	s.due = in.again
	if in.empty() {
		return nil
	}
	refused, err := s.write(ctx, in.Assign)
	if err != nil {
		s.seen = versions{} // all of it once more
		return fmt.Errorf("assign: %w", err)
	}
	s.assigned(p, in, refused)
	_, err = s.cache.Catch(ctx, s.conf.Group, true)
	s.cache.LookSoon() // those who beat here are to be told at once
	return err
}

// writeAtOnce is how many parts of a decision, or of what workers said, are written in one
// transaction: the store's other callers wait for it.
const writeAtOnce = 5000

// write writes down what was decided, in pieces, in the order in which one write would do it. Where
// it breaks off, the next round goes on.
func (s *Supervisor) write(
	ctx context.Context, all store.Assign,
) (refused []store.Refused, err error) {
	for len(all.Drop)+len(all.End)+len(all.Move)+len(all.Start) > 0 {
		piece, room := store.Assign{Group: all.Group, Claim: s.conf.Claim}, writeAtOnce
		piece.Drop = cutOff(&all.Drop, &room)
		piece.End = cutOff(&all.End, &room)
		piece.Move = cutOff(&all.Move, &room)
		piece.Start = cutOff(&all.Start, &room)
		got, err := s.conf.Store.Assign(ctx, piece)
		if err != nil {
			s.unresolved = true
			return nil, err
		}
		if got.ClaimGone {
			return nil, errors.New("the claim is gone")
		}
		refused = append(refused, got.Refused...)
	}
	return refused, nil
}

// cutOff takes the beginning of a list, as far as there is room for it.
func cutOff[T any](list *[]T, room *int) (piece []T) {
	n := min(len(*list), *room)
	piece, *list, *room = (*list)[:n], (*list)[n:], *room-n
	return piece
}

// look is the group as it is to be decided about, nil when there is nothing to decide: nothing
// changed, or it is too early.
func (s *Supervisor) look(ctx context.Context, l *groupCache, now time.Time) (*snapshot, error) {
	if !s.started {
		s.started, s.asked = true, l.asked()
	}
	current, storeNow := s.cache.versionsNow(l, now)
	rebalance := l.asked() != s.asked
	unchanged := current == s.seen && (s.due == 0 || storeNow < s.due) && !rebalance && !s.next
	if unchanged || now.Before(s.pause) {
		return nil, nil
	}
	p, err := s.cache.draw(ctx, s.conf.Group, now)
	if err != nil || !s.warmup.done(p, now, s.conf.Beat) {
		return nil, err
	}
	if s.warmup.over {
		s.alarms.warm(p, s.warmup.adopted(p), s.warmup.short)
	}
	if rebalance {
		s.asked = p.group.Rebalance
		clear(s.rest)
	}
	s.seen = p.seen
	return p, nil
}

// assigned takes in what became of what was decided.
func (s *Supervisor) assigned(p *snapshot, in *plan, refused []store.Refused) {
	for _, r := range refused {
		s.log.Info("refused", "job", r.Job, "replica", r.Replica, "worker", r.Worker, "reason",
			r.Reason)
		if r.Token != 0 { // of Drop: its worker is not dead
			if in.lost[r.Worker]--; in.lost[r.Worker] == 0 {
				delete(in.lost, r.Worker)
			}
		}
	}
	if len(refused) > 0 {
		s.seen = versions{}
		s.cache.invalidate()
	}
	for job, until := range s.rest {
		if until <= p.now {
			delete(s.rest, job)
		}
	}
	for _, m := range in.Move {
		s.rest[m.Job] = p.now + calm.Microseconds()
	}
	in.moved(refused, s.conf.Moved)
	s.alarms.dead(p, in)
	s.alarms.quiet(p, in)
	s.log.Info("assigned", "started", len(in.Start), "moved", len(in.Move), "ended", len(in.End),
		"dropped", len(in.Drop), "pending", len(in.pending))
}

// asked is the group's Rebalance.
func (l *groupCache) asked() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.group.Rebalance
}

// versionsNow is what a decision about a group would be made from, and what time the store has.
func (b *ClusterCache) versionsNow(l *groupCache, now time.Time) (versions, int64) {
	l.mu.RLock()
	version := l.version
	l.mu.RUnlock()
	b.mu.RLock()
	defer b.mu.RUnlock()
	return versions{version, b.version}, b.clock.read(now)
}
