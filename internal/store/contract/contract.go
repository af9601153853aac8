package contract

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Store is everything; callers declare the few methods they need.
type Store interface {
	Spans
	Steps
	Waits
	Leases
	Queues
	Views
	Texts
	Events
	Notifiers
	Hooks
	Groups
	Assignments
	Seats
	JobTexts
	Schedules
	Upkeep
	Close() error
}

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
	// no step stands, then says at which of the watched seqs a step stands. Rows that litter
	// settled seqs are swept.
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

// Leases keeps rights that end by themselves.
type Leases interface {
	// Acquire gives the lease to holder, with a greater token, unless another holder has it
	// unexpired (store.ErrConflict).
	Acquire(
		ctx context.Context, name, holder string, ttl time.Duration, value []byte,
	) (store.Lease, error)
	// Renew extends the leases that still have the given tokens, expired or not, in one write, and
	// returns those; a nil value keeps the old one.
	Renew(ctx context.Context, leases []store.Lease, ttl time.Duration) ([]store.Lease, error)
	// End ends a lease: its token grows, and it expires. A wrong token changes nothing. remove
	// deletes the row. When it is a membership, whatever its holder has for as long as that stands
	// (store.WhileMember) goes on to the time at which the membership would have expired: the
	// holder may not know yet.
	End(ctx context.Context, name string, token int64, remove bool) error
	// AcquireAll gives those of the wanted leases (their Name and Value; names differ) to holder
	// that are free, each with a greater token, in one write, and returns them, in no order: those
	// without a row and those that were ended (End, Free: Until 0). As long as the store's clock is
	// not past judge (0: it always is) also those that have expired, and the holder's own, expired
	// or not. The rest is left out, which is no error.
	//
	// A want whose Until is store.WhileMember is given only to a holder with a membership that has
	// not expired. Such a lease expires when the membership does, or at once where that is gone.
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	// EndAll ends the leases that still have the given tokens, in one write, each as End does.
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
	// Beat is Renew of what a node holds, then LeasesOf each of the prefixes (none the beginning of
	// another), in one transaction and one trip to the database.
	Beat(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
	// LeasesOf lists the leases whose name begins with prefix, by name. Ended ones have Until 0.
	LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error)
}

// Queues keeps configurations.
type Queues interface {
	// ChangeQueue changes a configuration, pause flag included, or creates it. Of changes at the
	// same time none is lost: each is given what the one before it left.
	ChangeQueue(ctx context.Context, name string,
		change store.Change[task.Queue]) (store.Changed[task.Queue], error)
	// ChangeKey changes the rule of a group key: how long it is paused, and the weight of its turn.
	// While it is paused no hand-out of the key begins (Begin), and takes by keys pass it over. A
	// rule that says nothing any more has no row; Queue.KeyRules tells whether the queue has any.
	// store.ErrNotFound without the queue; store.ErrKeyRules for a rule more that stands than
	// store.MaxKeyRules.
	ChangeKey(context.Context, store.KeyChange) (store.KeyRule, error)
	// Queues lists all, by name.
	Queues(context.Context) ([]task.Queue, error)
	// DeleteQueue deletes the configuration and all tasks of a queue, in pieces. With unfinished
	// tasks and without force: store.ErrConflict.
	DeleteQueue(ctx context.Context, name string, force bool) error
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
	// Value resolves what Keep returned.
	Value(ctx context.Context, v store.Value) ([]byte, error)
	// AppendLog adds lines to a task's log; past 1 MiB the middle is dropped first.
	// store.ErrNotFound.
	AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error
	// Log reads lines from a position on (0 = the first).
	Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error)
}

// Events keeps what happened, in one order for all.
type Events interface {
	// Append adds those of the events whose key neither stands in the log nor comes earlier in the
	// list, in the order of the list, and says how many. Seq and Time are the store's. Seqs have no
	// gap, and who has seen one will never see a smaller one appear: what is appended at the same
	// time waits for the commit before it.
	Append(ctx context.Context, events []store.Event) (appended int, err error)
	// Events reads on in the log, and waits for nobody.
	Events(context.Context, store.EventQuery) (store.EventPage, error)
}

