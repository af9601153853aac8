package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// Pauses after calls that failed, or were answered with nothing much too soon.
var (
	pauses = task.Backoff{
		Initial: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.5,
	}
	tooSoon = task.Backoff{Initial: time.Second, Max: time.Second, Factor: 1, Jitter: 0.5}
)

// letIn: a hold that waited so long was let in, whatever became of it. A server looks at access
// first.
const letIn = time.Second / 2

// take asks for tasks, one long poll at a time and never for more than can start soon, until ctx
// ends. A hold that is denied at once, before any was let in, ends the worker: its token does not
// reach these queues.
func (w *Worker) take(ctx context.Context, deny context.CancelCauseFunc) {
	failures, known := 0, false
	for {
		limit := w.await(ctx)
		if limit == 0 {
			return
		}
		began := time.Now()
		answer, err := w.hold(ctx, limit)
		w.start(ctx, answer.Tasks)
		if answer.Written != nil {
			answer.Written()
		}
		known = known || err == nil || time.Since(began) >= letIn
		switch {
		case ctx.Err() != nil:
			return
		case !known && denied(err):
			deny(err)
			return
		case err != nil:
			if failures++; failures == 1 {
				w.config.Log.Warn("can't take tasks, trying again", "worker", w.config.Name,
					"error", err)
			}
			sleep(ctx, pauses.Delay(failures, rand.Uint64()))
		case len(answer.Tasks) == 0 && time.Since(began) < w.config.HoldWait/2:
			failures = 0
			// a server that does not wait for us, as when it drains
			sleep(ctx, tooSoon.Delay(1, rand.Uint64()))
		default:
			failures = 0
		}
	}
}

// await returns how many tasks there is room for, as soon as it is worth asking: at once when
// nothing is left to run, else after Linger, so that a busy worker takes many at a time. It returns
// 0 when ctx ends.
func (w *Worker) await(ctx context.Context) int {
	w.mu.Lock()
	w.ahead = min(w.pace.reach(time.Now(), w.finished), w.config.Ahead)
	w.mu.Unlock()
	var linger <-chan time.Time
	lingered := false
	for ctx.Err() == nil {
		w.mu.Lock()
		room, idle, can := w.vacant(), w.unfinished == 0, w.open &&
			len(w.unreported) < w.config.Backlog
		w.mu.Unlock()
		switch {
		case !can || room <= 0:
			linger, lingered = nil, false
		case lingered || idle:
			return room
		case linger == nil:
			linger = time.After(w.config.Linger)
		}
		select {
		case <-w.room:
		case <-linger:
			lingered = true
		case <-ctx.Done():
		}
	}
	return 0
}

// hold is one long poll. It is given up when the worker is cut off, and when it takes too long.
func (w *Worker) hold(ctx context.Context, limit int) (task.HoldAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.config.HoldWait+patience)
	defer cancel()
	w.mu.Lock()
	w.stopHold = cancel
	if !w.open {
		cancel()
	}
	ahead := w.ahead
	w.mu.Unlock()
	return w.config.Queue.Hold(ctx, task.HoldRequest{
		Worker: w.config.Name, Queues: w.queues, Limit: min(limit, limits.MaxHold), Ahead: ahead,
		Wait:        w.config.HoldWait,
		Incarnation: w.incarnation,
	})
}

// start gives the tasks to the lanes. What comes when the worker stops or is cut off goes back
// unrun.
func (w *Worker) start(ctx context.Context, tasks []task.Handout) {
	if len(tasks) == 0 {
		return
	}
	hands := make([]hand, len(tasks)) // they came together and will be reported together
	now := time.Now()
	w.mu.Lock()
	w.stats.Holds++
	w.stats.Taken += int64(len(tasks))
	fits := min(len(tasks), max(w.vacant(), 0))
	if ctx.Err() != nil || !w.open {
		fits = 0
	}
	w.unfinished += len(tasks)
	for i := range hands {
		h := &hands[i]
		h.worker, h.task, h.index, h.arrived = w, tasks[i], len(w.held), now
		h.log.owner = h
		w.held = append(w.held, h)
		if i >= fits {
			w.release(h)
		}
	}
	if w.unfinished > w.config.Capacity {
		hint(w.queued)
	}
	w.mu.Unlock()
	for i := range fits {
		w.starts <- &hands[i]
	}
}

// sleep waits for d, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
