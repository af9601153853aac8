package worker

import (
	"context"
	"sync"
	"time"
)

// handContext is a handler's context. What costs time of it, its place under the worker's context
// and the timer of its deadline, is made when the handler first looks; many handlers never do, and
// for a task of a microsecond that is half of all work.
type handContext struct {
	work context.Context // the worker's
	hand *hand

	once  sync.Once
	inner context.Context
	stop  context.CancelFunc // of the deadline
}

// made is the context behind c.
func (c *handContext) made() context.Context {
	c.once.Do(func() {
		ctx, cancel := context.WithCancelCause(c.work)
		c.inner, c.stop = ctx, func() {}
		if d := c.hand.task.Deadline; !d.IsZero() {
			c.inner, c.stop = context.WithDeadlineCause(ctx, d, ErrDeadline)
		}
		mu := &c.hand.worker.mu
		mu.Lock()
		defer mu.Unlock()
		c.hand.cancel = cancel
		switch {
		case c.hand.stopped != nil:
			cancel(c.hand.stopped)
		case c.hand.over: // somebody that the handler left behind looks
			cancel(nil)
			c.stop()
		}
	})
	return c.inner
}

// end ends the context with the handler and answers why it had ended before, if it had.
func (c *handContext) end() error {
	mu := &c.hand.worker.mu
	mu.Lock()
	c.hand.over = true
	cancel, cause := c.hand.cancel, c.hand.stopped
	mu.Unlock()
	if cancel == nil { // never looked at
		if cause == nil {
			cause = context.Cause(c.work)
		}
		return cause
	}
	cause = context.Cause(c.inner)
	c.stop()
	cancel(nil)
	return cause
}

func (c *handContext) Deadline() (time.Time, bool) {
	return c.hand.task.Deadline, !c.hand.task.Deadline.IsZero()
}

func (c *handContext) Done() <-chan struct{} { return c.made().Done() }

func (c *handContext) Err() error { return c.made().Err() }

func (c *handContext) Value(key any) any {
	if key == (workKey{}) {
		return c.hand
	}
	return c.made().Value(key)
}
