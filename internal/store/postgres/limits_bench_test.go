//go:build unix

package postgres

import (
	"fmt"
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

// begin lets all tasks of spans of a batch begin.
func (c *client) begin(b *store.Batch, spans []store.Span) {
	c.Helper()
	now := c.today().UnixMicro()
	r := store.BeginRequest{Holder: c.holder}
	for i := range spans {
		for n := spans[i].Lo; n <= spans[i].Hi; n++ {
			t := &b.Tasks[n]
			u := store.Running{
				ID: task.ID{Batch: b.ID, N: n}, Span: spans[i].ID, Token: spans[i].Token,
				Worker: "worker-1", Incarnation: "i", Started: now,
				Until: now + time.Hour.Microseconds(),
			}
			r.Rows = append(r.Rows, store.Begin{
				Queue: b.Queue, Key: t.GroupKey, Unique: t.Unique != nil, Running: u,
			})
		}
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
