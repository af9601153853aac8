//go:build unix

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/task"
)

// finishing is a store whose lone reports of done and next are recorded by the function finish, as
// by handlers in transactions of their own.
type finishing struct {
	*Store
	pool   *pgxpool.Pool
	sealer *seal.Sealer
	used   *atomic.Int64
}

// onTheSuitesClock makes the clock of a database that of the transaction's setting.
const onTheSuitesClock = `CREATE OR REPLACE FUNCTION rota.micros(given bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN coalesce(given, current_setting('test.micros', true)::bigint); END $$`

// finishFor calls the function with what a report says.
const finishFor = `SELECT rota.finish($1, $2, result => $3::text::json, next_stage => $4,
context => $5::text::json, worker => $6, ran_for => $7::bigint * interval '1 microsecond',
delay => $8::bigint * interval '1 microsecond') IS NULL`

// Settle records one report after the other, and deletes the spent spans of which none was refused.
func (f finishing) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	var verdicts []task.Status
	var all store.Settled
	spent := slices.Clone(s.Spent)
	for i, r := range s.Reports {
		one, err := f.settle(ctx, r)
		if err != nil {
			return store.Settled{}, err
		}
		v := one.Verdicts[0]
		for _, x := range one.Spawned {
			x.Report = i
			all.Spawned = append(all.Spawned, x)
		}
		all.Look = append(all.Look, one.Look...)
		if v != task.Recorded && v != task.Repeated {
			spent = slices.DeleteFunc(spent, func(x store.Taking) bool {
				return x.Span == r.Token.Span
			})
		}
		verdicts = append(verdicts, v)
	}
	settled, err := f.Store.Settle(ctx, store.Settlement{Spent: spent})
	settled.Verdicts, settled.Spawned, settled.Look = verdicts, all.Spawned, all.Look
	slices.SortFunc(settled.Look, func(a, b store.Address) int {
		return cmp.Compare(a.String(), b.String())
	})
	settled.Look = slices.Compact(settled.Look)
	return settled, err
}

// settle records a report by the function, if it can, else as ever.
func (f finishing) settle(ctx context.Context, r store.Report) (one store.Settled, err error) {
	if finishable(&r) {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT set_config('test.micros', $1::text, true)",
				fmt.Sprint(f.clock())); err != nil {
				return err
			}
			return f.finish(ctx, tx, &r)
		})
		if err == nil { // as the settlement of the report says that follows
			err = f.glance(ctx, ended{r.ID}.awaited(func(text string) {
				a, _ := store.ParseAddress(text)
				one.Look = append(one.Look, a)
			})[0])
		}
		var no interface{ SQLState() string }
		switch {
		case err == nil:
			f.used.Add(1)
			one.Verdicts = []task.Status{task.Recorded}
			return one, nil
		case !errors.As(err, &no) || no.SQLState() != "RT002":
			return one, err
		}
	}
	return f.Store.Settle(ctx, store.Settlement{Reports: []store.Report{r}})
}

// finishable tells whether a transaction of the worker's could record a report.
func finishable(r *store.Report) bool {
	_, blob := r.Step.Context.Blob()
	_, blobs := r.Step.Result.Blob()
	return (r.Step.Kind == task.KindDone || r.Step.Kind == task.KindNext) && r.Notice == nil &&
		r.Await == nil && len(r.Spawn) == 0 &&
		!blob && !blobs
}

func (f finishing) finish(ctx context.Context, tx pgx.Tx, r *store.Report) error {
	arg := func(v []byte) any {
		if v == nil {
			return nil
		}
		return string(v)
	}
	var stage any
	if r.Step.Kind == task.KindNext {
		stage = r.Step.Stage
	}
	var delay any
	if wait := r.Step.Due - r.Step.Finished; r.Step.Kind == task.KindNext && wait > 0 {
		delay = wait
	}
	var none bool
	if err := tx.QueryRow(ctx, finishFor, r.ID.String(),
		f.sealer.Seal(r.Token, r.ID, r.Step.Worker).String(), arg(r.Step.Result), stage,
		arg(r.Step.Context), r.Step.Worker,
		r.Step.Finished-r.Step.Started, delay).Scan(&none); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE rota.step SET hash = $4, due = nullif($5::bigint, 0)
WHERE batch = $1 AND n = $2 AND seq = $3`, r.ID.Batch, r.ID.N, r.Token.Seq, r.Step.Hash, r.Step.Due)
	if err != nil || r.Move == nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE rota.span SET rank = $4, due = $5
WHERE batch = $1 AND lo = $2 AND seq0 = $3`, r.ID.Batch, r.ID.N, r.Token.Seq+1, r.Move.Rank,
		r.Move.Due)
	return err
}

// Whatever holds for outcomes that are reported holds for those that a handler's transaction
// records.
func TestTransactionsOfHandlersKeepTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("other statements, not other goroutines: short runs, which look for races, need not")
	}
	t.Parallel()
	e, used := emptied{name: "finishing"}, new(atomic.Int64)
	var pool *pgxpool.Pool // of the handlers
	defer func() {
		if pool != nil {
			pool.Close()
		}
	}()
	open := func(t *testing.T, clock *contract.Clock) contract.Store {
		s := e.fresh(t, onSuitesClock(clock, Config{marksFrom: 1}), "")
		if pool == nil {
			e.exec(t, onTheSuitesClock)
			var err error
			if pool, err = pgxpool.New(t.Context(), e.dsn); err != nil {
				t.Fatal(err)
			}
		}
		return finishing{s, pool, seal.NewSealer(s.Secret()), used}
	}
	storetest.RunStatements(t, model.Reference, open)
	if n := used.Load(); n < 50 {
		t.Errorf("the function recorded %d outcomes", n)
	}
}
