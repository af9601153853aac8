package rota

import (
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// leastStep is the least step of the store's clock that is told of. What is less, a clock that is
// set right makes now and then.
const leastStep = 2 * time.Second

// clockSteps finds steps of the store's clock: between two beats it went by more or less than time
// did, by this process's monotonic clock, which nobody sets. Each beat says between which bounds
// the store's clock was ahead of that one.
type clockSteps struct {
	mu     sync.Mutex
	base   time.Time     // from which the monotonic clock counts; zero = nothing was heard yet
	lo, hi time.Duration // by so much the store's clock is ahead, since base
	sum    time.Duration // of all steps
	n      int
	at     time.Time // when the newest was noticed
	text   string    // what that means
}

// hear takes in what the store's clock read between asking and being answered, and says by how much
// it has stepped; 0 = it has not.
func (c *clockSteps) hear(asked, answered time.Time, theirs int64) (step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := time.UnixMicro(theirs).Sub(time.UnixMicro(0))
	if c.base.IsZero() {
		c.base, c.lo, c.hi = asked, read-answered.Sub(asked), read
		return 0
	}
	lo, hi := read-answered.Sub(c.base), read-asked.Sub(c.base)
	if lo <= c.hi && c.lo <= hi { // a slow answer says less than what is known
		c.lo, c.hi = max(c.lo, lo), min(c.hi, hi)
		return 0
	}
	if gap := max(lo-c.hi, c.lo-hi); gap >= leastStep {
		step = (lo+hi)/2 - (c.lo+c.hi)/2
		c.sum += step
		c.at, c.text = answered, stepText(step, time.UnixMicro(theirs))
		c.n++
	}
	c.lo, c.hi = lo, hi
	return step
}

// stepped is the sum of the steps so far, and how many there were.
func (c *clockSteps) stepped() (sum time.Duration, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum, c.n
}

// stepShown is how long a step is told of by /readyz.
const stepShown = time.Hour

// recent says what is to be known of the newest step; "" = there was none lately.
func (c *clockSteps) recent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 || time.Since(c.at) > stepShown {
		return ""
	}
	return c.text
}

// stepText says what a step means; now is what the store's clock reads after it.
func stepText(step time.Duration, now time.Time) string {
	if step > 0 {
		return fmt.Sprintf("the store's clock went forward by %v: due times of that span are handled now, as each schedule's misfire policy says, "+
			"and not again if the clock goes back", step.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("the store's clock went back by %v: due times up to %s were handled already, so schedules wait until then",
		-step.Round(100*time.Millisecond), now.Add(-step).UTC().Format(time.RFC3339))
}

// stepped tells of a step of the store's clock. Nodes that see the same step tell of it under the
// same key.
func (n *Node) stepped(step time.Duration, theirs int64) {
	now := time.UnixMicro(theirs)
	text := stepText(step, now)
	n.log.Warn("the store's clock has stepped", "by", step.Round(100*time.Millisecond).String(),
		"now", now.UTC().Format(time.RFC3339),
		"mend", "see docs/schedules.md, When a clock steps")
	n.outbox.Add(store.Event{
		Key:  fmt.Sprintf("%s/%v/%d", store.ClockStepped, step.Round(5*time.Second), now.Unix()/60),
		Kind: store.ClockStepped, Text: text,
		Fields: map[string]string{
			"by":  step.Round(100 * time.Millisecond).String(),
			"now": now.UTC().Format(time.RFC3339),
		},
	})
}

// storeClock is what metrics show of the store's clock.
func (n *Node) storeClock() (offset time.Duration, steps int) {
	_, steps = n.steps.stepped()
	return n.clockOffset(), steps
}
