// Orders is a shop's service: orders come in over HTTP, and are paid, packed and sent by a task of
// three stages; a schedule reports every night. README.md tells how to try it, and what holds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/worker"
)

const setState = "UPDATE orders SET state = $2 WHERE id = $1"

type order struct {
	ID, Customer, Item string
	Cents              int
}

var (
	pay    = rota.Define[order]("orders")
	pack   = rota.Type[order]{Queue: "orders", Stage: "pack"}
	send   = rota.Type[order]{Queue: "orders", Stage: "send"}
	report = rota.Define[struct{}]("reports")
)

// shop is the service. Its bank books an order once, however often it is asked to.
type shop struct {
	db     *pgxpool.Pool
	node   *rota.Node
	charge func(ctx context.Context, o order) (paid bool, err error)
}

func main() {
	s := shop{charge: func(_ context.Context, o order) (bool, error) { return o.Cents < 1e4, nil }}
	database := flag.String("db", "postgres://localhost/shop", "the database")
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, *database, *listen); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func (s *shop) run(ctx context.Context, database, listen string) (err error) {
	if s.db, err = pgxpool.New(ctx, database); err != nil {
		return err
	}
	defer s.db.Close()
	if s.node, err = rota.Open(ctx, rota.Config{Store: database, Capacity: 16}); err != nil {
		return err
	}
	s.handle()
	nightly := client.ScheduleChange{Cron: new("0 3 * * *"), Queue: &report.Queue}
	if _, err = s.node.PutSchedule(ctx, "nightly", nightly); err != nil {
		return errors.Join(err, s.node.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /orders/{id}", s.place)
	mux.HandleFunc("GET /orders/{id}", s.show)
	mux.Handle("/rota/", http.StripPrefix("/rota", s.node.Handler()))
	server := http.Server{Addr: listen, Handler: mux, ReadTimeout: time.Minute}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.node.Run(ctx) })
	all.Go(server.ListenAndServe)
	<-ctx.Done() // a signal, or one of them has ended
	return errors.Join(server.Shutdown(context.WithoutCancel(ctx)), all.Wait())
}

// place takes an order: its row and its task commit together. Who got no answer asks again.
func (s *shop) place(w http.ResponseWriter, r *http.Request) {
	var o order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 10_000)).Decode(&o)
	if o.ID = r.PathValue("id"); err != nil || len(o.ID) > 256 || o.Customer == "" || o.Cents <= 0 {
		http.Error(w, "want customer, item, and cents above 0", http.StatusUnprocessableEntity)
		return
	}
	err = pgx.BeginFunc(r.Context(), s.db, func(tx pgx.Tx) error {
		rows, err := tx.Exec(r.Context(), `INSERT INTO orders (id, customer, item, cents)
			SELECT $1, $2, item, $4 FROM stock WHERE item = $3 ON CONFLICT DO NOTHING`,
			o.ID, o.Customer, o.Item, o.Cents)
		if err == nil && rows.RowsAffected() == 1 {
			_, err = s.node.SubmitTx(r.Context(), tx, pay.New(o, rota.Submission{Key: o.ID}))
		}
		return err
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.show(w, r)
}

// show tells how far an order is.
func (s *shop) show(w http.ResponseWriter, r *http.Request) {
	var row json.RawMessage
	err := s.db.QueryRow(r.Context(), "SELECT to_json(o) FROM orders o WHERE id = $1",
		r.PathValue("id")).Scan(&row)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Write(row)
	}
}

// handle says how tasks are done.
func (s *shop) handle() {
	rota.Handle(s.node, pay, s.pay)
	rota.Handle(s.node, pack, func(ctx context.Context, t rota.Task[order]) rota.Outcome {
		return s.commit(ctx, send.Next(t.Args), `WITH taken AS (
			UPDATE stock SET pieces = pieces - 1 WHERE item = $2)
			UPDATE orders SET state = 'packed' WHERE id = $1`, t.Args.ID, t.Args.Item)
	})
	rota.Handle(s.node, send, func(ctx context.Context, t rota.Task[order]) rota.Outcome {
		return s.commit(ctx, rota.Finish("sent"), setState, t.Args.ID, "sent")
	})
	rota.Handle(s.node, report, func(ctx context.Context, t rota.Task[struct{}]) rota.Outcome {
		return s.commit(ctx, rota.Finish(nil), `WITH counted AS (
			UPDATE orders SET report = $1 WHERE state = 'sent' AND report IS NULL RETURNING cents)
			INSERT INTO reports SELECT $1, now(), count(*), coalesce(sum(cents), 0) FROM counted`, t.ID)
	})
}

// pay charges a customer's orders in the order of their coming.
func (s *shop) pay(ctx context.Context, t rota.Task[order]) rota.Outcome {
	var wait bool // for an earlier one
	switch err := s.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM orders o JOIN orders e
		USING (customer) WHERE o.id = $1 AND e.seq < o.seq AND e.open)`, t.Args.ID).Scan(&wait); {
	case err != nil:
		return rota.Retry(err)
	case wait:
		return rota.Snooze(time.Second)
	}
	next, state := pack.Next(t.Args), "paid"
	switch paid, err := s.charge(ctx, t.Args); {
	case err != nil:
		return rota.Retry(err)
	case !paid:
		next, state = rota.Finish("refused"), "refused"
	}
	return s.commit(ctx, next, setState, t.Args.ID, state)
}

// commit writes rows and the outcome in one transaction, or neither.
func (s *shop) commit(ctx context.Context, o rota.Outcome, sql string, args ...any) rota.Outcome {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		return worker.FinishTx(ctx, tx, o)
	})
	if err != nil {
		return rota.Retry(err)
	}
	return o
}
