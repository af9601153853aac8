// Package pool runs functions on n runners, each on the one that is least loaded at that moment.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"github.com/rotahq/rota/pool"
//	)
//
//	func main() {
//		p, err := pool.Lanes(pool.Config{Runners: 4})
//		if err != nil {
//			log.Fatal(err)
//		}
//		const load = 100 // what it will cost, in any unit
//		sum, err := pool.Do(context.Background(), p, load,
//			func(_ context.Context, lane pool.Lane) (int, error) { return 6 * 7, nil })
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(sum)
//		if err := p.Close(); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// A [Runner] is what functions run on, and they are given it: a [Lane] is just a number, so that
// 4 lanes run 4 functions at the same time on their callers' goroutines; a [Child] is a process
// that answers JSON lines ([Command]); anything with a Close can be one, such as a connection to a
// remote worker. A load is what a function is expected to cost, in any unit, as long as it is the
// same for all. There are four verbs: [Pool.Run] and [Do], which gives a typed result, run a
// function on one runner; [Pool.RunEach] and [DoEach] on k distinct ones. [DoOr] is Do with a value
// of the caller's where Do has an error because the time is over.
//
// # Laws
//
// Who is picked. Of the runners that have room, the one with the least load in proportion to its
// weight; among equals the one picked longest ago, so that short functions one after the other, or
// functions of load 0, go round (package balance). [Choice] has others.
//
// Room. A runner is given [Config].Slots functions at a time, one by default, and [Config].Capacity
// of load. Callers who find none wait: first come first served, or, with [Config].HeadStart, the
// heavier first. Waiting ends with the context, and is bounded by [Config].MaxWaiting. A caller
// that needs much holds up those behind it, so that it is served; but not while what it needs is
// stuck or ejected.
//
// Load. A runner's load is the sum of the loads of what runs there, exactly 0 when nothing does. It
// is given back when the function returns, fails, panics or ends its goroutine, and not before. A
// function that outlives its time ([Limit]) keeps its load and its place, and its runner, stuck, is
// given nothing more until it has returned; a child is killed then, and replaced. Whatever happens,
// all capacity is back when all functions have returned.
//
// Faults. A runner that fails fast does not attract work by being free again so soon: the load of
// the failed function goes on counting for a while, longer with every fault in a row
// ([Config].Penalty). Some faults in a row eject it: nothing is given to it, then one function at a
// time as a probe, until one succeeds ([Config].Eject). When more than half of the runners are at
// fault, it is the functions' fault: all count alike, and the work goes on.
//
//	         a fault                  faults in a row                time is over
//	open ─────────────> penalized ─────────────────────> ejected ────────────────> probing
//	  ^  <─────────────     │                               ^                       │   │
//	  │   time is over      │ success                       └───── a fault ──────────┘   │
//	  └─────────────────────┴──────────────────── success ───────────────────────────────┘
//
// Errors. Those of the function reach the caller as they are; a panic does as a [*PanicError]. A
// call that is refused says why and changes nothing: [ErrLoad], [ErrRange], [ErrNoFunction],
// [ErrEmpty], [ErrBusy], [ErrClosed]. After [Pool.Close] nothing starts, and what has started is
// waited for.
//
// [Pool.View] shows all of this as it is at the moment, with reasons.
//
// # Cost
//
// A call costs O(log n) for n runners: one pick and one give-back under the pool's lock, and no
// allocation but for the result of a Do; 0.1 µs for a lone caller on the machine of docs/pool.md,
// which has the figures. It switches goroutines only when it must wait. A call with a limit starts
// a goroutine of its own, since a function that hangs cannot be left in any other way. A runner
// takes about 230 bytes, a caller that waits about 200.
package pool
