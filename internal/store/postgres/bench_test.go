//go:build unix

package postgres

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// client is a node on a store: it makes submissions and reports as a dispatcher would.
type client struct {
	testing.TB
	*Store
	holder  store.Holder
	cluster *pgtest.Cluster // of benchmarks

	mu   sync.Mutex
	last int64
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	now := c.today().UnixMicro()
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
		c.Error(err)
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
	now := c.today().UnixMicro()
	for i := range spans {
		sp := &spans[i]
		for n := sp.Lo; n <= sp.Hi; n++ {
			set.Reports = append(set.Reports, report(sp, n, 0, now+int64(n), task.Finish(nil)))
		}
		set.Spent = append(set.Spent, sp.Taking())
	}
	got, err := c.Settle(c.Context(), set)
	if err != nil {
		c.Error(err)
	}
	for i, v := range got.Verdicts {
		if v != task.Recorded {
			c.Errorf("report %d: %s", i, v)
		}
	}
}

// durable is a store whose commits are fsynced, on a server of its own.
func durable(b *testing.B) *client {
	cluster := pgtest.Start(b, pgtest.Config{Durable: true})
	c := join(b, open(b, Config{DSN: cluster.Database(b)}))
	c.cluster = cluster
	return c
}

// serverCPU is what the server has used of all cores.
func (c *client) serverCPU() time.Duration {
	d, err := c.cluster.CPUTime()
	if err != nil {
		c.Fatal(err)
	}
	return d
}

