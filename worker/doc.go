// Package worker runs handlers for tasks and for jobs: it takes tasks from a queue, the dispatcher
// of a node in this process or a client of a remote one, hands each to the handler of its queue,
// and reports what became of it. Jobs are endless work; the server says which of a group's jobs
// this worker is to run, and moves them when workers come and go.
//
//	package main
//
//	import (
//		"context"
//		"log"
//		"os"
//		"os/signal"
//
//		"github.com/rotahq/rota/client"
//		"github.com/rotahq/rota/task"
//		"github.com/rotahq/rota/worker"
//	)
//
//	// Mail is what tasks of mail carry.
//	type Mail struct{ To string }
//
//	var mail = task.Define[Mail]("mail")
//
//	func main() {
//		c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:7700"}})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer c.Close()
//		w, err := worker.New(worker.Config{Queue: c, Name: "mailer-1", Capacity: 16})
//		if err != nil {
//			log.Fatal(err)
//		}
//		worker.Handle(w, mail, func(ctx context.Context, t task.Task[Mail]) task.Outcome {
//			worker.Logf(ctx, "dear %s", t.Args.To)
//			return task.Finish("sent")
//		})
//		w.HandleJob("feeds", func(ctx context.Context, a task.Assignment) error {
//			log.Println("following", a.Job, "with token", a.Token.Number)
//			<-ctx.Done() // a job goes on until the server ends it
//			return nil
//		})
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		if err := w.Run(ctx); err != nil { // until Ctrl-C, and until all is reported
//			log.Fatal(err)
//		}
//	}
//
// # What holds
//
//   - What runs at once never weighs more than Capacity: a task costs 1, a job its load. The worker
//     never holds more tasks than it has free lanes to start them in.
//   - A task may run more than once (at least once is the promise), so handlers should bear it. The
//     hand-out's token grows with every hand-out of a task; use it to fence side effects.
//   - An outcome is reported again and again until the server has answered it, as long as the
//     worker runs.
//   - A panic is a failure of that attempt, not of the process. It is reported as a retry with the
//     panic's text.
//   - A job runs here once at a time, and for as long as the server wants it here: a handler that
//     returns early is called again, after a pause. The server hears of each change at once, and of
//     a job that is to end until its handler has returned.
//
// # When a handler's context ends
//
// context.Cause tells why: [ErrCancelled] (somebody cancelled the task), [ErrStale] (the hand-out
// is no longer ours), [ErrDeadline] (the attempt's time is over), [ErrEnded] (the job ended, or
// moved), [ErrCutOff] (no beat was answered for Config.SelfStop, so the server may soon give tasks
// and jobs to somebody else), [ErrStopping] (Run's context ended; of a task: and the grace is over)
// or [ErrSuperseded] (another worker began under this one's name). A retry that a task's handler
// returns after one of the last three goes out as a release: the task was stopped, it didn't fail,
// so no attempt is charged. One that it returns after ErrDeadline is not reported: the server
// settles that attempt, as a timeout.
//
// # Stopping
//
// Run stops in two steps. When its context ends it takes nothing new, releases what has not begun,
// and ends the jobs. Handlers of tasks go on for up to Config.StopGrace; then their contexts end,
// and Run waits until all return, since nothing outlives it: a handler that ignores its context
// holds Run up. Meanwhile it beats, so that their tasks and jobs are not given away. Last it sends
// the outstanding reports and says that it leaves.
package worker
