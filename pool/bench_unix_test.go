//go:build unix

package pool

import (
	"context"
	"sync"
	"syscall"
	"testing"
)

// BenchmarkLanes is why the lanes of package worker are no pool (docs/adr/0021): batches of
// 100 tasks that do nothing, on 64 lanes, by the processor time of one task.
func BenchmarkLanes(b *testing.B) {
	const lanes, batch = 64, 100
	var tasks [batch]int
	var done sync.WaitGroup
	do := func(task *int) {
		*task++
		done.Done()
	}
	measure := func(b *testing.B, start func(task *int)) {
		before := processorTime()
		for b.Loop() {
			done.Add(batch)
			for i := range tasks {
				start(&tasks[i])
			}
			done.Wait()
		}
		b.ReportMetric(float64(processorTime()-before)/float64(b.N)/batch, "cpu-ns/task")
	}
	onChannel := func(b *testing.B, run func(task *int)) {
		starts := make(chan *int, batch)
		var lane sync.WaitGroup
		for range lanes {
			lane.Go(func() {
				for task := range starts {
					run(task)
				}
			})
		}
		measure(b, func(task *int) { starts <- task })
		close(starts)
		lane.Wait()
	}
	throughPool := func(b *testing.B) func(task *int) {
		p := newLanes(b, Config{Runners: lanes})
		return func(task *int) {
			p.Run(context.Background(), 1, func(context.Context, Lane) error {
				do(task)
				return nil
			})
		}
	}
	b.Run("on a channel", func(b *testing.B) { onChannel(b, do) })
	b.Run("and through a pool", func(b *testing.B) { onChannel(b, throughPool(b)) })
	b.Run("a goroutine each through a pool", func(b *testing.B) {
		run := throughPool(b)
		measure(b, func(task *int) { go run(task) })
	})
}

// processorTime is what this process has used, in nanoseconds.
func processorTime() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}
