package tick

import (
	"math"
	"sync/atomic"
	"time"
)

// idle stands in Timer.due while the timer is not pending.
const idle = math.MaxInt64

// Timer is a call to come. A nil timer may be stopped; any other comes from After or Every.
//
// The owner of due is whoever swaps it: Reset writes it at any time, without the lock. The clock
// looks at it when it visits the place where the timer was filed, and files it again if it has
// moved away. So a deadline may move freely as long as it does not come before that visit.
type Timer struct {
	clock *Clock
	f     func()
	every time.Duration // 0 = once
	due   atomic.Int64  // the deadline, or idle
	visit atomic.Int64  // no later than this the clock looks at due; written under the clock's lock

	// Under the clock's lock: the list that the timer stands in.
	prev, next *Timer
	list       int16

	span atomic.Uint32 // the lowest bits of the duration that led to due; 0 when none did
}

// Reset moves the deadline to d from now, whether the timer is pending, has fired or was stopped;
// at the next beat when d <= 0. A timer of Every goes on from there with its old interval. It
// reports whether the timer was pending. On a pending timer that does not move nearer, all it does
// is an atomic swap, and not even that when another Reset has said the same since the last beat.
func (t *Timer) Reset(d time.Duration) bool {
	due := later(t.clock.now(), d)
	if span := uint32(d); t.span.Load() != span {
		t.span.Store(span)
	} else if t.due.Load() == due {
		return true
	}
	was := t.due.Swap(due)
	if was == idle || due < t.visit.Load() {
		t.clock.file(t)
	}
	return was != idle
}

// Stop keeps the timer from firing and reports whether it was pending. After false the function has
// been called, is being called, or was stopped before; Stop does not wait for it. A stopped timer
// may be Reset.
func (t *Timer) Stop() bool {
	if t == nil {
		return false
	}
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	was := t.due.Swap(idle)
	c.wheel.remove(t)
	return was != idle
}

// Left is the time until the deadline, 0 when it is past, and reports whether the timer is pending.
// What was Reset to a limit by its last sign of life has been silent for the limit less what is
// left.
func (t *Timer) Left() (d time.Duration, pending bool) {
	due := t.due.Load()
	if due == idle {
		return 0, false
	}
	return time.Duration(max(due-t.clock.now(), 0)), true
}
