// Package place decides which worker runs what, for work that has no end: jobs that must always run
// on several different workers at once, within what each worker can carry, while workers come, go
// and tire. It is pure: no I/O, no clock, no luck; the same values give the same plan on every
// machine, in whatever order they stand.
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/rotahq/rota/place"
//	)
//
//	func main() {
//		state := place.State{ // what there is, and what runs now
//			Jobs:    []place.Job{{Name: "feed", Load: place.Unit}},
//			Workers: []place.Worker{{Name: "a", Capacity: 4 * place.Unit}},
//		}
//		plan, err := place.Compute(state, place.Policy{Replicas: 2})
//		if err != nil {
//			log.Fatal(err)
//		}
//		for _, s := range plan.Start {
//			fmt.Println("start", s.Job, s.Replica, "on", s.Worker)
//		}
//		for _, p := range plan.Pending {
//			fmt.Println(p.Job, p.Replica, "waits:", p.Reason)
//		}
//	}
//
// It answers three questions:
//
//	plan, err := place.Compute(state, policy)   // what runs now → what to start, stop and move, and what waits, and why
//	e, err := place.Explain(state, policy, job) // why a job is where it is, or why it waits, and what would change that
//	b, err := place.FaultBudget(state, policy)  // how many workers can die with every replica still placeable
//
// A [State] is what there is: jobs, workers that live, and which replica runs where. A [Plan] is
// what to do now. The caller carries it out, looks at what runs, and asks again; nothing is
// remembered in between, so that whatever was lost, doubled or late on the way is made good by the
// next plan. A what-if is a plan for a state that one has changed oneself.
//
// # What is wanted
//
// In this order, and never the lesser at the cost of the greater:
//
//  1. No worker gets more than its capacity, and none two replicas of one job. What is still ending
//     or moving away counts on both.
//  2. As many replicas run as can: as many jobs as possible have a first replica, then as many as
//     possible a second, and so on.
//  3. A job's replicas are in different zones, where workers say one and as far as there is room
//     ([Policy].Zones).
//  4. What is to leave its worker leaves: because the job failed there, a label is missing, or the
//     worker drains or sheds a part of what it has.
//  5. The shares of capacity in use are even: nothing could be moved to a worker where the share
//     would, with it, be smaller than the share is where it runs. With equal loads and capacities
//     no worker has two replicas more than another.
//  6. As little as possible moves.
//
// A replica goes to the worker with the largest free share of its capacity, counted with the
// replica there (the rule by which d'Hondt gives seats to parties, so that a small worker is not
// filled before a large one is begun); of equals, to the one with fewer replicas, then by zone and
// name.
//
// # How
//
//	           Start                     Stop
//	pending ──────────▶ running ─────────────────────▶ going ──▶ gone
//	   ▲                  │  ▲                            ▲
//	   └──────────────────┘  │ the new one runs: Stop     │
//	      its worker died    └── Moving on From, starting on To (Move)
//
// Compute first makes a goal, the world once all that leaves is gone, and then plans what of it can
// be done beside all that is still there; the rest waits, with that reason, for the next plan. It
// fills in what has no place, level by level: all first replicas, then all second ones. What finds
// no room gets it by a chain of moves (b goes from w to v, so that a can go to w), found by the
// shortest augmenting path; or else the room of a job that has at least two replicas more than this
// one. Then it vacates and evens out. A tournament tree finds the best worker with room, so that n
// placements among W workers cost n log W.
//
// # Limits
//
// [Policy].Moves bounds how many replicas a plan moves: room for others, drains and balance, in
// that order. What runs nowhere is no move: after a death all is placed at once, within
// [Policy].New replicas started or moved to one worker in one plan, which keeps a joining worker
// from being flooded. A replica that should leave and cannot, stays: nothing is stopped for a
// drain, a label or a zone, nor for what a worker is to shed. Stopped is only what nobody wants,
// what is above capacity, and what yields to a first replica.
//
// # Laws
//
// The tests of this package, told from what runs and not from what plans say of themselves, check
// that through deaths, joins, drains, failures, changed loads, changed capacities and false claims
// of workers:
//
//   - each plan keeps to capacity, distinct workers, selectors, penalties and both limits, and
//     names each wanted replica exactly once;
//   - carried out again and again, plans become empty and stay so; from nothing, one plan without
//     limits is enough;
//   - nothing waits that some worker could take; nothing shares a zone, or stays where it is not to
//     be, that some worker better could take;
//   - a lost worker moves only its own replicas, unless those alone would leave two others uneven;
//     a restart moves nothing; a worker that joins n others gets at most ⌊J/(n+1)⌋ of J unit
//     replicas.
//
// With equal loads placement is exact: if any assignment runs a set of replicas, the plans arrive
// at one. So is movement, without zones: of all ways to as many replicas of each job, and as even
// ones, theirs ends the fewest. A test compares with all assignments of all clusters of up to four
// workers, four jobs and three replicas. In larger ones with unequal capacities there are rare
// states from which one replica more is moved than need be: 8 of 20,000 random ones of five workers
// and up to six jobs, of which a test keeps those 8.
//
// With unequal loads this is bin packing, and the search is bounded: a chain moves one replica per
// worker and looks at each worker once. What cannot be placed so waits, though a cleverer packing
// might have placed it. Balance is made by single moves there, each of which makes two shares more
// even: no single move is left that would, though an exchange of two might.
package place
