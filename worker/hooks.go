package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotahq/rota/task"
)

// Hooks are a handler in parts, each with its moment. Only Process is needed.
//
//	Load -> Process -> Finish        done or next
//	                -> FinishError   retry or fail
//	                -> Final         done or fail: again and again until it succeeds
type Hooks struct {
	// Load prepares the hand-out, as by fetching the data that its context refers to. It may change t for the parts after
	// it. Its error is a failed attempt.
	Load func(ctx context.Context, t *task.Handout) error
	// Process does the work.
	Process Handler
	// Finish runs after Process ended a stage well. Its error turns the outcome into a failed attempt.
	Finish func(ctx context.Context, t task.Handout, o task.Outcome) error
	// FinishError runs after a failed attempt, wherever it failed.
	FinishError func(ctx context.Context, t task.Handout, o task.Outcome)
	// Final tells the world how the task ended. It is repeated, with growing pauses up to a minute, until it returns nil; only then
	// is the outcome reported. So it runs at least once for each task that ends as done or fail here, and possibly more
	// often, since a hand-out that is lost in between is run again. When the handler's context ends first, the task goes
	// back uncharged and the next hand-out begins with Load again. It does not run for tasks that end elsewhere: by
	// cancelling, a lost worker, a timeout, or the server's count of attempts (see MaxAttempts).
	Final func(ctx context.Context, t task.Handout, o task.Outcome) error
	// MaxAttempts, when not 0, makes the failure of this attempt (counted per stage) one for good, so that Final runs
	// for it. Let it be at most the queue's max_attempts: at that the server ends the task without asking.
	MaxAttempts int
}

// HandleHooks lets hooks do the tasks of a queue. Call it before Run, once per queue.
func (w *Worker) HandleHooks(queue string, hooks Hooks) {
	if hooks.Process == nil {
		w.problems = append(w.problems, fmt.Errorf("queue %q: hooks without Process", queue))
		return
	}
	w.Handle(queue, hooks.handle)
}

func (k Hooks) handle(ctx context.Context, t task.Handout) task.Outcome {
	o := k.attempt(ctx, &t)
	if o.Kind == task.KindRetry && k.MaxAttempts > 0 && t.Attempt >= k.MaxAttempts {
		o = task.Outcome{Kind: task.KindFail, Context: o.Context, Error: o.Error}
	}
	failed := o.Kind == task.KindRetry || o.Kind == task.KindFail
	if failed && k.FinishError != nil {
		k.FinishError(ctx, t, o)
	}
	if k.Final != nil && (o.Kind == task.KindDone || o.Kind == task.KindFail) {
		return k.notify(ctx, t, o)
	}
	return o
}

// attempt is Load, Process and Finish.
func (k Hooks) attempt(ctx context.Context, t *task.Handout) task.Outcome {
	if k.Load != nil {
		if err := k.Load(ctx, t); err != nil {
			return task.Retry(fmt.Errorf("load: %w", err))
		}
	}
	o := k.Process(ctx, *t)
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
