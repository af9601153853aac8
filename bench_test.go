package rota

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// The life cycle is submit, take, hand out, report, settled: on SQLite with fsync, 64 handlers that
// do nothing, contexts of 100 bytes, 100 tasks per submission, 32 callers. ns/op is per task,
// cpu-ns/op the CPU per task of all that takes part.

// BenchmarkLifeCycle is the life cycle in process, as a library.
func BenchmarkLifeCycle(b *testing.B) {
	var handled atomic.Int64
	n := openBench(b, Config{Capacity: 64}, func(n *Node) {
		n.Handle("q", func(context.Context, task.Handout) task.Outcome {
			handled.Add(1)
			return task.Finish(nil)
		})
	})
	lifeCycle(b, n, &handled, n.tasks.Submit)
}

// BenchmarkLifeCycleHTTP is the life cycle through the REST API: client, server and remote worker,
// here in one process.
func BenchmarkLifeCycleHTTP(b *testing.B) {
	n := openBench(b, Config{Listen: "127.0.0.1:0"}, func(*Node) {})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}, Flights: 8})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w, err := worker.New(worker.Config{Queue: c, Name: "w", Capacity: 64})
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	w.Handle("q", func(context.Context, task.Handout) task.Outcome {
		handled.Add(1)
		return task.Finish(nil)
	})
	ctx, stop := context.WithCancel(b.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		if err := w.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	lifeCycle(b, n, &handled,
		func(ctx context.Context, tasks []task.Submission) ([]task.Receipt, error) {
			return c.Submit(ctx, tasks...)
		})
	b.ReportMetric(float64(w.Stats().Taken)/float64(w.Stats().Holds), "tasks/hold")
}

// BenchmarkTyped is BenchmarkLifeCycle with a handler that reads its context by itself, and with a
// typed one.
func BenchmarkTyped(b *testing.B) {
	b.Run("untyped", func(b *testing.B) {
		var handled atomic.Int64
		n := openBench(b, Config{Capacity: 64}, func(n *Node) {
			n.Handle("q", func(_ context.Context, t task.Handout) task.Outcome {
				var text string
				if err := json.Unmarshal(t.Context, &text); err != nil {
					return task.Fail(err)
				}
				handled.Add(1)
				return task.Finish(nil)
			})
		})
		lifeCycle(b, n, &handled, n.tasks.Submit)
	})
	b.Run("typed", func(b *testing.B) {
		var handled atomic.Int64
		n := openBench(b, Config{Capacity: 64}, func(n *Node) {
			Handle(n, Define[string]("q"), func(context.Context, Task[string]) Outcome {
				handled.Add(1)
				return Finish(nil)
			})
		})
		lifeCycle(b, n, &handled, n.tasks.Submit)
	})
}

// BenchmarkFinishTx is the life cycle on PostgreSQL with fsync, of handlers that write a row: in a
// transaction of their own before they report, or together with the outcome.
func BenchmarkFinishTx(b *testing.B) {
	for name, finish := range map[string]func(context.Context, pgx.Tx, Outcome) error{
		"before": func(context.Context, pgx.Tx, Outcome) error { return nil },
		"together": func(ctx context.Context, tx pgx.Tx, o Outcome) error {
			return worker.FinishTx(ctx, tx, o)
		},
	} {
		b.Run(name, func(b *testing.B) {
			cluster := pgtest.Start(b, pgtest.Config{Durable: true})
			dsn := cluster.Database(b)
			pool, err := pgxpool.New(b.Context(), dsn+"&pool_max_conns=16")
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			if _, err := pool.Exec(b.Context(), "CREATE TABLE done (id text)"); err != nil {
				b.Fatal(err)
			}
			var handled atomic.Int64
			done := Finish(nil)
			n := openBench(b, Config{Store: dsn, Capacity: 16}, func(n *Node) {
				n.Handle("q", func(ctx context.Context, t task.Handout) Outcome {
					err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "INSERT INTO done VALUES ($1)", t.ID.String())
						if err != nil {
							return err
						}
						return finish(ctx, tx, done)
					})
					if err != nil {
						b.Error(err)
						return Retry(err)
					}
					handled.Add(1)
					return done
				})
			})
			lifeCycle(b, n, &handled, n.tasks.Submit)
		})
	}
}

// BenchmarkBacklogOfKeys works off what waits in a queue of which few tasks of each of 10,000 group
// keys may run at a time.
func BenchmarkBacklogOfKeys(b *testing.B) {
	var handled atomic.Int64
	n := openBench(b, Config{Capacity: 64}, func(n *Node) {
		n.Handle("q", func(context.Context, task.Handout) task.Outcome {
			handled.Add(1)
			return task.Finish(nil)
		})
	})
	if _, err := n.PutQueue(b.Context(), "q", client.QueueChange{
		PerKey: &client.KeyLimitsChange{MaxRunning: new(10)},
	}); err != nil {
		b.Fatal(err)
	}
	if err := n.PauseQueue(b.Context(), "q"); err != nil {
		b.Fatal(err)
	}
	for from := 0; from < b.N; from += 1000 {
		subs := make([]task.Submission, min(1000, b.N-from))
		for i := range subs {
			subs[i] = task.Submission{Queue: "q", GroupKey: fmt.Sprint((from + i) % 10_000)}
		}
		if _, err := n.Submit(b.Context(), subs...); err != nil {
			b.Fatal(err)
		}
	}
	cpu := processTime()
	b.ResetTimer()
	if err := n.ResumeQueue(b.Context(), "q"); err != nil {
		b.Fatal(err)
	}
	for handled.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime()-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// openBench opens a node, prepares it, and runs it until the benchmark ends.
func openBench(b *testing.B, conf Config, prepare func(*Node)) *Node {
	b.Helper()
	conf.Store = cmp.Or(conf.Store, "sqlite:"+filepath.Join(b.TempDir(), "work.db"))
	conf.Name = "n"
	n, err := Open(b.Context(), conf)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	prepare(n)
	go func() { ended <- n.Run(ctx) }()
	return n
}

// lifeCycle submits b.N tasks and waits until all of them are counted done.
func lifeCycle(
	b *testing.B, n *Node, handled *atomic.Int64,
	submit func(context.Context, []task.Submission) ([]task.Receipt, error),
) {
	const per, callers, ahead = 100, 32, 8_000
	text := []byte(`"` + strings.Repeat("x", 98) + `"`)
	subs := make([]task.Submission, per)
	for i := range subs {
		subs[i] = task.Submission{Queue: "q", Context: text}
	}
	flights := (b.N + per - 1) / per
	total := int64(flights * per)
	time.Sleep(50 * time.Millisecond) // everybody is there
	commits, cpu := n.store.(interface{ Commits() int64 }).Commits(), processTime()
	b.ResetTimer()
	var callersDone sync.WaitGroup
	next := make(chan int)
	for range callers {
		callersDone.Go(func() {
			for range next {
				if _, err := submit(b.Context(), subs); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range flights {
		for int64(i*per)-handled.Load() > ahead { // bounded work under way
			time.Sleep(time.Millisecond)
		}
		next <- i
	}
	close(next)
	callersDone.Wait()
	for {
		if q, err := n.Queue(b.Context(), "q"); err != nil || q.Counts.Done >= total {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime()-cpu)/float64(total), "cpu-ns/op")
	b.ReportMetric(float64(total)/float64(n.store.(interface{ Commits() int64 }).Commits()-commits), "tasks/commit")
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "tasks/s")
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
