package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a function that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where, as debug.Stack writes it
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the error that the function panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errExited is the error of a function that ended its goroutine instead of returning.
var errExited = errors.New("function called runtime.Goexit")

// lane is the default runner: its functions take turns, first come first served, each on its caller's goroutine.
type lane chan struct{}

func (l lane) Run(ctx context.Context, f func(context.Context) error) error {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l }()
	return f(ctx)
}

func (lane) Close() error { return nil }

// start begins the time of a call.
func (l Limit) start(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, l.Timeout, ErrTimeout)
}

// result is what becomes of a call that ends with err, ctx being the one that start gave.
func (l Limit) result(ctx context.Context, err error) error {
	switch {
	case l.Timeout == 0 || err == nil || context.Cause(ctx) != ErrTimeout:
		return err
	case l.OnTimeout == nil:
		return ErrTimeout
	}
	return l.OnTimeout()
}

// run runs f where it was given a place. With a timeout f gets a goroutine of its own, since a function
// that hangs can be left in no other way; Close waits for it.
func (p *Pool) run(ctx context.Context, at *place, load float64, limit Limit, f func(context.Context) error) error {
	if limit.Timeout == 0 {
		return p.runHere(ctx, at, load, f)
	}
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { done <- err }()
		err = p.runHere(ctx, at, load, f)
	}()
	select {
	case err := <-done:
		return limit.result(ctx, err)
	case <-ctx.Done():
		return limit.result(ctx, context.Cause(ctx))
	}
}

// runHere runs f and gives the place back, whatever f does.
func (p *Pool) runHere(ctx context.Context, at *place, load float64, f func(context.Context) error) (err error) {
	defer func() { p.give(at, load, err == nil, ctx.Err() != nil) }()
	defer catch(&err)
	return at.runner.Run(ctx, func(ctx context.Context) (err error) {
		defer catch(&err)
		return f(ctx)
	})
}

// catch, deferred, turns a panic into an error.
func catch(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{v, debug.Stack()}
	}
}
