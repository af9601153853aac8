// Package worker runs handlers for tasks: it takes tasks from a queue, the dispatcher of a node in this process or a
// client of a remote one, hands each to the handler of its queue, and reports what became of it.
//
//	w, err := worker.New(worker.Config{Queue: c, Name: "mailer-1", Capacity: 16})
//	…
//	w.Handle("mail", func(ctx context.Context, t task.Handout) task.Outcome {
//		if err := send(ctx, t.Context); err != nil {
//			return task.Retry(err)
//		}
//		return task.Finish(nil)
//	})
//	err = w.Run(ctx) // until ctx ends and everything is reported
//
// # What holds
//
//   - At most Capacity handlers run at once, in lanes that are reused. The worker never holds more tasks than it has
//     free lanes to start them in.
//   - A task may run more than once (at least once is the promise), so handlers should bear it. The hand-out's token
//     grows with every hand-out of a task; use it to fence side effects.
//   - An outcome is reported again and again until the server has answered it, as long as the worker runs.
//   - A panic is a failure of that attempt, not of the process. It is reported as a retry with the panic's text.
//
// # When a handler's context ends
//
// context.Cause tells why: [ErrCancelled] (somebody cancelled the task), [ErrStale] (the hand-out is no longer ours),
// [ErrDeadline] (the attempt's time is over), [ErrCutOff] (no beat was answered for Config.SelfStop, so the server may
// soon give the task to somebody else) or [ErrStopping] (Run's context ended and the grace is over). A retry that a handler
// returns after ErrStopping or ErrCutOff goes out as a release: the task was stopped, it didn't fail, so no attempt is charged.
//
// # Stopping
//
// Run stops in two steps. When its context ends it takes nothing new and releases what has not begun. Handlers go on for up
// to Config.StopGrace; then their contexts end, and Run waits until they return, since nothing outlives it: a handler
// that ignores its context holds Run up. Meanwhile it beats, so that their tasks are not given away. Last it sends the
// outstanding reports and says that it leaves.
package worker
