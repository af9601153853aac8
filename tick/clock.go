package tick

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a clock. The zero value is useful.
type Config struct {
	// Beat is how late a timer may fire; 10 ms when 0. A shorter beat costs more wake-ups, nothing else.
	Beat time.Duration

	// Panic is told what a callback panicked with, and its stack, on the clock's goroutine. The default
	// writes both to slog's default logger.
	Panic func(value any, stack []byte)
}

// ErrRunning is returned by a second Run of a clock that runs already.
var ErrRunning = errors.New("clock runs already")

// sight is how many grains ahead a clock must see nothing to look at before it sleeps. Beating
// keeps Reset cheap, sleeping keeps an idle process idle.
const sight = 100

// asleep stands in Clock.next while nobody keeps it up to date.
const asleep = -1

// Clock calls functions when their time has come. Make one with New; all methods may be called by any
// goroutine, callbacks included, but Beat only where Run does not run.
//
// Instants are counted in nanoseconds since the first beat.
type Clock struct {
	grain   time.Duration // from beat to beat of Run: half of Config.Beat, see the package comment
	report  func(value any, stack []byte)
	running atomic.Bool
	origin  time.Time     // of the first beat; written before the first store of next that is not 0
	next    atomic.Int64  // the instant durations count from: not before the present one; or asleep
	nudge   chan struct{} // wakes the sleeper: something nearer was filed

	mu    sync.Mutex
	begun bool
	until int64 // while Run waits longer than for the next beat: until when; otherwise 0
	wheel wheel
}

// New makes a clock. It stands still until Run or the first Beat: durations given before count from there.
func New(c Config) *Clock {
	if c.Beat <= 0 {
		c.Beat = 10 * time.Millisecond
	}
	if c.Panic == nil {
		c.Panic = func(value any, stack []byte) {
			slog.Error("timer callback panicked", "panic", value, "stack", string(stack))
		}
	}
	grain := max(c.Beat/2, 1)
	return &Clock{grain: grain, report: c.Panic, nudge: make(chan struct{}, 1), wheel: wheel{grain: int64(grain)}}
}

// After calls f once, when d has passed; at the next beat when d <= 0.
func (c *Clock) After(d time.Duration, f func()) *Timer { return c.start(d, 0, f) }

// Every calls f each time another d has passed, without drift: the n-th call is due n × d from now,
// however late the calls before it were. Calls missed by a late beat are made up for by one; so when
// d <= 0, f is called at every beat.
func (c *Clock) Every(d time.Duration, f func()) *Timer { return c.start(d, max(d, 1), f) }

func (c *Clock) start(d, every time.Duration, f func()) *Timer {
	if f == nil {
		panic("tick: a timer needs a function")
	}
	t := &Timer{clock: c, f: f, every: every}
	t.due.Store(later(c.now(), d))
	c.file(t)
	return t
}

// Beat calls what is due at now, one function after the other, and returns when all have returned. A now
// before the last one counts as the last one. Run does this by itself; tests and loops that have a beat of
// their own call it instead of Run, and then time is exactly what the last Beat said: a duration counts
// from there, and its function is called by the first Beat that is not earlier.
func (c *Clock) Beat(now time.Time) { c.beat(now, 0) }

// beat is Beat for an owner who promises the next one after ahead.
func (c *Clock) beat(now time.Time, ahead time.Duration) {
	c.mu.Lock()
	if !c.begun {
		c.begun, c.origin = true, now
	}
	instant := max(int64(now.Sub(c.origin)), c.wheel.now)
	c.wheel.turn(instant)
	c.next.Store(later(instant, ahead))
	for f := c.wheel.due(); f != nil; f = c.wheel.due() {
		c.mu.Unlock()
		c.call(f)
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// call runs a callback; the clock outlives its panics.
func (c *Clock) call(f func()) {
	defer func() {
		if v := recover(); v != nil {
			c.report(v, debug.Stack())
		}
	}()
	f()
}

// Run beats until ctx ends, then returns nil. It sleeps while no timer is in sight. Timers that are pending
// when it returns stay so, and fire in the next Run, or Beat.
func (c *Clock) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	defer c.next.Store(asleep)

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.beat(time.Now(), c.grain)
		if wait, ok := c.rest(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.nudge:
		case <-timer.C:
		}
	}
}

// rest is how long Run may wait: to the next beat, or until something comes in sight, or, when it is not ok,
// for a nudge. Unless it is the next beat, nobody keeps c.next up to date meanwhile, and those who ask for
// the time read the real clock.
func (c *Clock) rest() (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instant, grain := int64(time.Since(c.origin)), int64(c.grain)
	c.until = 0
	first, ok := c.wheel.first()
	if ok && first-instant < sight*grain {
		return time.Duration(grain - instant%grain), true
	}
	c.until = first
	c.next.Store(asleep)
	return time.Duration(first - instant), ok
}

// now is the instant from which durations count.
func (c *Clock) now() int64 {
	if next := c.next.Load(); next != asleep {
		return next
	}
	return int64(time.Since(c.origin))
}

// file brings the timer's place in line with its deadline.
func (c *Clock) file(t *Timer) {
	c.mu.Lock()
	c.wheel.file(t)
	wake := c.until > 0 && t.visit.Load() < c.until
	c.mu.Unlock()
	if wake {
		select {
		case c.nudge <- struct{}{}:
		default:
		}
	}
}

// later is d after an instant, at most the last one there is; d < 0 counts as 0.
func later(instant int64, d time.Duration) int64 {
	return instant + min(max(int64(d), 0), math.MaxInt64-1-instant)
}
