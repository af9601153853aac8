package worker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/rotahq/rota/task"
)

// Row is what a transaction answers a query with: a pgx.Row, or a *sql.Row.
type Row interface{ Scan(dest ...any) error }

// FinishTx records the outcome of the task that a handler works on inside a transaction of the
// handler's, so that both commit together or neither does: no crash leaves what the handler wrote
// without the outcome, or the outcome without what it wrote. ctx is the handler's; tx, as a pgx.Tx
// is one, is on the PostgreSQL database that the server's store is in (Config.Schema); the outcome
// is one of task.Finish, task.Next or task.NextAfter. Call it last, commit at once, and then return
// the outcome:
//
//	done := task.Finish(receipt)
//	if err := worker.FinishTx(ctx, tx, done); err != nil {
//		return task.Retry(err)
//	}
//	if err := tx.Commit(ctx); err != nil {
//		return task.Retry(err)
//	}
//	return done
//
// If the transaction has not committed when a done or next is returned, the task is tried again. A
// retry that is returned though it did commit, because nobody knew, is refused: the outcome stands.
//
// From the call on the transaction may idle for 5 s at most: what else is to become of the task,
// as when it is cancelled, waits for it. Values above 4 KiB go to the database, too, wherever the
// server keeps such. An error spoils the transaction: ErrStale when the hand-out is no longer this
// worker's, so that what somebody else does again is not done twice.
func FinishTx[R Row](
	ctx context.Context, tx interface {
		QueryRow(ctx context.Context, query string, args ...any) R
	}, o task.Outcome,
) error {
	return finish(ctx, o, func(query string, args ...any) Row {
		return tx.QueryRow(ctx, query, args...)
	})
}

// FinishSQL is FinishTx for a transaction of database/sql, as a *sql.Tx is one.
func FinishSQL[R Row](
	ctx context.Context, tx interface {
		QueryRowContext(ctx context.Context, query string, args ...any) R
	}, o task.Outcome,
) error {
	return finish(ctx, o, func(query string, args ...any) Row {
		return tx.QueryRowContext(ctx, query, args...)
	})
}

// finish lets ask call the function of the store's schema.
func finish(ctx context.Context, o task.Outcome, ask func(query string, args ...any) Row) error {
	h, _ := ctx.Value(workKey{}).(*hand)
	switch {
	case h == nil:
		return errors.New("finish a task: the context is not that of a task's handler")
	case o.Await != nil:
		return fmt.Errorf("finish task %s: a transaction records no wait: return it without one", h.task.ID)
	case len(o.Spawn) > 0:
		return fmt.Errorf("finish task %s: a transaction submits no children: add them before, or "+
			"return the outcome without one", h.task.ID)
	case !committable(o.Kind):
		return fmt.Errorf("finish task %s: a transaction records done or next, not %s", h.task.ID,
			textOf(o))
	}
	if sound := sound(o); sound.Kind != o.Kind {
		return fmt.Errorf("finish task %s: %s", h.task.ID, sound.Error)
	}
	args := []any{h.task.ID.String(), h.task.Token, text(o.Result), text([]byte(o.Stage)),
		text(o.Context), h.worker.config.Name, time.Since(h.arrived).Seconds()}
	query := "SELECT " + h.worker.config.Schema + `.finish($1::text, $2::text, $3::text::json,
$4::text, $5::text::json, $6::text, $7::float8 * interval '1 second'`
	if o.Delay > 0 { // a store of before knows no such argument
		query += ", $8::float8 * interval '1 second'"
		args = append(args, o.Delay.Seconds())
	}
	query += ") IS NULL"
	var nothing bool
	err := ask(query, args...).Scan(&nothing)
	if coded := (interface{ SQLState() string })(nil); errors.As(err, &coded) &&
		coded.SQLState() == staleState {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	if err != nil {
		return fmt.Errorf("finish task %s: %w", h.task.ID, err)
	}
	h.committed.Store(true)
	return nil
}

// text is a value as an argument of a query: none is NULL.
func text(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

// staleState is the SQLSTATE by which the function refuses who does not have the hand-out.
const staleState = "RT002"

// committable tells whether a transaction may record outcomes of a kind.
func committable(k task.Kind) bool { return k == task.KindDone || k == task.KindNext }

// textOf is an outcome in a message.
func textOf(o task.Outcome) string {
	if o.Error == "" {
		return o.Kind.String()
	}
	return o.Kind.String() + ": " + o.Error
}

// report is what the server is told of a hand-out whose handler has returned. What a transaction
// has recorded need not travel again.
func (h *hand) report() task.Report {
	r := task.Report{ID: h.task.ID, Token: h.task.Token, Outcome: h.outcome}
	if h.committed.Load() && committable(r.Kind) {
		r.Committed, r.Context, r.Result = true, nil, nil
	}
	return r
}

// schemaName is the form of Config.Schema.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)
