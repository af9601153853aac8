//go:build unix

package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// BenchmarkLimits is the life of tasks that a node submits to itself, of a queue without limits
// and of some with: there each hand-out is let begin first.
func BenchmarkLimits(b *testing.B) {
	const tasks = 256
	for _, scene := range []struct {
		name   string
		limits func(*task.Queue) // nil = none
		keys   int64
	}{
		{"none", nil, 0},
		{"running", func(q *task.Queue) { q.MaxRunning = 100_000 }, 0},
		{"rate", func(q *task.Queue) {
			q.Rate = task.Rate{Count: 1_000_000, Per: time.Second}
			q.Burst = 1_000_000
		}, 0},
		{"keys", func(q *task.Queue) { q.PerKey.MaxRunning = 10 }, 10_000},
		{"keys-rate", func(q *task.Queue) {
			q.PerKey.Rate = task.Rate{Count: 1_000_000, Per: time.Second}
			q.PerKey.Burst = 1_000_000
		}, 10_000},
	} {
		b.Run(scene.name, func(b *testing.B) {
			c := durable(b)
			c.limit(scene.limits)
			var last atomic.Int64
			c.measure(b, 4, tasks, func() {
				batch := c.batch(tasks, tasks, true)
				for i := range batch.Tasks {
					if scene.keys > 0 {
						batch.Tasks[i].GroupKey = fmt.Sprint(last.Add(1) % scene.keys)
					}
				}
				spans := c.submit(batch)
				if scene.limits != nil {
					c.begin(&batch, spans)
				}
				c.settle(spans)
			})
		})
	}
}

// limit makes queue q, and gives it limits.
func (c *client) limit(limits func(*task.Queue)) {
	c.Helper()
	if _, err := c.ChangeQueue(c.Context(), "q", func(q *task.Queue, _ bool) error {
		if limits != nil {
			limits(q)
		}
		return nil
	}); err != nil {
		c.Fatal(err)
	}
}

// running are the rows of hand-outs of all tasks of spans of a batch.
func (c *client) running(b *store.Batch, spans []store.Span) (rows []store.Running) {
	now := c.today().UnixMicro()
	for i := range spans {
		for n := spans[i].Lo; n <= spans[i].Hi; n++ {
			rows = append(rows, store.Running{
				ID: task.ID{Batch: b.ID, N: n}, Span: spans[i].ID, Token: spans[i].Token,
				Worker: "worker-1", Incarnation: "i", Started: now,
				Until: now + time.Hour.Microseconds(),
			})
		}
	}
	return rows
}

// sync writes hand-outs down.
func (c *client) sync(rows []store.Running) {
	c.Helper()
	for some := range slices.Chunk(rows, 1024) {
		if _, err := c.Sync(c.Context(), store.SyncRequest{
			Holder: c.holder, Insert: some,
		}); err != nil {
			c.Fatal(err)
		}
	}
}

// begin lets all tasks of spans of a batch begin.
func (c *client) begin(b *store.Batch, spans []store.Span) {
	c.Helper()
	r := store.BeginRequest{Holder: c.holder}
	for _, u := range c.running(b, spans) {
		t := &b.Tasks[u.ID.N]
		r.Rows = append(r.Rows, store.Begin{
			Queue: b.Queue, Key: t.GroupKey, Unique: t.Unique != nil, Running: u,
		})
	}
	got, err := c.Begin(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	for i, is := range got.Rows {
		if is != store.Begins {
			c.Fatalf("hand-out %d: %v", i, is)
		}
	}
}

// BenchmarkKeysAreNamed is what Begin, or the change of the queue, costs when a queue limits each
// key for the first time, for each task that runs of it.
func BenchmarkKeysAreNamed(b *testing.B) {
	const tasks, keys = 8192, 100
	c := durable(b)
	var rows []store.Running
	for range tasks / 256 {
		batch := c.batch(256, 256, true)
		for i := range batch.Tasks {
			batch.Tasks[i].GroupKey = fmt.Sprint(i % keys)
		}
		rows = append(rows, c.running(&batch, c.submit(batch))...)
	}
	c.sync(rows)
	c.limit(func(q *task.Queue) { q.PerKey.MaxRunning = tasks })
	first := store.BeginRequest{
		Holder: c.holder, Rows: []store.Begin{{Queue: "q", Running: rows[0]}},
	}
	for b.Loop() {
		b.StopTimer()
		if err := c.write(b.Context(), func(ctx context.Context, t *tx) error {
			return t.finish(ctx, tell("UPDATE rota.running SET key = NULL"))
		}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := c.Begin(c.Context(), first); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tasks), "µs/task")
}
