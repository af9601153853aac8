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
	// Beat is how late a timer may fire; 10 ms when 0 or less. A shorter beat costs more wake-ups,
	// nothing else.
	Beat time.Duration

	// Panic is told what a callback panicked with, and its stack, on the clock's goroutine. The
	// default writes both to slog's default logger. A panic of its own is not caught: it ends Run,
	// or Beat, and harms no other timer.
	Panic func(value any, stack []byte)
}

// ErrRunning is returned by a second Run of a clock that runs already.
var ErrRunning = errors.New("clock runs already")

// When to keep the time for those who ask. Kept, it costs a look per grain, which takes as long as
// some hundred askings; else each asking reads the real clock. It is kept once crowd have asked
// within two grains, and then for busy more.
const (
	crowd = 1000
	busy  = 100
)

// batch is how many timers are visited before others get a turn at the lock.
const batch = 256

// asleep stands in Clock.next while nobody keeps it up to date.
const asleep = -1

// Clock calls functions when their time has come. Make one with New; all methods may be called by
// any goroutine, callbacks included, but Beat only where neither Run nor another Beat is under way.
//
// Instants are counted in nanoseconds since the first beat.
type Clock struct {
	grain time.Duration // from look to look; these stand at its multiples
	// by how much a look may come late before durations that were given are short
	slack  time.Duration
	report func(value any, stack []byte)
	origin time.Time     // of the first beat; written before the first store of next that is not 0
	nudge  chan struct{} // wakes Run
	next   atomic.Int64  // the instant durations count from: not before the present one; or asleep

	_       [64]byte // what is written often is not in the way of those who read the above
	asks    atomic.Int64
	running atomic.Bool // by Run or Beat

	mu    sync.Mutex
	begun bool
	since int64 // asks are counted from this instant
	keep  int   // looks for which Run still keeps next up to date
	// while Run waits longer than for the next look: for the slot of this instant; otherwise 0
	until int64
	late  time.Duration // of the call under way
	wheel wheel
}

// New makes a clock. It stands still until Run or the first Beat: durations given before count from
// there.
func New(c Config) *Clock {
	if c.Beat <= 0 {
		c.Beat = 10 * time.Millisecond
	}
	if c.Panic == nil {
		c.Panic = func(value any, stack []byte) {
			slog.Error("timer callback panicked", "panic", value, "stack", string(stack))
		}
	}
	// A duration counts from at most a grain and the slack later, and its end is seen at most a
	// grain later.
	slack := c.Beat / 5
	// odd: so the lowest 32 bits of a look's instant (wheel.short) come again after 2³² looks only
	grain := max((c.Beat-slack)/2-1, 0) | 1
	return &Clock{
		grain: grain, slack: slack, report: c.Panic, nudge: make(chan struct{}, 1), wheel: wheel{
			grain: int64(grain),
		},
	}
}

// After calls f once, when d has passed; at the next beat when d <= 0.
func (c *Clock) After(d time.Duration, f func()) *Timer { return c.start(d, 0, f) }

// Every calls f each time another d has passed, without drift: the n-th call is due n × d from now,
// however late the calls before it were. Calls missed by a late beat are made up for by one; so
// when d <= 0, f is called at every Beat, or whenever a running clock looks, some 2.5 times per
// Config.Beat.
func (c *Clock) Every(d time.Duration, f func()) *Timer { return c.start(d, max(d, 1), f) }

func (c *Clock) start(d, every time.Duration, f func()) *Timer {
	if f == nil {
		panic("tick: a timer needs a function")
	}
	t := &Timer{clock: c, f: f, every: every}
	t.span.Store(uint32(d))
	t.due.Store(later(c.now(), d))
	c.file(t)
	return t
}

// Pending is the number of timers that are pending.
func (c *Clock) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wheel.filed
}

// Late tells a callback by how much the beat that calls it came after its deadline. For Every that
// is the first deadline since the last call: Late / d calls were missed. It is 0 while no callback
// runs.
//
// More than Config.Beat says that the clock's own process stood still or had no processor to run
// on: then a silence is no proof that the other side was silent.
func (c *Clock) Late() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// Beat calls what is due at now, one function after the other, and returns when all have returned.
// A now before the last one counts as the last one. Run does this by itself; tests and loops that
// have a beat of their own call it instead of Run, and then time is exactly what the last Beat
// said: a duration counts from there, and its function is called by the first Beat that is not
// earlier. 292 years after the first Beat time is over. Beat panics when the clock runs or beats
// already, as it does where a callback is called.
func (c *Clock) Beat(now time.Time) {
	if c.running.Swap(true) {
		panic("tick: Beat of a clock that runs or beats already")
	}
	defer c.running.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(now)
	c.turn(int64(now.Sub(c.origin)))
	c.next.Store(c.wheel.now)
	c.visit()
}

