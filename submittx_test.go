package rota

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/rotahq/rota/task"
)

func TestTasksOfATransactionExistWhenItCommits(t *testing.T) {
	dsn := database(t)
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 10)
	n.Handle("mail", func(_ context.Context, h task.Handout) task.Outcome {
		done <- string(h.Context)
		return task.Finish(nil)
	})
	running(t, n)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mail := func(text string) task.Submission {
		return task.Submission{Queue: "mail", Context: []byte(text), Key: text}
	}

	// submits makes an order and its mail in one transaction, by either driver, and ends it either
	// way.
	submits := map[string]func(commit bool) ([]task.Receipt, error){
		`"pgx"`: func(commit bool) ([]task.Receipt, error) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				return nil, err
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES (1)"); err != nil {
				return nil, err
			}
			receipts, err := n.SubmitTx(t.Context(), tx, mail(`"pgx"`))
			if err == nil && commit {
				err = tx.Commit(t.Context())
			}
			return receipts, err
		},
		`"sql"`: func(commit bool) ([]task.Receipt, error) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return nil, err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO orders VALUES (2)"); err != nil {
				return nil, err
			}
			receipts, err := n.SubmitSQL(t.Context(), tx, mail(`"sql"`))
			if err == nil && commit {
				err = tx.Commit()
			}
			return receipts, err
		},
	}
	for text, submit := range submits {
		rolledBack, err := submit(false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Task(t.Context(), rolledBack[0].ID, 0); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a task of a transaction that was rolled back: %v", text, err)
		}
		committed, err := submit(true)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != text {
			t.Errorf("handled %s, want %s", got, text)
		}
		again, err := n.Submit(t.Context(), mail(text))
		if err != nil || !again[0].Existing || again[0].ID != committed[0].ID {
			t.Errorf("%s: its key answers %+v, %v, want the first task's id %v", text, again, err,
				committed[0].ID)
		}
	}
	if _, err := n.SubmitTx(t.Context(), nil, task.Submission{Queue: "No Name"}); err == nil {
		t.Error("a bad submission was accepted")
	}
}

func TestFileHasNoTransactionsForOthers(t *testing.T) {
	n := start(t, Config{})
	if _, err := n.SubmitTx(
		t.Context(), nil, task.Submission{Queue: "q"},
	); !errors.Is(err, ErrNoDatabase) {
		t.Error(err)
	}
	if _, err := n.SubmitSQL(
		t.Context(), nil, task.Submission{Queue: "q"},
	); !errors.Is(err, ErrNoDatabase) {
		t.Error(err)
	}
}
