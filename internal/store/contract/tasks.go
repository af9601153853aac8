package contract

import (
	"context"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Spans moves tasks in runs.
type Spans interface {
	// Submit inserts batches, tasks, keys and spans. A batch id that stands already with the same
	// origin means that the same submission had worked: it is answered as the first time. With
	// another origin: store.ErrConflict. Keyed tasks whose key exists (in the store, or earlier in
	// the same submission) are left out and answered in Existing; they leave a gap in their span.
	//
	// So are tasks whose unique key another one has (Task.Unique); they ask by Order. Of a call
	// that is refused because of one (Batch.Call) nothing is inserted, as if it had not been part
	// of the submission; repeated, it is refused by whoever has the key then. What replaces a task
	// that nobody was handed yet is an edit of that task, whoever holds it. A task has a unique key
	// while it stands and is not final; or while,
	// besides, no outcome tells of a hand-out and it has no running row; until Until.
	//
	// Tasks with Task.After are blocked: their spans are parked (Span.Parked), free, with seq0 0,
	// and a wait stands for each. What else a submission means to a task goes for them, too: they
	// may be children, or have a key; of one that is not inserted, because its key exists, nothing
	// is kept. Where On was not inserted for this reason, the task that has its key takes its place
	// (a refused call has no tasks at all). Look has the ends of all tasks on which something of
	// this submission waits and that this submission did not insert: a change stands there.
	//
	// With Under the tasks are children of a hand-out's task, if that gives the right to report,
	// and no step stands at its seq; else store.ErrStale. What stands already is answered as the
	// first time all the same.
	Submit(context.Context, store.Submission) (store.Submitted, error)
	// Take makes the holder hold ready spans of a queue, smallest rank first, then smallest span
	// id, at most Limit tasks (a gap counts as one), splitting the last: the free rest keeps its
	// row (lo grows), what is taken gets a new one. It answers them with the tasks that are still
	// theirs, their newest steps applied. Token + 1 on every take. It says what the least rank of
	// those is that are left. A paused queue gives nothing.
	//
	// With Keys it goes by group keys. If free spans that are due have no more tasks than
	// Keys.Whole, it takes all of them as they are, as it does without Keys and with that Limit,
	// and says which keys the tasks have of those that are not Sorted; else as many tasks as
	// Keys.First, of no more than 2,000 spans. All are not taken if there are 2,000 spans, and
	// nothing is taken as it is if a holder has died with a span among the first ones that is not
	// Sorted (as many are looked at as tasks may be taken, and one more).
	//
	// Else it sorts: spans become spans with the tasks of one key each, which are Sorted (in one
	// take as many as have about 1,000 tasks, or one). Then it takes sorted spans that are due,
	// whole, until Limit
	// of their tasks might begin: of each key, by rank, no more than need be for as many tasks as
	// may begin beside Queue.PerKey, and none of those to Skip. Without Fair it looks at the first
	// 4 × Limit spans by rank; then, and with Fair at once, it goes through the keys behind
	// Keys.After, at most 1,000 of them, and takes of each in turn. After says how far it came.
	// More tells that there may be more to take: Limit was reached, there are keys behind After,
	// or spans to sort. NextDue is not after the time at which a rate lets a task begin of a key
	// that it passed over. Tasks without a key have the key "", which has no limits. Of a key in
	// order (see Begin) it takes the span that its owner is in, and names that in Owners, or the
	// one that comes first; and nothing while somebody holds that one, or it is not due, or the
	// key is stopped.
	Take(context.Context, store.TakeRequest) (store.Taken, error)
	// Ready says which of the queues have spans that Take would find, and the least rank of each.
	// It never blocks a writer.
	Ready(ctx context.Context, queues []string) ([]store.Ready, error)
	// Give gives spans back whole: inserts the running rows, then frees the spans, with another
	// rank and due if it says so. Those that are not the holder's, or are again its own with
	// another token, are passed over: a late copy of the call frees nothing.
	Give(context.Context, store.GiveRequest) error
	// GiveRest gives the rests of spans back: what begins at From becomes a free span of its own,
	// with another rank and due, and all else as it is; what comes before it the holder keeps, with
	// its row and its token. It says which of the spans end before From by now: called again it
	// says the same. Those that are not the holder's, or with another token, and those that begin
	// at From or later, or end before the number that comes before From, stay as they are.
	GiveRest(context.Context, store.RestRequest) (given []bool, err error)
	// TakeExpired makes the holder hold free spans that have tasks which nobody has begun in
	// time: whose Expires is not after now. It is for the tasks of which no holder takes care;
	// what others hold stays theirs. Spans are taken whole, of whatever queue, also of paused
	// ones, until there are limit tasks or more, and answered as Take does: with all of their
	// tasks, also those that have not expired. The holder settles those that have (KindExpired)
	// and gives the rest back. More says that there may be more at once, NextDue when to look
	// next: not after the first limit of a task that is not begun, as far as is committed; 0 = no
	// task has one. It is over already while somebody holds such a task: look in a moment, the
	// holder may die.
	TakeExpired(ctx context.Context, h store.Holder, limit int) (store.Taken, error)
	// TakeRunning makes the holder hold free spans of queues with limits that have tasks which run:
	// what a dead node handed out counts, and its worker's silence only a holder notices, whether
	// there is room for others or not. Spans are taken whole, also of paused queues, until there
	// are limit tasks or more, and answered as Take does; More says that there may be more.
	TakeRunning(ctx context.Context, h store.Holder, limit int) (store.Taken, error)
	// Held answers every span held by h except the known ones, loaded as Take does.
	Held(ctx context.Context, h store.Holder, known []int64) ([]store.HeldSpan, error)
}

// Steps records what becomes of tasks.
type Steps interface {
	// Settle records the reports whose token is right (that of a running row at their seq, else
	// that of their span, which must cover their task), at most one per (task, seq), deletes the
	// running rows of the recorded ones, inserts the spans of the moved ones, submits the notices
	// of the recorded ones (Report.Notice) and of no others, to queues that come to be if need be,
	// and deletes the spent spans (see store.Settlement.Spent). One bad report never spoils the
	// others. A seq at which a step stands already: Repeated when the token is the same and the
	// hash says the same (store.Repeats), else Stale. No such task: Unknown. Any other token:
	// Stale. The same report twice in one settlement: Recorded, then Repeated.
	//
	// With a recorded report its children are submitted (Report.Spawn), and with no other. A task
	// that ends dead, cancelled or expired leaves a change, so that a look cancels its children.
	// One that others wait for leaves a change at its end (store.EndOf), which the answer's Look
	// has.
	//
	// A report of KindExpired is recorded only of a task that has a limit (Loaded.Expires) and was
	// never handed out, as far as is committed: nothing but edits has happened to it, and it has no
	// running row, not even with the report's token. Else it is Stale. Whether the time is over its
	// holder says, as it says when a task is due again.
	Settle(context.Context, store.Settlement) (store.Settled, error)
	// Sync inserts running rows for hand-outs of spans that are still the holder's and at whose seq
	// no step stands, then says which of those have none all the same, and at which of the watched
	// seqs a step stands. Rows that litter settled seqs are swept.
	Sync(context.Context, store.SyncRequest) (store.Synced, error)
	// Begin inserts running rows as Sync does, before anybody sees the hand-outs: of each queue as
	// many, in order, as its limits leave room for, by its configuration as it stands. Against
	// Queue.MaxRunning count the running rows of the queue, whoever wrote them; against Queue.Rate
	// counts what Begin has let begin, by the store's clock. The same for each key of a queue by
	// itself, beside Queue.PerKey: a hand-out begins if its queue and its key have room; "" is no
	// key. Where Queue.PerKey lets one run, a hand-out begins only if no other task of its key owns
	// the key (store.KeyGate), and if none does, if it is in the span that comes first of the key's
	// sorted ones that are due, held or free, by rank, then batch: else it is Behind. Who begins so
	// owns the key, until it is over, is dropped or gets another group key.
	//
	// A hand-out that has a row already under its token counts no second time, and the row has its
	// worker and times from then on. It says how the queues with limits stand afterwards. Of two
	// calls at the same time one comes after the other; and after a ChangeQueue was answered every
	// Begin goes by what it changed. A rate that is changed begins with an empty bucket.
	Begin(context.Context, store.BeginRequest) (store.Begun, error)
	// Overdue lists running rows whose limit has passed, whoever holds their spans. Some may be
	// litter, at whose seq a step stands.
	Overdue(context.Context, store.OverdueQuery) (store.Overdue, error)
	// Act cancels, moves, replays, edits or removes tasks: each a step at max(seq) + 1, with its
	// consequences in the same transaction. Cancel needs a task that is not final, move and edit
	// one that is neither final nor running, replay a final one, removal one that is not running;
	// and a When that the task is in. A replay begins where it says; where it says nothing, a done
	// task begins in its first stage, with the context that it was submitted with, and another one
	// goes on in the stage in which it ended, with the context that it has. A replay to a stage in
	// which the task never was changes nothing: Was is its final state all the same. Cancelling,
	// moving, editing or removing deletes its running row, and its span when that is free and has
	// only this task. An action whose Mark a step of the task has was done before: it is answered
	// as Changed, and nothing happens. Running means: a running row stands at max(seq) + 1. (What
	// only a node's memory knows, the node checks.)
	//
	// An edit needs a task whose span is free or held by the action's Holder, else Held says who
	// has it; and whoever takes the span reads what the edit has made of the task, if its Act was
	// answered before, or began after it. What it changes holds until the next edit, whatever
	// becomes of the task, also where lists are filtered. A meta takes the place of the whole one
	// that the task has. The task has the place that its priority and time give it or, when
	// neither is changed, the one that it had; attempts, and the error of the last one, stay. An
	// edited context is as good as a submitted one (ContextBy is empty), and takes the place of the
	// one that it replaced for replays that begin in the stage in which it was edited. The large
	// contexts of edits that changed nothing are deleted, unless a row refers to them.
	//
	// A task's limit (Expires) counts from its due time: an edit of that moves it along, and one of
	// StartWithin sets it anew, from the due time that the edit leaves, or takes it away. It has
	// none any more once it was handed out, whatever an edit says, nor after it was moved or
	// replayed: somebody wants it to run. An edit may set another one after that, if no hand-out
	// came in between. A task that is blocked gets none: such an edit does not happen.
	//
	// A task that had to wait for others (Task.After) waits again when it is replayed, unless all
	// of them ended as they should: those that did not, or have not ended, are looked at anew.
	Act(context.Context, []store.Action) ([]store.Acted, error)
	// Stand answers where tasks stand, in the order of ids.
	Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error)
}

