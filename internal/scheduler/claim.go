package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// Causes of the context of whoever looks after a key, besides lease.ErrLost and lease.ErrExpired.
var (
	// to a node that has fewer, or because this one is draining or was asked to
	ErrGiveBack = errors.New("key is to be given back")
	ErrNoKey    = errors.New("key is gone") // there is none of that name any more
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
	// Look looks after a key until ctx ends, then finishes what it is at under Claim.Held, and
	// returns: only then may another node have the key. When it returns by itself the key is given
	// back.
	Look func(ctx context.Context, c Claim)
}

// Claim is a key in the hands of this node.
type Claim struct {
	Kind, Key string
	Token     int64 // greater than that of any owner before; writes carry it

	lease store.Lease
	held  context.Context
}

// Lease is the claim as it stands in the store: its name, its holder and its token, by which writes
// can tell whether it is still good.
func (c Claim) Lease() store.Lease { return c.lease }

// Held is the context for what has begun: it outlives that of Look, and ends with lease.ErrLost or
// lease.ErrExpired before anybody else can have the key.
func (c Claim) Held() context.Context { return c.held }

// post is a key that this node holds, and whoever looks after it. Its row is never renewed: it
// stands while the node is a member.
type post struct {
	kind *Kind
	key  string
	row  store.Lease // its name, its holder and its token
	rest int64       // until when the key does not move by choice, by the store's clock

	// Guarded by the scheduler's lock. of the present holding, or of the last one: it ends with
	// that of the membership, and with the claim
	held    context.Context
	end     context.CancelCauseFunc
	over    error // lease.ErrLost or lease.ErrReleased; nil = it stands, as far as is known
	stop    context.CancelCauseFunc
	running bool
	told    bool  // whoever looks after it was told to finish
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
		return fmt.Errorf(
			"claim keys of kind %q: a kind needs a name without a slash, Keys and Look", kind.Name,
		)
	}
	if slices.ContainsFunc(s.kinds, func(k *Kind) bool { return k.Name == kind.Name }) {
		return fmt.Errorf("claim keys of kind %q: they are claimed already", kind.Name)
	}
	s.kinds = append(s.kinds, &kind)
	return nil
}

