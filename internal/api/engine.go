package api

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Engine is what the API speaks for; the dispatcher satisfies it. Errors that it answers with:
// *task.InvalidError, store.ErrNotFound, store.ErrConflict (wrapped, the text says why),
// store.ErrFull, store.ErrUnknown, store.ErrBusy, store.ErrClosed. A HoldAnswer's Written must be
// called once the answer was written (or could not be).
type Engine interface {
	Submitter
	Hands
	Actions
	Edits
	Signals
	Parents
	Views
	Queues
}

// Submitter takes tasks in.
type Submitter interface {
	// Submit is all or nothing; the receipts are in the same order. Locations in an InvalidError
	// are "body.tasks[i].…".
	Submit(context.Context, []task.Submission) ([]task.Receipt, error)
}

// Hands gives tasks out and takes outcomes back.
type Hands interface {
	Hold(context.Context, task.HoldRequest) (task.HoldAnswer, error)
	Report(ctx context.Context, worker string, reports []task.Report) ([]task.Answer, error)
	Beat(context.Context, task.Beat) (task.BeatAnswer, error)
	Log(ctx context.Context, id task.ID, lines []task.LogLine) error
}

// Actions changes tasks from outside: task.KindCancelled, KindMoved (run now), KindReplayed (retry
// a final one), KindRemoved.
type Actions interface {
	// ActOn does what the Kind, By, Replay and Tree of an action say. A stage in which a task never
	// was is a store.ErrConflict.
	ActOn(ctx context.Context, what store.Action, id task.ID) error
	// ActAll does what the Kind, By and Replay of an action say to a page of the tasks that the
	// filter selects; a dry run only counts them. A replay without a state is of dead ones.
	ActAll(ctx context.Context, what store.Action, f store.Filter, after task.ID,
		dryRun bool) (store.ActedAll, error)
}

// Edits changes what tasks are that neither run nor are over.
type Edits interface {
	// Edit says in which state the task is then. Locations in an InvalidError are "body.…".
	Edit(ctx context.Context, by string, id task.ID, e task.Edit) (task.State, error)
	// EditAll edits a page of the tasks that the filter selects; a dry run only counts them.
	// Locations are "body.set.…".
	EditAll(ctx context.Context, by string, e task.Edit, f store.Filter, after task.ID,
		dryRun bool) (store.ActedAll, error)
}

// Signals ends the waits of blocked tasks.
type Signals interface {
	// Signal sends a signal in the name of by. Locations in an InvalidError are "body.…".
	Signal(ctx context.Context, by string, s task.SignalRequest) (task.SignalReceipt, error)
}

// Parents submit tasks while they run.
type Parents interface {
	// AddChildren submits children of a task that a worker has in its hands. Locations in an
	// InvalidError are "body.…".
	AddChildren(ctx context.Context, worker string, id task.ID, token string,
		children []task.Submission) ([]task.Receipt, error)
	// Children lists the children of a task with their results, oldest first, at most limit from a
	// cursor on, "" = the first; a page may be short while next is not "".
	Children(ctx context.Context, parent task.ID, state task.State, cursor string, limit int) (
		page []task.View, next string, err error)
	// Tree shows a task and what hangs below it, at most limit tasks.
	Tree(ctx context.Context, id task.ID, limit int) (task.Tree, error)
}

// Views reads.
type Views interface {
	// Await returns when the task is final, or wait is over, and reads nothing of it that may be
	// large.
	Await(ctx context.Context, id task.ID, wait time.Duration) error
	// Task answers with all there is. The API never lets it wait, but awaits before: what was read
	// takes memory.
	Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error)
	Tasks(
		ctx context.Context, f store.Filter, after task.ID, limit int,
	) (page []task.View, next task.ID, err error)
	Lines(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error)
	// QueuesOf are the queues of tasks, in the same order; "" for one that is unknown.
	QueuesOf(ctx context.Context, ids []task.ID) ([]string, error)
	// States are the queues and states of tasks, in the same order; none of one that is unknown.
	States(ctx context.Context, ids []task.ID) ([]task.View, error)
	// Turn is where a task stands among the others of its queue.
	Turn(context.Context, task.ID) (store.Turn, error)
	// Counts answers for the named queues, or for all.
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	// Gates is how the named queues, or all, that have limits stand beside them, and the store's
	// time at which they stood so.
	Gates(ctx context.Context, queues ...string) (now int64, gates []store.Gate, err error)
	// KeyGates is how group keys of a queue stand beside the limits that each has, and the store's
	// time at which they stood so. Of a queue without such limits it tells of none.
	KeyGates(ctx context.Context, queue string, keys []string) (now int64, gates []store.KeyGate,
		err error)
	// Keys says how much work the group keys of a queue have, and what is said of each.
	Keys(ctx context.Context, queue string) (store.KeyUses, error)
	// Minutes says what happened in each queue minute by minute, from a minute since 1970 on, by
	// the store's clock, in no order.
	Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
}

// Queues configures.
type Queues interface {
	// ChangeQueue changes a configuration, or creates it. No other change is lost; see
	// store.Change.
	ChangeQueue(ctx context.Context, name string,
		change store.Change[task.Queue]) (store.Changed[task.Queue], error)
	Queues(context.Context) ([]task.Queue, error)
	PauseQueue(ctx context.Context, name string, paused bool) error
	// ChangeKey changes what is said of a group key. Locations in an InvalidError are "path.key"
	// and "body.…"; store.ErrKeyRules when the queue has as many rules that stay as it may.
	ChangeKey(context.Context, store.KeyChange) (store.KeyRule, error)
	DeleteQueue(ctx context.Context, name string, force bool) error
}