// Waits ends the waits of blocked tasks. What Settle records with Report.Await makes a task one:
// its state is blocked until a step of task.KindWoken stands at the seq behind its newest one. No
// take finds it, and it has no due time. It may be cancelled, edited, which leaves it waiting, or
// removed, each of which stands in the way of such a step, or comes behind it.
//
// A wait ends once, by one signal or by its time, and a signal ends one wait at most. What becomes
// of them is decided by Look: whoever writes something that may end a wait, Settle and Signal,
// leaves a change in the same transaction, and whoever looks deletes it with what follows from it.
//
// A wait for children ends when all that the task has submitted in its present run are final, or,
// with Await.First, one of them is dead or expired. Those that are deleted count as they had ended:
// as cancelled, if they had not.
type Waits interface {
	// Signal writes down a signal, unless one stands with its key at its address, and looks at the
	// address. It is there until it has ended a wait, its Keep is over, or its task is deleted. A
	// task that is over, or has MaxOpenSignals, gets none.
	Signal(context.Context, store.Signal) (store.Signalled, error)
	// Look ends waits: at an address the oldest wait by the oldest signal, as long as there are
	// both, and without addresses also those whose time is over. A task that is woken goes on in
	// the stage that waited, or in Await.Else when the time was over and that is not empty; charged
	// is nothing. It has a free span of its own, with the rank of a new stage; it is due at once,
	// or when an edit said meanwhile. What ended the wait its holder reads (Loaded.Woken) until the
	// task goes on to another stage or is replayed.
	//
	// At the end of a task (store.EndOf), behind all others and behind the times that are over, it
	// looks at the dependencies on the task that are open, if the task is over or deleted, which is
	// as if it had been cancelled: at most Limit of them and at most 1,000, by Address.String and
	// then by who waits. Each takes the state in which the task ended. If that is not what it asked
	// for, who waits is cancelled (Error "after REF: STATE", with the id where there is no ref); if
	// no other dependency of it is open, it is woken: due as its batch is, or its newest edit or
	// replay says, with the rank that follows from that. The ends of those that are cancelled so
	// come next, as if they were asked for, and then those of the ones behind them, at most
	// store.ChainAtOnce times in all, with what is left of the budget. More says that some are
	// left.
	//
	// A look without addresses cancels children, too: of a task that ended dead, cancelled or
	// expired those that have not begun, as far as rows tell, but orphans; and below one with which
	// its tree was to be cancelled (Action.Tree) all that have not ended, with all below them. Of
	// one that began anew meanwhile, those of its present run stay. It
	// examines at most Limit children, and at most 1,000, below one task after the other by the
	// order of rules.Fall.String, oldest first; what is below those that it cancels is for the next
	// look. More says that some are left.
	Look(context.Context, store.LookRequest) (store.Looked, error)
}

