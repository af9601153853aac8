package rota

import (
	"context"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// What a program that submits tasks and handles them deals with. Package task has the rest of the
// vocabulary, package worker has Handle for programs that have no node.
type (
	// Type is a kind of task: a queue, a stage, and what tasks carry there.
	Type[A any] = task.Type[A]
	// Task is a task in a handler's hands.
	Task[A any] = task.Task[A]
	// Submission is one task to be.
	Submission = task.Submission
	// Receipt answers a Submission.
	Receipt = task.Receipt
	// Unique is the key of which a queue has one task at a time.
	Unique = task.Unique
	// Outcome is what a handler says of a task.
	Outcome = task.Outcome
	// Handler does tasks of any type.
	Handler = worker.Handler
	// Handlers is what handlers are given to: a Node or a worker.Worker.
	Handlers = worker.Handlers
)

// Define is the kind of tasks that a queue gets, in their first stage. A Type with a Stage stands
// for a later one.
func Define[A any](queue string) Type[A] { return task.Define[A](queue) }

// Handle lets f do the tasks of a type, at a node or a worker. A task whose context can't be read
// as an A is dead at once, with the place. Call it before Run, once per type.
func Handle[A any](to Handlers, t Type[A], f func(ctx context.Context, t Task[A]) Outcome) {
	worker.Handle(to, t, f)
}

// Finish says that the task ended well, with a result that encoding/json encodes, or nil.
func Finish(result any) Outcome { return task.Finish(result) }

// Retry says that the attempt failed: another follows, after the queue's back-off.
func Retry(err error) Outcome { return task.Retry(err) }

// RetryAfter is Retry with a delay of the handler's choice.
func RetryAfter(d time.Duration, err error) Outcome { return task.RetryAfter(d, err) }

// Snooze asks for the same stage again after d; no attempt is charged.
func Snooze(d time.Duration) Outcome { return task.Snooze(d) }

// Fail says that the task failed for good: it goes to the dead letters.
func Fail(err error) Outcome { return task.Fail(err) }

// Release gives the task back unrun; no attempt is charged.
func Release() Outcome { return task.Release() }
