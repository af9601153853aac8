package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// holdings are the keys that this node holds, each a post with whoever looks after it. Others
// decide which to try for and which to give back.
type holdings struct {
	*core
	looks sync.WaitGroup // those who look after keys

	// Guarded by the core's lock.
	posts  map[string]*post     // by kind and key
	failed map[string]time.Time // when this node last gave a key back that others are to try first
}

// post is a key that this node holds, and whoever looks after it. Its row is never renewed: it
// stands while the node is a member. As long as over is nil it is in one of these states:
//
//	running, leaving nil, not told   somebody looks after the key
//	running, leaving, told           was asked to finish; the key goes back when it has
//	running, leaving nil, told       was asked, and the drain it was asked for is over: is called again
//	                                 when it has finished (keep)
//	not running, leaving             goes back with the next giveBack
//	not running, leaving nil         is looked after by the next giveBack, if the key is held then
//
// One that is over is forgotten: a lost one when nobody runs, a released one when the store knows.
type post struct {
	kind *Kind
	key  string
	row  store.Lease // its name, its holder and its token
	rest int64       // until when the key does not move by choice, by the store's clock

	// Guarded by the core's lock. held is of the present holding, or of the last one: it ends with
	// that of the membership, and with the claim.
	held    context.Context
	end     context.CancelCauseFunc
	over    error // lease.ErrLost or lease.ErrReleased; nil = it stands, as far as is known
	stop    context.CancelCauseFunc
	running bool
	told    bool  // whoever looks after it was told to finish
	leaving error // why the key is to be given back; nil = it is not
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

// Why else a key is given back. Others are to try first then.
var (
	errDone  = errors.New("whoever looked after the key returned by itself")
	errAsked = fmt.Errorf("%w: somebody asked for it", ErrGiveBack)
)

// errDrained: the node takes nothing new at present. What is not given back when it works again it
// keeps.
var errDrained = fmt.Errorf("%w: the node does not work", ErrGiveBack)

// leave asks whoever looks after a post to finish. The first cause stays. The core's lock is held.
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

// moved is what a claim's row says, in microseconds by the store's clock.
type moved struct {
	Since int64 `json:"since"`           // its owner has it, to a beat
	Moved int64 `json:"moved,omitempty"` // the key moved by choice last
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

// confirm lets go of the keys that others have, or ended, as their rows say: while the membership
// had expired they were to be had. What nobody took is held again, when whoever looked after it has
// returned.
func (h *holdings) confirm(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, p := range h.posts {
		switch row := v.claims[name]; {
		case row.Token != p.row.Token || row.Holder != p.row.Holder:
			p.release(lease.ErrLost)
		case p.over == nil && !p.running && p.held.Err() != nil:
			p.hold(v.held)
		}
	}
}

// follow takes in what a round saw of the keys, and answers which of those that it chose, and of
// those that the store gave to this node, are to be acquired. The lock is held.
func (h *holdings) follow(v *view, chosen []string) []string {
	h.keep(v)
	for name, p := range h.posts {
		if v.kinds[name] == nil {
			p.leave(ErrNoKey)
		}
	}
	return slices.DeleteFunc(append(chosen, h.unmatched(v)...), func(name string) bool {
		return h.posts[name] != nil || h.leave
	})
}

// keep lets those go on that were to give their key back because the node was drained, or could not
// be reached, and has not done so when it works again. Whoever looks after such a key and has been
// told to finish is called again, under the same claim, when it has. The lock is held.
func (h *holdings) keep(v *view) {
	if m := v.find(h.conf.Name); m == nil || m.State != Working {
		return
	}
	for _, p := range h.posts {
		if p.leaving == errDrained && p.over == nil {
			p.leaving = nil
		}
	}
}

// unmatched are keys that the store gave to this node, which never heard of it: the answer was
// lost. The lock is held.
func (h *holdings) unmatched(v *view) (names []string) {
	self := v.find(h.conf.Name)
	for name, row := range v.claims {
		if self != nil && row.Until != 0 && row.Holder == self.holder && h.posts[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// acquire tries for keys, all in one statement, and lets those that it got be looked after.
func (h *holdings) acquire(ctx context.Context, v *view, names []string) error {
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
	got, err := h.conf.Leases.AcquireAll(ctx, holderOf(h.conf.Name, h.conf.Start), wants,
		h.conf.TTL, microsOf(h.keeper.Judge(time.Now())))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, row := range got.Leases {
		name := strings.TrimPrefix(row.Name, claimPrefix)
		_, key, _ := strings.Cut(name, "/")
		p := &post{
			kind: v.kinds[name], key: key,
			row:  store.Lease{Name: row.Name, Holder: row.Holder, Token: row.Token},
			rest: rest[name],
		}
		p.hold(v.held)
		h.posts[name] = p
		delete(h.failed, name)
		switch {
		case h.leave:
			p.leaving = ErrStopping
		case p.kind == nil:
			p.leaving = ErrNoKey
		default:
			h.man(p)
		}
	}
	if err != nil {
		return fmt.Errorf("claim %d keys: %w", len(wants), err)
	}
	return nil
}

// man lets a post be looked after. The lock is held.
func (h *holdings) man(p *post) {
	held := p.held
	ctx, stop := context.WithCancelCause(held)
	p.stop, p.running, p.told = stop, true, false
	h.looks.Go(func() {
		defer func() {
			stop(nil)
			h.mu.Lock()
			defer h.mu.Unlock()
			p.running = false
			if p.leaving == nil && !p.told && h.holds(p) == nil {
				p.leaving = errDone
			}
		}()
		p.kind.Look(ctx, Claim{
			Kind: p.kind.Name, Key: p.key, Token: p.row.Token, held: held, lease: p.row,
		})
	})
}

// holds says whether a key is this node's at this moment (nil), as lease.Lease.Err does. The lock
// is held, here and below.
func (h *holdings) holds(p *post) error {
	switch err := h.node.Err(); {
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
func (h *holdings) mayHold(p *post) bool {
	err := h.holds(p)
	return err == nil || err == lease.ErrExpired
}

// count is how many keys this node owns.
func (h *holdings) count() (owned int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.posts {
		if h.mayHold(p) {
			owned++
		}
	}
	return owned
}

// rested forgets which keys others were to try first, when those had time to. The lock is held.
func (h *holdings) rested(now time.Time) {
	maps.DeleteFunc(h.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= quiet })
}

// ask asks this node to give a key back, if it has it.
func (h *holdings) ask(name string, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.posts[name]; p != nil {
		p.leave(cause)
	}
}

// giveBack ends the claims whose owners are done, in one statement, mans those that came back, and
// forgets those that were lost.
func (h *holdings) giveBack(ctx context.Context) error {
	var back, gone []*post
	var unpinned []string
	h.mu.Lock()
	for name, p := range h.posts {
		switch err := h.holds(p); {
		case p.running:
		case err == lease.ErrLost:
			delete(h.posts, name)
		case p.leaving == ErrNoKey:
			gone = append(gone, p)
		case p.leaving != nil:
			if back = append(back, p); p.leaving == errDone || p.leaving == errAsked {
				h.failed[name] = time.Now()
				unpinned = append(unpinned, name)
			}
		case err == nil:
			h.man(p)
		}
	}
	seen := h.seen
	h.mu.Unlock()
	err := errors.Join(h.end(ctx, back, false), h.end(ctx, gone, true))
	if seen != nil {
		err = errors.Join(err, h.unpin(ctx, seen, unpinned))
	}
	return err
}

// unpin ends what people decided about keys: their node can't look after them, or did not take
// them.
func (h *holdings) unpin(ctx context.Context, v *view, names []string) error {
	var over []store.Lease
	for _, name := range names {
		if p := v.pins[name]; p != nil {
			over = append(over, p.row)
		}
	}
	if len(over) == 0 {
		return nil
	}
	slices.SortFunc(over, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	if err := h.conf.Leases.EndAll(ctx, over, true); err != nil {
		return fmt.Errorf("end %d assignments of keys: %w", len(over), err)
	}
	return nil
}

// end ends claims, at once for whoever looks after them, and forgets the posts when the store has
// said so.
func (h *holdings) end(ctx context.Context, list []*post, remove bool) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *post) int { return strings.Compare(a.row.Name, b.row.Name) })
	claims := make([]store.Lease, len(list))
	h.mu.Lock()
	for i, p := range list {
		p.release(lease.ErrReleased)
		claims[i] = p.row
	}
	h.mu.Unlock()
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	if err := h.conf.Leases.EndAll(ctx, claims, remove); err != nil {
		return fmt.Errorf("give %d keys back: %w", len(list), err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range list {
		delete(h.posts, strings.TrimPrefix(p.row.Name, claimPrefix))
	}
	return nil
}

// stop takes nothing new any more, and asks all who look after keys to finish. What was to be given
// back because the node was drained is so for good now: keep must not take it up again.
func (h *holdings) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave = true
	for _, p := range h.posts {
		if p.leaving == errDrained {
			p.leaving = nil
		}
		p.leave(ErrStopping)
	}
}

// drop ends all claims, whoever is at what.
func (h *holdings) drop(ctx context.Context) error {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.posts))
	h.mu.Unlock()
	return h.end(ctx, all, false)
}
