package pool

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// MaxLoad is the largest load of one function; sums of whole loads stay exact.
const MaxLoad = 1e12

// Choice says which of the runners that have room is picked.
type Choice uint8

const (
	// LeastLoaded picks the one whose load is smallest in proportion to its weight, exactly; among
	// equals the one picked longest ago. O(log n) for n runners.
	LeastLoaded Choice = iota
	// TwoChoices draws two and picks the less loaded of them (Mitzenmacher 2001); O(1) while one of
	// the two has room, otherwise O(n). Every pool draws the same numbers, so that equal calls have
	// equal picks.
	TwoChoices
	// Weighted picks the one that has been given the least in its life, in proportion to its
	// weight, whatever it carries now (stride scheduling, Waldspurger and Weihl 1995). O(log n).
	Weighted
)

var choices = [...]string{
	LeastLoaded: "least loaded", TwoChoices: "two choices", Weighted: "weighted",
}

func (c Choice) String() string {
	if int(c) < len(choices) {
		return choices[c]
	}
	return fmt.Sprintf("Choice(%d)", uint8(c))
}

// Config of a pool.
type Config struct {
	Runners int // how many; a pool of 0 answers every call with ErrEmpty
	// how large runner i is in proportion to the others, from 1/MaxLoad to MaxLoad; 1 each when nil
	Weights []float64
	Choice  Choice // of the runner; LeastLoaded when 0

	// Slots is how many functions a runner of weight 1 is given at a time; 1 when 0, no bound when
	// negative. One of weight w is given w times as many, rounded down, but at least one.
	Slots int
	// Capacity is how much load a runner of weight 1 is given at a time, one of weight w w times as
	// much; no bound when 0. A function that is too large for every runner is refused with ErrLoad.
	// Where the one of first choice has no room for a load the others are looked through: O(n).
	Capacity float64

	// DefaultLoad is the load of functions that are given 0, from 0 to MaxLoad. When it is 0, so is
	// theirs: functions of load 0 go round.
	DefaultLoad float64

	MaxWaiting int // callers that may wait for room; no bound when 0, none may when negative
	// HeadStart is how much earlier a caller counts as having come for each unit of its load: who
	// waits longest, the head start included, goes first. First come first served when 0; a large
	// one puts the heaviest first, which ends a mixture soonest. Nobody starves: in time anybody
	// has waited longest.
	HeadStart time.Duration

	Limit Limit // of every call; Pool.Limited sets another

	// Penalty is how long a runner's first fault speaks against it: the load of the function goes
	// on counting as if it still ran. Each further fault in a row doubles that, six times at most.
	// 1 s when 0, not at all when negative.
	Penalty time.Duration
	// Eject is the number of faults in a row from which a runner is given nothing at all while they
	// speak against it, and after that one function at a time until one succeeds. 5 when 0, never
	// when negative. When that would be more than half of the runners, the fault is not theirs, and
	// none is ejected.
	Eject int
	// Fault says whether an error of a function is a fault of its runner; errors after the end of
	// the function's context never are. When nil, lanes are never at fault, other runners with
	// every error; but children are not with a ChildError, nor with a request or a result that its
	// caller cannot encode or decode. It is called by any goroutine.
	Fault func(error) bool
}

// Limit is how long a call may take, waiting included.
type Limit struct {
	Timeout time.Duration // no limit when 0
	// OnTimeout gives the call's result when the time is over; ErrTimeout when nil. RunEach asks
	// for each function that has not returned, on goroutines of their own; a panic is a
	// *PanicError.
	OnTimeout func() error
}

// validate names everything that is wrong.
func (c *Config) validate() error {
	var wrong []error
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf(format+": %w", append(args, ErrRange)...))
	}
	if c.Runners < 0 {
		bad("Runners %d", c.Runners)
	}
	if c.Weights != nil && len(c.Weights) != c.Runners {
		bad("Weights of %d runners, not %d", len(c.Weights), c.Runners)
	}
	for i, w := range c.Weights {
		if !(1/MaxLoad <= w && w <= MaxLoad) { // NaN is neither; a load by weight stays finite
			bad("Weights[%d] %v", i, w)
		}
	}
	if c.Choice > Weighted {
		bad("Choice %d", uint8(c.Choice))
	}
	if !(0 <= c.Capacity && c.Capacity <= math.MaxFloat64) {
		bad("Capacity %v", c.Capacity)
	}
	if !(0 <= c.DefaultLoad && c.DefaultLoad <= MaxLoad) {
		bad("DefaultLoad %v", c.DefaultLoad)
	}
	if c.HeadStart < 0 {
		bad("HeadStart %v", c.HeadStart)
	}
	if c.Limit.Timeout < 0 {
		bad("Limit.Timeout %v", c.Limit.Timeout)
	}
	return errors.Join(wrong...)
}

// doublings is how often further faults double a penalty.
const doublings = 6

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 1)
	// doubled, it stays a duration
	c.Penalty = min(cmp.Or(c.Penalty, time.Second), math.MaxInt64>>doublings)
	if c.Eject = cmp.Or(c.Eject, 5); c.Eject < 0 || c.Penalty < 0 {
		c.Eject = math.MaxInt
	}
	if c.Fault == nil {
		c.Fault = func(err error) bool {
			_, answered := errors.AsType[ChildError](err)
			_, callers := errors.AsType[callersError](err)
			return !answered && !callers
		}
	}
	return c
}

// slots is how many functions a runner of weight w takes at a time.
func (c *Config) slots(w float64) int {
	if n := float64(c.Slots) * w; c.Slots > 0 && n < math.MaxInt32 {
		return max(int(n), 1)
	}
	return math.MaxInt
}

// capacity is how much load a runner of weight w takes at a time.
func (c *Config) capacity(w float64) float64 {
	if c.Capacity == 0 {
		return math.Inf(1)
	}
	return c.Capacity * w
}
