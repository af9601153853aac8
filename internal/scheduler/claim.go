package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/lease"
)

// Causes of the context of whoever looks after a key, besides lease.ErrLost and lease.ErrExpired.
var (
	ErrGiveBack = errors.New("key is to be given back") // to a node that has fewer, or because this one is draining or was asked to
	ErrNoKey    = errors.New("key is gone")             // there is none of that name any more
	ErrStopping = errors.New("node is stopping")
)

// quiet is how long a key that moved by choice does not move by choice again.
const quiet = time.Minute

// Kind is a kind of keys of which each must have exactly one node that looks after it.
type Kind struct {
	// Name of the kind, without a slash.
	Name string
	// Keys lists all that there are. It is asked once a beat. An error changes nothing.
	Keys func(context.Context) ([]string, error)
	// Look looks after a key until ctx ends, then finishes what it is at under Claim.Held, and returns: only then may another node
	// have the key. When it returns by itself the key is given back.
	Look func(ctx context.Context, c Claim)
}

// Claim is a key in the hands of this node.
type Claim struct {
	Kind, Key string
	Token     int64 // greater than that of any owner before; writes carry it

	lease rows.Lease
	held  context.Context
}

// Lease is the claim as it stands in the store: its name, its holder and its token, by which writes can tell whether it is still good.
func (c Claim) Lease() rows.Lease { return c.lease }

// Held is the context for what has begun: it outlives that of Look, and ends with lease.ErrLost or lease.ErrExpired before anybody
// else can have the key.
func (c Claim) Held() context.Context { return c.held }

// post is a key that this node holds, and whoever looks after it.
type post struct {
	kind  *Kind
	key   string
	lease *lease.Lease
	rest  int64 // until when the key does not move by choice, by the store's clock

	// Guarded by the scheduler's lock.
	stop    context.CancelCauseFunc
	running bool
	leaving error // why the key is to be given back; nil = it is not
}

// moved is what a claim's row says, in microseconds by the store's clock.
type moved struct {
	Since int64 `json:"since"`           // its owner has it, to a beat
	Moved int64 `json:"moved,omitempty"` // the key moved by choice last
}

// Claim makes the keys of a kind be shared out among the nodes that claim it. Call it before Run.
func (s *Scheduler) Claim(kind Kind) error {
	if kind.Name == "" || strings.Contains(kind.Name, "/") || kind.Keys == nil || kind.Look == nil {
		return fmt.Errorf("claim keys of kind %q: a kind needs a name without a slash, Keys and Look", kind.Name)
	}
	if slices.ContainsFunc(s.kinds, func(k *Kind) bool { return k.Name == kind.Name }) {
		return fmt.Errorf("claim keys of kind %q: they are claimed already", kind.Name)
	}
	s.kinds = append(s.kinds, &kind)
	return nil
}

// claim decides by what is seen, then acquires and asks to give back. Everything is looked at again with each beat, so that whatever
// went wrong with the last one is mended by the next.
func (s *Scheduler) claim(ctx context.Context, v *view) error {
	err := s.snapshot(ctx, v)
	cause := ErrGiveBack
	if s.leaving() {
		cause = ErrStopping
	}
	var names []string
	for _, snapshot := range v.snapshots[:v.own] {
		plan := balance.Claims(snapshot)
		names = append(names, plan.Claim...)
		v.refused = append(v.refused, plan.Refused...)
		for _, name := range plan.Release {
			s.ask(name, cause)
		}
	}
	for _, row := range v.asked {
		s.ask(strings.TrimPrefix(row.Name, givePrefix), errAsked)
	}
	v.budget = v.fault()
	s.unreached(v)
	err = errors.Join(err, s.alarm(ctx))
	s.mu.Lock()
	s.seen = v
	s.judges = v.calm && (v.alone(s.conf.Name) || v.chore.Holder == holderOf(s.conf.Name, s.conf.Start) || v.chore.Until <= v.now)
	for name, p := range s.posts {
		if v.kinds[name] == nil {
			p.leave(ErrNoKey)
		}
	}
	names = slices.DeleteFunc(append(names, s.strays(v)...), func(name string) bool { return s.posts[name] != nil || s.leave })
	s.mu.Unlock()
	return errors.Join(err, s.acquire(ctx, v, names))
}

