package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// piece is what a replica read of a file in one go: whole lines only.
type piece struct {
	File     string
	Replica  int
	Fence    int64  // the number of the assignment's token
	Worker   string // for people
	From, To int64  // offsets
	Lines    int64
}

// Why the ledger did not take a piece.
var (
	errCounted  = errors.New("another replica counted this already")
	errReplaced = errors.New("this replica runs elsewhere by now")
)

// ledger says how far each file has been counted. It is a database that all workers open; any
// number of them may write at the same time, and may be killed at any moment.
//
// Two rules make every line count once, whoever reads it how often:
//   - A piece is taken only if it begins where the last one ended. So of two replicas that read the
//     same lines the first one's count, and when one of them dies the other goes on where the
//     ledger stands: no gap, no overlap.
//   - Of each replica only the newest assignment may write. So one that was taken for dead, and
//     replaced, changes nothing when it wakes up: the token's number is greater for every later
//     assignment.
type ledger struct{ db *sqlite.Conn }

const ledgerTables = `
CREATE TABLE IF NOT EXISTS file  (name TEXT PRIMARY KEY, at INTEGER NOT NULL, lines INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS fence (name TEXT, replica INTEGER, number INTEGER NOT NULL, PRIMARY KEY (name, replica));
CREATE TABLE IF NOT EXISTS share (worker TEXT PRIMARY KEY, lines INTEGER NOT NULL);`

func openLedger(path string) (*ledger, error) {
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db.SetBusyTimeout(10 * time.Second)
	if err := sqlitex.ExecuteScript(db, ledgerTables, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("make ledger: %w", err), db.Close())
	}
	return &ledger{db}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// at is the offset up to which a file has been counted.
func (l *ledger) at(file string) (at int64, err error) {
	err = l.rows(`SELECT at FROM file WHERE name = ?`, []any{file}, func(s *sqlite.Stmt) {
		at = s.ColumnInt64(0)
	})
	return at, err
}

// The fence first: it must stand whether or not the piece is taken. Neither statement changes
// anything when its condition fails.
const (
	raiseFence = `INSERT INTO fence (name, replica, number) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET number = excluded.number WHERE number <= excluded.number`
	addPiece = `INSERT INTO file (name, at, lines) SELECT ?1, ?3, ?4 WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM file WHERE name = ?1)
ON CONFLICT DO UPDATE SET at = excluded.at, lines = lines + excluded.lines WHERE at = ?2`
	addShare = `INSERT INTO share (worker, lines) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET lines = lines + excluded.lines`
)

// take counts a piece, or says why it does not count: errCounted or errReplaced.
func (l *ledger) take(p piece) error {
	refusal, err := l.enter(p)
	return cmp.Or(err, refusal)
}

// enter is the transaction: it stands, with its fence, whether the piece is refused or not.
func (l *ledger) enter(p piece) (refusal, err error) {
	end, err := sqlitex.ImmediateTransaction(l.db)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer end(&err)
	if changed, err := l.change(raiseFence, p.File, p.Replica, p.Fence); err != nil || !changed {
		return errReplaced, err
	}
	if changed, err := l.change(addPiece, p.File, p.From, p.To, p.Lines); err != nil || !changed {
		return errCounted, err
	}
	_, err = l.change(addShare, p.Worker, p.Lines)
	return nil, err
}

// change executes a statement and says whether it changed anything.
func (l *ledger) change(query string, args ...any) (bool, error) {
	if err := sqlitex.Execute(l.db, query, &sqlitex.ExecOptions{Args: args}); err != nil {
		return false, fmt.Errorf("write ledger: %w", err)
	}
	return l.db.Changes() > 0, nil
}

// counts are the lines of each file, or of each worker, that count.
func (l *ledger) counts(of string) (map[string]int64, error) {
	counts := map[string]int64{}
	err := l.rows(of, nil, func(s *sqlite.Stmt) { counts[s.ColumnText(0)] = s.ColumnInt64(1) })
	return counts, err
}

const (
	linesByFile   = `SELECT name, lines FROM file`
	linesByWorker = `SELECT worker, lines FROM share`
)

func (l *ledger) rows(query string, args []any, each func(*sqlite.Stmt)) error {
	err := sqlitex.Execute(l.db, query,
		&sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			each(s)
			return nil
		}})
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	return nil
}
