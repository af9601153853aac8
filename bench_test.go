package rota

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// BenchmarkLifeCycle is submit, take, hand out, report, settled: in one process, on SQLite with fsync, 64 handlers that do
// nothing, contexts of 100 bytes, 100 tasks per submission. ns/op is per task; cpu-ns/op is the process' CPU per task.
func BenchmarkLifeCycle(b *testing.B) {
	n, err := Open(b.Context(), Config{Store: "sqlite:" + filepath.Join(b.TempDir(), "work.db"), Name: "n", Capacity: 64})
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	n.Handle("q", func(context.Context, task.Handout) task.Outcome {
		handled.Add(1)
		return task.Finish(nil)
	})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()

	const per, callers, ahead = 100, 32, 20_000
	subs := make([]task.Submission, per)
	text := make([]byte, 100)
	for i := range text {
		text[i] = 'x'
	}
	text[0], text[99] = '"', '"'
	for i := range subs {
		subs[i] = task.Submission{Queue: "q", Context: text}
	}
	flights := (b.N + per - 1) / per
	b.ResetTimer()
	before := processTime()
	var wg sync.WaitGroup
	next := make(chan int)
	for range callers {
		wg.Go(func() {
			for range next {
				if _, err := n.Submit(ctx, subs...); err != nil {
					b.Error(err)
				}
			}
		})
	}
	done := func() int64 {
		c, err := n.Counts(ctx, "q")
		if err != nil {
			b.Error(err)
		}
		return c.Done
	}
	for i := range flights {
		if i%100 == 99 { // bounded work under way
			for int64(i*per)-handled.Load() > ahead {
				time.Sleep(time.Millisecond)
			}
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for handled.Load() < int64(flights*per) || done() < int64(flights*per) {
		time.Sleep(10 * time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime()-before)/float64(flights*per), "cpu-ns/op")
	b.ReportMetric(float64(n.store.Commits())/float64(flights), "commits/100")
	b.ReportMetric(float64(n.worker.Stats().Taken), "taken")
	b.ReportMetric(float64(flights*per)/b.Elapsed().Seconds(), "tasks/s")
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
