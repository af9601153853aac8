// Package task holds the vocabulary of finite work, and nothing else: no I/O, no clock, no luck.
//
//	package main
//
//	import (
//		"errors"
//		"fmt"
//		"time"
//
//		"github.com/rotahq/rota/task"
//	)
//
//	// Order is what tasks of charge carry, and Parcel what they carry in their second stage.
//	type (
//		Order  struct{ Number, Cents int }
//		Parcel struct{ To string }
//	)
//
//	var (
//		charge = task.Define[Order]("orders")
//		ship   = task.Type[Parcel]{Queue: "orders", Stage: "ship"}
//	)
//
//	// handle is a function from what is handed out to what became of it.
//	func handle(t task.Task[Order]) task.Outcome {
//		if t.Args.Cents == 0 {
//			return task.Fail(errors.New("nothing to pay")) // for good
//		}
//		return ship.Next(Parcel{To: "ada"})
//	}
//
//	func main() {
//		s := charge.New(Order{7, 1999}, task.Submission{Key: "order-7", Delay: time.Minute})
//		fmt.Println(s.Queue, string(s.Context)) // for Submit of a node or a client
//
//		// as a worker does
//		t, err := charge.Read(task.Handout{Context: s.Context, Attempt: 1})
//		if err != nil {
//			fmt.Println(err)
//			return
//		}
//		fmt.Println(handle(t).Kind)
//	}
//
// A task is made of stages. A worker is handed one stage at a time (a [Handout]), does it, and says
// what became of it (an [Outcome] inside a [Report]). Each hand-out has a sequence number of its
// own, and one step, the record of what became of it, ever stands at that number. What follows a
// step depends on nothing but the task, the outcome and the queue's limits:
//
//	            submit
//	               |
//	               v        due
//	+---------> waiting ---------> ready <----------------+
//	|                                | hand out           |
//	| retry, snooze, next            v                    | next, release,
//	+---- (delay > 0) ----------- running ----------------+ lost (no delay)
//	                                 |
//	       +------------------+------+-----------+
//	       v                  v                  v
//	     done      dead (fail, or out        cancelled
//	       |        of attempts)                 |
//	       +------------------+------------------+
//	                          |
//	                          +--> replayed: begins at attempt 1 again
//
// Rank is the order inside a queue: the due time minus the priority, so priority is a head start in
// seconds and nothing starves. Back-off grows by a factor up to a maximum, and its jitter
// is a hash of the task's identity, so a replay of the same history gives the same times
// ([Backoff.Delay]).
package task