// strays are keys that the store gave to this node, which never heard of it: the answer was lost. The lock is held.
func (s *Scheduler) strays(v *view) (names []string) {
	self := v.find(s.conf.Name)
	for name, row := range v.claims {
		if self != nil && row.Until != 0 && row.Holder == self.holder && s.posts[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// alarm tells, once, when this node owns more keys than its threshold, and when it does no more.
func (s *Scheduler) alarm(ctx context.Context) error {
	owned := 0
	s.mu.Lock()
	for _, p := range s.posts {
		if p.owned() {
			owned++
		}
	}
	s.mu.Unlock()
	above := s.conf.Alarm > 0 && owned > s.conf.Alarm
	if above == s.alarmed {
		return nil
	}
	e := Event{Kind: AlarmOver, Node: s.conf.Name, Detail: fmt.Sprintf("it owns %d keys", owned)}
	if above {
		e.Kind, e.Detail = AlarmRaised, fmt.Sprintf("%s, more than %d", e.Detail, s.conf.Alarm)
	}
	e.Key = fmt.Sprintf("%s/%s/%d/%d", e.Kind, e.Node, s.node.Token(), s.alarms+1)
	if err := s.conf.Tell(ctx, e); err != nil {
		return fmt.Errorf("tell of the alarm: %w", err)
	}
	s.alarmed = above
	s.alarms++
	return nil
}

// acquire tries for keys, all in one statement, and lets those that it got be looked after.
func (s *Scheduler) acquire(ctx context.Context, v *view, names []string) error {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	wants := make([]lease.Want, 0, len(names))
	rest := make(map[string]int64, len(names))
	for _, name := range slices.Compact(names) {
		row := v.claims[name]
		last := lastMove(row)
		if v.given(row) {
			last = v.now
		}
		if last+quiet.Microseconds() <= v.now {
			last = 0
		}
		rest[name] = last + quiet.Microseconds()
		wants = append(wants, lease.Want{Name: claimPrefix + name, Value: moved{Since: v.now, Moved: last}.value()})
	}
	got, err := s.keeper.AcquireAll(ctx, wants...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range got {
		name := strings.TrimPrefix(l.Name(), claimPrefix)
		_, key, _ := strings.Cut(name, "/")
		p := &post{kind: v.kinds[name], key: key, lease: l, rest: rest[name]}
		s.posts[name] = p
		delete(s.failed, name)
		switch {
		case s.leave:
			p.leaving = ErrStopping
		case p.kind == nil:
			p.leaving = ErrNoKey
		default:
			s.man(p)
		}
	}
	if err != nil {
		return fmt.Errorf("claim %d keys: %w", len(wants), err)
	}
	return nil
}

func lastMove(row rows.Lease) int64 {
	var m moved
	if json.Unmarshal(row.Value, &m) != nil {
		return 0
	}
	return m.Moved
}

func (m moved) value() []byte {
	if m.Moved == 0 {
		return fmt.Appendf(nil, `{"since":%d}`, m.Since)
	}
	return fmt.Appendf(nil, `{"since":%d,"moved":%d}`, m.Since, m.Moved)
}

// man lets a post be looked after. The lock is held.
func (s *Scheduler) man(p *post) {
	held := p.lease.Context()
	ctx, stop := context.WithCancelCause(held)
	p.stop, p.running = stop, true
	s.looks.Go(func() {
		defer func() {
			stop(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			p.running = false
			if p.leaving == nil && p.lease.Err() == nil {
				p.leaving = errDone
			}
		}()
		p.kind.Look(ctx, Claim{Kind: p.kind.Name, Key: p.key, Token: p.lease.Token(), held: held, lease: rows.Lease{
			Name: p.lease.Name(), Holder: holderOf(s.conf.Name, s.conf.Start), Token: p.lease.Token(),
		}})
	})
}

// Why else a key is given back. Others are to try first then.
var (
	errDone  = errors.New("whoever looked after the key returned by itself")
	errAsked = fmt.Errorf("%w: somebody asked for it", ErrGiveBack)
)

// owned tells whether this node owns the key, or may own it again by renewing: nobody else has it. The scheduler's lock is held.
func (p *post) owned() bool {
	err := p.lease.Err()
	return err == nil || err == lease.ErrExpired
}

// leave asks whoever looks after a post to finish. The first cause stays. The scheduler's lock is held.
func (p *post) leave(cause error) {
	if p.leaving != nil {
		return
	}
	p.leaving = cause
	if p.running {
		p.stop(cause)
	}
}

func (s *Scheduler) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leave
}

// ask asks this node to give a key back, if it has it.
func (s *Scheduler) ask(name string, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.posts[name]; p != nil {
		p.leave(cause)
	}
}

// giveBack ends the claims whose owners are done, in one statement, mans those that came back, and forgets those that were lost.
func (s *Scheduler) giveBack(ctx context.Context) error {
	var back, gone []*lease.Lease
	s.mu.Lock()
	for name, p := range s.posts {
		switch err := p.lease.Err(); {
		case p.running:
		case err == lease.ErrLost:
			delete(s.posts, name)
		case p.leaving == ErrNoKey:
			gone = append(gone, p.lease)
		case p.leaving != nil:
			if back = append(back, p.lease); p.leaving == errDone || p.leaving == errAsked {
				s.failed[name] = time.Now()
			}
		case err == nil:
			s.man(p)
		}
	}
	s.mu.Unlock()
	return errors.Join(s.end(ctx, s.keeper.Release, back), s.end(ctx, s.keeper.Remove, gone))
}

// end ends leases, and forgets their posts when the store has said so.
func (s *Scheduler) end(ctx context.Context, verb func(context.Context, ...*lease.Lease) error, list []*lease.Lease) error {
	if len(list) == 0 {
		return nil
	}
	if err := verb(ctx, list...); err != nil {
		return fmt.Errorf("give %d keys back: %w", len(list), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		delete(s.posts, strings.TrimPrefix(l.Name(), claimPrefix))
	}
	return nil
}

// drop ends all claims, whoever is at what.
func (s *Scheduler) drop(ctx context.Context) error {
	var all []*lease.Lease
	s.mu.Lock()
	for _, p := range s.posts {
		all = append(all, p.lease)
	}
	s.mu.Unlock()
	return s.end(ctx, s.keeper.Release, all)
}
