// Package storetest is the store's contract: the interfaces below say what every store promises, the
// suite ([Run]) shows it, the reference model ([NewModel]) is the contract as a simple program, and
// [Faulty] makes any store fail in both ways: it failed; it worked and said it failed.
//
// Promises that hold for every call:
//
//   - A write is one transaction: all of it or nothing. It is durable (fsynced) when the call returns nil.
//   - A write does not stop half way when the caller's context ends; the context only bounds the waiting before it starts.
//   - rows.ErrUnknown means: perhaps. Repeating the same call with the same ids then gives the answer that the first would have given.
//   - Writes by a holder change nothing once the holder's lease (name "node/NAME", token) is gone.
//   - What comes back is unordered unless said otherwise.
//
// All times are the store's own clock, in microseconds.
package storetest

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// Store is everything; callers declare the few methods they need.
type Store interface {
	Spans
	Steps
	Leases
	Queues
	Views
	Texts
	Events
	Notifiers
	Upkeep
	Close() error
}

// Spans moves tasks in runs.
type Spans interface {
	// Submit inserts batches, tasks, keys and spans. A batch id that stands already with the same origin
	// means that the same submission had worked: it is answered as the first time. With another origin: rows.ErrConflict. Keyed
	// tasks whose key exists (in the store, or earlier in the same submission) are left out and answered in Existing; they leave a gap in their span.
	Submit(context.Context, rows.Submission) (rows.Submitted, error)
	// Take makes the holder hold ready spans of a queue, smallest rank first, then smallest span id, at most Limit tasks (a gap
	// counts as one), splitting the last:
	// the free rest keeps its row (lo grows), what is taken gets a new one. It answers them with the tasks that are still
	// theirs, their newest steps applied. Token + 1 on every take. A paused queue gives nothing.
	Take(context.Context, rows.TakeRequest) (rows.Taken, error)
	// Give gives spans back whole: inserts the running rows, then frees the spans. Spans that are not the holder's are passed over.
	Give(context.Context, rows.GiveRequest) error
	// Held answers every span held by h except the known ones, loaded as Take does.
	Held(ctx context.Context, h rows.Holder, known []int64) ([]rows.HeldSpan, error)
}

// Steps records what becomes of tasks.
type Steps interface {
	// Settle records the reports whose token is right (that of a running row at their seq, else that of their span, which
	// must cover their task), at most one per (task, seq), deletes the running rows of the recorded ones, inserts the
	// spans of the moved ones, and deletes the spent spans (see rows.Settlement.Spent). One bad report never spoils the others. A seq
	// at which a step stands already: Repeated when token and hash are the same, else Stale. No such task: Unknown. Any
	// other token: Stale. The same report twice in one settlement: Recorded, then Repeated.
	Settle(context.Context, rows.Settlement) (rows.Settled, error)
	// Sync inserts running rows for hand-outs of spans that are still the holder's and at whose seq no step stands, then
	// says at which of the watched seqs a step stands. Rows that litter settled seqs are swept.
	Sync(context.Context, rows.SyncRequest) (rows.Synced, error)
	// Act cancels, moves, replays or removes tasks: each a step at max(seq) + 1, with its consequences in the same transaction.
	// Cancel needs a task that is not final, move one that is neither final nor running, replay a dead one, removal one that is not running.
	// Cancelling, moving or removing deletes its running row, and its span when that is free and has only this task.
	// Running means: a running row stands at max(seq) + 1. (What only a node's memory knows, the node checks.)
	Act(context.Context, []rows.Action) ([]rows.Acted, error)
	// Stand answers where tasks stand, in the order of ids.
	Stand(ctx context.Context, ids []task.ID) ([]rows.Stood, error)
}

// Leases keeps rights that end by themselves.
type Leases interface {
	// Acquire gives the lease to holder, with a greater token, unless another holder has it unexpired (rows.ErrConflict).
	Acquire(ctx context.Context, name, holder string, ttl time.Duration, value []byte) (rows.Lease, error)
	// Renew extends the leases that still have the given tokens, expired or not, in one write, and returns those; a nil value keeps
	// the old one.
	Renew(ctx context.Context, leases []rows.Lease, ttl time.Duration) ([]rows.Lease, error)
	// End ends a lease: its token grows, and it expires. A wrong token changes nothing. remove deletes the row.
	End(ctx context.Context, name string, token int64, remove bool) error
	// AcquireAll gives those of the wanted leases (their Name and Value; names differ) to holder that are free, each with a greater
	// token, in one write, and returns them, in no order: those without a row and those that were ended (End, Free: Until 0). As
	// long as the store's clock is not past judge (0: it always is) also those that have expired, and the holder's own, expired or
	// not. The rest is left out, which is no error.
	AcquireAll(ctx context.Context, holder string, wants []rows.Lease, ttl time.Duration, judge int64) (rows.Granted, error)
	// EndAll ends the leases that still have the given tokens, in one write, each as End does.
	EndAll(ctx context.Context, leases []rows.Lease, remove bool) error
	// Beat is Renew of what a node holds, then LeasesOf each of the prefixes (none the beginning of another), in one
	// transaction and one trip to the database.
	Beat(ctx context.Context, held []rows.Lease, ttl time.Duration, prefixes ...string) (rows.Beat, error)
	// LeasesOf lists the leases whose name begins with prefix, by name. Ended ones have Until 0.
	LeasesOf(ctx context.Context, prefix string) ([]rows.Lease, error)
}

