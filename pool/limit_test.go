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

func TestDoOrGivesAValueInPlaceOfATimeout(t *testing.T) {
	quick := func(context.Context, Lane) (string, error) { return "done", nil }
	hangs := func(context.Context, Lane) (string, error) {
		time.Sleep(time.Minute) // and does not look at its context
		return "late", nil
	}
	yields := func(ctx context.Context, _ Lane) (string, error) {
		<-ctx.Done()
		return "half", ctx.Err()
	}
	fails := func(context.Context, Lane) (string, error) { return "", errOuch }
	or := func() (string, error) { return "instead", nil }
	for name, c := range map[string]struct {
		f    func(context.Context, Lane) (string, error)
		or   func() (string, error)
		want string
		err  error
	}{
		"in time":         {quick, or, "done", nil},
		"hangs":           {hangs, or, "instead", nil},
		"yields":          {yields, or, "instead", nil},
		"fails":           {fails, or, "", errOuch},
		"no value":        {hangs, nil, "", ErrTimeout},
		"another error":   {hangs, func() (string, error) { return "", errOuch }, "", errOuch},
		"nothing to run":  {nil, or, "", ErrNoFunction},
		"value and error": {hangs, func() (string, error) { return "a", errOuch }, "a", errOuch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, err := Lanes(Config{Runners: 2, Limit: Limit{
					Timeout: time.Second, OnTimeout: func() error { return ErrTimeout },
				}})
				if err != nil {
					t.Fatal(err)
				}
				got, err := DoOr(t.Context(), p, 1, c.f, c.or)
				if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("got %q, %v, want %q, %v", got, err, c.want, c.err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A panic of the value's function is the caller's error, and the end of the caller's own context is
// no timeout.
func TestDoOrIsAskedForTimeoutsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Lanes(Config{Runners: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		waits := func(ctx context.Context, _ Lane) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		limited := p.Limited(Limit{Timeout: time.Second})
		_, err = DoOr(t.Context(), limited, 1, waits, func() (int, error) { panic("no value") })
		if _, ok := errors.AsType[*PanicError](err); !ok {
			t.Errorf("a panic is %v", err)
		}
		for name, p := range map[string]*Pool[Lane]{"limited": limited, "unlimited": p} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			got, err := DoOr(ctx, p, 1, waits, func() (int, error) { return 7, nil })
			if cancel(); got != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %d, %v", name, got, err)
			}
		}
	})
}

// What is given no load carries the default one, whichever verb gives it, and gives it back.
func TestFunctionsOfNoLoadCarryTheDefaultLoad(t *testing.T) {
	for _, by := range []float64{0, 100} {
		p, err := Lanes(Config{Runners: 2, DefaultLoad: by})
		if err != nil {
			t.Fatal(err)
		}
		loads := func() (sum float64) {
			for _, r := range p.View().Runners {
				sum += r.Load
			}
			return sum
		}
		for given, want := range map[float64]float64{0: by, 7: 7} {
			look := func(context.Context, Lane) error {
				if got := loads(); got != want {
					t.Errorf("load %v by a default of %v counts as %v", given, by, got)
				}
				return nil
			}
			if err := p.Run(t.Context(), given, look); err != nil {
				t.Error(err)
			}
			limited := p.Limited(Limit{Timeout: time.Hour})
			if err := limited.Run(t.Context(), given, look); err != nil {
				t.Error(err)
			}
			each := func(ctx context.Context, r Lane, _ int) error { return look(ctx, r) }
			if err := p.RunEach(t.Context(), 1, given, each); err != nil {
				t.Error(err)
			}
		}
		if left := loads(); left != 0 {
			t.Errorf("%v is left", left)
		}
		p.Close()
	}
	for _, bad := range []float64{-1, MaxLoad * 2, math.NaN(), math.Inf(1)} {
		if _, err := Lanes(Config{Runners: 1, DefaultLoad: bad}); !errors.Is(err, ErrRange) {
			t.Errorf("a default load of %v: %v", bad, err)
		}
	}
}
