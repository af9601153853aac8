//go:build unix

package worker

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// endless always has tasks, as many as the worker's capacity and its unanswered reports allow; each
// call takes a moment, as over a network.
type endless struct {
	capacity int
	delay    time.Duration
	left     atomic.Int64
	out      atomic.Int64
	room     chan struct{}
	done     chan struct{}
	settled  atomic.Int64
	total    int64
	context  []byte
}

func (q *endless) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	pause(q.delay)
	for {
		n := min(r.Limit, q.capacity-int(q.out.Load()), int(q.left.Load()))
		if n > 0 {
			q.left.Add(-int64(n))
			q.out.Add(int64(n))
			tasks := make([]task.Handout, n)
			deadline := time.Now().Add(time.Minute)
			for i := range tasks {
				tasks[i] = task.Handout{
					ID: task.ID{Batch: 1, N: int32(i)}, Queue: "q", Context: q.context, Attempt: 1,
					Token: "1.1.0.0", Deadline: deadline,
				}
			}
			return task.HoldAnswer{Tasks: tasks}, nil
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return task.HoldAnswer{}, ctx.Err()
		}
	}
}

func (q *endless) Report(
	_ context.Context, _ string, reports []task.Report,
) ([]task.Answer, error) {
	pause(q.delay)
	answers := make([]task.Answer, len(reports))
	for i, r := range reports {
		answers[i] = task.Answer{ID: r.ID, Status: task.Recorded}
	}
	q.out.Add(-int64(len(reports)))
	hint(q.room)
	if q.settled.Add(int64(len(reports))) == q.total {
		close(q.done)
	}
	return answers, nil
}

func (q *endless) Beat(context.Context, task.Beat) (task.BeatAnswer, error) {
	return task.BeatAnswer{}, nil
}

func (q *endless) Log(context.Context, task.ID, []task.LogLine) error { return nil }

func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// BenchmarkTasks measures no-op tasks in 64 lanes: ns/op is the time, cpu-ns/op the processor time
// of everything here.
func BenchmarkTasks(b *testing.B) {
	for name, delay := range map[string]time.Duration{"local": 0,
		"remote=200us": 200 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			q := &endless{
				capacity: 64, delay: delay, room: make(chan struct{}, 1), done: make(chan struct{}),
				total: int64(b.N),
				context: []byte(
					`{"to":"somebody","subject":"a context of about a hundred bytes, as the figures of this house have it"}`,
				),
			}
			q.left.Store(int64(b.N))
			w, err := New(Config{Queue: q, Name: "w", Capacity: q.capacity})
			if err != nil {
				b.Fatal(err)
			}
			w.Handle("q", func(context.Context, task.Handout) task.Outcome {
				return task.Finish(nil)
			})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			b.ReportAllocs()
			before := processorTime(b)
			b.ResetTimer()
			go func() { ended <- w.Run(ctx) }()
			<-q.done
			b.StopTimer()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