// Queues keeps configurations.
type Queues interface {
	// PutQueue creates or replaces a configuration, pause flag included, and says whether it was new.
	PutQueue(context.Context, task.Queue) (created bool, err error)
	// Queues lists all, by name.
	Queues(context.Context) ([]task.Queue, error)
	// DeleteQueue deletes the configuration and all tasks of a queue, in pieces. With unfinished tasks and without force: rows.ErrConflict.
	DeleteQueue(ctx context.Context, name string, force bool) error
}

// Views reads for people. It never blocks a writer.
type Views interface {
	// Task is one task with its steps (the newest 1,000), contexts and results resolved; rows.ErrNotFound.
	Task(context.Context, task.ID) (task.View, error)
	// Tasks lists the tasks that a filter selects, newest first, starting below after (zero = from the newest); next is
	// where to go on, zero at the end. Contexts are not loaded. It examines a bounded number of rows, so a page may be short
	// (even empty) while next is not zero.
	Tasks(ctx context.Context, f rows.Filter, after task.ID, limit int) (page []task.View, next task.ID, err error)
	// Counts are exact by what is committed; Live tasks are not known here and count as ready.
	Counts(ctx context.Context, queues ...string) ([]rows.QueueCounts, error)
}

// Texts keeps what is large or long.
type Texts interface {
	// Keep returns v itself when it is short (rows.InlineLimit), else puts it into the blob store and returns the reference.
	Keep(ctx context.Context, v []byte) (rows.Value, error)
	// Value resolves what Keep returned.
	Value(ctx context.Context, v rows.Value) ([]byte, error)
	// AppendLog adds lines to a task's log; past 1 MiB the middle is dropped first. rows.ErrNotFound.
	AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error
	// Log reads lines from a position on (0 = the first).
	Log(ctx context.Context, id task.ID, from int64, limit int) (rows.LogPage, error)
}

// Events keeps what happened, in one order for all.
type Events interface {
	// Append adds those of the events whose key neither stands in the log nor comes earlier in the list, in the order of the list, and
	// says how many. Seq and Time are the store's. Seqs have no gap, and who has seen one will never see a smaller one appear: what is
	// appended at the same time waits for the commit before it.
	Append(ctx context.Context, events []rows.Event) (appended int, err error)
	// Events reads on in the log, and waits for nobody.
	Events(context.Context, rows.EventQuery) (rows.EventPage, error)
}

// Notifiers keeps who is told of events, and how far they have been.
type Notifiers interface {
	// PutNotifier creates a notifier, served up to the newest event, or replaces the configuration of one, which goes on from where it was.
	PutNotifier(context.Context, rows.Notifier) (created bool, err error)
	// Notifiers lists all, by name, with their secrets.
	Notifiers(context.Context) ([]rows.Notifier, error)
	// DeleteNotifier forgets a notifier; rows.ErrNotFound.
	DeleteNotifier(ctx context.Context, name string) error
	// Advance replaces a notifier's progress if it is still served up to from: of two nodes that served it from the same place one
	// moves it. Else, and when there is no such notifier, it changes nothing and ok is false.
	Advance(ctx context.Context, name string, from int64, to rows.Progress) (ok bool, err error)
}

// Upkeep is done by one node per beat.
type Upkeep interface {
	// Free ends every expired lease except that of self (token + 1), then frees every span whose holder is no living lease, deaths + 1.
	Free(ctx context.Context, self rows.Holder) (freed int, err error)
	// Prune deletes at most limit rows that retention no longer keeps, blobs included, and says how many. Events go from the front of
	// the log when they are older than rows.EventsKept; their keys may come again, their seqs never.
	Prune(ctx context.Context, limit int) (pruned int, err error)
	// Check says whether the store can still be trusted and has room: nil, rows.ErrFull or rows.ErrBroken.
	Check(ctx context.Context) error
}