// Notifiers keeps who is told of events, and how far they have been.
type Notifiers interface {
	// ChangeNotifier changes the configuration and the secrets of a notifier, which goes on from
	// where it was, or creates one, served up to the newest event. Of changes at the same time none
	// is lost.
	ChangeNotifier(ctx context.Context, name string,
		change store.Change[store.Notifier]) (store.Changed[store.Notifier], error)
	// Notifiers lists all, by name, with their secrets.
	Notifiers(context.Context) ([]store.Notifier, error)
	// DeleteNotifier forgets a notifier; store.ErrNotFound.
	DeleteNotifier(ctx context.Context, name string) error
	// Advance replaces a notifier's progress if it is still served up to from: of two nodes that
	// served it from the same place one moves it. Else, and when there is no such notifier, it
	// changes nothing and ok is false.
	Advance(ctx context.Context, name string, from int64, to store.Progress) (ok bool, err error)
}

// Hooks keeps what other programs call.
type Hooks interface {
	// ChangeHook changes the configuration and the secrets of a hook, or creates one. Of changes at
	// the same time none is lost.
	ChangeHook(ctx context.Context, name string,
		change store.Change[store.Hook]) (store.Changed[store.Hook], error)
	// Hooks lists all, by name, with their secrets.
	Hooks(context.Context) ([]store.Hook, error)
	// DeleteHook forgets a hook; store.ErrNotFound.
	DeleteHook(ctx context.Context, name string) error
}

// Groups keeps groups of jobs: what is to run. store.ErrNotFound: no such group (any more).
type Groups interface {
	// ChangeGroup changes a configuration, or creates it. Of changes at the same time none is lost.
	// A group that is created anew has greater versions than the one that had its name before.
	ChangeGroup(ctx context.Context, name string,
		change store.Change[task.Group]) (store.Changed[task.Group], error)
	// Groups lists all, by name.
	Groups(context.Context) ([]store.Group, error)
	// DeleteGroup forgets a group, its jobs, their logs and its assignments, which take no capacity
	// from then on: their workers end them when Changes says that there is no such group. With jobs
	// and without force: store.ErrConflict.
	DeleteGroup(ctx context.Context, name string, force bool) error
	// AskGroup makes the group's Refresh or Rebalance grow.
	AskGroup(ctx context.Context, name string, refresh, rebalance bool) error
	// NoteSource writes down what came of reading a group's source when that changed nothing
	// (store.JobChange.Read does it else). store.ErrConflict: the claim does not stand.
	NoteSource(ctx context.Context, group string, claim store.Lease, read store.SourceRead) error
	// ChangeJobs replaces, adds or removes jobs, all or nothing. A job that is put as it is keeps
	// its version; assignments stay as they are: one whose token is less than its job's version was
	// made before the job changed. store.ErrConflict: the claim does not stand, there is none and
	// the group's list comes from elsewhere than the API, or there would be more than MaxJobs.
	ChangeJobs(context.Context, store.JobChange) (store.JobsChanged, error)
}