// Run beats until ctx ends, then returns nil. It sleeps until a timer is due, or many ask for the
// time. Timers that are pending when it returns stay so, and fire in the next Run, or Beat; a clock
// that is dropped is garbage, pending timers and all.
func (c *Clock) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	c.resume()
	defer c.pause()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil { // looked at here, too: a timer that is due as well might be chosen below
		c.round()
		if wait, ok := c.rest(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-c.nudge:
		case <-timer.C:
		}
	}
	return nil
}

// resume has Run go on from where the last Beat was, even if that has run ahead of time or was
// centuries ago. From now on nobody sets the clock that counts (time, Monotonic Clocks), whatever
// Beat was given.
func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.begin(now)
	passed := now.Sub(c.origin)
	switch {
	case passed < time.Duration(c.wheel.now), passed == math.MaxInt64:
		passed = time.Duration(c.wheel.now)
	case c.origin != c.origin.Round(0):
		return // it has a monotonic reading
	}
	c.origin = now.Add(-passed)
}

// pause leaves it to those who ask for the time to read the real clock.
func (c *Clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdraw()
}

// withdraw ends what was published as the instant from which durations count, and returns the
// present one. Whoever has relied on it did so until now at the latest: what was published is past
// by so much, and their durations are short by as much.
func (c *Clock) withdraw() (instant int64) {
	published := c.next.Swap(asleep)
	instant = int64(time.Since(c.origin))
	if published != asleep && instant > published {
		c.wheel.stalled(published, time.Duration(instant-published))
	}
	return instant
}

// round is a beat of Run. Until rest nobody knows when the next look will be, and nothing is
// published.
func (c *Clock) round() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(c.withdraw())
	c.visit()
}

// rest is how long Run may wait: until the first slot that is not empty has passed its first grain;
// no longer than a grain while the time is kept; or, when it is not ok, for a nudge. Unless the
// next look is a grain away, those who ask for the time read the real clock.
func (c *Clock) rest() (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instant := int64(time.Since(c.origin))
	next := later(instant-instant%int64(c.grain), c.grain)
	first, ok := c.wheel.first()
	look := later(first, c.grain)
	if c.wanted(instant) || look <= next {
		c.until = 0
		c.next.Store(later(next, c.slack))
		return time.Duration(next - instant), true
	}
	c.until = first
	c.next.Store(asleep)
	return time.Duration(look - instant), ok
}

// wanted reports whether so many ask for the time that it is cheaper to keep it. While it is kept
// nobody counts them, so every now and then it is not.
func (c *Clock) wanted(instant int64) bool {
	asks := c.asks.Load()
	switch {
	case c.keep > 1:
		c.keep--
		return true
	case c.keep == 0 && asks < crowd:
		return false
	case asks >= crowd && instant-c.since <= 2*int64(c.grain):
		c.keep = busy
	default:
		c.keep = 0
	}
	c.since = instant
	c.asks.Store(0)
	return c.keep > 0
}

// now is the instant from which durations count.
func (c *Clock) now() int64 {
	if next := c.next.Load(); next != asleep {
		return next
	}
	return c.ask()
}

// ask reads the real clock.
func (c *Clock) ask() int64 {
	if c.asks.Add(1) == crowd {
		c.wake()
	}
	return int64(time.Since(c.origin))
}

// file brings the timer's place in line with its deadline.
func (c *Clock) file(t *Timer) {
	c.mu.Lock()
	c.wheel.file(t)
	nearer := c.until > 0 && t.visit.Load() < c.until
	c.mu.Unlock()
	if nearer {
		c.wake()
	}
}

func (c *Clock) wake() {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// begin has instants count from the first beat.
func (c *Clock) begin(now time.Time) {
	if !c.begun {
		c.begun, c.origin = true, now
	}
}

// turn brings the wheel to the present, which is not before the last.
func (c *Clock) turn(instant int64) {
	c.visit() // what a callback left behind that ended its goroutine
	c.wheel.turn(max(instant, c.wheel.now))
}

// visit looks at all timers that the wheel has reached and calls those that are due. The caller
// holds the lock; others get it during calls, and now and then between them.
func (c *Clock) visit() {
	for n := 1; ; n++ {
		t := c.wheel.next()
		if t == nil {
			return
		}
		if f, late := c.wheel.visit(t); f != nil {
			c.call(f, late)
		} else if n%batch == 0 {
			c.mu.Unlock()
			c.mu.Lock()
		}
	}
}

// call runs a callback without the lock; the clock outlives its panics.
func (c *Clock) call(f func(), late int64) {
	c.late = time.Duration(late)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.late = 0
	}()
	defer func() {
		if v := recover(); v != nil {
			c.report(v, debug.Stack())
		}
	}()
	f()
}

// later is d after an instant, at most the last one there is; d < 0 counts as 0.
func later(instant int64, d time.Duration) int64 {
	return instant + min(max(int64(d), 0), math.MaxInt64-1-instant)
}
