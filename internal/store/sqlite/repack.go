package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
)

// telling is told how far long work has come: so many of what, of all.
type telling func(what string, done, all int64)

// repackVersion is that of the tables in which no task has a row of its own any more.
const repackVersion = 17

// repacking moves the tasks of a store of an earlier version into packs, in pieces: so the file
// grows by no more than a piece, and a move that was ended goes on at the next start. Programs of
// that version have refused the file since version 16.
func repacking(piece int, tell telling) *goose.Migration {
	return goose.NewGoMigration(repackVersion, &goose.GoFunc{
		RunDB: func(ctx context.Context, db *sql.DB) error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			r := repack{c, piece}
			return errors.Join(r.run(ctx, tell), c.Close())
		},
	}, nil)
}

// repack is a move in progress.
type repack struct {
	*sql.Conn
	size int // of a piece, in tasks
}

const (
	unpackedThere = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'task_unpacked')`
	unpackedTasks = `SELECT batch, n, stage, context, key, group_key, coalesce(max_attempts, 0),
coalesce(timeout, 0) FROM task_unpacked ORDER BY batch, n LIMIT ?`
	repackedTasks = `DELETE FROM task_unpacked WHERE (batch, n) <= (?, ?)`
)

// repackPiece is how many tasks one transaction moves, as a rule.
const repackPiece = 20_000

func (r *repack) run(ctx context.Context, tell telling) error {
	var there bool
	if err := r.QueryRowContext(ctx, unpackedThere).Scan(&there); err != nil || !there {
		return err // it was ended after the last step
	}
	var all, done int64
	if err := r.QueryRowContext(ctx, `SELECT count(*) FROM task_unpacked`).Scan(&all); err != nil {
		return err
	}
	for {
		n, err := r.piece(ctx)
		if err != nil {
			return fmt.Errorf("move tasks into packs, %d of %d done: %w", done, all, err)
		}
		if n == 0 {
			break
		}
		done += int64(n)
		tell("tasks", done, all)
		// What was moved need not stand in the log, too.
		if _, err := r.ExecContext(ctx, "PRAGMA wal_checkpoint"); err != nil {
			return err
		}
	}
	_, err := r.ExecContext(ctx, "DROP TABLE task_unpacked")
	return err
}

// unpacked is a task with its batch.
type unpacked struct {
	batch int64
	store.Task
}

// piece moves the next tasks and answers how many these were.
func (r *repack) piece(ctx context.Context) (n int, err error) {
	tx, err := r.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after the commit
	list, err := readUnpacked(ctx, tx, r.size)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	for rest := list; len(rest) > 0; {
		same := 1
		for same < len(rest) && rest[same].batch == rest[0].batch {
			same++
		}
		if err := r.write(ctx, tx, rest[:same]); err != nil {
			return 0, err
		}
		rest = rest[same:]
	}
	last := &list[len(list)-1]
	if _, err := tx.ExecContext(ctx, repackedTasks, last.batch, last.N); err != nil {
		return 0, err
	}
	return len(list), tx.Commit()
}

func readUnpacked(ctx context.Context, tx *sql.Tx, most int) (list []unpacked, err error) {
	rows, err := tx.QueryContext(ctx, unpackedTasks, most)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		var t unpacked
		var context []byte
		var key, group sql.NullString
		if err := rows.Scan(&t.batch, &t.N, &t.Stage, &context, &key, &group, &t.MaxAttempts,
			&t.Timeout); err != nil {
			return nil, err
		}
		t.Context, t.Key, t.GroupKey = context, key.String, group.String
		list = append(list, t)
	}
	return list, nil
}

// write inserts tasks of one batch as packs.
func (r *repack) write(ctx context.Context, tx *sql.Tx, list []unpacked) error {
	tasks := make([]store.Task, len(list))
	for i := range list {
		tasks[i] = list[i].Task
	}
	batch := list[0].batch
	for rest := tasks; len(rest) > 0; {
		body, has, n := pack.AppendTasks(nil, rest)
		if _, err := tx.ExecContext(ctx, `INSERT INTO pack (batch, lo, has, body)
VALUES (?, ?, ?, ?)`, batch, rest[0].N, int64(has), body); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for i := range tasks {
		if tasks[i].Key == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO keyed (key, batch, n) VALUES (?, ?, ?)`,
			tasks[i].Key, batch, tasks[i].N); err != nil {
			return err
		}
	}
	return nil
}
