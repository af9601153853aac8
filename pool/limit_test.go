package pool

import (
	"context"
	"errors"
	"math"
	"slices"
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
		if b.View().Runners[0].Faults != 0 {
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
		late, cancel, _ := Limit{Timeout: 1}.start(t.Context())
		defer cancel()
		if <-late.Done(); (Limit{Timeout: 1}).result(t.Context(), late, nil) != nil {
			t.Error("a function that returned at the last moment was called late")
		}
	})
}

func TestOnTimeoutGivesTheResultOfWaitingToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Slots: 1})
		defer b.hold(t, 1)()
		limit := Limit{Timeout: time.Second, OnTimeout: func() error { return errOuch }}
		if err := b.RunLimited(t.Context(), 1, limit, nothing); err != errOuch {
			t.Errorf("Run() = %v", err)
		}
		if err := b.Limited(limit).RunEach(t.Context(), 1, 1,
			func(context.Context, *seat, int) error {
				return nil
			}); err != errOuch {
			t.Errorf("RunEach() = %v", err)
		}
	})
}

func TestAPanicOfOnTimeoutIsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t,
			Config{Runners: 2, Limit: Limit{Timeout: time.Second, OnTimeout: func() error {
				panic(errOuch)
			}}})
		obeys := func(ctx context.Context) error { <-ctx.Done(); return nil }
		for _, err := range []error{
			b.Run(t.Context(), 1, obeys),
			// would end the program
			b.RunEach(t.Context(), 2, 1, func(ctx context.Context, _ int) error {
				return obeys(ctx)
			}),
		} {
			if _, caught := errors.AsType[*PanicError](err); !caught || !errors.Is(err, errOuch) {
				t.Errorf("%v", err)
			}
		}
		synctest.Wait()
		b.mustBeIdle(t)
	})
}

func TestTheCallersEndIsNotATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(errOuch) })
		limit := Limit{Timeout: time.Second, OnTimeout: func() error {
			t.Error("OnTimeout was asked")
			return nil
		}}
		if err := b.RunLimited(ctx, 1, limit, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}); err != errOuch {
			t.Errorf("RunLimited() = %v", err)
		}
	})
}

func TestTheEndOfAnotherPoolsTimeIsTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := newBench(t, Config{Runners: 1, Limit: Limit{Timeout: time.Second}})
		inner := newBench(t, Config{Runners: 1, Limit: Limit{
			Timeout: time.Hour, OnTimeout: func() error {
				t.Error("OnTimeout was asked")
				return nil
			},
		}})
		ended := make(chan error, 1)
		outer.Run(t.Context(), 1, func(ctx context.Context) error {
			err := inner.Run(ctx, 1, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			ended <- err
			return err
		})
		if err := <-ended; !errors.Is(err, ErrTimeout) &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the inner Run() = %v", err)
		}
		synctest.Wait()
	})
}

func TestDoGivesNothingWhenTheFunctionIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Limit: Limit{Timeout: time.Second}})
		got, err := Do(t.Context(), b.Pool, 1, func(context.Context, *seat) (int, error) {
			time.Sleep(time.Minute)
			return 42, nil
		})
		if got != 0 || err != ErrTimeout {
			t.Errorf("Do() = %d, %v", got, err)
		}
		time.Sleep(time.Minute)
		got, err = Do(t.Context(), b.Pool, 1, func(context.Context, *seat) (int, error) {
			return 42, errOuch
		})
		if got != 42 || err != errOuch {
			t.Errorf("Do() = %d, %v", got, err)
		}
	})
}

func TestAStuckRunnerIsGivenNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2})
		limit := Limit{Timeout: time.Second}
		for range 2 {
			if err := b.RunLimited(t.Context(), 0, limit, func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			}); err != ErrTimeout {
				t.Error(err)
			}
		}
		for i, r := range b.View().Runners {
			if r.State != Stuck || r.Left != 1 ||
				r.Reason() != "1 functions have not returned though their time is over" {
				t.Errorf("runner %d: %+v", i, r)
			}
		}
		begin := time.Now()
		if err := b.RunLimited(t.Context(), 0, limit, nothing); err != ErrTimeout ||
			time.Since(begin) != time.Second {
			t.Errorf("all are stuck: %v after %v", err, time.Since(begin))
		}
		if err := b.Run(t.Context(), 0, nothing); err != nil ||
			time.Since(begin) != 58*time.Second {
			t.Errorf("Run() = %v after %v", err, time.Since(begin))
		}
	})
}

func TestTheLongestTimeoutDoesNotOverflow(t *testing.T) {
	b := newBench(t, Config{Runners: 1})
	if err := b.RunLimited(t.Context(), 1, Limit{Timeout: math.MaxInt64}, nothing); err != nil {
		t.Error(err)
	}
}

func TestLimitsAreOfTheCallsTheyAreMadeFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLanes(t, Config{Runners: 2, Limit: Limit{Timeout: time.Second}})
		sleep := func(context.Context, Lane) (int, error) { time.Sleep(time.Minute); return 1, nil }
		if _, err := Do(t.Context(), p, 1, sleep); err != ErrTimeout {
			t.Errorf("with the pool's limit: %v", err)
		}
		if got, err := Do(t.Context(), p.Limited(Limit{}), 1, sleep); got != 1 || err != nil {
			t.Errorf("with none: %v", err)
		}
		got, err := DoEach(t.Context(), p, 2, 1,
			func(_ context.Context, _ Lane, i int) (int, error) {
				time.Sleep(time.Duration(i) * time.Minute)
				return 1, nil
			})
		if !slices.Equal(got, []int{1, 0}) || !errors.Is(err, ErrTimeout) {
			t.Errorf("DoEach() = %v, %v", got, err)
		}
	})
}
