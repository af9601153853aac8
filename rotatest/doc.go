// Package rotatest tests programs that submit and handle tasks: with the real engine and a real
// store, on a clock that the test moves. A handler's test:
//
//	package shop_test
//
//	import (
//		"context"
//		"testing"
//		"time"
//
//		"github.com/rotahq/rota"
//		"github.com/rotahq/rota/rotatest"
//	)
//
//	type Order struct{ Number int }
//
//	var charge = rota.Define[Order]("orders")
//
//	// handle is what the program calls with its node.
//	func handle(to rota.Handlers) {
//		rota.Handle(to, charge, func(_ context.Context, t rota.Task[Order]) rota.Outcome {
//			if t.Attempt == 1 {
//				return rota.Snooze(time.Hour) // the bank is closed
//			}
//			return rota.Finish("paid")
//		})
//	}
//
//	func TestOrderIsCharged(t *testing.T) {
//		rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
//			handle(r)
//			r.Submit(t.Context(), charge.New(Order{Number: 7}))
//			r.Advance(2 * time.Hour)
//			id := rotatest.RequireSubmitted(t, r, charge, Order{Number: 7})
//			rotatest.RequireOutcome(t, r, id, rota.Finish("paid"))
//		})
//	}
//
// # Time
//
// [Run] runs its test in a bubble of testing/synctest: time stands still while anything works, and
// [Rig.Advance] moves it. Delays, back-off, schedules and retention come due in it as they do in
// life; a day takes some seconds. A test that makes its bubble by itself, or that needs a network
// and so real time, opens a rig by [New].
//
// # Looking
//
// [RequireSubmitted] looks for a task by what it carries, [RequireOutcome] at what a handler said
// of it last; [RequireTimeline] compares all that handlers did with a file. Beside that a rig has
// all calls of a rota.Node: Task, Tasks, Queues, Fires, Lines and the others.
package rotatest
