package contract

import (
	"sync"
	"time"
)

// Clock is the clock that the suite hands to a store: it stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that stands at the first of March 2026, noon UTC.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now is the time at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Micros is the time as stores count it.
func (c *Clock) Micros() int64 { return c.Now().UnixMicro() }
