package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotahq/rota/task"
)

// Hooks are a handler in parts, each with its moment. Only Process is needed.
//
//	Load -> Process -> Finish        done or next
//	                -> FinishError   retry or fail
//	                -> Final         the end: again and again until it succeeds
type Hooks struct {
	// Load prepares the hand-out, as by fetching the data that its context refers to. It may change
	// t for the parts after it. Its error is a failed attempt.
	Load func(ctx context.Context, t *task.Handout) error
	// Process does the work.
	Process Handler
	// Finish runs after Process ended a stage well. Its error turns the outcome into a failed
	// attempt.
	Finish func(ctx context.Context, t task.Handout, o task.Outcome) error
	// FinishError runs after a failed attempt, wherever it failed.
	FinishError func(ctx context.Context, t task.Handout, o task.Outcome)
	// Final tells the world how the task ended: it is repeated, with growing pauses up to a minute,
	// until it returns nil, and runs at least once.
	//
	// Without FinalQueue it runs here, before the outcome is reported: for tasks that end as done
	// or fail in this handler, and again when a hand-out is lost in between. When the handler's
	// context ends first, the task goes back uncharged and the next hand-out begins with Load
	// again.
	//
	// With FinalQueue the ends as done are told so, and deaths by the notices of that queue:
	// whatever a task dies of (fail, its count of attempts, a lost worker, a timeout), the server
	// stores the notice with the death. Then t has no Token, and no Context when that was too large
	// for a notice.
	Final func(ctx context.Context, t task.Handout, o task.Outcome) error
	// FinalQueue is the queue of final notices that the tasks' queue is configured with
	// (task.Queue.FinalQueue, rota queue set --final-queue); this worker then does its tasks, too.
	// A Node configures it by itself.
	FinalQueue string
	// MaxAttempts, when not 0, makes the failure of this attempt (counted per stage) one for good,
	// so that Final runs for it; but not where the worker was stopped or cut off meanwhile, as that
	// is no failure. Let it be at most the queue's max_attempts: at that the server ends the task
	// without asking.
	MaxAttempts int
}

// HandleHooks lets hooks do the tasks of a queue. Call it before Run, once per queue.
func (w *Worker) HandleHooks(queue string, hooks Hooks) {
	if hooks.Process == nil {
		w.problems = append(w.problems, fmt.Errorf("queue %q: hooks without Process", queue))
		return
	}
	w.Handle(queue, hooks.handle)
	if hooks.FinalQueue == "" {
		return
	}
	if hooks.Final == nil {
		w.problems = append(w.problems,
			fmt.Errorf("queue %q: hooks with FinalQueue, without Final", queue))
		return
	}
	w.HandleFinal(hooks.FinalQueue, hooks.noticed)
}

// HandleFinal lets f be told how tasks died: queue is the one that gets their final notices. It is
// told again, after the pauses of that queue, until it returns nil. Call it before Run, once per
// queue.
func (w *Worker) HandleFinal(queue string, f func(context.Context, task.FinalNotice) error) {
	if f == nil {
		w.problems = append(w.problems, fmt.Errorf("queue %q: no handler of final notices", queue))
		return
	}
	w.Handle(queue, func(ctx context.Context, t task.Handout) task.Outcome {
		var n task.FinalNotice
		if err := json.Unmarshal(t.Context, &n); err != nil { // somebody else's task
			return task.Fail(fmt.Errorf("read final notice: %w", err))
		}
		n.Meta = t.Meta // a large notice leaves it to its task
		if err := f(ctx, n); err != nil {
			return task.Retry(err)
		}
		return task.Finish(nil)
	})
}

// noticed runs Final for a death that the server tells of.
func (k Hooks) noticed(ctx context.Context, n task.FinalNotice) error {
	t := task.Handout{
		ID: n.Task, Queue: n.Queue, Stage: n.Stage, Context: n.Context, Attempt: n.Attempt,
		Meta: n.Meta,
	}
	return k.Final(ctx, t, task.Outcome{Kind: n.Outcome, Result: n.Result, Error: n.Error})
}

func (k Hooks) handle(ctx context.Context, t task.Handout) task.Outcome {
	o, returned := task.Retry(errGone), false
	defer func() {
		if !returned { // runtime.Goexit: what follows from a failed attempt does, all the same
			k.failed(ctx, t, o)
		}
	}()
	o = k.attempt(ctx, &t)
	if o.Kind == task.KindRetry && k.MaxAttempts > 0 && t.Attempt >= k.MaxAttempts &&
		!wasStopped(context.Cause(ctx)) {
		o = task.Outcome{Kind: task.KindFail, Context: o.Context, Error: o.Error}
	}
	returned = true
	k.failed(ctx, t, o)
	if k.Final != nil &&
		(o.Kind == task.KindDone || o.Kind == task.KindFail && k.FinalQueue == "") {
		return k.notify(ctx, t, o)
	}
	return o
}

// failed runs FinishError after a failed attempt. A panic in it costs nothing but itself.
func (k Hooks) failed(ctx context.Context, t task.Handout, o task.Outcome) {
	if k.FinishError == nil || o.Kind != task.KindRetry && o.Kind != task.KindFail {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			panicked(ctx, p)
		}
	}()
	k.FinishError(ctx, t, o)
}

// attempt is Load, Process and Finish. A panic in them is a failed attempt, as a handler's is, and
// what follows from one does.
func (k Hooks) attempt(ctx context.Context, t *task.Handout) (o task.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = panicked(ctx, p)
		}
	}()
	if k.Load != nil {
		if err := k.Load(ctx, t); err != nil {
			return task.Retry(fmt.Errorf("load: %w", err))
		}
	}
	o = k.Process(ctx, *t)
	if k.Finish != nil && (o.Kind == task.KindDone || o.Kind == task.KindNext) {
		if err := k.Finish(ctx, *t, o); err != nil {
			return task.Retry(fmt.Errorf("finish: %w", err))
		}
	}
	return o
}

// finalPauses are those between tries of Final.
var finalPauses = task.Backoff{Initial: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}

// notify runs Final until it succeeds, or ctx ends.
func (k Hooks) notify(ctx context.Context, t task.Handout, o task.Outcome) task.Outcome {
	for try := 1; ; try++ {
		err := k.final(ctx, t, o)
		if err == nil {
			return o
		}
		Logf(ctx, "final notification, try %d: %v", try, err)
		sleep(ctx, finalPauses.Delay(try, rand.Uint64()))
		if ctx.Err() != nil {
			return task.Release()
		}
	}
}

// final is one try; a panic is an error like others here, or the outcome would be lost with it.
func (k Hooks) final(ctx context.Context, t task.Handout, o task.Outcome) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return k.Final(ctx, t, o)
}
