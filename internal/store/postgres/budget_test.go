//go:build unix

package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// meter counts the trips to the database.
type meter struct {
	trips atomic.Int64
	told  atomic.Pointer[[]string] // gets the statements; nil = nobody asks
}

func (m *meter) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	m.trips.Add(1)
	return ctx
}
func (m *meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (m *meter) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	m.trips.Add(1)
	return ctx
}
func (m *meter) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	if list := m.told.Load(); list != nil {
		*list = append(*list, q.SQL)
	}
}
func (m *meter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

var errNone = errors.New("none")

// A settlement pays for families where it may concern some: the id of a batch says so, and a task
// that ends badly may have children. What ends is asked for by one statement; what goes on is not.
func TestASettlementWithoutFamiliesAsksForNone(t *testing.T) {
	m := &meter{}
	c := join(t, open(t, Config{NoNotify: true, tracer: m}))
	for what, test := range map[string]struct {
		outcome task.Outcome
		child   bool
		want    []string // tables
	}{
		"done":         {task.Finish(nil), false, []string{"change", "dependency"}},
		"next":         {task.Next("second", nil), false, nil},
		"next, maybe":  {task.Next("second", nil), true, nil},
		"done, maybe":  {task.Finish(nil), true, []string{"change", "child_batch", "dependency"}},
		"retried":      {task.Retry(errNone), false, nil},
		"dead":         {task.Fail(errNone), false, []string{"change", "child_batch", "dependency"}},
		"dead, maybe?": {task.Fail(errNone), true, []string{"change", "child_batch", "dependency"}},
	} {
		b := c.batch(1, 1, true)
		for store.MayBeChildren(b.ID) != test.child {
			b = c.batch(1, 1, true)
		}
		sp := c.submit(b)[0]
		var told []string
		m.told.Store(&told)
		c.records(report(&sp, 0, 0, 1, test.outcome))
		m.told.Store(nil)
		var got []string
		for _, table := range []string{"change", "child_batch", "child_count", "dependency",
			"wait"} {
			if slices.ContainsFunc(told, func(text string) bool {
				return strings.Contains(strings.ReplaceAll(text, "\n", " "), "rota."+table+" ")
			}) {
				got = append(got, table)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: it asks for %v, want %v", what, got, test.want)
		}
	}
}

// A trip costs a network's round, and a transaction that is open meanwhile.
func TestTripsPerCall(t *testing.T) {
	story.Whole(t)
	m := &meter{}
	c := join(t, open(t, Config{NoNotify: true, tracer: m}))
	budget := func(what string, want int64, do func() error) {
		t.Helper()
		before := m.trips.Load()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := m.trips.Load() - before; got != want {
			t.Errorf("%s: %d trips, want %d", what, got, want)
		}
	}
	ctx := t.Context()
	c.settle(c.submit(c.batch(1, 1, true))) // span ids are reserved
	var spans []store.Span
	for _, n := range []int{1, 1000} {
		b := c.batch(n, 100, true)
		budget("submit", 1, func() error {
			got, err := c.Submit(ctx, store.Submission{Holder: c.holder, Batches: []store.Batch{b}})
			spans = got.Spans
			return err
		})
		budget("settle", 1, func() error { c.settle(spans); return nil })
	}
	b := c.batch(chunkTasks+1, chunkTasks+1, false)
	budget("submit by several statements", 1, func() error { c.submit(b); return nil })
	take := store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 100}
	var held []store.HeldSpan
	budget("take", 2, func() error {
		got, err := c.Take(ctx, take)
		held = got.Spans
		return err
	})
	sp := held[0].Span
	repeated := store.Settlement{
		Reports: []store.Report{
			report(&sp, 0, 0, 1, task.Finish(nil)), report(&sp, 0, 0, 1, task.Finish(nil)),
		},
	}
	budget("settle what is not all good", 1+3, func() error {
		_, err := c.Settle(ctx, repeated)
		return err
	})
	keyed := c.batch(1, 1, false)
	keyed.Tasks[0].Key, keyed.Tasks[0].KeyUntil = "k", keyed.Due+time.Hour.Microseconds()
	budget("submit with keys", 2, func() error {
		_, err := c.Submit(ctx, store.Submission{Batches: []store.Batch{keyed}})
		return err
	})
	running := []store.Running{
		{ID: task.ID{Batch: sp.Batch, N: 1}, Span: sp.ID, Token: sp.Token, Worker: "w"},
	}
	budget("sync", 1, func() error {
		_, err := c.Sync(ctx, store.SyncRequest{
			Holder: c.holder, Insert: running, Watch: []store.Watch{{ID: running[0].ID}},
		})
		return err
	})
	budget("give", 2, func() error {
		return c.Give(ctx, store.GiveRequest{
			Holder: c.holder, Spans: []store.Taking{sp.Taking()}, Running: running,
		})
	})
	lease := []store.Lease{{Name: "node/a", Token: c.holder.Token}}
	budget("beat", 1, func() error {
		_, err := c.Beat(ctx, lease, time.Hour, "node/", "chore/")
		return err
	})
	budget("held", 1, func() error { _, err := c.Held(ctx, c.holder, nil); return err })
	budget("free", 1, func() error { _, err := c.Free(ctx, c.holder, math.MaxInt64); return err })
	budget("free what ended", 1, func() error { _, err := c.FreeEnded(ctx); return err })
	budget("view", 1, func() error { _, err := c.Task(ctx, running[0].ID); return err })
	// the clock, batches, ids, tasks, the end
	budget("list", 5, func() error {
		_, _, err := c.Tasks(ctx, store.Filter{}, task.ID{}, 50)
		return err
	})
	if _, err := c.Prune(ctx, 1000); err != nil {
		t.Fatal(err)
	}
	budget("prune, when nothing is to be pruned", 2, func() error {
		_, err := c.Prune(ctx, 1000)
		return err
	})
	one := c.submit(c.batch(1, 1, true))[0]
	id := task.ID{Batch: one.Batch}
	budget("settle what waits", 1, func() error {
		_, err := c.Settle(ctx, store.Settlement{
			Reports: []store.Report{waits(&one, 0, 0, 1, forItself(id))},
			Spent:   []store.Taking{one.Taking()},
		})
		return err
	})
	look := func(list ...store.Address) func() error {
		return func() error {
			_, err := c.Look(ctx, store.LookRequest{Addresses: list, Limit: 10})
			return err
		}
	}
	budget("look at a wait without a signal", 2, look(goAt(id)))
	budget("look when nothing has changed", 1, look())
	family := c.parent()
	at := store.ChildrenOf(task.ID{Batch: family.Batch}, 0)
	var born []store.Span
	budget("add children", 2, func() (err error) {
		born, err = c.under(&family, 0, c.brood(0, 2, true))
		return err
	})
	budget("spawn children, and wait", 1, func() error {
		c.records(awaits(&family, 0, false, c.brood(2, 1, false)))
		return nil
	})
	budget("end a child", 1, func() error {
		c.records(report(&born[0], 0, 0, 1, task.Fail(errNone)))
		return nil
	})
	// changes; counts and the wait; how they stand; the end
	budget("look at children that are open", 4, look(at))
	known := c.parent()
	budget("spawn children with keys", 3, func() error {
		b := c.brood(0, 1, false)
		b.Tasks[0].Key, b.Tasks[0].KeyUntil = "child", b.Due+1e9
		r := report(&known, 0, 0, 1, task.Finish(nil))
		r.Spawn = []store.Batch{b}
		c.records(r)
		return nil
	})
	budget("signal that nobody waits for", 1+2, func() error {
		_, err := c.Signal(ctx, store.Signal{To: goBy("none")})
		return err
	})
	// how it stands; the signal; changes and waits, tasks and signals, steps, the end
	budget("signal to a task", 2+4, func() error {
		_, err := c.Signal(ctx, store.Signal{To: goAt(id)})
		return err
	})
	take.Queue = "none"
	budget("take from an empty queue", 1, func() error { _, err := c.Take(ctx, take); return err })
}
