package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// client is a node on a store: it makes submissions and reports as a dispatcher would.
type client struct {
	testing.TB
	*Store
	holder store.Holder
	last   int64
}

func join(t testing.TB, s *Store) *client {
	t.Helper()
	l, err := s.Acquire(t.Context(), "node/a", "a", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &client{TB: t, Store: s, holder: store.Holder{Node: "a", Token: l.Token}}
}

var context100 = store.Value(`{"x":"` + strings.Repeat("y", 92) + `"}`)

// batch makes a batch of n ready tasks in spans of the given width.
func (c *client) batch(n, width int, hold bool) store.Batch {
	c.last++
	now := c.clock()
	b := store.Batch{
		ID: store.BatchID(now, 0) + c.last, Queue: "q", Rank: now, Due: now, Created: now,
		Origin: "a", Tasks: make([]store.Task, n),
	}
	for i := range b.Tasks {
		b.Tasks[i] = store.Task{N: int32(i), Stage: "first", Context: context100}
	}
	for lo := 0; lo < n; lo += width {
		b.Spans = append(b.Spans, store.NewSpan{
			Lo: int32(lo), Hi: int32(min(lo+width, n) - 1), Hold: hold,
		})
	}
	return b
}

func (c *client) submit(b store.Batch) []store.Span {
	c.Helper()
	got, err := c.Submit(c.Context(), store.Submission{Holder: c.holder, Batches: []store.Batch{b}})
	if err != nil {
		c.Fatal(err)
	}
	return got.Spans
}

// report ends task n of a span with its seq.
func report(sp *store.Span, n, seq int32, now int64, o task.Outcome) store.Report {
	d := progress.Decide(task.ID{Batch: sp.Batch, N: n},
		progress.Standing{Stage: "first", Seq: seq}, o,
		progress.Limits{MaxAttempts: 5})
	r := store.Report{
		ID: task.ID{Batch: sp.Batch, N: n}, Queue: sp.Queue, Token: task.Token{
			Span: sp.ID, SpanToken: sp.Token, Seq: seq,
		},
		Step: store.Step{
			Kind: o.Kind, Ran: "first", Stage: d.Stage, Context: store.Value(o.Context),
			ContextSeq: -1, Result: store.Value(o.Result), Attempt: d.Attempt,
			Base: sp.Seq0, Worker: "worker-1", Started: now, Finished: now, Error: o.Error,
			Hash: store.ReportHash(o),
		},
	}
	if d.Final != "" {
		r.Step.Base = store.Final
	}
	return r
}

// settle ends all tasks of spans.
func (c *client) settle(spans []store.Span) {
	c.Helper()
	var set store.Settlement
	now := c.clock()
	for i := range spans {
		sp := &spans[i]
		for n := sp.Lo; n <= sp.Hi; n++ {
			set.Reports = append(set.Reports, report(sp, n, 0, now+int64(n), task.Finish(nil)))
		}
		set.Spent = append(set.Spent, sp.Taking())
	}
	got, err := c.Settle(c.Context(), set)
	if err != nil {
		c.Fatal(err)
	}
	for i, v := range got.Verdicts {
		if v != task.Recorded {
			c.Fatalf("report %d: %s", i, v)
		}
	}
}

// The life of tasks that a node submits to itself, by how many share a transaction and a span.
func BenchmarkLife(b *testing.B) {
	for _, size := range []struct{ tasks, span int }{
		{1, 1}, {100, 100}, {500, 500}, {500, 1}, {5000, 100},
	} {
		b.Run(fmt.Sprintf("tasks=%d/span=%d", size.tasks, size.span), func(b *testing.B) {
			c := join(b, open(b, Config{}))
			b.ReportAllocs()
			cpu := cpuTime()
			done := 0
			for b.Loop() {
				c.settle(c.submit(c.batch(size.tasks, size.span, true)))
				done += size.tasks
			}
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(done), "cpu-ns/task")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/task")
		})
	}
}

// What a taker pays when a million tasks are there: ready or asleep, each in a span of its own, or
// all in one.
func BenchmarkTakeAmongAMillion(b *testing.B) {
	const million = 1_000_000
	for _, scene := range []struct {
		name  string
		width int
		delay time.Duration
	}{{"ready/span=1", 1, 0}, {"ready/span=1000000", million, 0}, {"asleep/span=1", 1, time.Hour}} {
		b.Run(scene.name, func(b *testing.B) {
			c := join(b, open(b, Config{Path: filepath.Join(b.TempDir(), "rota.db")}))
			size := max(scene.width, 10_000)
			for range million / size {
				batch := c.batch(size, scene.width, false)
				batch.Due += scene.delay.Microseconds()
				batch.Rank = batch.Due
				c.submit(batch)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Take(
					b.Context(), store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 100},
				); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a start costs: a new store, and one that is there.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		dir := b.TempDir()
		for i := 0; b.Loop(); i++ {
			s, err := Open(b.Context(), Config{Path: filepath.Join(dir, fmt.Sprint(i, ".db"))})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
	b.Run("old", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "rota.db")
		for b.Loop() {
			s, err := Open(b.Context(), Config{Path: path})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}

// BenchmarkHistory reads a day of a queue by the minute, and what is not added up yet, out of the
// history of a day in which 1,000 queues did something each minute.
func BenchmarkHistory(b *testing.B) {
	const queues, minutes = 1000, 24 * 60
	c := join(b, open(b, Config{}))
	var r history.Record
	r.Submitted, r.Started, r.Done = 100, 100, 100
	for i := range int64(100) {
		r.Wait.Add(100 + i*i*i)
		r.Run.Add(5000 + 300*i)
	}
	var changes history.Changes
	changes.Submitted(c.clock(), "q7", make([]store.Task, 400))
	now := time.UnixMicro(c.clock())
	last := now.Unix() / 60
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(c.write(b.Context(), func(t *tx) error {
		_, err := t.exec(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n
  WHERE i < ?3)
INSERT INTO history (minutes, at, worker, queue, stage, body)
SELECT 1, ?1 - m.i, '', 'q' || q.i, '', ?2 FROM n m CROSS JOIN n q WHERE q.i BETWEEN 1 AND ?4`, last, r.Encode(), minutes, queues)
		for range 2000 {
			if err == nil {
				_, err = t.exec(addChanges, changes.Encode())
			}
		}
		return err
	}))
	q, err := history.NewQuestion(history.Series{Queue: "q7"}, now.Add(-24*time.Hour), now,
		time.Minute, history.Kept{}.Complete(), now)
	must(err)
	b.ResetTimer()
	for b.Loop() {
		list, err := c.History(b.Context(), q)
		if err != nil || len(list) != minutes+1 || list[5].Done != 100 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkFold adds up what 1,000 queues and 100 workers did in five seconds: others wait for the
// writer meanwhile.
func BenchmarkFold(b *testing.B) {
	c := join(b, open(b, Config{}))
	var changes history.Changes
	for q := range 1000 {
		for w := range 3 {
			changes.Settled(fmt.Sprint("q", q), c.clock()-int64(q*1000), &store.Step{
				Kind: task.KindDone, Base: store.Final, Worker: fmt.Sprint("w", (q+w)%100),
				Started: c.clock(), Finished: c.clock() + int64(1000*w+q),
			})
		}
	}
	body := changes.Encode()
	for b.Loop() {
		err := c.write(b.Context(), func(t *tx) error {
			_, err := t.exec(addChanges, body)
			return err
		})
		if err == nil {
			_, err = c.fold(b.Context(), c.clock())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