// claim decides by what is seen, then acquires and asks to give back. Everything is looked at again
// with each beat, so that whatever went wrong with the last one is mended by the next.
func (s *Scheduler) claim(ctx context.Context, v *view) error {
	s.confirm(v)
	err := s.snapshot(ctx, v)
	cause := ErrGiveBack
	switch m := v.find(s.conf.Name); {
	case s.leaving():
		cause = ErrStopping
	case m != nil && m.State != Working:
		cause = errDrained
	}
	var names, unpinned []string
	for _, snapshot := range v.snapshots[:v.own] {
		plan := balance.Claims(snapshot)
		names = append(names, plan.Claim...)
		unpinned = append(unpinned, plan.Unpinned...)
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
	err = errors.Join(err, s.alarm(ctx), s.unpin(ctx, v, unpinned), s.settleSettings(ctx, v))
	s.mu.Lock()
	s.seen = v
	s.keep(v)
	s.judges = v.calm &&
		(v.alone(s.conf.Name) || v.chore.Holder == holderOf(s.conf.Name, s.conf.Start) ||
			v.chore.Until <= v.now)
	for name, p := range s.posts {
		if v.kinds[name] == nil {
			p.leave(ErrNoKey)
		}
	}
	names = slices.DeleteFunc(append(names, s.unmatched(v)...), func(name string) bool {
		return s.posts[name] != nil || s.leave
	})
	s.mu.Unlock()
	return errors.Join(err, s.acquire(ctx, v, names))
}

// unmatched are keys that the store gave to this node, which never heard of it: the answer was
// lost. The lock is held.
func (s *Scheduler) unmatched(v *view) (names []string) {
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
		if s.mayHold(p) {
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
	wants := make([]store.Lease, 0, len(names))
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
		wants = append(wants, store.Lease{
			Name: claimPrefix + name, Until: store.WhileMember,
			Value: moved{Since: v.now, Moved: last}.value(),
		})
	}
	got, err := s.conf.Leases.AcquireAll(ctx, holderOf(s.conf.Name, s.conf.Start), wants,
		s.conf.TTL, microsOf(s.keeper.Judge(time.Now())))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range got.Leases {
		name := strings.TrimPrefix(row.Name, claimPrefix)
		_, key, _ := strings.Cut(name, "/")
		p := &post{
			kind: v.kinds[name], key: key,
			row:  store.Lease{Name: row.Name, Holder: row.Holder, Token: row.Token},
			rest: rest[name],
		}
		p.hold(v.held)
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

func lastMove(row store.Lease) int64 {
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
	held := p.held
	ctx, stop := context.WithCancelCause(held)
	p.stop, p.running, p.told = stop, true, false
	s.looks.Go(func() {
		defer func() {
			stop(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			p.running = false
			if p.leaving == nil && !p.told && s.holds(p) == nil {
				p.leaving = errDone
			}
		}()
		p.kind.Look(ctx, Claim{
			Kind: p.kind.Name, Key: p.key, Token: p.row.Token, held: held, lease: p.row,
		})
	})
}

// hold begins a holding: it ends with that of the membership.
func (p *post) hold(member context.Context) { p.held, p.end = context.WithCancelCause(member) }

// release makes a post over, and ends the holding.
func (p *post) release(cause error) {
	if p.over == nil {
		p.over = cause
		p.end(cause) // a lapsed one keeps its first cause
	}
}

// holds says whether a key is this node's at this moment (nil), as lease.Lease.Err does. The lock
// is held, here and below.
func (s *Scheduler) holds(p *post) error {
	switch err := s.node.Err(); {
	case p.over != nil:
		return p.over
	case err != nil:
		return err
	case p.held.Err() != nil:
		return lease.ErrExpired
	}
	return nil
}

// mayHold tells whether this node owns a key, or may own it again by renewing its membership:
// nobody else has it.
func (s *Scheduler) mayHold(p *post) bool {
	err := s.holds(p)
	return err == nil || err == lease.ErrExpired
}

// confirm lets go of the keys that others have, or ended, as their rows say: while the membership
// had expired they were to be had. What nobody took is held again, when whoever looked after it has
// returned.
func (s *Scheduler) confirm(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.posts {
		switch row := v.claims[name]; {
		case row.Token != p.row.Token || row.Holder != p.row.Holder:
			p.release(lease.ErrLost)
		case p.over == nil && !p.running && p.held.Err() != nil:
			p.hold(v.held)
		}
	}
}

// Why else a key is given back. Others are to try first then.
var (
	errDone  = errors.New("whoever looked after the key returned by itself")
	errAsked = fmt.Errorf("%w: somebody asked for it", ErrGiveBack)
)

// errDrained: the node takes nothing new at present. What is not given back when it works again it
// keeps.
var errDrained = fmt.Errorf("%w: the node does not work", ErrGiveBack)

// leave asks whoever looks after a post to finish. The first cause stays. The scheduler's lock is
// held.
func (p *post) leave(cause error) {
	if p.leaving != nil {
		return
	}
	p.leaving = cause
	if p.running {
		p.told = true
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

// giveBack ends the claims whose owners are done, in one statement, mans those that came back, and
// forgets those that were lost.
func (s *Scheduler) giveBack(ctx context.Context) error {
	var back, gone []*post
	var unpinned []string
	s.mu.Lock()
	for name, p := range s.posts {
		switch err := s.holds(p); {
		case p.running:
		case err == lease.ErrLost:
			delete(s.posts, name)
		case p.leaving == ErrNoKey:
			gone = append(gone, p)
		case p.leaving != nil:
			if back = append(back, p); p.leaving == errDone || p.leaving == errAsked {
				s.failed[name] = time.Now()
				unpinned = append(unpinned, name)
			}
		case err == nil:
			s.man(p)
		}
	}
	seen := s.seen
	s.mu.Unlock()
	err := errors.Join(s.end(ctx, back, false), s.end(ctx, gone, true))
	if seen != nil {
		err = errors.Join(err, s.unpin(ctx, seen, unpinned))
	}
	return err
}

// end ends claims, at once for whoever looks after them, and forgets the posts when the store has
// said so.
func (s *Scheduler) end(ctx context.Context, list []*post, remove bool) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *post) int { return strings.Compare(a.row.Name, b.row.Name) })
	claims := make([]store.Lease, len(list))
	s.mu.Lock()
	for i, p := range list {
		p.release(lease.ErrReleased)
		claims[i] = p.row
	}
	s.mu.Unlock()
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.conf.Leases.EndAll(ctx, claims, remove); err != nil {
		return fmt.Errorf("give %d keys back: %w", len(list), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range list {
		delete(s.posts, strings.TrimPrefix(p.row.Name, claimPrefix))
	}
	return nil
}

// drop ends all claims, whoever is at what.
func (s *Scheduler) drop(ctx context.Context) error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.posts))
	s.mu.Unlock()
	return s.end(ctx, all, false)
}
