package pool

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHungFunctionKeepsItsLoadUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Limit: Limit{Timeout: time.Second}})
		begin := time.Now()
		var cause error
		err := b.Run(t.Context(), 7, func(ctx context.Context) error {
			time.Sleep(time.Minute)
			cause = context.Cause(ctx)
			return errOuch
		})
		if err != ErrTimeout || time.Since(begin) != time.Second {
			t.Errorf("Run() = %v after %v", err, time.Since(begin))
		}
		for range 3 {
			b.Run(t.Context(), 1, nothing)
		}
		if !slices.Equal(b.starts, []int{0, 1, 1, 1}) || !slices.Equal(b.loads(), []float64{7, 0}) {
			t.Errorf("ran on %v, loads %v", b.starts, b.loads())
		}
		time.Sleep(time.Minute)
		if b.mustBeIdle(t); cause != ErrTimeout {
			t.Errorf("the function's context ended by %v", cause)
		}
		if b.places[0].penalty != 0 {
			t.Error("an error after the end was punished beyond the load it had kept")
		}
	})
}

func TestOnTimeoutGivesTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1})
		for _, want := range []error{nil, errOuch} {
			limit := Limit{Timeout: time.Second, OnTimeout: func() error { return want }}
			obeys := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			if err := b.RunLimited(t.Context(), 1, limit, obeys); err != want {
				t.Errorf("RunLimited() = %v, want %v", err, want)
			}
			if err := b.RunLimited(t.Context(), 1, limit, ouch); err != errOuch {
				t.Errorf("an error in time became %v", err)
			}
			synctest.Wait()
		}
		b.mustBeIdle(t)
		late, cancel := Limit{Timeout: 1}.start(t.Context())
		defer cancel()
		if <-late.Done(); (Limit{Timeout: 1}).result(late, nil) != nil {
			t.Error("a function that returned at the last moment was called late")
		}
	})
}

func TestTheCallersEndIsNotATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(errOuch) })
		limit := Limit{Timeout: time.Second, OnTimeout: func() error { t.Error("OnTimeout was asked"); return nil }}
		if err := b.RunLimited(ctx, 1, limit, func(context.Context) error { time.Sleep(time.Minute); return nil }); err != errOuch {
			t.Errorf("RunLimited() = %v", err)
		}
	})
}

func TestDoGivesNothingWhenTheFunctionIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Limit: Limit{Timeout: time.Second}})
		got, err := Do(t.Context(), b.Pool, 1, func(context.Context) (int, error) { time.Sleep(time.Minute); return 42, nil })
		if got != 0 || err != ErrTimeout {
			t.Errorf("Do() = %d, %v", got, err)
		}
		got, err = Do(t.Context(), b.Pool, 1, func(context.Context) (int, error) { return 42, errOuch })
		if got != 42 || err != errOuch {
			t.Errorf("Do() = %d, %v", got, err)
		}
	})
}

func TestAFailingRunnerDoesNotAttractWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 4})
		broken := true
		call := func() int {
			n := len(b.starts)
			b.Run(t.Context(), 10, func(context.Context) error {
				if broken && b.starts[n] == 2 {
					return errOuch // at once
				}
				time.Sleep(10 * time.Millisecond)
				return nil
			})
			return b.starts[n]
		}
		const second = 1000
		count := func(calls int) (n int) {
			for range calls {
				if call() == 2 {
					n++
				}
			}
			return n
		}
		if n := count(10 * second / 10); n > 4 { // probed after 1, 3, 7 seconds
			t.Errorf("the failing runner got %d of 1000 functions", n)
		}
		broken = false
		time.Sleep(time.Minute)
		if n := count(100); n < 24 || n > 26 {
			t.Errorf("mended, it got %d of 100 functions", n)
		}
		broken = true
		if n := count(100); n != 1 {
			t.Errorf("broken again, it got %d of 100 functions", n)
		}
	})
}

func TestASuccessEndsThePenaltyAndItsGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Penalty: time.Minute})
		b.Run(t.Context(), 10, ouch)
		b.Run(t.Context(), 10, nothing)
		if p := b.places[0].penalty; p != 0 {
			t.Errorf("penalty %g after a success", p)
		}
		b.Run(t.Context(), 10, ouch)
		time.Sleep(time.Minute) // as long as after a first failure
		if b.forgive(); b.places[0].penalty != 0 {
			t.Error("the penalty grew over a success")
		}
	})
}

func TestWhenAllFailTheWorkGoesOnEvenly(t *testing.T) {
	b := newBench(t, Config{Runners: 4})
	for range 400 {
		if err := b.Run(t.Context(), 10, ouch); err != errOuch {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		n := 0
		for _, s := range b.starts {
			if s == i {
				n++
			}
		}
		if n != 100 {
			t.Errorf("runner %d got %d of 400", i, n)
		}
	}
}

func TestCapacityMakesCallersWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Capacity: 1, MaxWaiting: 3})
		var order []int
		var calls sync.WaitGroup
		call := func(ctx context.Context, i int, d time.Duration) {
			calls.Go(func() {
				err := b.Run(ctx, 1, func(context.Context) error {
					order = append(order, i)
					time.Sleep(d)
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		impatient, leave := context.WithCancel(t.Context())
		call(t.Context(), 0, 10*time.Second)
		call(t.Context(), 1, time.Second)
		call(t.Context(), 2, time.Second)
		call(impatient, 3, time.Second)
		call(t.Context(), 4, time.Second)
		if err := b.Run(t.Context(), 1, nothing); err != ErrBusy {
			t.Errorf("a fourth waiting caller: %v", err)
		}
		leave()
		calls.Wait()
		if want := []int{0, 1, 2, 4}; !slices.Equal(order, want) {
			t.Errorf("ran in order %v, want %v", order, want)
		}
		if want := []int{0, 1, 1, 1}; !slices.Equal(b.starts, want) {
			t.Errorf("ran on %v, want %v: who waits goes where there is room first", b.starts, want)
		}
		b.mustBeIdle(t)
	})
}

func TestWhoLeavesTheQueueLetsTheNextIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Capacity: 1})
		go b.Run(t.Context(), 1, func(context.Context) error { time.Sleep(time.Hour); return nil })
		synctest.Wait()
		impatient, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go b.RunEach(impatient, 2, 1, func(context.Context, int) error { t.Error("ran without two places"); return nil })
		synctest.Wait()
		begin := time.Now()
		if err := b.Run(t.Context(), 1, nothing); err != nil || time.Since(begin) != time.Second {
			t.Errorf("Run() = %v after %v", err, time.Since(begin))
		}
	})
}

