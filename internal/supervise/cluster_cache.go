package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// fullEvery: so often are all seats read although none changed. What is used of a worker's capacity
// has no version.
const fullEvery = 10 * time.Second

// ClusterCache is what stands in the store of groups and their workers, as this node read it last.
// One per node: its sessions and the supervisors of its groups decide by it, and people are
// answered from it. The sessions's rounds keep it up to date.
type ClusterCache struct {
	store Reader
	beat  time.Duration

	asked   atomic.Int64  // looks that were asked for
	looking chan struct{} // of size 1: full while somebody looks
	looked  int64         // looks that were answered; guarded by looking
	found   error         // how the last one ended; guarded by looking

	mu    sync.RWMutex
	clock clock
	// by the store's clock: since then every beat brought news of the store
	steady int64
	full   time.Time // when all seats were read last; zero = they are to be
	// the groups then: what is used of workers was counted at these versions
	counted map[string]store.Group
	version int64 // of the seats
	seats   map[string]*store.Seat
	groups  map[string]store.Group // never changed, but replaced
	loaded  map[string]*groupCache
	used    map[string]time.Time // when a cache was asked for last
	// workers whose assignments changed since the last round of the sessions
	touched     map[string]bool
	subscribers map[chan struct{}]bool

	wake chan struct{} // of size 1: asks the sessions for a round now
}

// clock tells what time it is in the store, by how much passed here since it said so.
type clock struct {
	here  time.Time
	store int64
}

func (c clock) read(now time.Time) int64 { return c.store + now.Sub(c.here).Microseconds() }

// when is what time it is here at a time of the store; zero as long as it did not say.
func (c clock) when(at int64) time.Time {
	if c.here.IsZero() {
		return time.Time{}
	}
	return c.here.Add(time.Duration(at-c.store) * time.Microsecond)
}

// NewClusterCache makes an empty cache. Beat is the time between looks.
func NewClusterCache(db Reader, beat time.Duration) *ClusterCache {
	return &ClusterCache{
		store: db, beat: beat, seats: map[string]*store.Seat{}, groups: map[string]store.Group{},
		loaded: map[string]*groupCache{},
		used:   map[string]time.Time{}, touched: map[string]bool{},
		subscribers: map[chan struct{}]bool{}, wake: make(chan struct{}, 1),
		looking: make(chan struct{}, 1),
	}
}

// LookSoon takes in a hint that something changed in the store: the sessions do a round now, not
// with the next beat.
func (b *ClusterCache) LookSoon() { signal(b.wake) }

// signal fills a channel of size 1: whoever waits there will look once, however often it is told.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// subscribe makes a channel of size 1 fill when a look found something new, until it is
// unsubscribed.
func (b *ClusterCache) subscribe(changed chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribers[changed] = true
}

func (b *ClusterCache) unsubscribe(changed chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subscribers, changed)
}

func (b *ClusterCache) notify() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for changed := range b.subscribers {
		signal(changed)
	}
}

// Look reads the groups, and the seats if there is anything new. Calls that meet share a look that
// began after they were made. Each ends with its context, also while another one's look hangs.
func (b *ClusterCache) Look(ctx context.Context) error {
	ticket := b.asked.Add(1)
	select {
	case b.looking <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("read groups and seats: %w", context.Cause(ctx))
	}
	defer func() { <-b.looking }()
	if b.looked >= ticket {
		return b.found
	}
	upTo := b.asked.Load()
	err := b.look(ctx)
	if err == nil || ctx.Err() == nil { // else it says nothing to others: they look themselves
		b.looked, b.found = upTo, err
	}
	return err
}

func (b *ClusterCache) look(ctx context.Context) error {
	asked := time.Now()
	b.mu.RLock()
	known := b.version
	if asked.Sub(b.full) >= fullEvery {
		known = 0
	}
	b.mu.RUnlock()
	got, err := b.store.Board(ctx, known)
	if err != nil {
		return fmt.Errorf("read groups and seats: %w", err)
	}
	news := b.enterGroups(got.Groups, asked)
	if b.enterSeats(got.Seats, known, asked) || news {
		b.notify()
	}
	return nil
}

// enterGroups takes in the groups, and tells whether anything of any is new.
func (b *ClusterCache) enterGroups(groups []store.Group, now time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.groups
	b.groups = make(map[string]store.Group, len(groups))
	for i := range groups {
		g := &groups[i]
		b.groups[g.Name] = *g
		news = news || before[g.Name].Version != g.Version
		if l := b.loaded[g.Name]; l != nil {
			l.mu.Lock()
			l.group = *g
			l.mu.Unlock()
		}
	}
	for name := range before {
		if _, there := b.groups[name]; there {
			continue
		}
		news = true
		if l := b.loaded[name]; l != nil {
			b.touch(l.close())
			delete(b.loaded, name)
			delete(b.used, name)
		}
	}
	for name, at := range b.used {
		if now.Sub(at) > forgetAfter {
			delete(b.loaded, name)
			delete(b.used, name)
		}
	}
	return news
}

