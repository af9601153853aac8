package worker

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/task"
)

// obeyOrders does what the server wants done about jobs. Orders are levels, not edges: one that was
// lost, or comes twice, is repaired by the next answer.
func (w *Worker) obeyOrders(o task.Orders) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signs = o.Signs
	if !o.Reset && len(o.Add) == 0 && len(o.End) == 0 {
		return
	}
	here := make(map[runKey]*run, len(w.runs))
	for _, r := range w.runs {
		here[r.runKey] = r
	}
	if o.Reset {
		w.keepOnly(o.Add)
	}
	for _, e := range o.End {
		if token, err := task.ParseJobToken(e.Token); err == nil {
			if r := here[runKey{place{e.Group, e.Job}, token}]; r != nil {
				r.end(ErrEnded)
			}
		}
	}
	holders := make(map[place]*run, len(w.runs))
	for _, r := range w.runs {
		if r.wanted {
			holders[r.place] = r
		}
	}
	for _, a := range o.Add {
		key := keyOf(a)
		if r := here[key]; r != nil {
			w.want(r, a)
		} else if r := w.admit(a, holders[key.place]); r != nil {
			here[key], holders[key.place] = r, r
		}
	}
	w.sweep()
	hint(w.look)
}

// keepOnly ends what is not in the list. Worker.mu is held.
func (w *Worker) keepOnly(list []task.Assignment) {
	kept := make(map[runKey]bool, len(list))
	for _, a := range list {
		kept[keyOf(a)] = true
	}
	for _, r := range w.runs {
		if !kept[r.runKey] {
			r.end(ErrEnded)
		}
	}
}

// admit makes a run of an assignment, unless it can't be one here. before is the run that is to
// hold its place; the one with the greater token is right: orders may come from a node that does
// not know the newest yet. Worker.mu is held.
func (w *Worker) admit(a task.Assignment, before *run) *run {
	switch {
	case w.stopping, w.jobs[a.Group] == nil, len(w.runs) >= maxRuns:
		return nil
	case before != nil && before.token.Number > a.Token.Number:
		return nil
	case before != nil:
		before.end(ErrEnded)
	}
	r := &run{
		worker: w, runKey: keyOf(a), said: a.Token.String(), replica: a.Replica,
		load: a.Load, spec: bytes.Clone(a.Spec), // it is part of an answer that may be large
		wanted: true, state: task.JobStarting,
	}
	r.log.owner = r
	w.runs = append(w.runs, r)
	w.reserved += a.Load
	return r
}

// want lets a run that is known go on, or again once its call that was told to end has returned.
// What the assignment says of load and spec may have changed; a call under way keeps what it was
// given. Worker.mu is held.
func (w *Worker) want(r *run, a task.Assignment) {
	if w.stopping {
		return
	}
	w.reserved += a.Load - r.load
	r.load, r.spec, r.wanted = a.Load, bytes.Clone(a.Spec), true
}

// end lets a run end. Worker.mu is held; sweep follows.
func (r *run) end(cause error) {
	r.wanted = false
	if r.cancel != nil && r.stopped == nil {
		r.stopped = cause
		r.cancel(cause)
	}
}

// sweep forgets the runs that have ended; what they took is free for others. What one that ends
// between two calls has logged, and nobody has looked at yet, is sent all the same. Worker.mu is
// held.
func (w *Worker) sweep() {
	before := len(w.runs)
	w.runs = slices.DeleteFunc(w.runs, func(r *run) bool {
		over := !r.wanted && r.cancel == nil
		if over {
			w.reserved -= r.load
			if r.log.queue() != nil {
				w.closing.Go(r.log.close)
			}
		}
		return over
	})
	if len(w.runs) < before {
		hint(w.look)
		hint(w.room)
		w.tell()
	}
}

// endRuns ends all runs for good.
func (w *Worker) endRuns(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	for _, r := range w.runs {
		r.end(cause)
	}
	w.sweep()
	w.tell()
}

// callJobs calls the handlers of what is to run, until ctx ends. Handlers' contexts come from work.
func (w *Worker) callJobs(ctx, work context.Context, calls *sync.WaitGroup) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if next := w.beginRuns(work, now, calls); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(next.Sub(now))
		}
		select {
		case <-w.look:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// beginRuns calls the handlers of all runs that may be called now, in the order in which they came,
// and answers when the next change is due by time alone. No run is called beyond the worker's
// capacity, and none while another holds its place.
func (w *Worker) beginRuns(
	work context.Context, now time.Time, calls *sync.WaitGroup,
) (next time.Time) {
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	free := task.Units(w.config.Capacity-w.unfinished) * task.Unit
	busy := make(map[place]bool, len(w.runs))
	for _, r := range w.runs {
		if r.cancel != nil {
			free -= r.load
			busy[r.place] = true
		}
	}
	w.cramped = false
	for _, r := range w.runs {
		switch {
		case r.cancel != nil && r.state == task.JobRunning, !r.wanted:
		case r.cancel != nil && now.Sub(r.began) >= w.config.JobSettle:
			r.state = task.JobRunning
			w.tell()
		case r.cancel != nil:
			sooner(r.began.Add(w.config.JobSettle))
		case !w.open, busy[r.place]:
		case r.due.After(now):
			sooner(r.due)
		case r.load > free:
			w.cramped = true
		default:
			free -= r.load
			busy[r.place] = true
			w.begin(work, r, now, calls)
			sooner(now.Add(w.config.JobSettle))
		}
	}
	return next
}

// begin calls a run's handler. Worker.mu is held.
func (w *Worker) begin(work context.Context, r *run, now time.Time, calls *sync.WaitGroup) {
	ctx, cancel := context.WithCancelCause(context.WithValue(work, workKey{}, r))
	r.began, r.cancel, r.stopped = now, cancel, nil
	r.sign(now)
	a := task.Assignment{
		Group: r.group, Job: r.job, Replica: r.replica, Token: r.token, Load: r.load, Spec: r.spec,
	}
	calls.Go(func() { r.call(ctx, a) })
}

// returned takes in that a run's call has returned, and says whether the run is over.
func (w *Worker) returned(r *run, err error, now time.Time) (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.cancel(nil)
	r.cancel = nil
	switch {
	case !r.wanted:
		over = true
	case r.stopped != nil: // wanted again since it was told to end
		r.state, r.failures, r.due = task.JobStarting, 0, time.Time{}
	default:
		r.fail(err, now)
	}
	w.sweep()
	hint(w.look)
	w.tell()
	return over
}

// tell lets a beat say at once how the jobs stand. Worker.mu is held.
func (w *Worker) tell() {
	hint(w.news)
	w.stopPoll(errNews)
}

// sayJobs is the part of a beat about jobs. Once the worker stops, and its jobs have ended, it
// serves no group any more. Worker.mu is held.
func (w *Worker) sayJobs(b *task.Beat) {
	if len(w.groups) == 0 || w.stopping && len(w.runs) == 0 {
		return
	}
	b.Groups = w.groups
	b.Jobs = make([]task.Run, len(w.runs))
	for i, r := range w.runs {
		b.Jobs[i] = task.Run{
			Group: r.group, Job: r.job, Replica: r.replica, Token: r.said, State: r.state,
		}
		if r.state == task.JobFailed {
			b.Jobs[i].Error = r.fault
		}
		if alive := r.alive.Load(); w.signs && alive > 0 {
			b.Jobs[i].Alive = time.UnixMilli(alive).UTC()
		}
	}
}
