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
func (s *Store) SubmitTx(
	ctx context.Context, tx pgx.Tx, sub store.Submission,
) (store.Submitted, error) {
	return s.submitInside(ctx, pgxTx{s, tx}, sub)
}

// SubmitSQL is SubmitTx for a transaction of database/sql, of pgx's driver
// (github.com/jackc/pgx/v5/stdlib).
func (s *Store) SubmitSQL(
	ctx context.Context, tx *sql.Tx, sub store.Submission,
) (store.Submitted, error) {
	return s.submitInside(ctx, sqlTx{s, tx}, sub)
}

func (s *Store) submitInside(
	ctx context.Context, in runner, sub store.Submission,
) (answer store.Submitted, err error) {
	if s.closed.Load() {
		return answer, store.ErrClosed
	}
	sub.Holder = store.Holder{}
	if err := s.coverAll(ctx, &sub); err != nil {
		// by a transaction of its own: the caller's must not make tables
		return answer, fmt.Errorf("submit: %w", err)
	}
	c, err := s.look(ctx, in, &sub)
	if err == nil {
		last := func(ctx context.Context, queries ...query) error {
			return in.run(ctx, append(queries, s.notifying(&sub)...)...)
		}
		answer, err = c.insert(ctx, in, loose{s}, last)
	}
	if err != nil {
		return store.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	return answer, nil
}

// coverAll makes the partitions of a submission that are not known to be there.
func (s *Store) coverAll(ctx context.Context, sub *store.Submission) error {
	for i := range sub.Batches {
		if id := sub.Batches[i].ID; id < s.covered.from.Load() || id >= s.covered.to.Load() {
			return s.makeRoom(ctx, sub)
		}
	}
	return nil
}

// notifying tells other nodes as soon as the transaction is committed. PostgreSQL says equal things
// once.
func (s *Store) notifying(sub *store.Submission) []query {
	if s.notices == nil {
		return nil
	}
	var payloads []string
	for i := range sub.Batches {
		payloads = append(payloads, Hint{Queue: sub.Batches[i].Queue}.payload("tx")...)
	}
	return []query{tell(notify, s.conf.Schema, payloads)}
}

// pgxTx runs queries in a caller's transaction.
type pgxTx struct {
	s  *Store
	tx pgx.Tx
}

func (t pgxTx) run(ctx context.Context, queries ...query) error {
	return t.tx.SendBatch(ctx, t.s.batch(queries, nil)).Close()
}

// sqlTx is pgxTx for database/sql, which has no way to send queries together.
type sqlTx struct {
	s  *Store
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
	list, err := t.tx.QueryContext(ctx, t.s.in(q.text), q.args...)
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
