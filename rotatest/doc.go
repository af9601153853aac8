// Package rotatest tests programs that submit and handle tasks: with the real engine and a real
// store, on a clock that the test moves. A handler's test:
//
//	func TestOrderIsChargedAndShipped(t *testing.T) {
//		rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
//			shop.Handle(r) // as the program does: rota.Handle(r, charge, …)
//			r.Submit(t.Context(), charge.New(Order{Number: 7}))
//			r.WorkAll(t.Context())
//			rotatest.RequireSubmitted(t, r, ship, Parcel{To: "Ada"})
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