func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Runners: 1})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { p.Run(t.Context(), 1, func(context.Context) error { time.Sleep(time.Second); return nil }) })
		}
		synctest.Wait()
		ctx, leave := context.WithTimeoutCause(t.Context(), time.Second/2, errOuch)
		defer leave()
		if err := p.Run(ctx, 1, nothing); err != errOuch {
			t.Errorf("who left the lane's queue got %v", err)
		}
		calls.Wait()
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("three seconds of work on one lane took %v", d)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWaitsJoinsErrorsAndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		errs := []error{errors.New("first"), nil, errors.New("third")}
		factory := func(i int) (Runner, error) { return &seat{bench: b, i: i, err: errs[i]}, nil }
		p, err := New(Config{Runners: 3, Capacity: 1, Factory: factory})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var ran atomic.Int32
		go p.RunEach(t.Context(), 3, 1, func(context.Context, int) error { time.Sleep(time.Minute); ran.Add(1); return nil })
		synctest.Wait()
		waited := make(chan error, 1)
		go func() { waited <- p.Run(t.Context(), 1, nothing) }()
		synctest.Wait()
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := p.Close(); !errors.Is(err, errs[0]) || !errors.Is(err, errs[2]) {
					t.Errorf("Close() = %v", err)
				}
				if ran.Load() != 3 || time.Since(begin) != time.Minute {
					t.Error("Close did not wait")
				}
			})
		}
		if err := <-waited; err != ErrClosed || time.Since(begin) != 0 {
			t.Errorf("who waited got %v after %v", err, time.Since(begin))
		}
		closers.Wait()
		if !slices.Equal(b.closed, []int{0, 1, 2}) {
			t.Errorf("closed %v", b.closed)
		}
	})
}

// TestLoadsAlwaysSumUp draws calls of every kind and length, and looks after each start whether what the pool
// keeps agrees with itself.
func TestLoadsAlwaysSumUp(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { sumUp(t, rand.New(rand.NewPCG(seed, 0))) })
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func sumUp(t *testing.T, luck *rand.Rand) {
	c := Config{Runners: 1 + luck.IntN(4), Capacity: luck.IntN(3)}
	b := newBench(t, c)
	var calls sync.WaitGroup
	for range 1 + luck.IntN(30) {
		load, k := float64(luck.IntN(100))/10, 1+luck.IntN(c.Runners)
		d := time.Duration(luck.IntN(5)) * time.Second
		limit := Limit{Timeout: time.Duration(luck.IntN(3)) * time.Second}
		end := []func(context.Context) error{nothing, ouch, func(context.Context) error { panic("ouch") }}[luck.IntN(3)]
		f := func(ctx context.Context) error { time.Sleep(d); return end(ctx) }
		calls.Go(func() {
			if k > 1 {
				b.RunEach(t.Context(), k, load, func(ctx context.Context, _ int) error { return f(ctx) })
			} else {
				b.RunLimited(t.Context(), load, limit, f)
			}
		})
		time.Sleep(time.Duration(luck.IntN(1500)) * time.Millisecond)
		synctest.Wait()
		b.mustAddUp(t)
	}
	calls.Wait()
	time.Sleep(time.Minute)
	b.mustBeIdle(t)
	b.mustAddUp(t)
}

// mustAddUp checks what the pool derives against what it counts.
func (b *bench) mustAddUp(t *testing.T) {
	b.Pool.mu.Lock()
	defer b.Pool.mu.Unlock()
	room := 0
	for i, at := range b.places {
		full := b.conf.Capacity > 0 && at.running >= b.conf.Capacity
		if !full {
			room++
		}
		switch rank := at.ranked.Load(); {
		case b.conf.Capacity > 0 && at.running > b.conf.Capacity:
			t.Errorf("runner %d runs %d functions", i, at.running)
		case full != math.IsInf(rank, 1), !full && math.Abs(rank-at.load-at.penalty) > 1e-9:
			t.Errorf("runner %d with load %g, penalty %g stands at %g", i, at.load, at.penalty, rank)
		case (at.penalty > 0) != (at.punished != nil), at.load < -1e-9, at.running == 0 && at.load != 0:
			t.Errorf("runner %d runs %d with load %g, penalty %g", i, at.running, at.load, at.penalty)
		}
	}
	if room != b.room || b.waiting.Len() > 0 && room == len(b.places) {
		t.Errorf("%d have room, counted %d, %d callers wait", room, b.room, b.waiting.Len())
	}
}
