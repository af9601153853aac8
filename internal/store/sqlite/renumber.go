package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
)

// renumberVersion is that of the tables in which packs and marks have row numbers.
const renumberVersion = 36

// renumbering moves the packs and marks of a store of an earlier version into tables with row
// numbers, in pieces of so many rows: so the file grows by no more than a piece and an index, and a
// move that was ended goes on at the next start. Programs of that version have refused the file
// since version 35.
func renumbering(piece int, tell telling) *goose.Migration {
	return goose.NewGoMigration(renumberVersion, &goose.GoFunc{
		RunDB: func(ctx context.Context, db *sql.DB) error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			for _, table := range []string{"pack", "mark"} {
				r := renumber{c, table, piece}
				if err = r.run(ctx, tell); err != nil {
					break
				}
			}
			return errors.Join(err, c.Close())
		},
	}, nil)
}

// renumber is a move in progress: of the rows of TABLE_by_key into TABLE, in the order of their
// keys. What stands in the one does not stand in the other.
type renumber struct {
	*sql.Conn
	table string
	size  int // of a piece, in rows
}

const (
	numberlessThere = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '%s_by_key')`
	numberlessCount = `SELECT count(*) FROM %s_by_key`
	numberRows      = `INSERT INTO %[1]s SELECT * FROM %[1]s_by_key ORDER BY batch, lo LIMIT ?`
	dropNumbered    = `DELETE FROM %[1]s_by_key
WHERE (batch, lo) <= (SELECT batch, lo FROM %[1]s ORDER BY batch DESC, lo DESC LIMIT 1)`
	dropNumberless = `DROP TABLE %s_by_key`
)

// renumberPiece is how many rows one transaction moves, as a rule. A pack has some 16 kB at most.
const renumberPiece = 1000

// of is a query about the table.
func (r *renumber) of(query string) string { return fmt.Sprintf(query, r.table) }

func (r *renumber) run(ctx context.Context, tell telling) error {
	var there bool
	if err := r.QueryRowContext(ctx, r.of(numberlessThere)).Scan(&there); err != nil || !there {
		return err // it was ended after the last step
	}
	var all, done int64
	if err := r.QueryRowContext(ctx, r.of(numberlessCount)).Scan(&all); err != nil {
		return err
	}
	for {
		n, err := r.piece(ctx)
		if err != nil {
			return fmt.Errorf("give rows of %s numbers, %d of %d done: %w", r.table, done, all, err)
		}
		if n == 0 {
			break
		}
		done += n
		tell(r.table+"s", done, all)
		// What was moved need not stand in the log, too.
		if _, err := r.ExecContext(ctx, "PRAGMA wal_checkpoint"); err != nil {
			return err
		}
	}
	_, err := r.ExecContext(ctx, r.of(dropNumberless))
	return err
}

// piece moves the next rows and answers how many these were.
func (r *renumber) piece(ctx context.Context) (n int64, err error) {
	tx, err := r.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after the commit
	moved, err := tx.ExecContext(ctx, r.of(numberRows), r.size)
	if err != nil {
		return 0, err
	}
	if n, err = moved.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, r.of(dropNumbered)); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