// forgetAfter: a group that nobody here asked for is not kept in memory any longer.
const forgetAfter = 10 * time.Minute

// close empties the cache of a group that is gone.
func (l *groupCache) close() (touched []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	touched = slices.Collect(maps.Keys(l.at))
	l.gone, l.jobs, l.at, l.stand, l.ended, l.names = true, nil, nil, nil, nil, nil
	return touched
}

// enterSeats takes in the seats, and tells whether any is new.
func (b *ClusterCache) enterSeats(got store.Seats, known int64, asked time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gap := (3 * b.beat).Microseconds(); asked.Sub(b.clock.here).Microseconds() > gap ||
		got.Now-b.clock.read(asked) > gap {
		b.steady = got.Now
	}
	b.clock = clock{asked, got.Now}
	switch {
	case known == 0:
		b.full, b.counted = asked, b.groups
	case got.Version == known:
		return false
	}
	news = got.Version != b.version
	b.version = got.Version
	b.seats = make(map[string]*store.Seat, len(got.Seats))
	for i := range got.Seats {
		b.seats[got.Seats[i].Worker] = &got.Seats[i]
	}
	return news
}

// invalidate lets the next look read all seats, and no snapshot be drawn before: what is known of
// them may be older than what others did.
func (b *ClusterCache) invalidate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full, b.counted = time.Time{}, nil
}

// touch notes workers whose assignments changed. The lock is held.
func (b *ClusterCache) touch(workers []string) {
	for _, w := range workers {
		b.touched[w] = true
	}
}

// takeTouched takes the workers whose assignments changed since the last call.
func (b *ClusterCache) takeTouched() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.touched
	b.touched = map[string]bool{}
	return list
}

// groupCache is what is known of a group, nil when it is not known that there is one. The lock is
// held.
func (b *ClusterCache) groupCache(group string) *groupCache {
	l := b.loaded[group]
	if g, ok := b.groups[group]; l == nil && ok {
		l = newGroupCache()
		l.group = g
		b.loaded[group] = l
	}
	return l
}

// Catch reads on in a group if the last look found something newer, or if it is to be sure.
// errGroupGone.
func (b *ClusterCache) Catch(ctx context.Context, group string, sure bool) (*groupCache, error) {
	b.mu.Lock()
	l := b.groupCache(group)
	if l != nil {
		b.used[group] = time.Now()
	}
	b.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("group %q: %w", group, errGroupGone)
	}
	select {
	case l.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for who reads group %q: %w", group, context.Cause(ctx))
	}
	defer func() { <-l.reading }()
	l.mu.RLock()
	after, behind := l.version, l.group.Version != l.version
	l.mu.RUnlock()
	if !behind && !sure {
		return l, nil
	}
	changes, err := b.store.Changes(ctx, group, after)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("group %q: %w", group, errGroupGone) // the next look finds that, too
	}
	if err != nil {
		return nil, fmt.Errorf("read changes of group %q: %w", group, err)
	}
	l.mu.Lock()
	touched := l.apply(changes)
	l.mu.Unlock()
	if len(touched) > 0 {
		b.mu.Lock()
		b.touch(touched)
		b.mu.Unlock()
	}
	return l, nil
}

// draw reads what is new of a group and its workers, and draws it as it was at one moment. Its
// parts are read one after the other, so it takes a few tries while others write. errGroupGone.
func (b *ClusterCache) draw(ctx context.Context, group string, now time.Time) (*snapshot, error) {
	const tries = 5
	for range tries {
		l, err := b.Catch(ctx, group, false)
		if err != nil {
			return nil, err
		}
		if p := b.snapshot(l, now); p.whole() {
			return p, nil
		}
		b.invalidate()
		if err := b.Look(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("read group %q: others write too much at present: %w", group,
		store.ErrBusy)
}

// Names lists the groups: the keys that nodes claim.
func (b *ClusterCache) Names(ctx context.Context) ([]string, error) {
	b.mu.RLock()
	known := !b.clock.here.IsZero()
	b.mu.RUnlock()
	if !known {
		if err := b.Look(ctx); err != nil {
			return nil, err
		}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Sorted(maps.Keys(b.groups)), nil
}

// seat is that of a worker, nil when it has none.
func (b *ClusterCache) seat(worker string) *store.Seat {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.seats[worker]
}

// age is how long ago the seats were read last, at least.
func (b *ClusterCache) age(now time.Time) time.Duration {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return now.Sub(b.clock.here)
}

// when is what time it is here at a time of the store.
func (b *ClusterCache) when(at int64) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.clock.when(at)
}
