// Package tick is a coarse timer for very many deadlines that mostly never come: silence limits that every
// message moves, timeouts of work that ends in time.
//
//	clock := tick.New(tick.Config{})
//	go clock.Run(ctx)
//	silence := clock.After(15*time.Second, func() { lost(worker) })
//	silence.Reset(15 * time.Second) // any message from the worker
//
// A [Clock] has one goroutine and one beat (10 ms by default). What holds:
//
//   - Never early, at most one beat late. A beat is two looks at the time: a duration given between two looks
//     counts from the second, and its end is found by the first look at or after it. Each costs at most half
//     a beat.
//   - After, Every, Reset, Stop are O(1), whatever is pending. A Reset that does not bring the deadline nearer,
//     the heartbeat's case, is one atomic swap: no lock, no allocation, no look at the system's clock.
//   - Every does not drift. A late beat calls each function once.
//   - Callbacks run one after the other on the goroutine of Run or Beat, in no particular order within a beat,
//     without a lock held: they may call anything of this package but Beat and Run. They must be short, since
//     all others wait for them. What takes longer hands over to a goroutine or a channel of its own.
//   - A panic in a callback is reported (Config.Panic) and harms no other timer.
//   - Nothing to do, nothing done: when no timer is in sight the goroutine sleeps until one is.
//   - A pending timer takes 64 bytes beside its function, and no more after a Reset or Stop.
//
// These hold for a clock whose goroutine gets to run. On a starved machine calls are late by as much as the
// goroutine is, and durations given meanwhile count from when it should have looked.
//
// Deadlines stand in a hierarchical timing wheel (Varghese & Lauck 1987). A timer is filed by its deadline and
// looked at when the wheel reaches that place; if the deadline has moved on it is filed again, so moving a
// deadline often costs no more than moving it once:
//
//	After ──> filed ──── reached ────> due? ── yes ──> call; Every: filed again
//	            ^                        │
//	            └───── moved away ───────┘
//	  Reset later: swap the deadline, leave the place       Reset nearer: swap, then file again
//
// [Clock.Beat] instead of Run makes time an argument, for tests and for loops with a beat of their own.
package tick
