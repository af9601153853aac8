package rota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// shop is a program that keeps what it did in tables of its own, beside the store's.
type shop struct {
	*pgxpool.Pool
	sql *sql.DB
}

func newShop(t *testing.T, dsn string) *shop {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE done (what text)"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &shop{pool, db}
}

// count is how often something was done.
func (s *shop) count(t *testing.T, what string) (n int) {
	t.Helper()
	err := s.QueryRow(t.Context(), "SELECT count(*) FROM done WHERE what = $1", what).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// begun begins a transaction that has written what was done.
func (s *shop) begun(ctx context.Context, what string) (pgx.Tx, error) {
	tx, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO done VALUES ($1)", what)
	return tx, err
}

// How a handler may end its transaction, and what becomes of its task and of what it wrote.
func TestOutcomeAndRowsOfAHandlerCommitTogether(t *testing.T) {
	dsn := database(t)
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n", Capacity: 8})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, dsn)
	large := strings.Repeat("x", 10_000)
	attempt := func(ctx context.Context, h task.Handout, what string) (task.Outcome, error) {
		tx, err := s.begun(ctx, what)
		if err != nil {
			return task.Outcome{}, err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		done := task.Finish(what)
		switch {
		case what == "large":
			done = task.Finish(large)
		case h.Stage == "" && what == "stages":
			done = task.Next("second", large)
		case h.Stage == "" && what == "waits":
			done = task.NextAfter(time.Second, "second", what)
		case h.Stage == "" && what == "waits long":
			done = task.NextAfter(time.Hour, "second", what)
		}
		if err := worker.FinishTx(ctx, tx, done); err != nil {
			return done, err
		}
		switch {
		case what == "forgets" && h.Attempt == 1:
			return done, nil // and the transaction is rolled back
		case what == "changes its mind" && h.Attempt == 1:
			return task.Retry(errors.New("changed")), nil
		}
		if err := tx.Commit(ctx); err != nil {
			return done, err
		}
		switch what {
		case "does not know":
			return task.Retry(errors.New("is it committed?")), nil
		case "panics":
			panic("after the commit")
		}
		return done, nil
	}
	n.Handle("shop", func(ctx context.Context, h task.Handout) task.Outcome {
		o, err := attempt(ctx, h, strings.Trim(string(h.Context[:min(len(h.Context), 20)]), `"`))
		if err != nil {
			return task.Fail(err)
		}
		return o
	})
	n.Handle("sql", func(ctx context.Context, _ task.Handout) task.Outcome {
		tx, err := s.sql.BeginTx(ctx, nil)
		if err != nil {
			return task.Fail(err)
		}
		defer tx.Rollback()
		done := task.Finish("sql")
		if err := errors.Join(worker.FinishSQL(ctx, tx, done), tx.Commit()); err != nil {
			return task.Fail(err)
		}
		return done
	})
	running(t, n)
	if _, err := n.PutQueue(t.Context(), "shop", client.QueueChange{
		Retry: &client.RetryChange{Initial: new(time.Millisecond), Max: new(time.Millisecond)},
	}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		queue, what string
		result      string
		rows        int
		steps       string
	}{
		{"shop", "plain", `"plain"`, 1, "done"},
		{"sql", "sql", `"sql"`, 0, "done"},
		{"shop", "large", `"` + large + `"`, 1, "done"},
		{"shop", "does not know", `"does not know"`, 1, "done"},
		{"shop", "stages", `"` + strings.Repeat("x", 19) + `"`, 1, "next done"},
		{"shop", "waits", `"waits"`, 2, "next done"},
		{"shop", "panics", `"panics"`, 1, "done"},
		{"shop", "forgets", `"forgets"`, 1, "retry done"},
		{"shop", "changes its mind", `"changes its mind"`, 1, "retry done"},
	} {
		v := outcomeOf(t, n, x.queue, x.what)
		var steps []string
		for _, step := range v.Steps {
			steps = append(steps, step.Kind.String())
			if step.Worker != "n" || step.Started.After(step.Finished) {
				t.Errorf("%s: a step says %+v", x.what, step)
			}
		}
		if got := strings.Join(steps, " "); v.State != task.Done || got != x.steps ||
			string(v.Result) != x.result {
			t.Errorf("%s became %s by %q with result %.50s, want done by %q with %.50s", x.what,
				v.State, got, v.Result, x.steps, x.result)
		}
		if rows := s.count(t, x.what); rows != x.rows {
			t.Errorf("%s stands %d times among what was done, want %d", x.what, rows, x.rows)
		}
		if x.what == "waits" && v.Steps[1].Started.Sub(v.Steps[0].Finished) < 900*time.Millisecond {
			t.Errorf("the stage after a wait of 1s began too soon: %+v", v.Steps)
		}
	}
	afterALongWait(t, n, "shop", "waits long")
}

// afterALongWait submits a task whose transaction lets the next stage wait for an hour, and runs it
// now.
func afterALongWait(t *testing.T, n *Node, queue, what string) {
	t.Helper()
	list, err := n.Submit(t.Context(), task.Submission{
		Queue: queue, Context: fmt.Appendf(nil, "%q", what),
	})
	if err != nil {
		t.Fatal(err)
	}
	for v := (task.View{}); v.Stage != "second"; time.Sleep(10 * time.Millisecond) {
		if v, err = n.Task(t.Context(), list[0].ID, 0); err != nil {
			t.Fatal(err)
		}
		if v.Stage == "second" && (v.State != task.Waiting ||
			v.Due.Sub(v.Steps[0].Finished) != time.Hour) {
			t.Errorf("it is %s, due %v after its step", v.State, v.Due.Sub(v.Steps[0].Finished))
		}
	}
	// The step stands since the handler's commit; that it has ended the node hears a moment later.
	for {
		err := n.RunNow(t.Context(), list[0].ID)
		if err == nil {
			break
		}
		if !errors.Is(err, client.ErrConflict) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	v, err := n.Task(t.Context(), list[0].ID, time.Minute)
	if err != nil || v.State != task.Done || string(v.Result) != fmt.Sprintf("%q", what) {
		t.Errorf("it became %s with %s, %v", v.State, v.Result, err)
	}
}

// outcomeOf submits a task and waits until it is final.
func outcomeOf(t *testing.T, n *Node, queue, what string) task.View {
	t.Helper()
	list, err := n.Submit(t.Context(), task.Submission{
		Queue: queue, Context: fmt.Appendf(nil, "%q", what),
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := n.Task(t.Context(), list[0].ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
