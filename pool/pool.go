package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrClosed is returned to calls after Close, and to those that wait for room when it comes.
	ErrClosed = errors.New("pool is closed")
	// ErrEmpty is returned to calls on a pool that was made without runners.
	ErrEmpty = errors.New("pool has no runners")
	// ErrRange is returned when a number is not in its range, such as more runners asked for than
	// there are.
	ErrRange = errors.New("out of range")
	// ErrLoad is returned for a load that is not a number from 0 to MaxLoad, or for which no runner
	// is large enough.
	ErrLoad = errors.New("load out of range")
	// ErrNoFunction is returned for a nil function.
	ErrNoFunction = errors.New("no function to run")
	// ErrBusy is returned when MaxWaiting callers wait already.
	ErrBusy = errors.New("too many callers wait")
	// ErrTimeout is what a call returns whose time is over, unless its Limit says otherwise. The
	// context of its function ends with it as the cause.
	ErrTimeout = errors.New("timed out")
)

// Runner is what functions run on: a lane, a child process, a connection to a remote worker. The
// function is given it and uses it by its own methods. With one slot, the default, it has the
// runner to itself.
type Runner interface {
	// Close frees what the runner holds. It is called once, when nothing runs any more.
	Close() error
}

// Lane is the runner that is nothing but a number, from 0: a place for one more function to run at
// the same time.
type Lane int

// Close does nothing.
func (Lane) Close() error { return nil }

// Pool shares functions out among its runners. Make one with New or Lanes. All methods may be
// called by any goroutine, but a function must not wait for a call on its own pool: it may stand in
// the way of what it waits for.
type Pool[R Runner] struct {
	*places
	runners []R
	limit   Limit
	closing *closing
}

// closing is how the runners' end went.
type closing struct {
	gone chan struct{} // closed when all runners are
	err  error         // readable then
}

// Lanes makes a pool of goroutine lanes: its functions run on their callers' goroutines,
// Config.Runners at the same time.
func Lanes(c Config) (*Pool[Lane], error) {
	if c.Fault == nil {
		// there is nothing about a number that could break
		c.Fault = func(error) bool { return false }
	}
	return New(c, func(i int) (Lane, error) { return Lane(i), nil })
}

// New makes a pool of runners of any kind. The factory makes runner i, counted from 0; when it
// fails, panics, or ends its goroutine, the runners made before are closed.
func New[R Runner](c Config, factory func(i int) (R, error)) (*Pool[R], error) {
	err := c.validate()
	if factory == nil {
		err = errors.Join(err, fmt.Errorf("factory: %w", ErrNoFunction))
	}
	if err != nil {
		return nil, fmt.Errorf("make pool: %w", err)
	}
	c = c.withDefaults()
	p := &Pool[R]{
		places: newPlaces(c), limit: c.Limit, closing: &closing{gone: make(chan struct{})},
	}
	whole := false
	defer func() {
		if !whole {
			p.Close()
		}
	}()
	for i := range c.Runners {
		r, err := made(factory, i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make runner %d: %w", i, err), p.Close())
		}
		p.runners = append(p.runners, r)
	}
	whole = true
	return p, nil
}

// made is what the factory makes; its panic is an error.
func made[R Runner](factory func(i int) (R, error), i int) (r R, err error) {
	defer catch(&err)
	return factory(i)
}

// Len is the number of runners; it never changes.
func (p *Pool[R]) Len() int { return len(p.all) }

// Limited is the same pool with another limit for calls through it.
func (p *Pool[R]) Limited(l Limit) *Pool[R] {
	limited := *p
	limited.limit = l
	return &limited
}

// Run calls f on the runner that is chosen, waits for it, and returns its error. With a limit it
// returns as soon as the time is over or ctx ends; f, whose context ends then too, may take longer,
// and keeps its runner for as long.
func (p *Pool[R]) Run(ctx context.Context, load float64, f func(context.Context, R) error) error {
	switch {
	case f == nil:
		return ErrNoFunction
	case p.limit.Timeout != 0:
		return p.runLimited(ctx, cmp.Or(load, p.conf.DefaultLoad), f)
	}
	load = cmp.Or(load, p.conf.DefaultLoad)
	var at [1]*place
	if err := p.take(ctx, load, at[:]); err != nil {
		return err
	}
	return p.run(ctx, &stay{at: at[0], load: load}, f)
}

func (p *Pool[R]) runLimited(
	callers context.Context, load float64, f func(context.Context, R) error,
) error {
	ctx, cancel, err := p.limit.start(callers)
	if err != nil {
		return err
	}
	defer cancel()
	var at [1]*place
	if err := p.take(ctx, load, at[:]); err != nil {
		return p.limit.result(callers, ctx, err)
	}
	return p.runApart(callers, ctx, &stay{at: at[0], load: load}, f)
}

