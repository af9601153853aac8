package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// Why a job's context ended, besides [ErrCutOff] and [ErrStopping]; see context.Cause.
var (
	ErrEnded      = errors.New("the job ended, or moved to another worker")
	ErrSuperseded = errors.New("a newer worker has the name of this one")
)

// JobHandler runs one replica of a job for as long as its context lasts; then it is to return soon,
// since until it has, its load counts and nobody else gets its place. context.Cause tells why the
// context ended; the error does not matter then.
//
// Returning earlier is a failure, whatever the error: it is reported at once, and the handler is
// called again after 1 s, 2 s, 4 s and so on up to a minute (from the start again once a call
// lasted for a minute), here, until the job is moved or ended. A panic is such a failure, too.
//
// The same replica may still run elsewhere for a moment, at a worker that is cut off and does not
// know it yet. a.Token.Number is greater for every later assignment of a group's jobs: use it to
// fence side effects.
type JobHandler func(ctx context.Context, a task.Assignment) error

// JobLogs is where the lines of jobs' logs go; a client.Client is one.
type JobLogs interface {
	// AppendJobLog adds lines to a job's log. After an error the caller sends the same lines again,
	// so that one may stand there twice.
	AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error
}

// HandleJob lets h run the jobs of a group: one call for each replica that the group's supervisor
// assigns to this worker. Call it before Run, once per group. Jobs and tasks share the worker's
// capacity: a task costs 1, a job its load, which may be 0 or a fraction. What jobs take no tasks
// are asked for; a job that comes while tasks fill the worker begins when enough of them have
// ended. With jobs the worker holds no tasks ahead.
func (w *Worker) HandleJob(group string, h JobHandler) {
	switch {
	case !limits.ValidName(group):
		w.problems = append(w.problems, fmt.Errorf("group %.40q: %s", group, limits.NameRule))
	case h == nil:
		w.problems = append(w.problems, fmt.Errorf("group %q: no handler", group))
	case w.jobs[group] != nil:
		w.problems = append(w.problems, fmt.Errorf("group %q: two handlers", group))
	default:
		w.jobs[group] = h
	}
}

const (
	maxRuns   = 10_000      // that one beat can name
	maxGroups = 1_000       // likewise
	lasting   = time.Minute // a call that lasted so long is no part of a row of failures
	maxFault  = 1 << 10     // bytes of a failure's text, as there may be as many as runs
	// at most, a run that was told to end is named for its last lines' sake: servers take none from
	// strangers
	lastWords = time.Second
)

// restarts are the pauses between a job's calls.
var restarts = task.Backoff{Initial: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.1}
