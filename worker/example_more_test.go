package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/rotahq/rota/pool"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

func ExampleWorker_HandleStage() {
	queue, ctx := newShelf(task.Handout{Stage: "send"})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.HandleStage("mail", "send", func(context.Context, task.Handout) task.Outcome {
		return task.Finish("sent")
	})
	w.HandleFinal("mail-dead", func(_ context.Context, n task.FinalNotice) error {
		fmt.Println("a mail died:", n.Error) // of what Queue.FinalQueue of mail says
		return nil
	})
	fmt.Println(w.Check()) // what Run would say before it serves
	fmt.Println(w.Run(ctx))
	fmt.Println(w.Stats().Recorded)
	// Output:
	// <nil>
	// reported: done "sent"
	// <nil>
	// 1
}

// What stands around each handler is told when the outcome is stored.
func ExampleReported() {
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", func(context.Context, task.Handout) task.Outcome { return task.Finish("sent") })
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t task.Handout) task.Outcome {
			worker.Reported(ctx, func(o task.Outcome, a task.Answer) {
				fmt.Println(o.Kind, "by", worker.NameOf(ctx), "is", a.Status)
			})
			return next(ctx, t)
		}
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// reported: done "sent"
	// done by mailer-1 is recorded
	// <nil>
}

// The handler's row and its outcome commit together, on PostgreSQL.
func ExampleFinishTx() {
	type order struct{ Number int }
	charge := task.Define[order]("orders")
	handle := func(to worker.Handlers, db *pgx.Conn) {
		worker.Handle(to, charge, func(ctx context.Context, t task.Task[order]) task.Outcome {
			tx, err := db.Begin(ctx)
			if err != nil {
				return task.Retry(err)
			}
			defer tx.Rollback(context.WithoutCancel(ctx))
			const paid = "UPDATE orders SET paid = now() WHERE number = $1"
			if _, err := tx.Exec(ctx, paid, t.Args.Number); err != nil {
				return task.Retry(err)
			}
			done := task.Finish(nil)
			if err := worker.FinishTx(ctx, tx, done); err != nil {
				return task.Retry(err)
			}
			if err := tx.Commit(ctx); err != nil {
				return task.Retry(err) // refused, if it did commit
			}
			return done
		})
	}
	_ = handle
}

func ExampleFinishSQL() {
	finish := func(ctx context.Context, tx *sql.Tx) task.Outcome {
		done := task.Finish(nil)
		if err := worker.FinishSQL(ctx, tx, done); err != nil {
			return task.Retry(err)
		}
		if err := tx.Commit(); err != nil {
			return task.Retry(err)
		}
		return done
	}
	_ = finish
}

// What a handler writes line by line goes to its task's log.
func ExampleLines() {
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", func(ctx context.Context, t task.Handout) task.Outcome {
		out := worker.Lines(ctx, "smtp")
		fmt.Fprintln(out, "220 mail.example.org")
		if err := out.Close(); err != nil {
			return task.Retry(err)
		}
		return task.Finish("sent")
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// smtp: 220 mail.example.org
	// reported: done "sent"
	// <nil>
}

// The task says what is to be run: let only those submit whom you would let log in.
func ExampleShell() {
	queue, ctx := newShelf(task.Handout{Context: []byte(`{"command":"echo $((6 * 7)); echo '{\"result\": 42}' > $ROTA_OUTPUT"}`)})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := worker.Shell(worker.CommandConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", handler)
	fmt.Println(w.Run(ctx))
	// Output:
	// stdout: 42
	// reported: done 42
	// <nil>
}

// Processes that stay, each with what is dear to load, work off the tasks line by line.
func ExampleChildren() {
	const program = `while read line; do echo '{"result":{"result":"sent"}}'; done`
	command := pool.Command{Argv: []string{"sh", "-c", program}}
	p, err := pool.New(pool.Config{Runners: 2}, command.Start)
	if err != nil {
		fmt.Println(err)
		return
	}
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1", Capacity: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", worker.Children(p))
	fmt.Println(errors.Join(w.Run(ctx), p.Close()))
	// Output:
	// reported: done "sent"
	// <nil>
}
