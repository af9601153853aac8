// Package tick is a coarse timer for very many deadlines that mostly never come: silence limits
// that every message moves, timeouts of work that ends in time.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"time"
//
//		"github.com/rotahq/rota/tick"
//	)
//
//	func main() {
//		ctx, stop := context.WithCancel(context.Background())
//		clock := tick.New(tick.Config{})
//		silence := clock.After(150*time.Millisecond, func() {
//			fmt.Println("the worker is lost")
//			stop()
//		})
//		silence.Reset(150 * time.Millisecond) // at any message from the worker
//		clock.Run(ctx)
//	}
//
// # Laws
//
// A [Clock] has one goroutine and one beat (10 ms by default). What holds:
//
//   - Never early. A duration counts from the moment at which it is given, whatever the clock does
//     at that moment, and however late it is: on a starved machine, after a stop of the process.
//   - At most one beat late, as long as the clock's goroutine gets to run within a fifth of a beat
//     after its time. Else calls are late by as much as it is ([Clock.Late]), when a duration is
//     given and when it ends.
//   - Every does not drift. A late beat calls each function once; [Clock.Late] says for how many.
//   - Callbacks run one after the other on the goroutine of Run or Beat, in no particular order
//     within a beat, without a lock held: they may call anything of this package but Beat, and move
//     or stop any timer, their own included. They must be short, since all others wait for them.
//     What takes longer hands over to a goroutine or a channel of its own.
//   - A panic in a callback is reported (Config.Panic) and harms no other timer. One that ends its
//     goroutine (runtime.Goexit) ends Run with it; another Run goes on.
//   - Durations of 0 and less mean the next beat; those beyond 292 years mean that. Time that goes
//     back stands still instead. A nil function, and Beat while the clock runs or beats already,
//     panic; a second Run is refused with [ErrRunning].
//
// # Costs
//
// After, Every, Reset, Stop are O(1), whatever is pending. A Reset that does not bring the deadline
// nearer, the heartbeat's case, is one atomic swap: no lock, no allocation, no look at the system's
// clock. The second one within a beat is not even that; one with another duration than the last
// stores that, too. On a clock that sleeps it reads the system's clock, some 40 ns; when many do
// the clock stays awake.
//
// A pending timer takes 64 bytes beside its function, and no more after a Reset or Stop. A clock
// takes 12 KB.
//
// Nothing to do, nothing done: the goroutine sleeps until a timer is due, however many are pending.
//
// # How
//
// Deadlines stand in a hierarchical timing wheel (Varghese & Lauck 1987) whose grain is two fifths
// of a beat. A timer is filed by its deadline and looked at when the wheel reaches that place; if
// the deadline has moved on it is filed again, so moving a deadline often costs no more than moving
// it once:
//
//	After ──> filed ──── reached ────> due? ── yes ──> call; Every: filed again
//	            ^                        │
//	            └───── moved away ───────┘
//	  Reset later: swap the deadline, leave the place       Reset nearer: swap, then file again
//
// While the clock looks at every grain, it publishes the instant from which durations count: the
// next look, and a fifth of a beat on top, in case it wakes up late. One grain and that fifth until
// the deadline, one grain until the look that finds it: a beat. While it sleeps or calls functions
// it publishes nothing, and who gives a duration reads the system's clock. A look that comes even
// later finds that durations counted from an instant past, and by how much they are short. The
// clock remembers that (8,192 times; then it forgets), and gives it to those timers that it finds
// due and whose deadline less their duration is that instant.
//
// [Clock.Beat] instead of Run makes time an argument, for tests and for loops with a beat of their
// own.
package tick