// Assignments keeps who runs what. store.ErrNotFound: no such group (any more), so nothing of it is
// to run.
type Assignments interface {
	// Changes reads on in a group's changes after a version, unordered: everything that is newer,
	// tombstones included. Everything, without tombstones but those of assignments that failed
	// within limits.MaxPenalty (Whole), is answered after 0, to who has read less far than what was
	// purged, and to who has read further than the group is (its store is an older one).
	Changes(ctx context.Context, group string, after int64) (store.Changes, error)
	// Assign does what a supervisor decided, in the order Drop, End, Move, Start.
	//
	//   - Drop and End pass over what is not there with that token, or is so already.
	//   - Drop is refused while the worker is there (store.SeatTaken).
	//   - Start is refused when the job is gone, the worker is not there (store.SeatTaken), has a
	//     replica of the job or too little room, or the replica has a worker already, one at which
	//     it is not ending.
	//   - Move is refused likewise, and when the replica is not at From, starting, running or
	//     failed, or is moving already.
	//
	// A moving one whose successor is over or ending, by this call or any other, goes on as
	// running. After store.ErrUnknown the supervisor reads on; the same call again would do nothing
	// twice, but refuse what it had done.
	Assign(context.Context, store.Assign) (store.Assigned, error)
	// Observe writes down what workers said. Starting, running and failed ones become what is said
	// of them; failing is noted with its time and Note, and whether it is Quiet, until it becomes
	// another state. Moving and ending ones only become Ended.
	// What is so already costs nothing. Runs are adopted that are starting, running or failed, and
	// have a replica of the group's, when no row of their job and worker has their token or a later
	// one (an assignment that was ended is never adopted again); see store.Observed for the rest.
	// Said twice, an adopted run stays adopted. With Anew, starting, running and failed ones become
	// starting under a new token.
	Observe(context.Context, store.Observed) (store.Observing, error)
}

// Seats keeps the workers that serve groups.
type Seats interface {
	// Seat writes down who beats at a node and who does not any more (Worker, Incarnation and State
	// of Away); see store.SeatRequest. One whose incarnation is not that of its seat is passed over
	// in Away. What is so already costs nothing. Away comes after Taken: a worker in both, which
	// came and left since its node wrote last, is away.
	Seat(context.Context, store.SeatRequest) (store.Seated, error)
	// Seats lists all, by name, if their version is not the one that the caller knows (0: none),
	// else none.
	Seats(ctx context.Context, known int64) (store.Seats, error)
	// Board is Groups and Seats at one moment and, when there is nothing new of seats, in one
	// statement.
	Board(ctx context.Context, known int64) (store.Board, error)
	// DeleteSeat forgets a worker, if there is one, and ends its assignments at once.
	DeleteSeat(ctx context.Context, worker string) error
}

// JobTexts keeps what replicas of jobs print.
type JobTexts interface {
	// AppendJobLog adds lines to a job's log; past 1 MiB the middle is dropped first.
	// store.ErrNotFound; a removed job keeps its log as long as its tombstone stands.
	AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error
	// JobLog reads lines from a position on (0 = the first).
	JobLog(ctx context.Context, group, job string, from int64, limit int) (store.LogPage, error)
}

