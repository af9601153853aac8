package rota

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// ErrNoDatabase answers SubmitTx and SubmitSQL when the store is no PostgreSQL: an embedded file
// has no transactions but its own.
var ErrNoDatabase = errors.New("the store is no PostgreSQL database")

// SubmitTx stores tasks inside a transaction of the caller's, on the database that the store is in:
// they are there when it commits, with all else that it did, and never were when it does not. Until
// then submissions elsewhere with the same keys wait, a second at most. An error spoils the
// transaction. ErrNoDatabase.
func (n *Node) SubmitTx(
	ctx context.Context, tx pgx.Tx, tasks ...task.Submission,
) ([]task.Receipt, error) {
	s, ok := n.store.(*shared)
	if !ok {
		return nil, ErrNoDatabase
	}
	return submitTx(ctx, n.tasks, s, tx, tasks)
}

// SubmitSQL is SubmitTx for a transaction of database/sql with pgx's driver
// (github.com/jackc/pgx/v5/stdlib).
func (n *Node) SubmitSQL(
	ctx context.Context, tx *sql.Tx, tasks ...task.Submission,
) ([]task.Receipt, error) {
	s, ok := n.store.(*shared)
	if !ok {
		return nil, ErrNoDatabase
	}
	return submitSQL(ctx, n.tasks, s, tx, tasks)
}

func submitTx(
	ctx context.Context, d *dispatch.Dispatcher, s *shared, tx pgx.Tx, tasks []task.Submission,
) ([]task.Receipt, error) {
	return submitInside(ctx, d, tasks,
		func(ctx context.Context, sub store.Submission) (store.Submitted, error) {
			return s.SubmitTx(ctx, tx, sub)
		})
}

func submitSQL(
	ctx context.Context, d *dispatch.Dispatcher, s *shared, tx *sql.Tx, tasks []task.Submission,
) ([]task.Receipt, error) {
	return submitInside(ctx, d, tasks,
		func(ctx context.Context, sub store.Submission) (store.Submitted, error) {
			return s.SubmitSQL(ctx, tx, sub)
		})
}

// submitInside stores tasks by way of write. A task that can't be stored does not touch the
// caller's transaction.
func submitInside(
	ctx context.Context, d *dispatch.Dispatcher, tasks []task.Submission,
	write func(context.Context, store.Submission) (store.Submitted, error),
) ([]task.Receipt, error) {
	if err := wire.CheckContexts(tasks); err != nil {
		return nil, err
	}
	return d.SubmitInside(ctx, tasks, write)
}

// SubmitterConfig says where a Submitter stores tasks. Only Store is needed.
type SubmitterConfig struct {
	// Store is the database of the nodes, "postgres://USER:PASSWORD@HOST/DATABASE", with the
	// parameters that theirs has: see Config.Store. By default it takes four connections at most.
	Store string
	// Blobs is the folder for contexts over 4,096 bytes, if the nodes have one.
	Blobs string
	// Log is where it tells what it does. Default: slog.Default().
	Log *slog.Logger
}

// Submitter stores tasks in a database that nodes work on, and does nothing else: it is no member
// of the cluster, holds nothing, and nobody waits for it when it is gone. A program that serves
// requests, and whose tasks are done elsewhere, needs no more. All methods may be called at the
// same time.
type Submitter struct {
	store *shared
	tasks *dispatch.Dispatcher // never run: it holds no tasks

	mu        sync.Mutex
	refreshed time.Time // when the store's clock and queues were read last
}

// NewSubmitter connects to a store on PostgreSQL, whose tables a node has made (ErrConfig if the
// URL is wrong, or names no database). Close it.
func NewSubmitter(ctx context.Context, conf SubmitterConfig) (*Submitter, error) {
	if conf.Log == nil {
		conf.Log = slog.Default()
	}
	at, err := parseStore(conf.Store)
	if err == nil && at.file != "" {
		err = fmt.Errorf("store %s: %w: its tasks are submitted by the node that has opened it",
			conf.Store, ErrNoDatabase)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	at.database.Standing = true
	if at.database.Connections == 0 {
		at.database.Connections = 4
	}
	db, err := at.openWith(ctx, Config{Blobs: conf.Blobs, Log: conf.Log}, nil)
	if err != nil {
		return nil, err
	}
	s := &Submitter{store: db.(*shared), refreshed: time.Now()}
	s.tasks, err = dispatch.New(ctx, dispatch.Config{
		Store: db, Clock: tick.New(tick.Config{}), Log: conf.Log,
		// of nobody: its ids differ from those of nodes, and of other submitters
		Holder:  store.Holder{Node: "submitter-" + strings.ToLower(rand.Text())},
		Flights: 2, Company: 2 * time.Millisecond,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Submit stores tasks, all or none, durably before it returns. Errors: *task.InvalidError, ErrFull,
// ErrUnavailable, ErrOutcomeUnknown.
func (s *Submitter) Submit(
	ctx context.Context, tasks ...task.Submission,
) ([]task.Receipt, error) {
	if err := wire.CheckContexts(tasks); err != nil {
		return nil, err
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.tasks.Submit(ctx, tasks)
}

// SubmitTx stores tasks inside a transaction of the caller's, as Node.SubmitTx does.
func (s *Submitter) SubmitTx(
	ctx context.Context, tx pgx.Tx, tasks ...task.Submission,
) ([]task.Receipt, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return submitTx(ctx, s.tasks, s.store, tx, tasks)
}

// SubmitSQL is SubmitTx for a transaction of database/sql with pgx's driver.
func (s *Submitter) SubmitSQL(
	ctx context.Context, tx *sql.Tx, tasks ...task.Submission,
) ([]task.Receipt, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return submitSQL(ctx, s.tasks, s.store, tx, tasks)
}

// Close waits for submissions under way and disconnects.
func (s *Submitter) Close() error {
	return errors.Join(s.tasks.Close(context.Background()), s.store.Close())
}

// staleAfter is how old may be what a submitter knows of the store's clock and of the queues.
const staleAfter = 10 * time.Second

// refresh reads both again when it is time to.
func (s *Submitter) refresh(ctx context.Context) error {
	s.mu.Lock()
	due := time.Since(s.refreshed) > staleAfter
	if due { // the others go on with what is known
		s.refreshed = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	if err := s.tasks.Refresh(ctx); err != nil {
		s.mu.Lock()
		s.refreshed = time.Time{} // the next call tries
		s.mu.Unlock()
		return fmt.Errorf("refresh: %w", err)
	}
	return nil
}
