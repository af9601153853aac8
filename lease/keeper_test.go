package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

func (w *wire) Acquire(ctx context.Context, holder string, wants []Grant, ttl time.Duration, judge time.Time) (Answer, error) {
	return w.call(ctx, &w.acquires, func() (Answer, error) { return w.Memory.Acquire(ctx, holder, wants, ttl, judge) })
}

func (w *wire) Renew(ctx context.Context, held []Grant, ttl time.Duration) (Answer, error) {
	return w.call(ctx, &w.renews, func() (Answer, error) { return w.Memory.Renew(ctx, held, ttl) })
}

func (w *wire) End(ctx context.Context, held []Grant, remove bool) error {
	_, err := w.call(ctx, &w.ends, func() (Answer, error) { return Answer{}, w.Memory.End(ctx, held, remove) })
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

func TestOneHolderAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		l := a.mustAcquire("x")
		for range 60 {
			time.Sleep(time.Second)
			if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
				t.Fatalf("another got it: %v", err)
			}
		}
		wantHeld(t, l, nil)
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("again by its holder: %v", err)
		}
	})
}

func TestContextEndsAMarginBeforeAnybodyElseGetsTheName(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer b.run()()
		asked := time.Now()
		l := a.mustAcquire("x") // and never renews it
		<-l.Context().Done()
		if got := time.Since(asked); got != 7500*time.Millisecond {
			t.Errorf("the context ended after %v", got)
		}
		wantHeld(t, l, ErrExpired)
		for {
			other, err := b.Keeper.Acquire(t.Context(), "x", nil)
			if errors.Is(err, ErrTaken) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil || other.Token() <= l.Token() {
				t.Errorf("token %d, after it %d; %v", l.Token(), other.Token(), err)
			}
			break
		}
		if got := time.Since(asked); got != 10*time.Second {
			t.Errorf("another got it after %v", got)
		}
		if err := a.Round(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
		if err := l.Err(); err != ErrLost {
			t.Errorf("the first holder's lease: %v", err)
		}
	})
}

func TestHoldingIsCountedFromBeforeTheAsking(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l := a.mustAcquire("x")
		time.Sleep(time.Second)
		a.set(faults{there: time.Second, back: 2 * time.Second})
		asked := time.Now()
		if err := a.Round(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		if got := time.Since(asked); got != 7500*time.Millisecond {
			t.Errorf("the context ended %v after the renewal was asked for", got)
		}
	})
}

func TestAnswerThatComesTooLateGivesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		k, err := New(Config{Store: a.wire, Holder: "c", TTL: 3 * time.Second, Margin: 1500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		a.set(faults{back: 1500 * time.Millisecond})
		if _, err := k.Acquire(t.Context(), "x", nil); err == nil {
			t.Error("held")
		}
	})
}

func TestHangingCallIsGivenUpInTimeForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l := a.mustAcquire("x")
		a.set(faults{back: time.Hour})
		defer a.run()()
		time.Sleep(5 * time.Second)
		a.set(faults{})
		time.Sleep(10 * time.Second)
		wantHeld(t, l, nil)
	})
}

func TestWhoComesBackFromAnOutageGoesOnWithItsTokenAndANewContext(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		defer b.run()()
		l := a.mustAcquire("x")
		token, before := l.Token(), l.Context()
		a.set(faults{away: true})
		b.set(faults{away: true})
		time.Sleep(time.Minute)
		wantHeld(t, l, ErrExpired)
		a.set(faults{})
		b.set(faults{})
		synctest.Wait()
		if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
			t.Errorf("another took it from one who could not speak: %v", err)
		}
		time.Sleep(1500 * time.Millisecond)
		wantHeld(t, l, nil)
		if l.Token() != token || context.Cause(before) != ErrExpired {
			t.Errorf("token %d, it was %d; the old context: %v", l.Token(), token, context.Cause(before))
		}
	})
}

func TestNobodyLosesANameWhenTheStoresClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, 5 * time.Second, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				m := &Memory{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
				a, b := newSite(t, m, "a"), newSite(t, m, "b")
				stopA, stopB := a.run(), b.run()
				defer stopB()
				time.Sleep(11500 * time.Millisecond)
				x := a.mustAcquire("x")
				time.Sleep(600 * time.Millisecond)
				ahead.Store(int64(jump))
				for range 100 {
					if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
						t.Fatalf("taken from the living: %v", err)
					}
					if b.Calm(time.Now()) {
						t.Fatal("calm within a lease time of the jump")
					}
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				if !b.Calm(time.Now()) {
					t.Error("not calm a lease time after the jump")
				}
				wantHeld(t, x, nil)
				stopA()
				time.Sleep(10 * time.Second)
				b.mustAcquire("x")
			})
		})
	}
}

func TestWhoCameJustNowTakesOnlyWhatWasGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		given := a.mustAcquire("given back")
		a.mustAcquire("dead")
		time.Sleep(time.Minute)
		if err := given.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := newSite(t, a.Memory, "c")
		defer c.run()()
		c.mustAcquire("given back")
		c.mustAcquire("new")
		begun := time.Now()
		for {
			_, err := c.Keeper.Acquire(t.Context(), "dead", nil)
			if err == nil {
				break
			} else if !errors.Is(err, ErrTaken) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := time.Since(begun); got < 10*time.Second || got > 12*time.Second {
			t.Errorf("took from the dead after %v", got)
		}
	})
}

func TestWhoIsAloneWaitsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		old := a.mustAcquire("x")
		for _, holder := range []string{"a", "c"} {
			if holder == "c" {
				time.Sleep(10 * time.Second)
			}
			k, err := New(Config{Store: a.Memory, Holder: holder, Alone: true})
			if err != nil {
				t.Fatal(err)
			}
			if l, err := k.Acquire(t.Context(), "x", nil); err != nil || l.Token() <= old.Token() {
				t.Error(err)
			}
		}
	})
}

func TestLostAnswerCostsTimeButNoName(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		defer a.run()()
		defer b.run()()
		a.set(faults{lossy: true})
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		a.set(faults{})
		if _, err := b.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrTaken) {
			t.Errorf("another got what the store gave away: %v", err)
		}
		l := a.mustAcquire("x")
		a.set(faults{lossy: true})
		time.Sleep(7 * time.Second) // renewals reach the store all the time
		wantHeld(t, l, nil)
		time.Sleep(2 * time.Second)
		wantHeld(t, l, ErrExpired)
		a.set(faults{})
		time.Sleep(1500 * time.Millisecond)
		wantHeld(t, l, nil)
		a.set(faults{lossy: true})
		if err := l.Release(t.Context()); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		wantHeld(t, l, ErrReleased)
		a.set(faults{})
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		b.mustAcquire("x")
	})
}

