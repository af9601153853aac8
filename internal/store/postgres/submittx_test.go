//go:build unix

package postgres

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// doer is a caller's transaction, of one library or the other.
type doer struct {
	submit           func(store.Submission) (store.Submitted, error)
	exec             func(string) error
	commit, rollback func() error
}

// begins opens transactions in both ways.
func begins(t *testing.T, s *Store, dsn string) map[string]func() doer {
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close(t.Context())
		db.Close()
	})
	return map[string]func() doer{
		"pgx": func() doer {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return doer{
				func(sub store.Submission) (
					store.Submitted, error,
				) {
					return s.SubmitTx(t.Context(), tx, sub)
				},
				func(q string) error { _, err := tx.Exec(t.Context(), q); return err },
				func() error { return tx.Commit(t.Context()) }, func() error {
					return tx.Rollback(t.Context())
				},
			}
		},
		"database/sql": func() doer {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return doer{
				func(sub store.Submission) (
					store.Submitted, error,
				) {
					return s.SubmitSQL(t.Context(), tx, sub)
				},
				func(q string) error {
					_, err := tx.ExecContext(
						t.Context(), q,
					)
					return err
				}, tx.Commit, tx.Rollback,
			}
		},
	}
}

func TestTasksOfACallersTransactionComeWithItsCommitOnly(t *testing.T) {
	story.Whole(t)
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn}))
	heard := hear(t, open(t, Config{DSN: dsn}))
	runSQL(t, dsn, "CREATE TABLE own (x int)")
	for name, begin := range begins(t, c.Store, dsn) {
		t.Run(name, func(t *testing.T) {
			before := must(c.Counts(t.Context(), "q"))(t)[0].Counts
			sub := func() store.Submission {
				b := c.batch(3, 2, true)
				b.Tasks[1].Key, b.Tasks[1].KeyUntil = name, b.Due+time.Hour.Microseconds()
				b.Tasks[2].MaxAttempts, b.Tasks[2].Context = 7, nil
				return store.Submission{
					Holder: c.holder, NewQueues: []string{"q"}, Batches: []store.Batch{b},
				}
			}
			tx := begin()
			if _, err := tx.submit(sub()); err != nil {
				t.Fatal(err)
			}
			if err := tx.rollback(); err != nil {
				t.Fatal(err)
			}
			c.counts(before)

			tx = begin()
			first := sub()
			got, err := tx.submit(first)
			if err != nil || len(got.Spans) != 2 || got.Spans[0].Holder != (store.Holder{}) ||
				got.Spans[0].Token != 0 || len(got.Existing) != 0 {
				t.Fatalf("%+v, %v: nobody may hold what is not committed", got, err)
			}
			if err := tx.exec("INSERT INTO own VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			c.counts(before)
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			want(t, heard, Hint{Queue: "q"})
			after := before
			after.Ready += 3
			c.counts(after)
			if v := must(c.Task(t.Context(),
				task.ID{Batch: first.Batches[0].ID, N: 2}))(t); v.Context != nil {
				t.Errorf("no context became %q", v.Context)
			}

			tx = begin()
			again, err := tx.submit(first) // a repetition
			if err != nil || again.Spans[0] != got.Spans[0] {
				t.Errorf("repeated: %+v, %v, want %+v", again, err, got)
			}
			same, err := tx.submit(sub()) // the same key
			if owner := (task.ID{Batch: first.Batches[0].ID, N: 1}); err != nil ||
				len(same.Existing) != 1 || same.Existing[0].First != owner {
				t.Errorf("a key that exists: %+v, %v", same, err)
			}
			other := first
			other.Batches = []store.Batch{first.Batches[0]}
			other.Batches[0].Origin = "elsewhere"
			if _, err := tx.submit(other); !errors.Is(err, store.ErrConflict) {
				t.Errorf("another's batch: got %v, want %v", err, store.ErrConflict)
			}
			if err := tx.commit(); err != nil {
				t.Error(err)
			}
			after.Ready += 2
			c.counts(after)
		})
	}
}

// A key that an open transaction holds makes others wait, but not for long, and only those with the
// same key.
func TestKeyInAnOpenTransactionStallsNobodyElse(t *testing.T) {
	dsn := contested.database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	keyed := func() store.Submission {
		b := c.batch(1, 1, false)
		b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", b.Due+time.Hour.Microseconds()
		return store.Submission{Batches: []store.Batch{b}}
	}
	tx := begins(t, c.Store, dsn)["pgx"]()
	if _, err := tx.submit(keyed()); err != nil {
		t.Fatal(err)
	}
	c.submit(c.batch(1, 1, false))
	if _, err := c.Submit(t.Context(), keyed()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("the same key: got %v, want %v", err, store.ErrBusy)
	}
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Submit(t.Context(), keyed()); err != nil || len(got.Existing) != 0 {
		t.Errorf("after it was rolled back: %+v, %v", got, err)
	}
	c.counts(task.Counts{Ready: 2})
}
