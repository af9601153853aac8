package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is what the law is tried in: some sites, a store, and everything that can go wrong between
// them. Whatever happens is drawn from bytes.
type world struct {
	t     *testing.T
	ctx   context.Context
	luck  []byte
	work  sync.WaitGroup
	store Memory
	wires [3]*wire

	mu     sync.Mutex
	ahead  time.Duration // of the store's clock
	jumped time.Time
	starts int
	sites  [3]*lawSite
	tokens map[string]int64 // the greatest that anybody ever held a name by
	holds  int              // how often somebody came to hold a name
}

// lawSite is one start of a process.
type lawSite struct {
	*Keeper
	stop   context.CancelFunc
	paused bool // does no rounds
	eager  bool // asks for everything all the time
	leases []*Lease
}

// n draws a number below k; 0 when luck has run out.
func (w *world) n(k int) int {
	if len(w.luck) == 0 {
		return 0
	}
	b := w.luck[0]
	w.luck = w.luck[1:]
	return int(b) % k
}

func draw[T any](w *world, list ...T) T { return list[w.n(len(list))] }

// now is the store's clock.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// start begins a process at a place, in the place of the one that was there, which dies without a
// word.
func (w *world) start(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sites[i] != nil {
		w.sites[i].stop()
	}
	w.starts++
	k, err := New(Config{Store: w.wires[i], Holder: fmt.Sprint("start ", w.starts)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	s := &lawSite{Keeper: k, stop: stop, eager: true}
	w.sites[i] = s
	w.every(ctx, time.Second, func() bool {
		return !s.paused
	}, func() { s.Round(ctx, time.Now()); w.check() })
	w.every(ctx, 110*time.Millisecond, func() bool {
		return s.eager
	}, func() { w.acquire(s, Want{Name: "x"}); w.acquire(s, Want{Name: "y"}) })
}

// every does something again and again until ctx ends, when it may.
func (w *world) every(ctx context.Context, d time.Duration, may func() bool, do func()) {
	w.work.Go(func() {
		for ctx.Err() == nil {
			w.mu.Lock()
			ok := may()
			w.mu.Unlock()
			if ok {
				do()
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
	})
}

// check is the law, asked after everything that may begin a holding.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	holders := map[string]int{}
	for i, s := range w.sites {
		if s == nil {
			continue // it has not begun yet
		}
		for _, l := range s.leases {
			if l.Err() != nil {
				continue
			}
			if other, ok := holders[l.Name()]; ok {
				w.t.Errorf("%q is held at %d and %d", l.Name(), other, i)
			}
			holders[l.Name()] = i
		}
	}
}

func (w *world) acquire(s *lawSite, wants ...Want) {
	list, err := s.AcquireAll(w.ctx, wants...)
	if err != nil {
		return
	}
	w.mu.Lock()
	for _, l := range list {
		if l.Token() <= w.tokens[l.Name()] {
			w.t.Errorf("%q got token %d after %d", l.Name(), l.Token(), w.tokens[l.Name()])
		}
		w.tokens[l.Name()] = l.Token()
		w.holds++
	}
	if len(s.leases) > 8 {
		s.leases = slices.DeleteFunc(s.leases, func(l *Lease) bool {
			return l.Err() == ErrLost || l.Err() == ErrReleased
		})
	}
	s.leases = append(slices.Clone(s.leases), list...)
	w.mu.Unlock()
	w.check()
}

func (w *world) step() {
	i := w.n(len(w.sites))
	s, wire := w.sites[i], w.wires[i]
	switch w.n(16) {
	case 0:
		wants := []Want{{Name: "x"}, {Name: "y"}}[w.n(2):]
		w.work.Go(func() { w.acquire(s, wants...) })
	case 1, 2:
		w.mu.Lock()
		s.eager = w.n(3) > 0
		w.mu.Unlock()
	case 3, 4:
		w.mu.Lock()
		leases := s.leases[w.n(len(s.leases)+1):]
		w.mu.Unlock()
		remove := w.n(2) == 0
		w.work.Go(func() { s.release(w.ctx, leases, remove) })
	case 5, 6, 7:
		f := faults{away: w.n(4) == 0, lossy: w.n(4) == 0}
		f.there = draw(w, 0, 0, 0, 0, 100*time.Millisecond, 900*time.Millisecond, 3*time.Second)
		f.back = draw(w, 0, 0, 0, 0, 100*time.Millisecond, 900*time.Millisecond, 3*time.Second)
		wire.set(f)
	case 8:
		wire.set(faults{})
	case 9:
		w.mu.Lock()
		s.paused = w.n(3) == 0
		w.mu.Unlock()
	case 10:
		if w.n(4) == 0 {
			w.start(i)
		}
	case 11:
		wire.mu.Lock()
		last := wire.last
		wire.mu.Unlock()
		if wait := draw(w, 0, time.Second, 9*time.Second, 15*time.Second); last != nil {
			w.work.Go(func() {
				time.Sleep(wait)
				last()
			})
		}
	case 12:
		if time.Since(w.jumped) > 5*time.Second { // every site can have seen the last one
			w.mu.Lock()
			w.ahead += draw(w, 200*time.Millisecond, 2*time.Second, -2*time.Second,
				4900*time.Millisecond, 20*time.Second, -20*time.Second, time.Hour)
			w.mu.Unlock()
			w.jumped = time.Now()
		}
	default:
		time.Sleep(draw(w, 10*time.Millisecond, 300*time.Millisecond, time.Second, 2*time.Second,
			5*time.Second, 11*time.Second))
	}
}

// tryLaw walks until luck runs out, and says how often somebody came to hold a name.
func tryLaw(t *testing.T, luck []byte) (holds int) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, ctx: ctx, luck: luck, tokens: map[string]int64{}}
		w.store.Clock = w.now
		for i := range w.sites {
			w.wires[i] = &wire{Memory: &w.store}
			w.start(i)
		}
		for len(w.luck) > 0 && !t.Failed() {
			w.step()
			synctest.Wait()
		}
		cancel()
		w.work.Wait()
		holds = w.holds
	})
	return holds
}

// lawLuck is luck for a walk, from a seed.
func lawLuck(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	luck := make([]byte, n)
	for i := range luck {
		luck[i] = byte(rng.Uint32())
	}
	return luck
}

// The law: two keepers never hold one name at the same time, and tokens only grow, whatever is
// slow, lost, doubled, paused, killed or moved.
func FuzzTwoNeverHoldOneName(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(lawLuck(seed, 1000))
	}
	f.Fuzz(func(t *testing.T, luck []byte) { tryLaw(t, luck[:min(len(luck), 2000)]) })
}

func TestTwoNeverHoldOneName(t *testing.T) {
	holds, seeds := 0, 100
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		if holds += tryLaw(t, lawLuck(seed, 1000)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if holds < 10*seeds {
		t.Errorf("names were held %d times in all: these walks show nothing", holds)
	}
}
