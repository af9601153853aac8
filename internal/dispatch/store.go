package dispatch

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Store is what the dispatcher needs of the store. internal/store/contract/contract.go says what
// each call promises.
type Store interface {
	Spans
	Steps
	Waits
	Texts
	Settings
	Views
	Standings
	Workers
	// Check says whether there is room: asked before large contexts are kept, so that refused
	// submissions fill no disk.
	Check(context.Context) error
}

// Spans moves tasks in runs.
type Spans interface {
	Submit(context.Context, store.Submission) (store.Submitted, error)
	Take(context.Context, store.TakeRequest) (store.Taken, error)
	Ready(ctx context.Context, queues []string) ([]store.Ready, error)
	TakeExpired(ctx context.Context, h store.Holder, limit int) (store.Taken, error)
	TakeRunning(ctx context.Context, h store.Holder, limit int) (store.Taken, error)
	Give(context.Context, store.GiveRequest) error
	GiveRest(context.Context, store.RestRequest) (given []bool, err error)
	Held(ctx context.Context, h store.Holder, known []int64) ([]store.HeldSpan, error)
}

// Steps records what becomes of tasks.
type Steps interface {
	Settle(context.Context, store.Settlement) (store.Settled, error)
	Sync(context.Context, store.SyncRequest) (store.Synced, error)
	Begin(context.Context, store.BeginRequest) (store.Begun, error)
	Overdue(context.Context, store.OverdueQuery) (store.Overdue, error)
	Act(context.Context, []store.Action) ([]store.Acted, error)
	Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error)
}

// Waits ends the waits of tasks that wait for signals or children.
type Waits interface {
	Signal(context.Context, store.Signal) (store.Signalled, error)
	Look(context.Context, store.LookRequest) (store.Looked, error)
}

// Texts keeps what is large or long.
type Texts interface {
	Keep(ctx context.Context, v []byte) (store.Value, error)
	Value(ctx context.Context, v store.Value) ([]byte, error)
	AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error
	Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error)
}

// Settings keeps the queues' configurations.
type Settings interface {
	ChangeQueue(ctx context.Context, name string,
		change store.Change[task.Queue]) (store.Changed[task.Queue], error)
	ChangeKey(context.Context, store.KeyChange) (store.KeyRule, error)
	Queues(context.Context) ([]task.Queue, error)
	DeleteQueue(ctx context.Context, name string, force bool) error
}

// Views shows tasks to people.
type Views interface {
	Task(context.Context, task.ID) (task.View, error)
	Contexts(
		ctx context.Context, q store.ContextsQuery,
	) (page []task.StageContext, next int32, err error)
	Tasks(
		ctx context.Context, f store.Filter, after task.ID, limit int,
	) (page []task.View, next task.ID, err error)
	Children(
		ctx context.Context, q store.ChildrenQuery,
	) (page []task.View, next task.ID, err error)
	Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error)
}

// Standings tells how queues and their keys stand: for people, and for rounds beside their limits.
type Standings interface {
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	Gates(ctx context.Context, queues ...string) (now int64, gates []store.Gate, err error)
	KeyGates(ctx context.Context, queue string, keys []string) (
		now int64, gates []store.KeyGate, err error)
	Keys(ctx context.Context, queue string) (store.KeyUses, error)
	Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
	RunTimes(ctx context.Context, queue string, limit int) ([]store.RunTime, error)
	Ahead(ctx context.Context, id task.ID, limit int) (store.Ahead, error)
}

// Workers remembers of workers, as leases, what an operator said ("worker/NAME") and who was heard
// by a node that does not hold its tasks ("alive/NAME").
type Workers interface {
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
	Beat(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
}
