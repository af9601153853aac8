package pool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/balance"
)

var (
	// ErrClosed is returned to calls after Close, and to those that wait for a place when it comes.
	ErrClosed = errors.New("pool is closed")
	// ErrEmpty is returned to calls on a pool that was made without runners.
	ErrEmpty = errors.New("pool has no runners")
	// ErrRange is returned when a number is not in its range, such as more runners asked for than there are.
	ErrRange = errors.New("out of range")
	// ErrLoad is returned for a load that is not a number from 0 to MaxLoad.
	ErrLoad = errors.New("not a load")
	// ErrNoFunction is returned for a nil function.
	ErrNoFunction = errors.New("no function to run")
	// ErrBusy is returned when MaxWaiting callers wait already.
	ErrBusy = errors.New("too many callers wait")
	// ErrTimeout is what a call returns whose time is over, unless its Limit says otherwise. The context of its
	// function ends with it as the cause.
	ErrTimeout = errors.New("timed out")
)

// MaxLoad is the largest load of one function; sums of whole loads stay exact.
const MaxLoad = 1e12

// Runner is a place to run functions. It takes as many at once as the pool gives it; Config.Capacity bounds that.
type Runner interface {
	// Run calls f once, on any goroutine, with ctx or a context made from it, and returns its error when it
	// has returned. When it cannot call f it returns an error of its own. f does not panic.
	Run(ctx context.Context, f func(context.Context) error) error
	// Close frees what the runner holds. It is called once, when nothing runs any more.
	Close() error
}

// Config of a pool.
type Config struct {
	Runners    int                         // how many; a pool of 0 answers every call with ErrEmpty
	Factory    func(i int) (Runner, error) // makes runner i, counted from 0; lanes when nil
	Capacity   int                         // functions that one runner is given at a time; no bound when 0
	MaxWaiting int                         // callers that may wait while all runners are at capacity; no bound when 0
	Limit      Limit                       // of calls that bring none

	// Penalty is how long the load of a failed function goes on counting against its runner, doubled by each
	// further failure in a row, six times at most; 1 s when 0, not at all when negative. A function fails when
	// it returns an error or panics before its context has ended.
	Penalty time.Duration
}

// Limit is how long a call may take, waiting included.
type Limit struct {
	Timeout   time.Duration // no limit when 0
	OnTimeout func() error  // gives the call's result when the time is over; ErrTimeout when nil
}

func (c *Config) validate() error {
	var wrong []error
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Runners", int64(c.Runners)},
		{"Capacity", int64(c.Capacity)},
		{"MaxWaiting", int64(c.MaxWaiting)},
		{"Limit.Timeout", int64(c.Limit.Timeout)},
	} {
		if field.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %d: %w", field.name, field.value, ErrRange))
		}
	}
	return errors.Join(wrong...)
}

// Pool shares functions out among its runners. Make one with New. All methods may be called by any goroutine,
// but a function must not wait for a call on its own pool: it may stand in the way of what it waits for.
type Pool struct {
	conf    Config
	places  []*place
	began   time.Time      // ends of penalties are counted from here
	running sync.WaitGroup // functions that were given a place; grows only under mu and while not closed
	gone    chan struct{}  // closed when all runners are
	goneErr error          // of closing them; readable when gone is closed

	mu       sync.Mutex
	closed   bool
	ranking  balance.Ranking[*place] // by load and penalty; those at capacity at +Inf
	room     int                     // places below capacity
	punished balance.Ranking[*place] // those with a penalty, by the second in which it ends
	waiting  list.List               // of *waiter, first come first
}

// New makes a pool and its runners. When the factory fails, the runners made before are closed.
func New(c Config) (*Pool, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("make pool: %w", err)
	}
	if c.Factory == nil {
		c.Factory = func(int) (Runner, error) { return make(lane, 1), nil }
	}
	if c.Penalty == 0 {
		c.Penalty = time.Second
	}
	p := &Pool{conf: c, began: time.Now(), room: c.Runners, gone: make(chan struct{})}
	for i := range c.Runners {
		r, err := c.Factory(i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make runner %d: %w", i, err), p.Close())
		}
		at := &place{runner: r}
		at.ranked = p.ranking.Add(at, 0)
		p.places = append(p.places, at)
	}
	return p, nil
}

