package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/limits"
)

// storeClock tells what time it is in the store. Whatever is written down with a time has the
// store's, so that the clocks of nodes may differ by any amount: here they only measure how much
// time has passed since the store said what time it is.
type storeClock struct {
	at    time.Time // when it was heard of last, by this process' own clock; zero = never
	store int64     // what it read then, as nearly as is known

	steady int64 // since when, by itself, it has gone steadily, as far as is known here
	// by how much it was put forward then, in microseconds: what was written down before comes so
	// much later
	late int64
}

// stepped is the least difference between the store's clock and this process' own that is a step of
// one of them.
const stepped = 5 * time.Second

// hear takes in what the store's clock read at some moment between asking and being answered. The
// first answer is taken for as old as it can be, so that this clock is behind the store's rather
// than ahead of it: a task that is due now by this clock is due in the store, too, and may be taken
// at once. What is known already stays as far as a later answer allows: a slow one says little, one
// after a jump of either clock says all.
func (c *storeClock) hear(asked, answered time.Time, theirs int64) {
	if c.at.After(answered) { // two that were asked at a time
		return
	}
	low, high := theirs, theirs+answered.Sub(asked).Microseconds()
	now := low
	if c.at.IsZero() {
		c.steady = now
	} else {
		own := c.read(answered)
		now = min(max(own, low), high)
		if step := now - own; step >= stepped.Microseconds() || -step >= stepped.Microseconds() {
			c.steady, c.late = now, max(c.late+step, 0)
		}
	}
	c.at, c.store = answered, now
}

// read is what the store's clock reads at a moment of this process' own.
func (c *storeClock) read(own time.Time) int64 { return c.store + own.Sub(c.at).Microseconds() }

// own is when the store's clock reads at, by this process' own.
func (c *storeClock) own(at int64) time.Time {
	return c.at.Add(time.Duration(at-c.store) * time.Microsecond)
}

// readySince is when a task that was due at a time of the store's clock, and that was handed out
// since, might run; zero when the store's time is none.
func (c *storeClock) readySince(due int64, handed time.Time) time.Time {
	switch t := c.own(due); {
	case t.After(handed): // a clock was set back
		return handed
	case t.Before(limits.MinTime):
		return time.Time{}
	default:
		return t
	}
}

// fromNow is when a store time comes by this process' own clock, when an answer of the store came
// now.
func fromNow(now time.Time, storeNow, at int64) time.Time {
	return now.Add(time.Duration(at-storeNow) * time.Microsecond)
}

// ClockOffset is how far this process' own clock is ahead of the store's.
func (c *core) ClockOffset() time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.release()
	return time.Duration(now.UnixMicro()-c.mem.clock.read(now)) * time.Microsecond
}
