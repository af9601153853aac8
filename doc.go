// Package rota shares out work: tasks go in, workers take them up, every worker stays within its
// capacity, and when processes die nothing is lost and nothing waits for a person.
//
// A [Node] is all of it inside one program: a store in one file, the tasks in it, handlers for
// them, and, with Config.Listen, the REST API through which other programs submit tasks and work
// them off.
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"log"
//		"os"
//		"os/signal"
//
//		"github.com/rotahq/rota"
//	)
//
//	// Mail is what tasks of send carry.
//	type Mail struct{ To string }
//
//	var send = rota.Define[Mail]("mail")
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		node, err := rota.Open(ctx, rota.Config{Store: "sqlite:work.db"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		rota.Handle(node, send, func(ctx context.Context, t rota.Task[Mail]) rota.Outcome {
//			if err := deliver(ctx, t.Args.To); err != nil {
//				return rota.Retry(err) // after 1, 2, 4 and 8 s: five attempts in all
//			}
//			return rota.Finish(nil)
//		})
//		if _, err := node.Submit(ctx, send.New(Mail{To: "ada"})); err != nil {
//			log.Fatal(errors.Join(err, node.Close()))
//		}
//		if err := node.Run(ctx); err != nil { // until Ctrl-C, and until all is reported
//			log.Fatal(err)
//		}
//	}
//
//	func deliver(_ context.Context, to string) error {
//		log.Println("dear", to)
//		return nil
//	}
//
// A [Type] is a kind of task: the queue, the stage, and what tasks carry there. Tasks of any type
// go the untyped way beneath: a Submission with a Context of JSON, and [Node.Handle].
//
// # Several nodes
//
// Programs that open the same PostgreSQL database ("postgres://…") are one cluster: tasks submitted
// to one are handed out by all, and when one dies the others take over. What must be done by one of
// them and by no second (schedules of your own, mailboxes, tenants) they share out as keys:
// [Node.Claim].
//
// # What is promised
//
//   - A submission that was answered is durable: it survives kill -9 and power loss.
//   - Every task is handed out until it has an outcome: at least once. One outcome per hand-out is
//     ever recorded; a late report is refused. A handler that must not act twice fences with its
//     token (see task.ParseToken).
//   - A task whose handler's process died is handed out again when the silence limit of its queue
//     has passed.
//
// # What is not
//
// Exactly-once execution, an order between tasks beyond their rank, and disks that lie about fsync.
package rota
