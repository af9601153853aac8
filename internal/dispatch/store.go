package dispatch

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// Store is what the dispatcher needs of the store. internal/storetest/contract.go says what each call promises.
type Store interface {
	Spans
	Steps
	Texts
	Settings
	Records
	// Check says whether there is room: asked before large contexts are kept, so that refused submissions fill no disk.
	Check(context.Context) error
}

// Spans moves tasks in runs.
type Spans interface {
	Submit(context.Context, rows.Submission) (rows.Submitted, error)
	Take(context.Context, rows.TakeRequest) (rows.Taken, error)
	Ready(ctx context.Context, queues []string) ([]rows.Ready, error)
	Give(context.Context, rows.GiveRequest) error
	Held(ctx context.Context, h rows.Holder, known []int64) ([]rows.HeldSpan, error)
}

// Steps records what becomes of tasks.
type Steps interface {
	Settle(context.Context, rows.Settlement) (rows.Settled, error)
	Sync(context.Context, rows.SyncRequest) (rows.Synced, error)
	Overdue(context.Context, rows.OverdueQuery) (rows.Overdue, error)
	Act(context.Context, []rows.Action) ([]rows.Acted, error)
	Stand(ctx context.Context, ids []task.ID) ([]rows.Stood, error)
}

// Texts keeps what is large or long.
type Texts interface {
	Keep(ctx context.Context, v []byte) (rows.Value, error)
	Value(ctx context.Context, v rows.Value) ([]byte, error)
	AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error
	Log(ctx context.Context, id task.ID, from int64, limit int) (rows.LogPage, error)
}

// Settings keeps the queues' configurations.
type Settings interface {
	ChangeQueue(ctx context.Context, name string, change rows.Change[task.Queue]) (rows.Changed[task.Queue], error)
	Queues(context.Context) ([]task.Queue, error)
	DeleteQueue(ctx context.Context, name string, force bool) error
}

// Records reads for people, and remembers workers.
type Records interface {
	Task(context.Context, task.ID) (task.View, error)
	Tasks(ctx context.Context, f rows.Filter, after task.ID, limit int) (page []task.View, next task.ID, err error)
	Counts(ctx context.Context, queues ...string) ([]rows.QueueCounts, error)
	RunTimes(ctx context.Context, queue string, limit int) ([]rows.RunTime, error)
	Workers
}

// Workers remembers of workers, as leases, what an operator said ("worker/NAME") and who was heard by a node that does
// not hold its tasks ("alive/NAME").
type Workers interface {
	AcquireAll(ctx context.Context, holder string, wants []rows.Lease, ttl time.Duration, judge int64) (rows.Granted, error)
	EndAll(ctx context.Context, leases []rows.Lease, remove bool) error
	Beat(ctx context.Context, held []rows.Lease, ttl time.Duration, prefixes ...string) (rows.Beat, error)
}
