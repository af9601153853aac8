package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleDo() {
	p, err := New(Config{Runners: 4})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	// Sums of different length, each with the load that it is, the heaviest first.
	sums := make([]int, 5)
	var calls sync.WaitGroup
	for i, n := range []int{100_000, 50_000, 25_000, 10_000, 10} {
		calls.Go(func() {
			sums[i], _ = Do(context.Background(), p, float64(n), func(context.Context) (sum int, err error) {
				for v := range n {
					sum += v
				}
				return sum, nil
			})
		})
	}
	calls.Wait()
	fmt.Println(sums)
	// Output: [4999950000 1249975000 312487500 49995000 45]
}

func ExamplePool_RunEach() {
	p, err := New(Config{Runners: 3})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	err = p.RunEach(context.Background(), 2, 1, func(_ context.Context, i int) error {
		return fmt.Errorf("no answer from copy %d", i)
	})
	fmt.Println(err)
	// Output:
	// no answer from copy 0
	// no answer from copy 1
}

// bench notes which runner was given each function, in the order of the starts.
type bench struct {
	*Pool
	mu     sync.Mutex
	starts []int
	closed []int
}

// seat is one runner of a bench. It never makes a function wait.
type seat struct {
	*bench
	i   int
	err error // of Close
}

func (s *seat) Run(ctx context.Context, f func(context.Context) error) error {
	s.mu.Lock()
	s.starts = append(s.starts, s.i)
	s.mu.Unlock()
	return f(ctx)
}

func (s *seat) Close() error {
	s.closed = append(s.closed, s.i)
	return s.err
}

func newBench(t testing.TB, c Config) *bench {
	b := &bench{}
	c.Factory = func(i int) (Runner, error) { return &seat{bench: b, i: i}, nil }
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	b.Pool = p
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) loads() (loads []float64) {
	b.Pool.mu.Lock()
	defer b.Pool.mu.Unlock()
	for _, at := range b.places {
		loads = append(loads, at.load)
	}
	return loads
}

func (b *bench) mustBeIdle(t *testing.T) {
	t.Helper()
	if loads := b.loads(); slices.ContainsFunc(loads, func(l float64) bool { return l != 0 }) {
		t.Errorf("nothing runs and the loads are %v", loads)
	}
}

var (
	errOuch = errors.New("ouch")
	nothing = func(context.Context) error { return nil }
	ouch    = func(context.Context) error { return errOuch }
)

func TestNineRunsGoToTheLeastLoadedOfFour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 4})
		for _, load := range []float64{100, 50, 25, 10, 10, 90, 90, 64, 100} {
			go b.Run(t.Context(), load, func(context.Context) error { time.Sleep(time.Second); return nil })
			synctest.Wait()
		}
		if want := []int{0, 1, 2, 3, 3, 3, 2, 1, 0}; !slices.Equal(b.starts, want) {
			t.Errorf("ran on %v, want %v", b.starts, want)
		}
		if got, want := b.loads(), []float64{200, 114, 115, 110}; !slices.Equal(got, want) {
			t.Errorf("loads %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		b.mustBeIdle(t)
	})
}

func TestShortAndWeightlessFunctionsGoRound(t *testing.T) {
	b := newBench(t, Config{Runners: 4})
	for range 4 {
		b.Run(t.Context(), 100, nothing)
	}
	for range 4 {
		b.Run(t.Context(), 0, ouch)
	}
	if want := []int{0, 1, 2, 3, 0, 1, 2, 3}; !slices.Equal(b.starts, want) {
		t.Errorf("ran on %v, want %v", b.starts, want)
	}
}

func TestRunEachUsesDistinctRunnersInTheOrderOfThePicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 3})
		go b.Run(t.Context(), 5, func(context.Context) error { time.Sleep(time.Second); return nil })
		synctest.Wait()
		b.starts = nil
		results, err := DoEach(t.Context(), b.Pool, 2, 1, func(_ context.Context, i int) (int, error) {
			if loads := b.loads(); !slices.Equal(loads, []float64{5, 1, 1}) {
				t.Errorf("loads %v", loads)
			}
			time.Sleep(time.Duration(10-i) * time.Millisecond) // the last pick ends first
			return i * 10, nil
		})
		if err != nil || !slices.Equal(results, []int{0, 10}) {
			t.Errorf("DoEach() = %v, %v", results, err)
		}
		slices.Sort(b.starts)
		if !slices.Equal(b.starts, []int{1, 2}) {
			t.Errorf("ran on %v", b.starts)
		}
	})
}

func TestOneFailureOfEachDoesNotShrinkThePool(t *testing.T) {
	b := newBench(t, Config{Runners: 3})
	for range 5 {
		err := b.RunEach(t.Context(), 3, 1, func(_ context.Context, i int) error {
			if i == 1 {
				panic("ouch")
			}
			return nil
		})
		if caught := (*PanicError)(nil); !errors.As(err, &caught) {
			t.Fatalf("RunEach() = %v", err)
		}
	}
	if b.mustBeIdle(t); len(b.starts) != 15 {
		t.Errorf("%d runs of 15", len(b.starts))
	}
}

