//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetOutput(io.Discard)
	os.Exit(pgtest.Main(m))
}

// Three invoices: one is mailed at the second try, one has no address, one comes to a server that
// is busy. What is mailed says so in the database.
func TestAnInvoiceIsMailedAndSaysSo(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), string(schema)); err != nil {
		t.Fatal(err)
	}
	tries := map[int64]int{} // one invoice is mailed after the other
	p := program{send: func(_ context.Context, invoice int64) error {
		tries[invoice]++
		switch {
		case invoice == 1 && tries[1] == 1:
			return errors.New("the mail server is away")
		case invoice == 2:
			return errNoAddress
		case invoice == 3:
			return errBusy
		}
		return nil
	}}
	if err := p.open(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.db.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.node.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	looking, enough := context.WithTimeout(ctx, time.Minute)
	defer enough()
	for i, x := range []struct {
		state    task.State
		attempts int
		mailed   bool
	}{
		{task.Done, 2, true},
		{task.Dead, 1, false},
		{task.Waiting, 1, false},
	} {
		if err := p.invoice(ctx, "ada", 1999); err != nil {
			t.Fatal(err)
		}
		tasks, _, err := p.node.Tasks(ctx, client.TaskFilter{Queue: "mails"}, "", 0)
		if err != nil || len(tasks) != i+1 {
			t.Fatalf("%d tasks: %v", len(tasks), err)
		}
		v := tasks[0] // the newest
		for v.State != x.state || len(v.Steps) < x.attempts {
			if v, err = p.node.Task(looking, v.ID, 10*time.Millisecond); err != nil {
				t.Fatalf("invoice %d: %v", i+1, err)
			}
		}
		if len(v.Steps) != x.attempts {
			t.Errorf("invoice %d: %d attempts", i+1, len(v.Steps))
		}
		var is bool
		if err := db.QueryRow(ctx, "SELECT mailed IS NOT NULL FROM invoices WHERE id = $1", i+1).
			Scan(&is); err != nil || is != x.mailed {
			t.Errorf("invoice %d: mailed is %v: %v", i+1, is, err)
		}
	}
}
