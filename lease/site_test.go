package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("store is away")

// wire stands between a keeper and its store.
type wire struct {
	*Memory

	mu sync.Mutex
	faults
	acquires, renews, ends int
	last                   func() // the last call, once more, for nobody
}

// faults are what is wrong with a wire.
type faults struct {
	away  bool          // calls fail before they do anything
	lossy bool          // calls work, and their answers are lost
	there time.Duration // how long a call is on its way to the store
	back  time.Duration // and its answer back
}

func (w *wire) set(f faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

func (w *wire) now() faults {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}

func (w *wire) call(ctx context.Context, count *int, f func() (Answer, error)) (Answer, error) {
	w.mu.Lock()
	*count++
	w.last = func() { f() }
	w.mu.Unlock()
	wait := func(d time.Duration) error {
		if d == 0 {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(w.now().there); err != nil {
		return Answer{}, err
	}
	if w.now().away {
		return Answer{}, errAway
	}
	answer, err := f()
	if w.now().lossy {
		return Answer{}, errAway
	}
	if e := wait(w.now().back); e != nil {
		return Answer{}, e
	}
	return answer, err
}

func (w *wire) Acquire(
	ctx context.Context, holder string, wants []Grant, ttl time.Duration, judge time.Time,
) (Answer, error) {
	return w.call(ctx, &w.acquires, func() (Answer, error) {
		return w.Memory.Acquire(ctx, holder, wants, ttl, judge)
	})
}

func (w *wire) Renew(ctx context.Context, held []Grant, ttl time.Duration) (Answer, error) {
	return w.call(ctx, &w.renews, func() (Answer, error) { return w.Memory.Renew(ctx, held, ttl) })
}

func (w *wire) End(ctx context.Context, held []Grant, remove bool) error {
	_, err := w.call(ctx, &w.ends, func() (Answer, error) {
		return Answer{}, w.Memory.End(ctx, held, remove)
	})
	return err
}

// site is one process of a test: a keeper, and its wire to the store.
type site struct {
	t *testing.T
	*wire
	*Keeper
}

func newSite(t *testing.T, m *Memory, holder string) *site {
	t.Helper()
	w := &wire{Memory: m}
	k, err := New(Config{Store: w, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, w, k}
}

// run lets a site do its rounds until stop is called or the test ends.
func (s *site) run() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
}

func (s *site) mustAcquire(name string) *Lease {
	s.t.Helper()
	l, err := s.Keeper.Acquire(s.t.Context(), name, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// wantHeld checks whether a lease is held, by all that says so.
func wantHeld(t *testing.T, l *Lease, cause error) {
	t.Helper()
	if err := l.Err(); err != cause {
		t.Errorf("lease %q: %v, want %v", l.Name(), err, cause)
	}
	if got := context.Cause(l.Context()); got != cause {
		t.Errorf("context of lease %q: %v, want %v", l.Name(), got, cause)
	}
}

// bubble runs a test in a bubble, with a store and two sites that are calm.
func bubble(t *testing.T, f func(t *testing.T, a, b *site)) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{}
		a, b := newSite(t, m, "a"), newSite(t, m, "b")
		stopA, stopB := a.run(), b.run()
		time.Sleep(11 * time.Second)
		stopA()
		stopB()
		f(t, a, b)
	})
}