// lsn is how many bytes of log the server has written.
func (c *client) lsn() (n int64) {
	err := c.glance(c.Context(),
		ask("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint", func(r row) error {
			return r.Scan(&n)
		}))
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// measure runs do by as many callers as there are connections in use, and says what a task costs.
func (c *client) measure(b *testing.B, callers, tasks int, do func()) {
	c.checkpoint(b)
	lsn, cpu, server := c.lsn(), cpuTime(), c.serverCPU()
	b.ResetTimer()
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range callers {
		wg.Go(func() {
			for range work {
				do()
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.StopTimer()
	done := float64(b.N * tasks)
	b.ReportMetric(done/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(c.lsn()-lsn)/done, "walB/task")
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/done, "client-cpu-ns/task")
	b.ReportMetric(float64((c.serverCPU()-server).Nanoseconds())/done, "server-cpu-ns/task")
	b.ReportMetric(0, "ns/op")
}

func (c *client) checkpoint(b *testing.B) {
	conn, err := c.acquire(b.Context())
	if err == nil {
		_, err = conn.Exec(b.Context(), "CHECKPOINT")
		conn.Release()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what this process has used of all cores; the server's use is not in it.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkSubmit(b *testing.B) {
	for _, size := range []struct{ tasks, span, callers int }{
		{1000, 1000, 1}, {1000, 1000, 2}, {1000, 1, 2}, {5000, 5000, 2}, {1, 1, 1},
	} {
		b.Run(fmt.Sprintf("tasks=%d/span=%d/callers=%d", size.tasks, size.span, size.callers),
			func(b *testing.B) {
				c := durable(b)
				c.measure(b, size.callers, size.tasks, func() {
					c.submit(c.batch(size.tasks, size.span, true))
				})
			})
	}
}

func BenchmarkSettle(b *testing.B) {
	for _, size := range []struct{ tasks, span, callers int }{
		{500, 100, 1}, {500, 100, 2}, {1000, 100, 2}, {500, 1, 2}, {1, 1, 1},
	} {
		b.Run(fmt.Sprintf("tasks=%d/span=%d/callers=%d", size.tasks, size.span, size.callers),
			func(b *testing.B) {
				c := durable(b)
				ready := make(chan []store.Span, b.N)
				for range b.N {
					ready <- c.submit(c.batch(size.tasks, size.span, true))
				}
				c.measure(b, size.callers, size.tasks, func() { c.settle(<-ready) })
			})
	}
}

// BenchmarkSettleFewOfAPack settles 512 tasks at a time, so many of each pack, until all packs are
// done: in marks, which grow then, and as steps.
func BenchmarkSettleFewOfAPack(b *testing.B) {
	const tasks = 512
	for _, few := range []int32{2, 4, 8, 16} {
		for name, from := range map[string]int{"marks": int(few), "steps": 1000} {
			b.Run(fmt.Sprintf("tasks=%d/%s", few, name), func(b *testing.B) {
				c := durable(b)
				c.conf.marksFrom = from
				packs := tasks / few
				var sets []store.Settlement
				for len(sets) < b.N {
					sp := c.submit(c.batch(int(packs)*pack.Size, int(packs)*pack.Size, true))[0]
					for at := int32(0); at < pack.Size; at += few {
						var set store.Settlement
						for lo := int32(0); lo < packs*pack.Size; lo += pack.Size {
							set.Reports = append(set.Reports, ends(&sp, lo+at, lo+at+few-1)...)
						}
						sets = append(sets, set)
					}
				}
				next := make(chan store.Settlement, len(sets))
				for _, set := range sets {
					next <- set
				}
				c.measure(b, 1, tasks, func() {
					if _, err := c.Settle(b.Context(), <-next); err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

// A life is submitted, taken or held from the start, and settled.
func BenchmarkLife(b *testing.B) {
	for _, size := range []struct {
		tasks, span, callers int
		hold                 bool
	}{
		{1000, 1000, 4, true}, {1000, 1000, 4, false}, {500, 100, 4, true}, {500, 1, 4, true},
		{500, 1, 4, false}, {1, 1, 8, true},
	} {
		b.Run(fmt.Sprintf("tasks=%d/span=%d/callers=%d/held=%v", size.tasks, size.span,
			size.callers, size.hold), func(b *testing.B) {
			c := durable(b)
			c.measure(b, size.callers, size.tasks, func() {
				spans := c.submit(c.batch(size.tasks, size.span, size.hold))
				if !size.hold {
					spans = nil
					got, err := c.Take(b.Context(), store.TakeRequest{
						Holder: c.holder, Queue: "q", Limit: size.tasks,
					})
					if err != nil {
						b.Error(err)
					}
					for _, h := range got.Spans {
						spans = append(spans, h.Span)
					}
				}
				c.settle(spans)
			})
		})
	}
}

// What a taker pays when a million tasks are there: ready or asleep, each in a span of its own, or
// a thousand in one.
func BenchmarkTakeAmongAMillion(b *testing.B) {
	const million, gather = 1_000_000, 10_000
	for _, scene := range []struct {
		name  string
		width int
		delay time.Duration
	}{{"ready/span=1", 1, 0}, {"ready/span=1000", 1000, 0}, {"asleep/span=1", 1, time.Hour}} {
		b.Run(scene.name, func(b *testing.B) {
			c := durable(b)
			for range million / gather {
				batch := c.batch(gather, scene.width, false)
				batch.Due += scene.delay.Microseconds()
				batch.Rank = batch.Due
				c.submit(batch)
			}
			c.measure(b, 1, 100, func() {
				if _, err := c.Take(
					b.Context(), store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 100},
				); err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/take")
		})
	}
}

// BenchmarkHistory reads a day of a queue by the minute, and what is not added up yet, out of the
// history of a day in which 1,000 queues did something each minute.
func BenchmarkHistory(b *testing.B) {
	const queues, minutes = 1000, 24 * 60
	dsn := pgtest.Shared(b).Database(b)
	c := join(b, open(b, Config{DSN: dsn}))
	var r history.Record
	r.Submitted, r.Started, r.Done = 100, 100, 100
	for i := range int64(100) {
		r.Wait.Add(100 + i*i*i)
		r.Run.Add(5000 + 300*i)
	}
	now := time.Now()
	var changes history.Changes
	changes.Submitted(now.UnixMicro(), "q7", make([]store.Task, 400))
	runSQL(b, dsn, fmt.Sprintf(`INSERT INTO rota.history (minutes, at, worker, queue, stage, body)
SELECT 1, %d - m, '', 'q' || q, '', '\x%x' FROM generate_series(0, %d) m, generate_series(1, %d) q`,
		now.Unix()/60, r.Encode(), minutes, queues),
		fmt.Sprintf(`INSERT INTO rota.history_change (body)
SELECT '\x%x' FROM generate_series(1, 2000)`, changes.Encode()), "ANALYZE rota.history")
	q, err := history.NewQuestion(history.Series{Queue: "q7"}, now.Add(-24*time.Hour), now,
		time.Minute, history.Kept{}.Complete(), now)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		list, err := c.History(b.Context(), q)
		if err != nil || len(list) != minutes+1 || list[5].Done != 100 {
			b.Fatal(len(list), err)
		}
	}
}
