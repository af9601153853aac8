package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/task"
)

// run is one assignment at this worker, from the order to start it until its handler has returned
// for good. Beats call it
//
//	starting  while it waits for room, or for its predecessor to return, and while its first call has not lasted yet
//	running   when a call has lasted for Config.JobSettle
//	failed    when a call returned early, until another has lasted
//
// It may be told to end at any time. Then it is gone at once when it is not called, else when the
// call has returned: until then beats go on naming it, so that nobody gives its place away.
type run struct {
	worker *Worker
	runKey
	said    string // the token, as beats say it
	replica int
	log     lines
	// when its handler gave its last sign, in milliseconds; 0 = it was not called yet
	alive atomic.Int64
	touch atomic.Pointer[string] // a file that the handler may touch; nil = none

	// Guarded by Worker.mu.
	load     task.Units
	spec     json.RawMessage
	wanted   bool                    // it is to run; else its call is about to return
	state    task.JobState           // as beats say
	fault    string                  // why its last call failed
	failures int                     // in a row
	due      time.Time               // not called before
	began    time.Time               // of the call under way
	cancel   context.CancelCauseFunc // of the call under way; nil = none is
	stopped  error                   // why that call was told to end, the first reason
}

// place is a job of a group. One run at most is called for it at a time.
type place struct{ group, job string }

// runKey is what tells runs apart.
type runKey struct {
	place
	token task.JobToken
}

func keyOf(a task.Assignment) runKey { return runKey{place{a.Group, a.Job}, a.Token} }

func (r *run) at() *Worker { return r.worker }

func (r *run) subject() slog.Attr { return slog.String("job", r.group+"/"+r.job) }

func (r *run) deliver(ctx context.Context, all []task.LogLine) error {
	if r.worker.config.JobLogs == nil {
		return nil
	}
	return r.worker.config.JobLogs.AppendJobLog(ctx, r.group, r.job, all)
}

// call runs the handler once and takes in what became of it.
func (r *run) call(ctx context.Context, a task.Assignment) {
	err := errGone
	defer func() { // deferred, as for a handler that calls runtime.Goexit
		if r.toEnd() {
			r.log.flush(lastWords)
		}
		if r.worker.returned(r, err, time.Now()) {
			r.log.close()
		}
	}()
	err = r.try(ctx, a)
}

// toEnd tells whether the run was told to end.
func (r *run) toEnd() bool {
	r.worker.mu.Lock()
	defer r.worker.mu.Unlock()
	return !r.wanted
}

// try calls the handler; a panic is an error like others.
func (r *run) try(ctx context.Context, a task.Assignment) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			r.worker.config.Log.Error("handler panicked", "group", a.Group, "job", a.Job, "panic",
				p, "stack", string(stack))
			Logf(ctx, "panic: %v\n%s", p, stack)
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.worker.jobs[a.Group](ctx, a)
}

// fail notes an early return. Worker.mu is held.
func (r *run) fail(err error, now time.Time) {
	if err == nil {
		err = errors.New("the handler returned")
	}
	if now.Sub(r.began) >= lasting {
		r.failures = 0
	}
	r.failures++
	r.state, r.fault = task.JobFailed, cutText(err.Error(), maxFault)
	r.due = now.Add(restarts.Delay(r.failures, rand.Uint64()))
	r.worker.stats.JobFailures++
	r.worker.config.Log.Warn("job returned early", "worker", r.worker.config.Name, "group", r.group,
		"job", r.job,
		"replica", r.replica, "error", err, "again_in", r.due.Sub(now))
}