// RunEach calls f at the same time on the k runners that are chosen, distinct ones, with the number
// of the pick, from 0, and waits for all. It returns their errors, joined in the order of the
// picks. One that fails does not end the others.
func (p *Pool[R]) RunEach(
	ctx context.Context, k int, load float64, f func(ctx context.Context, r R, i int) error,
) error {
	switch {
	case f == nil:
		return ErrNoFunction
	case k < 1 || k > max(p.Len(), 1): // a pool without any says so itself
		return fmt.Errorf("run on %d of %d runners: %w", k, p.Len(), ErrRange)
	}
	callers := ctx
	ctx, cancel, err := p.limit.start(callers)
	if err != nil {
		return err
	}
	defer cancel()
	load = cmp.Or(load, p.conf.DefaultLoad)
	places := make([]*place, k)
	if err := p.take(ctx, load, places); err != nil {
		return p.limit.result(callers, ctx, err)
	}
	errs := make([]error, k)
	var runs sync.WaitGroup
	for i, at := range places {
		runs.Go(func() {
			errs[i] = errExited // unless it returns
			errs[i] = p.runApart(callers, ctx, &stay{at: at, load: load},
				func(ctx context.Context, r R) error {
					return f(ctx, r, i)
				})
		})
	}
	runs.Wait()
	return errors.Join(errs...)
}

// Do is Run for a function with a result, which is the zero value when f has not returned in time.
func Do[T any, R Runner](
	ctx context.Context, p *Pool[R], load float64, f func(context.Context, R) (T, error),
) (result T, err error) {
	if f == nil {
		return result, ErrNoFunction
	}
	var given atomic.Pointer[T] // f may return later than Run
	err = p.Run(ctx, load, func(ctx context.Context, r R) error {
		v, err := f(ctx, r)
		given.Store(&v)
		return err
	})
	if v := given.Load(); v != nil {
		result = *v
	}
	return result, err
}

// DoOr is Do with a value in place of an error when the time of the pool's Limit is over: then the
// result is what or answers, on the caller's goroutine; a panic of it is a *PanicError. Limit's own
// OnTimeout is not asked, unless or is nil. Without a Timeout it is Do.
func DoOr[T any, R Runner](
	ctx context.Context, p *Pool[R], load float64, f func(context.Context, R) (T, error),
	or func() (T, error),
) (result T, err error) {
	if or == nil {
		return Do(ctx, p, load, f)
	}
	var instead T
	over := false
	limited := p.Limited(Limit{Timeout: p.limit.Timeout, OnTimeout: func() (err error) {
		over = true
		instead, err = or()
		return err
	}})
	if result, err = Do(ctx, limited, load, f); over { // f may have returned since
		result = instead
	}
	return result, err
}

// DoEach is RunEach for a function with a result: k of them in the order of the picks, the zero
// value for those that have not returned in time. It gives none when nothing ran.
func DoEach[T any, R Runner](
	ctx context.Context, p *Pool[R], k int, load float64,
	f func(ctx context.Context, r R, i int) (T, error),
) ([]T, error) {
	if f == nil {
		return nil, ErrNoFunction
	}
	given := make([]atomic.Pointer[T], min(max(k, 0), p.Len()))
	var ran atomic.Bool
	err := p.RunEach(ctx, k, load, func(ctx context.Context, r R, i int) error {
		ran.Store(true)
		v, err := f(ctx, r, i)
		given[i].Store(&v)
		return err
	})
	if !ran.Load() {
		return nil, err
	}
	results := make([]T, k)
	for i := range given {
		if v := given[i].Load(); v != nil {
			results[i] = *v
		}
	}
	return results, err
}

// Close lets nothing more start, waits until all functions have returned, hung ones included, and
// closes the runners, all at the same time. It returns their errors, joined; a second Close waits
// as well and returns the same.
func (p *Pool[R]) Close() error {
	if !p.places.close() {
		<-p.closing.gone
		return p.closing.err
	}
	errs := make([]error, len(p.runners))
	var closes sync.WaitGroup
	for i, r := range p.runners {
		closes.Go(func() {
			defer catch(&errs[i])
			if err := r.Close(); err != nil {
				errs[i] = fmt.Errorf("close runner %d: %w", i, err)
			}
		})
	}
	closes.Wait()
	p.closing.err = errors.Join(errs...)
	close(p.closing.gone)
	return p.closing.err
}
