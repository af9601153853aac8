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

// start begins the time of a call.
func (l Limit) start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case l.Timeout < 0:
		return nil, nil, fmt.Errorf("timeout %v: %w", l.Timeout, ErrRange)
	case l.Timeout == 0:
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.Timeout, ErrTimeout)
	return ctx, cancel, nil
}

// result is what becomes of a call that ends with err, ctx being the one that start gave for the
// caller's. That may have ended by an ErrTimeout, too: another pool's. A panic of OnTimeout is the
// result, since where several functions run it would be nobody's.
func (l Limit) result(callers, ctx context.Context, err error) (result error) {
	switch {
	case l.Timeout == 0 || err == nil || callers.Err() != nil || context.Cause(ctx) != ErrTimeout:
		return err
	case l.OnTimeout == nil:
		return ErrTimeout
	}
	defer catch(&result)
	return l.OnTimeout()
}

// runApart is run that returns when ctx ends, if there is a limit. For that f gets a goroutine of
// its own, since a function that hangs can be left in no other way; Close waits for it.
func (p *Pool[R]) runApart(
	callers, ctx context.Context, s *stay, f func(context.Context, R) error,
) error {
	if p.limit.Timeout == 0 {
		return p.run(ctx, s, f)
	}
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { done <- err }()
		err = p.run(ctx, s, f)
	}()
	select {
	case err := <-done:
		return p.limit.result(callers, ctx, err)
	case <-ctx.Done():
		p.leave(s)
		return p.limit.result(callers, ctx, context.Cause(ctx))
	}
}

// run runs f and gives its place back, whatever f does.
func (p *Pool[R]) run(ctx context.Context, s *stay, f func(context.Context, R) error) (err error) {
	err = errExited
	defer func() { p.judge(ctx, s, err) }()
	defer catch(&err)
	return f(ctx, p.runners[s.at.number])
}

// catch, deferred, turns a panic into an error.
func catch(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{v, debug.Stack()}
	}
}

// judge gives a function's place back with what its end says of the runner.
func (p *places) judge(ctx context.Context, s *stay, err error) {
	switch {
	case err == nil:
		p.give(s, nil, false)
	case ctx.Err() != nil: // the end was ours
		p.give(s, nil, true)
	default:
		fault := errExited
		defer func() { p.give(s, fault, false) }()
		fault = p.fault(err)
	}
}

// fault is what speaks against a runner whose function returned err. A Fault that panics does, or
// one that ends its goroutine, so that nothing is lost.
func (p *places) fault(err error) (fault error) {
	defer catch(&fault)
	if p.conf.Fault(err) {
		return err
	}
	return nil
}
