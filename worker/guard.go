package worker

import (
	"context"
	"time"
)

// guard says how long handlers may run without an answered beat. After that the server may give
// their tasks and jobs to others, so they are stopped.
type guard struct {
	answered time.Time     // when the last answered beat was sent; none yet: when the worker began
	tasks    time.Duration // after which the handlers of tasks are stopped
	jobs     time.Duration // the same of jobs
}

// promised is the part of a group's silence after which its jobs are stopped: the rest is for what
// calls and clocks take.
func promised(silence time.Duration) time.Duration { return silence * 4 / 5 }

// renew takes in that a beat was answered, which was sent at a time. The next ones come after
// pause. A server that wants faster beats gives up sooner: after three. How long jobs may go on it
// says itself (0 = as tasks), but never longer than own, if that is given.
func (g *guard) renew(sent time.Time, pause, longest, silence, own time.Duration) {
	g.answered = sent
	g.tasks = min(longest, pause*12/5)
	g.jobs = g.tasks
	if silence > 0 {
		g.jobs = promised(silence)
	}
	if own > 0 {
		g.jobs = min(g.jobs, own)
	}
}

// due says whose handlers are to be stopped at a time.
func (g *guard) due(at time.Time) (tasks, jobs bool) {
	silent := at.Sub(g.answered)
	return silent >= g.tasks, silent >= g.jobs
}

// left is the time until somebody's handlers are to be stopped; 0 = all are.
func (g *guard) left(now time.Time) time.Duration {
	first, last := min(g.tasks, g.jobs), max(g.tasks, g.jobs)
	silent := now.Sub(g.answered)
	switch {
	case silent < first:
		return first - silent
	case silent < last:
		return last - silent
	}
	return 0
}

// hurryOf is the grace of a command after ErrCutOff, by the context of its handler: two thirds of
// the time that is left then until others may begin its work, and hurry at most.
func hurryOf(ctx context.Context) time.Duration {
	limit := time.Duration(0)
	switch work := ctx.Value(workKey{}).(type) {
	case *hand:
		limit = time.Duration(work.worker.goesTasks.Load())
	case *run:
		limit = time.Duration(work.worker.goesJobs.Load())
	}
	if limit == 0 {
		return hurry
	}
	return min(hurry, limit/6) // the limit is four fifths of that of the server
}