func TestReleasedNameIsFreeAtOnceAndForgottenWhenRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		var token int64
		for i := range 4 {
			l := a.mustAcquire("x")
			if l.Token() <= token {
				t.Errorf("token %d after %d", l.Token(), token)
			}
			end := a.Release
			if i%2 == 0 {
				end = a.Remove
			}
			if err := end(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			wantHeld(t, l, ErrReleased)
			other := b.mustAcquire("x")
			token = other.Token()
			if err := errors.Join(l.Release(t.Context()), other.Release(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestManyNamesCostOneCall(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		b.mustAcquire("7")
		var wants []Want
		for i := range 1000 {
			wants = append(wants, Want{Name: fmt.Sprint(i)})
		}
		list, err := a.AcquireAll(t.Context(), wants...)
		if err != nil || len(list) != 999 {
			t.Fatalf("%d leases, %v", len(list), err)
		}
		a.renews = 0
		for range 5 {
			time.Sleep(time.Second)
			if err := a.Round(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.acquires != 1 || a.renews != 5 || a.ends != 1 {
			t.Errorf("%d acquires, %d renewals, %d ends", a.acquires, a.renews, a.ends)
		}
		for _, l := range list {
			wantHeld(t, l, ErrReleased)
		}
		if _, err := a.AcquireAll(t.Context(), wants...); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseDuringAnAcquireLeavesNothingHeld(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *site) {
		a.set(faults{there: time.Second})
		ended := make(chan error)
		go func() {
			_, err := a.Keeper.Acquire(t.Context(), "x", nil)
			ended <- err
		}()
		synctest.Wait()
		if _, err := a.Keeper.Acquire(t.Context(), "x", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("twice at a time: %v", err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		b.mustAcquire("x")
	})
}

func TestHolderSaysOfItselfWhatItWasSetTo(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *site) {
		l, err := a.Keeper.Acquire(t.Context(), "x", []byte("first"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"first", "second"} {
			if want != "first" {
				l.Set([]byte(want))
			}
			if err := a.Round(t.Context(), time.Now()); err != nil || !bytes.Equal(a.Memory.leases["x"].value, []byte(want)) {
				t.Errorf("it says %q, want %q; %v", a.Memory.leases["x"].value, want, err)
			}
		}
	})
}

func TestPauseOfTheProcessIsSeenByWhoeverAsks(t *testing.T) {
	l := &Lease{keeper: &Keeper{}, deadline: time.Now().Add(-time.Nanosecond)}
	l.ctx, l.cancel = context.WithCancelCause(t.Context()) // not ended yet: the timer's goroutine has not run since
	if err := l.Err(); err != ErrExpired {
		t.Error(err)
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{TTL: 2 * time.Second, Beat: time.Second, Margin: 1500 * time.Millisecond})
	for _, want := range []string{"Store", "Holder", "beat", "margin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %s in: %v", want, err)
		}
	}
}

func TestRowOfSightsBreaksWithAGapOrAJump(t *testing.T) {
	const ms = time.Millisecond
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		// Of each answer: when it was asked for, how long it took, and how far the store was ahead.
		answers [][3]time.Duration
		calm    bool
	}{
		{"none", nil, false},
		{"one", [][3]time.Duration{{0, 0, 0}}, false},
		{"regular", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 0}, {900 * ms, 0, 0}, {1000 * ms, 0, 0}}, true},
		{"too short", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 0}, {900 * ms, 0, 0}}, false},
		{"gap", [][3]time.Duration{{0, 0, 0}, {400 * ms, 0, 0}, {700 * ms, 0, 0}, {1000 * ms, 0, 0}}, false},
		{"slow answers are none", [][3]time.Duration{{0, 0, 0}, {200 * ms, 90 * ms, 0}, {400 * ms, 0, 0}, {700 * ms, 0, 0}, {1000 * ms, 0, 0}}, false},
		{"small steps", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 40 * ms}, {600 * ms, 0, 0}, {900 * ms, 0, 40 * ms}, {1000 * ms, 0, 0}}, true},
		{"steps add up", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 30 * ms}, {600 * ms, 0, 60 * ms}, {900 * ms, 0, 90 * ms}, {1000 * ms, 0, 120 * ms}}, false},
		{"jump ahead", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 51 * ms}, {900 * ms, 0, 51 * ms}, {1000 * ms, 0, 51 * ms}}, false},
		{"jump back", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, -51 * ms}, {900 * ms, 0, -51 * ms}, {1000 * ms, 0, -51 * ms}}, false},
		{"answers on their way", [][3]time.Duration{{0, 50 * ms, 0}, {300 * ms, 50 * ms, 50 * ms}, {600 * ms, 0, 0}, {900 * ms, 50 * ms, 50 * ms}, {1100 * ms, 0, 0}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sight{width: 50 * ms, jump: 50 * ms, gap: 350 * ms}
			now := begin
			for _, a := range c.answers {
				now = begin.Add(a[0])
				s.see(now, now.Add(a[1]), now.Add(a[2]))
			}
			if got := s.calm(now, time.Second); got != c.calm {
				t.Errorf("calm %v, want %v: %+v", got, c.calm, s)
			}
			if c.calm && s.calm(now.Add(360*ms), time.Second) {
				t.Error("calm after a silence")
			}
		})
	}
}

func BenchmarkRoundOf10000Leases(b *testing.B) {
	k, err := New(Config{Store: &Memory{}, Holder: "a"})
	if err != nil {
		b.Fatal(err)
	}
	wants := make([]Want, 10_000)
	for i := range wants {
		wants[i].Name = fmt.Sprintf("claim/%05d", i)
	}
	if list, err := k.AcquireAll(b.Context(), slices.Clone(wants)...); err != nil || len(list) != len(wants) {
		b.Fatal(len(list), err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Round(b.Context(), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
