package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// latency submits 100 tasks a second, each at its time whatever became of those before, to a worker
// with free lanes.
func (r *rig) latency(ctx context.Context) ([]float64, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	url, err := r.serveToo(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.work(ctx, url, "--waits"); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	before, err := measure.SyncTimes(r.folder, 200)
	if err != nil {
		return nil, err
	}
	const pace = 10 * time.Millisecond
	if err := r.paced(ctx, c, int(warmup/pace), pace); err != nil {
		return nil, err
	}
	n := int(r.Length / pace)
	if err := r.paced(ctx, c, n, pace); err != nil {
		return nil, err
	}
	after, err := measure.SyncTimes(r.folder, 200)
	if err != nil {
		return nil, err
	}
	total := int(warmup/pace) + n
	if err := settle(ctx, int64(total), func(ctx context.Context) (task.Counts, error) {
		return r.counts(ctx, c)
	}); err != nil {
		return nil, err
	}
	if err := r.stopWorker(); err != nil {
		return nil, err
	}
	if len(r.waits) != total {
		return nil, fmt.Errorf("%d tasks were submitted, but %d started", total, len(r.waits))
	}
	waits := slices.Sorted(slices.Values(r.waits[total-n:]))
	syncs := slices.Sorted(slices.Values(append(before, after...)))
	return []float64{ms(measure.Percentile(waits, 50)), ms(measure.Percentile(waits, 99)),
		ms(measure.Percentile(syncs, 99))}, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// paced submits n tasks at an even pace; each carries the time of its submission.
func (r *rig) paced(ctx context.Context, c *client.Client, n int, pace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		if err := pause.For(ctx, time.Until(begin.Add(time.Duration(i)*pace))); err != nil {
			break
		}
		wg.Go(func() {
			now := json.RawMessage(strconv.FormatInt(time.Now().UnixNano(), 10))
			if _, err := c.Submit(
				ctx, task.Submission{Queue: Queue, Context: now},
			); err != nil {
				cancel(err)
			}
		})
		if i%20 == 0 {
			r.note(fmt.Sprintf("%d of %d tasks", i, n))
		}
	}
	wg.Wait()
	return context.Cause(ctx)
}

// manyReady fills a queue that nobody works on, looks at the server's memory, kills the server with
// its tasks and measures from the start of the next one until a worker holds a task.
func (r *rig) manyReady(ctx context.Context) ([]float64, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	if err := r.fill(ctx); err != nil {
		return nil, err
	}
	if err := pause.For(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	rss, err := measure.RSS(r.server.Process.Pid)
	if err != nil {
		return nil, err
	}
	r.note("kill -9 and restart")
	if err := r.server.Process.Kill(); err != nil {
		return nil, err
	}
	_ = r.server.Wait() // "signal: killed" is what was asked for
	r.server = nil
	begin := time.Now()
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	held, err := c.Hold(ctx, task.HoldRequest{
		Worker: "first", Queues: []string{Queue}, Limit: 1, Wait: 30 * time.Second,
	})
	took := time.Since(begin)
	if err != nil {
		return nil, err
	}
	if len(held.Tasks) != 1 {
		return nil, errors.New("no task within 30s of the restart")
	}
	n, err := r.counts(ctx, c)
	if err != nil {
		return nil, err
	}
	if n.Ready+n.Running != int64(r.Ready) {
		return nil, fmt.Errorf("%d tasks were submitted, but after the kill there are %+v", r.Ready,
			n)
	}
	return []float64{rss, took.Seconds()}, nil
}

// fill submits the ready tasks.
func (r *rig) fill(ctx context.Context) error {
	var next atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range connections {
		c, err := r.connect()
		if err != nil {
			cancel(err)
			break
		}
		wg.Go(func() {
			defer c.Close()
			tasks := hundred()
			for ctx.Err() == nil {
				upTo := next.Add(int64(len(tasks)))
				n := len(tasks) - int(max(upTo-int64(r.Ready), 0))
				if n <= 0 {
					return
				}
				if _, err := c.Submit(ctx, tasks[:n]...); err != nil {
					cancel(err)
				}
			}
		})
	}
	filled := make(chan struct{})
	go func() { wg.Wait(); close(filled) }()
	for {
		select {
		case <-filled:
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
			r.note(fmt.Sprintf("%s of %s tasks submitted",
				term.Count(min(next.Load(), int64(r.Ready))), term.Count(r.Ready)))
		}
	}
}

// pollWait is how long an idle worker's poll waits.
const pollWait = 30 * time.Second

// idle lets many workers wait for tasks that never come. Their polls are spread in time, so that
// the measured window sees as many of them end and begin again as any other.
func (r *rig) idle(ctx context.Context) ([]float64, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.PutQueue(ctx, Queue, client.QueueChange{}); err != nil {
		return nil, err
	}
	polling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	var waiting atomic.Int64
	for i := range r.Pollers {
		wg.Go(func() {
			first := time.Second + pollWait*time.Duration(i+1)/time.Duration(r.Pollers)
			if err := poll(
				polling, c, fmt.Sprintf("idle-%d", i), first, &waiting,
			); err != nil && polling.Err() == nil {
				stop(err)
			}
		})
	}
	values, err := r.idleWindow(polling, &waiting)
	cause := context.Cause(polling)
	stop(errEnough)
	wg.Wait()
	return values, errors.Join(cause, err)
}

// poll holds no tasks, again and again.
func poll(
	ctx context.Context, c *client.Client, name string, wait time.Duration, waiting *atomic.Int64,
) error {
	for {
		waiting.Add(1)
		held, err := c.Hold(ctx, task.HoldRequest{
			Worker: name, Queues: []string{Queue}, Limit: 1, Wait: wait,
		})
		waiting.Add(-1)
		if err != nil {
			return err
		}
		if len(held.Tasks) > 0 {
			return fmt.Errorf("%s was given a task that nobody submitted", name)
		}
		wait = pollWait
	}
}

func (r *rig) idleWindow(ctx context.Context, waiting *atomic.Int64) ([]float64, error) {
	for waiting.Load() < int64(r.Pollers) {
		r.note(fmt.Sprintf("%d of %d workers wait", waiting.Load(), r.Pollers))
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	r.note(fmt.Sprintf("%d workers wait", r.Pollers))
	if err := pause.For(ctx, 2*time.Second); err != nil { // all connections made
		return nil, err
	}
	return r.restful(ctx)
}

// restful is the server's memory, and what it uses of a core, over the measured time.
func (r *rig) restful(ctx context.Context) ([]float64, error) {
	pid := r.server.Process.Pid
	before, err := measure.CPU(int32(pid))
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := pause.For(ctx, r.Length); err != nil {
		return nil, err
	}
	after, err := measure.CPU(int32(pid))
	if err != nil {
		return nil, err
	}
	share := float64(after-before) / float64(time.Since(begin))
	rss, err := measure.RSS(pid)
	return []float64{rss, 100 * share}, err
}
