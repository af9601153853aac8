package rota_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// A server that is there anyway has the API of a node below a prefix, and its metrics among its
// own.
func ExampleNode_Handler() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{
		Store: store, Name: "example", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	mux := http.NewServeMux()
	mux.Handle("/rota/", http.StripPrefix("/rota", node.Handler()))
	server := httptest.NewServer(mux)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(node.Collector())
	fmt.Println("the name of the node:", node.Name())
	fmt.Printf("it listens itself: %t\n", node.Addr() != "") // Config.Listen is empty

	elsewhere, err := client.New(client.Config{Servers: []string{server.URL + "/rota"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(elsewhere.Healthy(ctx))
	elsewhere.Close()
	server.Close()
	stop()
	fmt.Println(<-ended)
	// Output:
	// the name of the node: example
	// it listens itself: false
	// <nil>
	// <nil>
}

// The ways to give a node handlers, and what stands around all of them.
func ExampleNode_HandleStage() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	node, err := rota.Open(ctx, rota.Config{
		Store: store, Name: "example", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	node.Use(func(next rota.Handler) rota.Handler { // the first is the outermost
		return func(ctx context.Context, t task.Handout) rota.Outcome {
			o := next(ctx, t)
			fmt.Println(t.Queue, t.Stage, o.Kind)
			return o
		}
	})
	node.HandleStage("orders", "pack", func(_ context.Context, t task.Handout) rota.Outcome {
		return rota.Fail(errors.New("out of stock")) // no other attempt would help
	})
	node.HandleFinal("orders-dead", func(_ context.Context, n task.FinalNotice) error {
		fmt.Println("an order died:", n.Error)
		stop()
		return nil // an error would have it told again
	})
	node.HandleHooks("mail", worker.Hooks{ // steps that are tried again each by itself
		Process: func(context.Context, task.Handout) rota.Outcome { return rota.Finish(nil) },
	})
	node.HandleJob("feeds", func(ctx context.Context, a task.Assignment) error {
		<-ctx.Done() // a job has no end of its own
		return nil
	})
	_, err = node.PutQueue(ctx, "orders", client.QueueChange{FinalQueue: new("orders-dead")})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := node.Submit(ctx, rota.Submission{Queue: "orders", Stage: "pack"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Run(ctx))
	// Output:
	// orders pack fail
	// an order died: out of stock
	// orders-dead  done
	// <nil>
}

// What a handler returns says what becomes of its task.
func ExampleOutcome() {
	closed := errors.New("the bank is closed")
	for _, o := range []rota.Outcome{
		rota.Finish("sent"),
		rota.Retry(closed),                  // after the queue's back-off, while it has attempts
		rota.RetryAfter(time.Hour, closed),  // after an hour
		rota.Snooze(time.Hour),              // likewise, but the attempt does not count
		rota.Fail(errors.New("no account")), // for good
		rota.Release(),                      // at once, elsewhere: it was not tried
	} {
		fmt.Printf("%v %v %q\n", o.Kind, o.Delay, o.Error)
	}
	// Output:
	// done 0s ""
	// retry 0s "the bank is closed"
	// retry 1h0m0s "the bank is closed"
	// snooze 1h0m0s ""
	// fail 0s "no account"
	// release 0s ""
}

// An order and its task are there together, or neither is.
func ExampleNewSubmitter() {
	ctx := context.Background()
	s, err := rota.NewSubmitter(ctx, rota.SubmitterConfig{Store: "postgres://shop@db/shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	charge := rota.Define[int]("orders")

	order := func(db *pgx.Conn, number int) error {
		tx, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1)", number); err != nil {
			return err
		}
		if _, err := s.SubmitTx(ctx, tx, charge.New(number)); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	db, err := pgx.Connect(ctx, "postgres://shop@db/shop")
	if err != nil {
		log.Fatal(err)
	}
	if err := order(db, 7); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Submit(ctx, charge.New(8)); err != nil { // in a transaction of its own
		log.Fatal(err)
	}
}

// The same with database/sql. A node has these calls, too.
func ExampleSubmitter_SubmitSQL() {
	order := func(ctx context.Context, s *rota.Submitter, db *sql.DB, number int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ($1)", number); err != nil {
			return err
		}
		if _, err := s.SubmitSQL(ctx, tx, rota.Define[int]("orders").New(number)); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = order
}

func ExampleNode_SubmitTx() {
	pay := func(ctx context.Context, node *rota.Node, tx pgx.Tx, old *sql.Tx) error {
		pay := rota.Submission{Queue: "pay", Key: "order-7"}
		if _, err := node.SubmitTx(ctx, tx, pay); err != nil { // the store is PostgreSQL
			return err
		}
		_, err := node.SubmitSQL(ctx, old, pay) // the same task, by its key
		return err
	}
	_ = pay
}

// A program that is a whole server, as rota serve is: it reads its tokens again when it is told to,
// and joins again after the store was away for so long that others have taken its place.
func ExampleNode_Reopen() {
	serve := func(ctx context.Context, node *rota.Node) error {
		durability, err := node.Durability(ctx)
		if err != nil {
			return err
		}
		log.Println("an answered commit survives what", durability, "says")
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		go func() {
			for range hangups {
				if err := node.ReadTokens(); err != nil {
					log.Println("the access tokens stay:", err)
				}
			}
		}()
		err = node.Run(ctx)
		for errors.Is(err, rota.ErrOusted) {
			again, wrong := node.Reopen(ctx)
			if errors.Is(wrong, rota.ErrOutOfReach) {
				time.Sleep(time.Second)
				continue
			}
			if wrong != nil {
				return wrong
			}
			node = again // give it its handlers
			err = node.Run(ctx)
		}
		return err
	}
	_ = serve
}
