package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
)

// Fault is how one call fails.
type Fault uint8

const (
	None   Fault = iota // not at all
	Before              // nothing is done; the answer is ErrFault
	After               // it is done, and the answer is store.ErrUnknown
	Hang                // nothing is done, and there is no answer until the caller's context ends
)

// ErrFault answers a call that failed before it did anything.
var ErrFault = errors.New("fault")

// ErrAway answers a call that does not reach the store.
var ErrAway = fmt.Errorf("away: %w", store.ErrOutOfReach)

// Plan says how the n-th write (from 0) of a store fails.
type Plan func(n int) Fault

// Script makes the first writes fail as listed, and no later one.
func Script(faults ...Fault) Plan {
	return func(n int) Fault {
		if n < len(faults) {
			return faults[n]
		}
		return None
	}
}

// Seeded makes about one write in every fail, in both ways alike. The same seed gives the same
// faults.
func Seeded(seed uint64, every int) Plan {
	return func(n int) Fault {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		if r.IntN(every) != 0 {
			return None
		}
		return Before + Fault(r.IntN(2))
	}
}

// New is a door to a store whose writes fail by plan, whatever their verbs. Reads work.
func New(s contract.Store, plan Plan) *Door {
	d := NewDoor(s)
	d.plan = plan
	return d
}

// Each makes every call of some verbs fail, for [Door.Fail].
func Each(kind Fault, verbs ...string) func(verb string) Fault {
	return func(verb string) Fault {
		if slices.Contains(verbs, verb) {
			return kind
		}
		return None
	}
}

// Nth makes the n-th (from 0) of all calls of some verbs fail, for [Door.Fail] and
// [Door.CrashAt]. Doors that share it count together.
func Nth(n int, kind Fault, verbs ...string) func(verb string) Fault {
	var calls atomic.Int64
	return func(verb string) Fault {
		if !slices.Contains(verbs, verb) || calls.Add(1) != int64(n+1) {
			return None
		}
		return kind
	}
}
