package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
)

// SubmitTx inserts a submission inside the caller's transaction: its tasks are there when that
// commits, and never were when it does not. Spans are free, whatever Hold says; nothing is known of
// the commit here. Until then, submissions elsewhere with the same keys wait, a second at most. An
// error spoils the transaction, but for store.ErrConflict.
func (s *submissions) SubmitTx(
	ctx context.Context, tx pgx.Tx, sub store.Submission,
) (store.Submitted, error) {
	return s.submitInside(ctx, pgxTx{s.database, tx}, sub)
}

// SubmitSQL is SubmitTx for a transaction of database/sql, of pgx's driver
// (github.com/jackc/pgx/v5/stdlib).
func (s *submissions) SubmitSQL(
	ctx context.Context, tx *sql.Tx, sub store.Submission,
) (store.Submitted, error) {
	return s.submitInside(ctx, sqlTx{s.database, tx}, sub)
}

func (s *submissions) submitInside(
	ctx context.Context, in runner, sub store.Submission,
) (answer store.Submitted, err error) {
	if s.closed.Load() {
		return answer, store.ErrClosed
	}
	sub.Holder = store.Holder{}
	if err := s.partitioning.coverAll(ctx, &sub); err != nil {
		// by a transaction of its own: the caller's must not make tables
		return answer, fmt.Errorf("submit: %w", err)
	}
	c, err := s.look(ctx, in, &sub)
	if err == nil {
		last := func(ctx context.Context, queries ...query) error {
			return in.run(ctx, append(queries, s.hints.notifying(&sub)...)...)
		}
		answer, err = c.insert(ctx, in, loose{s.database}, last)
	}
	if err != nil {
		return store.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	return answer, nil
}

// pgxTx runs queries in a caller's transaction.
type pgxTx struct {
	*database
	tx pgx.Tx
}

func (t pgxTx) run(ctx context.Context, queries ...query) error {
	return t.tx.SendBatch(ctx, t.batch(queries, nil)).Close()
}

// sqlTx is pgxTx for database/sql, which has no way to send queries together.
type sqlTx struct {
	*database
	tx *sql.Tx
}

func (t sqlTx) run(ctx context.Context, queries ...query) error {
	for i := range queries {
		if err := t.one(ctx, &queries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t sqlTx) one(ctx context.Context, q *query) (err error) {
	list, err := t.tx.QueryContext(ctx, t.in(q.text), q.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	for list.Next() {
		if q.row == nil {
			continue
		}
		if err := q.row(list); err != nil {
			return err
		}
	}
	return list.Err()
}
