package pool

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("POOL_CHILD") != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// bench notes which runner was given each function, in the order of the starts. Its runners take
// any number of functions at a time unless the Config says otherwise, so that loads decide.
type bench struct {
	*Pool[*seat]
	notes  sync.Mutex
	starts []int
	closed []int
}

// seat is one runner of a bench.
type seat struct {
	*bench
	i   int
	err error // of Close
}

func (s *seat) note() {
	s.notes.Lock()
	defer s.notes.Unlock()
	s.starts = append(s.starts, s.i)
}

func (s *seat) Close() error {
	s.notes.Lock()
	defer s.notes.Unlock()
	s.bench.closed = append(s.bench.closed, s.i)
	return s.err
}

func newBench(t testing.TB, c Config) *bench {
	b := &bench{}
	c.Slots = cmp.Or(c.Slots, -1)
	p, err := New(c, func(i int) (*seat, error) { return &seat{bench: b, i: i}, nil })
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

func (b *bench) Run(ctx context.Context, load float64, f func(context.Context) error) error {
	return b.RunLimited(ctx, load, b.limit, f)
}

func (b *bench) RunLimited(
	ctx context.Context, load float64, l Limit, f func(context.Context) error,
) error {
	if f == nil {
		return b.Limited(l).Run(ctx, load, nil)
	}
	return b.Limited(l).Run(ctx, load, func(ctx context.Context, s *seat) error {
		s.note()
		return f(ctx)
	})
}

func (b *bench) RunEach(
	ctx context.Context, k int, load float64, f func(context.Context, int) error,
) error {
	if f == nil {
		return b.Pool.RunEach(ctx, k, load, nil)
	}
	return b.Pool.RunEach(ctx, k, load, func(ctx context.Context, s *seat, i int) error {
		s.note()
		return f(ctx, i)
	})
}

func (b *bench) loads() (loads []float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.all {
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
			go b.Run(t.Context(), load, func(context.Context) error {
				time.Sleep(time.Second)
				return nil
			})
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
		go b.Run(t.Context(), 5, func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		})
		synctest.Wait()
		b.starts = nil
		results, err := DoEach(t.Context(), b.Pool, 2, 1,
			func(_ context.Context, s *seat, i int) (int, error) {
				s.note()
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
		"negative load": {b.Run(t.Context(), -1, nothing), ErrLoad},
		"NaN":           {b.Run(t.Context(), math.NaN(), nothing), ErrLoad},
		"infinite load": {b.Run(t.Context(), math.Inf(1), nothing), ErrLoad},
		"too large a load": {b.Run(t.Context(), math.Nextafter(MaxLoad, math.Inf(1)), nothing),
			ErrLoad},
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
	if err := newBench(t, Config{Runners: 1}).Run(t.Context(), MaxLoad, nothing); err != nil {
		t.Errorf("the largest load: %v", err)
	}
	number := func(context.Context, *seat, int) (int, error) { return 0, nil }
	if _, err := DoEach(t.Context(), b.Pool, math.MaxInt, 1, number); !errors.Is(err, ErrRange) {
		t.Errorf("DoEach of too many: %v", err)
	}
	if b.mustBeIdle(t); len(b.starts) != 0 {
		t.Error("a refused function ran")
	}
}

func TestBadConfigNamesEverythingWrong(t *testing.T) {
	_, err := Lanes(Config{
		Runners: -1, Weights: []float64{0, math.NaN(), 1e-300}, Choice: 7, Capacity: -2,
		HeadStart: -3, Limit: Limit{Timeout: -4},
	})
	for _, field := range []string{"Runners -1", "Weights of 3", "Weights[0] 0", "Weights[1] NaN",
		"Weights[2] 1e-300", "Choice 7", "Capacity -2", "HeadStart -3ns", "Timeout -4ns"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func TestAFactoryThatFailsHalfWayLeavesNothingOpen(t *testing.T) {
	b := &bench{}
	errStuck := errors.New("stuck")
	_, err := New(Config{Runners: 5}, func(i int) (*seat, error) {
		if i == 3 {
			return nil, errOuch
		}
		return &seat{bench: b, i: i, err: errStuck}, nil
	})
	if !errors.Is(err, errOuch) || !errors.Is(err, errStuck) {
		t.Errorf("New() = %v", err)
	}
	if slices.Sort(b.closed); !slices.Equal(b.closed, []int{0, 1, 2}) {
		t.Errorf("closed %v of 0, 1, 2", b.closed)
	}
}

func TestAFactoryThatEndsItsGoroutineLeavesNothingOpen(t *testing.T) {
	b := &bench{}
	var making sync.WaitGroup
	making.Go(func() {
		New(Config{Runners: 5}, func(i int) (*seat, error) {
			if i == 3 {
				runtime.Goexit()
			}
			return &seat{bench: b, i: i}, nil
		})
	})
	making.Wait()
	if slices.Sort(b.closed); !slices.Equal(b.closed, []int{0, 1, 2}) {
		t.Errorf("closed %v of 0, 1, 2", b.closed)
	}
}

// fragile is a runner whose end goes wrong.
type fragile struct{}

func (fragile) Close() error { panic("ouch") }

func TestPanicsOfFactoriesAndRunnersAreErrors(t *testing.T) {
	p, err := New(Config{Runners: 2}, func(i int) (fragile, error) { return fragile{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if caught, ok := errors.AsType[*PanicError](p.Close()); !ok || caught.Value != "ouch" {
		t.Errorf("Close() = %v", p.Close())
	}
	_, err = New(Config{Runners: 3}, func(i int) (Lane, error) {
		if i == 2 {
			panic(errOuch)
		}
		return Lane(i), nil
	})
	if _, ok := errors.AsType[*PanicError](err); !ok || !errors.Is(err, errOuch) ||
		!strings.Contains(err.Error(), "runner 2") {
		t.Errorf("New() = %v", err)
	}
	if _, err := New[Lane](Config{Runners: -1}, nil); !errors.Is(err, ErrNoFunction) ||
		!errors.Is(err, ErrRange) {
		t.Errorf("without a factory: %v", err)
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
		if !ok || caught.Value != errOuch || !errors.Is(err, errOuch) ||
			!strings.Contains(string(caught.Stack), "TestErrorsAndPanics") {
			t.Errorf("a panic came back as %#v", err)
		}
		b.mustBeIdle(t)
	}
}

func TestGoexitGivesTheLoadBack(t *testing.T) {
	b := newBench(t, Config{Runners: 1})
	exit := func(context.Context) error { runtime.Goexit(); return nil }
	var caller sync.WaitGroup
	caller.Go(func() { b.Run(t.Context(), 1, exit) })
	caller.Wait()
	if n := b.View().Runners[0].Faults; n != 1 {
		t.Errorf("%d faults", n)
	}
	if err := b.RunLimited(t.Context(), 1, Limit{Timeout: time.Hour}, exit); err != errExited {
		t.Errorf("RunLimited() = %v", err)
	}
	if err := b.RunEach(t.Context(), 1, 1, func(context.Context, int) error {
		runtime.Goexit()
		return nil
	}); !errors.Is(err, errExited) {
		t.Errorf("RunEach() = %v", err)
	}
	b.mustBeIdle(t)
}

// foreign is a context of somebody else's making, which looks at the pool when it is asked.
type foreign struct {
	context.Context
	b *bench
}

func (c foreign) Err() error { c.b.View(); return nil }

func TestNoContextIsAskedUnderTheLock(t *testing.T) {
	b := newBench(t, Config{Runners: 1})
	if err := b.Run(foreign{t.Context(), b}, 1, nothing); err != nil {
		t.Error(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a nil context was accepted")
			}
		}()
		var none context.Context
		b.Run(none, 1, nothing)
	}()
	if err := b.Run(t.Context(), 1, nothing); err != nil { // for ever, were the lock lost
		t.Error(err)
	}
	b.mustBeIdle(t)
}