// Views reads for people. It never blocks a writer.
type Views interface {
	// Task is one task with its steps (the newest 1,000), contexts and results resolved;
	// store.ErrNotFound.
	Task(context.Context, task.ID) (task.View, error)
	// Contexts tells what the stages of a task were handed, oldest first: what was submitted, and
	// each step from which on the task had another stage, or whose context is not that of the step
	// before it: a report with a context, an edit of it, a replay that begins with an earlier one.
	// next is where to go on, 0 at the end. It looks at 1,000 steps at most, so a page may be short
	// (even empty) while next is not 0; store.ErrNotFound.
	Contexts(
		ctx context.Context, q store.ContextsQuery,
	) (page []task.StageContext, next int32, err error)
	// Tasks lists the tasks that a filter selects, newest first, starting below after (zero = from
	// the newest); next is where to go on, zero at the end. Contexts are not loaded. It examines a
	// bounded number of rows, so a page may be short (even empty) while next is not zero.
	Tasks(
		ctx context.Context, f store.Filter, after task.ID, limit int,
	) (page []task.View, next task.ID, err error)
	// Children lists the children of a task, of all its runs, oldest first, with their results. It
	// examines a bounded number of rows, so a page may be short while next is not zero;
	// store.ErrNotFound.
	Children(
		ctx context.Context, q store.ChildrenQuery,
	) (page []task.View, next task.ID, err error)
	// Families reads tasks, in the order of IDs, and which children they have in their present
	// runs.
	Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error)
	// Counts are exact by what is committed; Live tasks are not known here and count as ready.
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	// Gates says how queues stand beside their limits, by name, and what time it is: of those named
	// the ones that have limits, without names of all that have some.
	Gates(ctx context.Context, queues ...string) (now int64, gates []store.Gate, err error)
	// KeyGates says how keys of a queue stand beside the limits of each key, by key: those that
	// have limits, whether they have tasks or not.
	KeyGates(
		ctx context.Context, queue string, keys []string,
	) (now int64, list []store.KeyGate, err error)
	// Keys says which group keys of a queue have tasks that are due or run, or rules, and how many.
	// It examines at most store.KeysExamined tasks, running rows and rules each.
	Keys(ctx context.Context, queue string) (store.KeyUses, error)
	// Minutes says what happened in the queues, also in those that were deleted, minute by minute,
	// from a minute on, in no order; a minute of a queue in which nothing happened may be left out.
	// It reaches back as far as History does by the minute. Of minutes before whole it tells only
	// the counts.
	Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
	// Ahead counts the ready tasks that come before a task in its queue, by rank and, where ranks
	// are equal, by id. It counts by what is committed, as Counts does, and examines at most limit
	// spans that nobody ever held, limit tasks of the task's own span, and limit tasks of all
	// others; beyond that it says More. Nothing comes before a task that is blocked, final or
	// unknown.
	Ahead(ctx context.Context, id task.ID, limit int) (store.Ahead, error)
	// History says what a queue, a stage of one, a worker, or the store as a whole did, in periods
	// of time: all periods of the question, also those in which nothing happened. It is told by
	// what is committed, and counts each thing that happened in the period of its own time: a
	// submission by the batch's Created, a hand-out by its step's Started (by Finished where that
	// is not known), an outcome by Finished. What is deleted later stays counted, and a replay
	// takes nothing back. Waits are known of reports that have Ready.
	//
	// Ready and Running are as of the last minute in the period after which Prune was called. While
	// there are no such tasks nothing may be noted. Prune forgets what is older than is kept, see
	// history.Kept: minutes sooner than hours.
	History(ctx context.Context, q history.Question) ([]history.Period, error)
	// RunTimes are those of a queue among the newest limit steps of all tasks, in no order. Newest
	// is by the tasks' ids.
	RunTimes(ctx context.Context, queue string, limit int) ([]store.RunTime, error)
}

// Texts keeps what is large or long.
type Texts interface {
	// Keep returns v itself when it is short (store.InlineLimit), else puts it into the blob store
	// and returns the reference.
	Keep(ctx context.Context, v []byte) (store.Value, error)
	// Value resolves what Keep returned; fs.ErrNotExist when that is gone, which is no
	// task.ErrUnavailable.
	Value(ctx context.Context, v store.Value) ([]byte, error)
	// AppendLog adds lines to a task's log; past 1 MiB, to which a line adds store.LogLineMin bytes
	// at least, the middle is dropped first. store.ErrNotFound.
	AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error
	// Log reads lines from a position on (0 = the first).
	Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error)
}