func TestBadCallsAreRefusedAndChangeNothing(t *testing.T) {
	empty, closed := newBench(t, Config{}), newBench(t, Config{Runners: 1})
	closed.Close()
	b := newBench(t, Config{Runners: 2})
	ended, end := context.WithCancelCause(t.Context())
	end(errOuch)
	each := func(p *bench, k int) error {
		return p.RunEach(t.Context(), k, 1, func(context.Context, int) error { return nil })
	}
	for name, c := range map[string]struct{ got, want error }{
		"negative load":     {b.Run(t.Context(), -1, nothing), ErrLoad},
		"NaN":               {b.Run(t.Context(), math.NaN(), nothing), ErrLoad},
		"infinite load":     {b.Run(t.Context(), math.Inf(1), nothing), ErrLoad},
		"no function":       {b.Run(t.Context(), 1, nil), ErrNoFunction},
		"no functions":      {b.RunEach(t.Context(), 1, 1, nil), ErrNoFunction},
		"negative timeout":  {b.RunLimited(t.Context(), 1, Limit{Timeout: -1}, nothing), ErrRange},
		"context has ended": {b.Run(ended, 1, nothing), errOuch},
		"none of two":       {each(b, 0), ErrRange},
		"minus one of two":  {each(b, -1), ErrRange},
		"three of two":      {each(b, 3), ErrRange},
		"empty":             {empty.Run(t.Context(), 1, nothing), ErrEmpty},
		"one of none":       {each(empty, 1), ErrEmpty},
		"closed":            {closed.Run(t.Context(), 1, nothing), ErrClosed},
		"each of closed":    {each(closed, 1), ErrClosed},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	number := func(context.Context, int) (int, error) { return 0, nil }
	if _, err := DoEach(t.Context(), b.Pool, math.MaxInt, 1, number); !errors.Is(err, ErrRange) {
		t.Errorf("DoEach of too many: %v", err)
	}
	if b.mustBeIdle(t); len(b.starts) != 0 {
		t.Error("a refused function ran")
	}
}

func TestBadConfigNamesEverythingWrong(t *testing.T) {
	_, err := New(Config{Runners: -1, Capacity: -2, MaxWaiting: -3, Limit: Limit{Timeout: -4}})
	for _, field := range []string{"Runners -1", "Capacity -2", "MaxWaiting -3", "Limit.Timeout -4"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func TestAFactoryThatFailsHalfWayLeavesNothingOpen(t *testing.T) {
	b := &bench{}
	errStuck := errors.New("stuck")
	_, err := New(Config{Runners: 5, Factory: func(i int) (Runner, error) {
		if i == 3 {
			return nil, errOuch
		}
		return &seat{bench: b, i: i, err: errStuck}, nil
	}})
	if !errors.Is(err, errOuch) || !errors.Is(err, errStuck) {
		t.Errorf("New() = %v", err)
	}
	if want := []int{0, 1, 2}; !slices.Equal(b.closed, want) {
		t.Errorf("closed %v, want %v", b.closed, want)
	}
}

func TestErrorsAndPanicsReachTheCaller(t *testing.T) {
	b := newBench(t, Config{Runners: 1})
	for _, limit := range []Limit{{}, {Timeout: time.Hour}} {
		if err := b.RunLimited(t.Context(), 1, limit, ouch); err != errOuch {
			t.Errorf("an error came back as %v", err)
		}
		err := b.RunLimited(t.Context(), 1, limit, func(context.Context) error { panic(errOuch) })
		caught, ok := errors.AsType[*PanicError](err)
		if !ok || caught.Value != errOuch || !errors.Is(err, errOuch) || !strings.Contains(string(caught.Stack), "TestErrorsAndPanics") {
			t.Errorf("a panic came back as %#v", err)
		}
		b.mustBeIdle(t)
	}
}

// runnerFunc is a runner of a test's own.
type runnerFunc func(ctx context.Context, f func(context.Context) error) error

func (r runnerFunc) Run(ctx context.Context, f func(context.Context) error) error { return r(ctx, f) }
func (runnerFunc) Close() error                                                   { return nil }

func TestPanicsAreCaughtWhereverTheyHappen(t *testing.T) {
	for name, r := range map[string]runnerFunc{
		"in the runner": func(context.Context, func(context.Context) error) error { panic("ouch") },
		"on another goroutine": func(ctx context.Context, f func(context.Context) error) error {
			result := make(chan error)
			go func() { result <- f(ctx) }()
			return <-result
		},
	} {
		p, err := New(Config{Runners: 1, Factory: func(int) (Runner, error) { return r, nil }})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Run(t.Context(), 1, func(context.Context) error { panic("ouch") })
		if caught, ok := errors.AsType[*PanicError](err); !ok || caught.Error() != "panic: ouch" || p.places[0].load != 0 {
			t.Errorf("%s: %v, load %g", name, err, p.places[0].load)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGoexitGivesTheLoadBack(t *testing.T) {
	b := newBench(t, Config{Runners: 1})
	exit := func(context.Context) error { runtime.Goexit(); return nil }
	var caller sync.WaitGroup
	caller.Go(func() { b.Run(t.Context(), 1, exit) })
	caller.Wait()
	if err := b.RunLimited(t.Context(), 1, Limit{Timeout: time.Hour}, exit); err != errExited {
		t.Errorf("RunLimited() = %v", err)
	}
	b.mustBeIdle(t)
}