// Schedules keeps what is due when, and what came of it. See store.Schedule for what makes every
// due time handled once.
type Schedules interface {
	// ChangeSchedules creates or replaces schedules (names differ) and a calendar, all or nothing,
	// and answers the schedules as they stand, in the order of Puts. One that is put as it is stays
	// as it is, version and cursor too, whatever version was seen (store.SchedulePut.Become).
	// store.ErrNotFound: a calendar that there is not, or a schedule to follow that neither is
	// there nor put. store.ErrConflict: see store.SchedulePut; or a calendar is replaced, and a
	// schedule that has it is not among Puts (each version has one set of days); or a schedule
	// would follow itself, by way of others or not (store.Circle), also when two changes make the
	// circle at once; or one of Ends changes nothing.
	ChangeSchedules(context.Context, store.ScheduleChange) ([]store.Schedule, error)
	// DeleteSchedule forgets a schedule, its eras and its fires. Their tasks stay.
	// store.ErrNotFound. store.ErrConflict: another one follows it (After).
	DeleteSchedule(ctx context.Context, name string) error
	// DeleteCalendar forgets a calendar, but for what eras had of it. store.ErrNotFound.
	// store.ErrConflict: a schedule has it.
	DeleteCalendar(ctx context.Context, name string) error
	// Calendars lists all, by name.
	Calendars(context.Context) ([]task.Calendar, error)
	// ScheduleKeys counts schedules, and names them if they are at most limit.
	ScheduleKeys(ctx context.Context, limit int) (store.ScheduleKeys, error)
	// ScheduleStands counts schedules by their queue, in no order; a next due time before late
	// makes one that is not paused a late one.
	ScheduleStands(ctx context.Context, late int64) ([]store.ScheduleStand, error)
	// Schedules lists those that are selected, by name.
	Schedules(context.Context, store.ScheduleQuery) ([]store.Schedule, error)
	// Due lists schedules whose cursor is not after a time, in their order. A cursor of
	// store.Never, as those have that follow another schedule, is after all times.
	Due(context.Context, store.DueQuery) ([]store.Schedule, error)
	// Eras lists what a schedule was, oldest first, as far as any of it was after from, and then
	// what it is. Eras have no cursor. store.ErrNotFound.
	Eras(ctx context.Context, schedule string, from int64) ([]store.Schedule, error)
	// Fire writes down what came of due times part by part, submits their tasks, and then writes
	// Ends. Done again after store.ErrUnknown it does nothing twice: what was done is refused or
	// left. store.ErrConflict: a batch id stands with another origin; nothing is done.
	//
	// A part with any fire in the future is refused as early, whatever stands beside it: the answer
	// does not depend on the order of its fires, and whoever waits for the time is not told to look
	// anew. A row never ends before it begins, since a list by time would miss it. What was asked
	// for now and has a row is left, also with Over: the same request never replaces what it has
	// done.
	//
	// A part finds what the parts of the call before it wrote: their rows and where they left the
	// cursor. Only its Most is held against the tasks that ran before the call, whatever other
	// parts fire: who wrote the parts knew of them all. Its Tail moves with what parts before it
	// wrote: a turn that is joined twice in one call is joined once.
	Fire(context.Context, store.Firing) (store.Fired, error)
	// Fires lists what came of due times, by them; nothing of a schedule that there is not.
	Fires(context.Context, store.FireQuery) ([]store.Fire, error)
	// RunFires lists the fires of a run, the one with which it began among them: of any schedules,
	// by (Schedule, At), at most limit.
	RunFires(ctx context.Context, run store.FireKey, limit int) ([]store.Fire, error)
	// OpenFires lists fires of which something is still to come, by (Schedule, At), and how their
	// tasks stand. A replayed task opens its watched fire again, in the transaction that replays
	// it: Ended is 0, Tries grows, and Seq is that of the replay, so that nobody who looked before
	// closes it.
	OpenFires(context.Context, store.OpenQuery) ([]store.OpenFire, error)
}

// Upkeep is done by one node per beat.
type Upkeep interface {
	// Free ends every expired lease except that of self (token + 1), as long as the store's clock
	// is not past judge (it may be on its way for long, and find the living expired by a store that
	// stood still), with a membership also what its holder had for as long as that stood
	// (store.WhileMember), then frees every span whose holder is no living lease, deaths + 1. Taken
	// seats whose node is no living lease become orphans.
	Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error)
	// FreeEnded is Free by somebody who may judge nobody: it ends no lease, and frees what no lease
	// holds any more, ended by whomever. A lease that has expired and was not ended keeps what it
	// holds.
	FreeEnded(ctx context.Context) (freed int, err error)
	// Prune deletes at most limit rows that retention no longer keeps, blobs included, and says how
	// many. Events go from the front of the log when they are older than store.EventsKept; their
	// keys may come again, their seqs never. Tombstones of jobs and assignments go after
	// store.EndedKept, seats that are not taken after store.SeatsKept; rows of fires that are not
	// open store.FiresKept after they were written, eras so long after they ended.
	Prune(ctx context.Context, limit int) (pruned int, err error)
	// Retention says how far Prune was behind when it was called last: whether another call at once
	// would do more. It only remembers, and never fails. What a node does not prune, because
	// another one does, it knows nothing of.
	Retention() store.Retention
	// Check says whether the store can still be trusted and has room: nil, store.ErrFull or
	// store.ErrBroken.
	Check(ctx context.Context) error
}