// Len is the number of runners; it never changes.
func (p *Pool) Len() int { return len(p.places) }

// Run calls f on the runner of least load, waits for it, and returns its error.
func (p *Pool) Run(ctx context.Context, load float64, f func(context.Context) error) error {
	return p.RunLimited(ctx, load, p.conf.Limit, f)
}

// RunLimited is Run with a limit of its own. With a timeout it returns as soon as the time is over or ctx
// ends; f, whose context ends then too, may take longer, and its load stays for as long.
func (p *Pool) RunLimited(ctx context.Context, load float64, limit Limit, f func(context.Context) error) error {
	if f == nil {
		return ErrNoFunction
	}
	if limit.Timeout < 0 {
		return fmt.Errorf("timeout %v: %w", limit.Timeout, ErrRange)
	}
	ctx, cancel := limit.start(ctx)
	defer cancel()
	at, err := p.take(ctx, load)
	if err != nil {
		return limit.result(ctx, err)
	}
	return p.run(ctx, at, load, limit, f)
}

// RunEach calls f at the same time on the k runners of least load, with the number of the pick, from 0, and
// waits for all. It returns their errors, joined in the order of the picks.
func (p *Pool) RunEach(ctx context.Context, k int, load float64, f func(ctx context.Context, i int) error) error {
	if f == nil {
		return ErrNoFunction
	}
	limit := p.conf.Limit
	ctx, cancel := limit.start(ctx)
	defer cancel()
	places, err := p.takeEach(ctx, k, load)
	if err != nil {
		return limit.result(ctx, err)
	}
	errs := make([]error, k)
	var runs sync.WaitGroup
	for i, at := range places {
		runs.Go(func() {
			errs[i] = p.run(ctx, at, load, limit, func(ctx context.Context) error { return f(ctx, i) })
		})
	}
	runs.Wait()
	return errors.Join(errs...)
}

// Do is Run for a function with a result, which is the zero value when f has not returned in time.
func Do[T any](ctx context.Context, p *Pool, load float64, f func(context.Context) (T, error)) (result T, err error) {
	if f == nil {
		return result, ErrNoFunction
	}
	var given atomic.Pointer[T] // f may return later than Run
	err = p.Run(ctx, load, func(ctx context.Context) error {
		v, err := f(ctx)
		given.Store(&v)
		return err
	})
	if v := given.Load(); v != nil {
		result = *v
	}
	return result, err
}

// DoEach is RunEach for a function with a result: k of them in the order of the picks, the zero value for
// those that have not returned in time. It gives none when nothing ran.
func DoEach[T any](ctx context.Context, p *Pool, k int, load float64, f func(ctx context.Context, i int) (T, error)) ([]T, error) {
	if f == nil {
		return nil, ErrNoFunction
	}
	given := make([]atomic.Pointer[T], min(max(k, 0), p.Len()))
	err := p.RunEach(ctx, k, load, func(ctx context.Context, i int) error {
		v, err := f(ctx, i)
		given[i].Store(&v)
		return err
	})
	results := make([]T, len(given))
	for i := range given {
		if v := given[i].Load(); v != nil {
			results[i] = *v
		}
	}
	return results, err
}

// Close lets nothing more start, waits until all functions have returned, hung ones included, and closes the
// runners. It returns their errors, joined; a second Close waits as well and returns the same.
func (p *Pool) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	for e := p.waiting.Front(); e != nil; e = p.waiting.Front() {
		close(p.waiting.Remove(e).(*waiter).ready)
	}
	p.mu.Unlock()
	if !first {
		<-p.gone
		return p.goneErr
	}
	p.running.Wait()
	var errs []error
	for i, at := range p.places {
		if err := at.runner.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close runner %d: %w", i, err))
		}
	}
	p.goneErr = errors.Join(errs...)
	close(p.gone)
	return p.goneErr
}
