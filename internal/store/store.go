// Package store holds the store's types: what its transactions are given and what they answer.
// Pure: no I/O, no clock.
//
// Packages sqlite and postgres below this one keep the tables, and package storetest holds both to
// one contract (contract/contract.go says what each call promises).
//
// Times are microseconds since 1970 UTC, by the store's clock. The tables behind these values are
// described in docs/DESIGN.md; in short:
//
//	batch    insert-only     what the tasks of one gathered submission share: queue, rank, due
//	task     insert-only     (batch, n): stage, context, key
//	step     insert-only     (batch, n, seq): the outcome of one hand-out, and what follows from it;
//	                         plain outcomes may stand together in a mark (package pack)
//	span     mutable         a run lo..hi of one batch's tasks: holder, token
//	running  insert/delete   hand-outs older than about a second
//	lease    mutable         a right that ends by itself: name, holder, token, until, value
//	expiry   mutable         when to look for tasks of a batch that nobody has begun in time
//	wait     mutable         what a blocked task waits for: the step at its seq ends the wait
//	signal   insert-only     what was sent; it ends one wait at most
//	change   insert/delete   an address at which somebody has to look
//	child_batch  insert-only whose children the tasks of a batch are
//	child_count  mutable     how the children of one run of a task stand
//	dependency   mutable     a task that another one waits for, and how it ended
//
// A task belongs to the span whose seq0 equals the base of the task's newest step (no step: 0), as
// long as that step is not final (base = Final).
package store

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/task"
)

// Errors that a store answers with. Everything else means: nothing was changed, and the text says
// why.
var (
	// ErrUnknown: the commit may or may not have happened. Repeat the same call with the same ids.
	ErrUnknown = task.ErrOutcomeUnknown
	// ErrFull: no room on the disk; nothing was changed.
	ErrFull = task.ErrFull
	// ErrNotFound: no such task, queue or lease.
	ErrNotFound = task.ErrNotFound
	// ErrConflict: the thing is not in a state that allows it.
	ErrConflict = task.ErrConflict
	// ErrStale: somebody else changed what a change was made from; nothing was changed. Make it
	// again from what stands.
	ErrStale = errors.New("changed meanwhile")
	// ErrBroken: the store can't be trusted any more (failed fsync, damaged or vanished file). The
	// process must stop.
	ErrBroken = errors.New("store is broken")
	// ErrBusy: too much waits already; nothing was changed. Try again in a moment.
	ErrBusy error = unavailable("overloaded")
	// ErrDraining: the node is to take no tasks; nothing was changed.
	ErrDraining error = unavailable("node is draining, ask another one")
	// ErrNotYet: the node has not looked at the others since it joined; nothing was changed. Try
	// again in a moment.
	ErrNotYet error = unavailable(
		"this node has just joined, and has not looked at the others yet")
	// ErrHeld: another node holds the task, and has not given it up; nothing was changed. Try again
	// in a moment.
	ErrHeld error = unavailable("it has not given it up yet, try again in a moment")
	// ErrOutOfReach: no connection to the store is to be had, or this node is no member of it now;
	// nothing was changed.
	ErrOutOfReach error = unavailable("store is out of reach")
	// ErrClosed: the store was closed.
	ErrClosed error = unavailable("store is closed")
)

// unavailable is an error that is a task.ErrUnavailable, too.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// Is tells whether target is what all of them are.
func (u unavailable) Is(target error) bool { return target == task.ErrUnavailable }

// Final is the base of a step that nothing but a replay can follow.
const Final int32 = -1

// InlineLimit is the size in bytes up to which a context or result stands in its row.
const InlineLimit = 4096

// Value is a context or a result: nil for none, JSON text kept byte for byte, or, when it begins
// with a NUL (which no JSON text does), the name of the blob that holds the text.
type Value []byte

// Ref makes the value that refers to a blob.
func Ref(blob string) Value { return append(Value{0}, blob...) }

// Blob is the name of the blob that v refers to, and whether it refers to one.
func (v Value) Blob() (name string, ok bool) {
	if len(v) == 0 || v[0] != 0 {
		return "", false
	}
	return string(v[1:]), true
}

// Holder is who may hold spans: a node under one membership lease. A node that starts again has
// another token, so it never mistakes its predecessor's spans for its own.
type Holder struct {
	Node  string
	Token int64
}

// Submission is one gathered submission: all or nothing.
type Submission struct {
	Holder    Holder   // of the spans with Hold
	NewQueues []string // created with defaults unless they exist
	Batches   []Batch
	Shares    []Share // told to other nodes along with what they are of
	// Under is the hand-out whose children the tasks of all batches are. Without the right to
	// report of it, or once an outcome stands, nothing is submitted: ErrStale. nil = none.
	Under *Right
}

// Share is how many of the free tasks of a submission a node had better take, because its workers
// wait. It is advice: whoever takes them first has them.
type Share struct {
	Queue string
	Node  string
	Tasks int
}

// Offer tells other nodes of free tasks of a queue.
type Offer struct {
	Queue  string
	Rank   int64   // the least of them
	Shares []Share // of this queue; none = whoever has room
}

// Batch is a run of tasks with equal queue, rank and due. Its id is chosen by the caller
// (BatchID), so the same submission can be repeated after an unknown outcome.
type Batch struct {
	ID    int64
	Queue string
	Rank  int64
	Due   int64
	// at most the time in the id, and at least CreatedWithin before it: lists find their place by
	// it
	Created int64
	// the process that submitted; an id that stands with another origin is a conflict
	// (ErrConflict), not a repetition
	Origin string
	// Call is the same for all batches of a call that is to be refused as a whole when any of its
	// tasks finds its unique key taken (OnExistingRefuse), and no other batch has it; 0 = none.
	Call int32
	// Orphan: these children stay when their parent ends badly, or is cancelled.
	Orphan bool
	Tasks  []Task // ascending N; gaps are allowed
	Spans  []NewSpan
}

// CreatedWithin is how long before the time in its id a batch may have been created. The two differ
// when a clock was set back, as ids only grow.
const CreatedWithin = time.Hour

// Task is a task as it is submitted.
type Task struct {
	N           int32
	Stage       string
	Context     Value
	Key         string // "" = none
	KeyUntil    int64  // when the key is forgotten
	GroupKey    string
	MaxAttempts int32 // 0 = the queue's
	Timeout     int64 // microseconds, 0 = the queue's
	StartWithin int64 // microseconds from the batch's due time on, 0 = no limit
	Meta        Meta
	Unique      *Unique // nil = it wants no unique key
	// After are other tasks, at most MaxAfter, none twice, that have to end before this one may
	// begin: they stand, or are of the same submission, and then of the same Batch.Call. All tasks
	// of its batch have some, and their spans have no Hold; nor have they a StartWithin, or a
	// Unique. nil = none.
	After []Dependency
}

// Expires is when the task of a batch with a due time expires unless it is begun before; 0 = never.
func (t *Task) Expires(due int64) int64 {
	if t.StartWithin == 0 {
		return 0
	}
	return due + t.StartWithin
}

// NewSpan is a run of a new batch's tasks.
type NewSpan struct {
	Lo, Hi int32 // both included
	Hold   bool  // to be held by the submitter at once (token 1), else free (token 0)
}

// Submitted answers a Submission.
type Submitted struct {
	Now int64
	// in the order of the submission, without those of refused calls; those with Hold are free
	// after all if the lease was gone
	Spans    []Span
	Existing []Existing // tasks that were not inserted because their key exists
	Refused  []Refusal  // calls of which nothing was inserted, by number
	// Look are tasks that stood already and that others wait for now, as addresses: it may be over
	// already. By Address.String.
	Look []Address
}

// Existing says that a task's key exists already.
type Existing struct {
	ID     task.ID // as submitted; not inserted
	First  task.ID // the task that has the key
	Action task.Submitted
}

// Span is a run lo..hi of one batch's tasks, the unit in which nodes take tasks.
type Span struct {
	ID     int64
	Batch  int64
	Lo, Hi int32 // both included
	Seq0   int32
	Queue  string
	Rank   int64
	Due    int64
	Holder Holder // zero = free
	Token  int64  // only grows; part of every hand-out's token
	Deaths int32  // holders that died with it
	// Key is the group key of all its tasks, if it is Sorted: as what is taken from queues that go
	// by keys.
	Key    string
	Sorted bool
	Linked Links
}

// Parked tells whether the tasks of the span wait for something else than a time.
func (s *Span) Parked() bool { return s.Due == Never }

// Taking names the present holding of the span.
func (s *Span) Taking() Taking { return Taking{s.ID, s.Token} }

// HeldSpan is a span as its holder reads it: with the tasks that are still its own.
type HeldSpan struct {
	Span
	Tasks []Loaded // ascending N; without those that are final or moved away
	// Keys are the group keys of Tasks, of a span that a take by keys took as it was; nil = they
	// are not said.
	Keys []string
}

// Loaded is one task as its holder reads it.
type Loaded struct {
	N int32
	progress.Standing
	Context     Value
	ContextSeq  int32  // the step in which the context stands, -1 = the task itself
	ContextBy   string // the worker whose report that step records; "" = the task itself
	MaxAttempts int32  // 0 = the queue's
	Timeout     int64  // microseconds, 0 = the queue's
	Meta        Meta
	Due         int64 // when the newest step lets it run again; 0 = at once
	HeadStart   int64 // its priority, microseconds, as it was submitted
	// when it expires unless it is begun before; 0 = never, as for one that was begun: which has an
	// outcome, or a running row
	Expires int64
	Running *Running
	// Unique: the task has a unique key. It is handed out when Begin says so, as submissions may
	// replace it until then.
	Unique bool
	Woken  *Woken  // what ended the wait before its present stage; nil = it did not wait
	Parent task.ID // whose child it is; zero = nobody's
	After  []Prior // what it has waited for, in the order of Task.After; nil = nothing
}

// Running is a hand-out older than about a second: its token stays good when its node dies.
type Running struct {
	ID          task.ID
	Seq         int32
	Span        int64
	Token       int64 // the span's at the hand-out
	Worker      string
	Incarnation string
	Started     int64
	Until       int64 // the attempt's hard limit
}

// Step is the record of one hand-out's outcome. Insert-only; its primary key is the fence.
type Step struct {
	Kind       task.Kind
	Ran        string // the stage that ran
	Stage      string // the stage that follows
	Context    Value  // the context from here on, nil = unchanged
	ContextSeq int32  // the step in which the context from here on stands, -1 = the task itself
	Result     Value
	Attempt    int32 // charged in Stage, this step included
	Base       int32 // seq0 of the task's span from here on; Final
	Worker     string
	Started    int64
	Finished   int64
	Due        int64 // when it may run again; 0 = at once
	Error      string
	Hash       int64 // of the report, see ReportHash; tells a repeated report from a different one

	Override *Override // of KindEdited
}

// Report asks to record a step at a hand-out's seq.
type Report struct {
	ID    task.ID
	Queue string
	Token task.Token
	Step  Step
	// since when the task might run that was handed out; 0 = not known. For the history
	Ready int64
	Move  *Move  // with Step.Base = Token.Seq + 1: the span of its own that the task moves into
	Await *Await // with Move = Parked(): what the task waits for there; nil = nothing
	// Spawn is submitted in the same transaction if the report is recorded, and not otherwise: the
	// children of the task, with free spans, to queues that come to be if need be. Their tasks want
	// no unique keys, and no N stands twice. Their ids have ChildBit.
	Spawn []Batch
	// HoldKey pauses the task's group key from then on in the same transaction, if the report is
	// recorded and the task has one, as KeyChange.Hold does; 0 = nothing is paused.
	HoldKey time.Duration
	// Notice is submitted in the same transaction, with a free span, if the report is recorded, and
	// not otherwise: the final notice of a task that dies of it. nil = none.
	Notice *Batch
}

// Move is the span of one task that leaves its span: free, token 0, seq0 = seq + 1.
type Move struct {
	Rank, Due int64
	Linked    Links
}

// Parked is the span of a task that waits for something else than a time: nobody takes it.
func Parked() *Move { return &Move{Rank: Never, Due: Never} }

// Settlement is a gather of reports, and the spans that are spent (all tasks final or moved).
type Settlement struct {
	Reports []Report
	// Spent are spans whose tasks are all final or moved once the reports of this settlement are
	// recorded. They are deleted in the same transaction, except those with a report here that is
	// neither Recorded nor Repeated, and those that were held again since: who has them now may
	// know of tasks that go on.
	Spent []Taking
}

// Settled answers a Settlement.
type Settled struct {
	Now      int64
	Verdicts []task.Status // of the reports, in order: Recorded, Repeated, Stale or Unknown
	Spawned  []Spawned     // of the recorded and the repeated reports with Spawn, by Report
	Look     []Address     // where something changed that tasks may wait for, by Address.String
}

// TakeRequest asks for ready tasks of one queue, by rank.
type TakeRequest struct {
	Holder Holder
	Queue  string
	Limit  int // tasks; the last span is split to fit
	// Keys makes it go by group keys, and take spans whole; nil = by rank.
	Keys *ByKey
}

// Taken answers a TakeRequest. No spans: nothing is ready, or the holder's lease is gone.
type Taken struct {
	Now       int64
	LeaseGone bool
	Spans     []HeldSpan
	// More tells that ready spans of the queue are left, the first of which has NextRank. They may
	// be locked by others just now.
	More     bool
	NextRank int64
	// when the earliest sleeping span of the queue is due, or what others have locked is to be
	// looked at again; 0 = neither
	NextDue int64
	// Left tells of a take by keys that ready spans are left, sorted or not: what is submitted now
	// is not to overtake them.
	Left bool
	// After is the last key that a take by keys has looked at; nil = it came to the end of them.
	After *string
	// Turns says of keys of the spans how many tasks a turn of theirs has (KeyRule.Turn), where
	// that is not one.
	Turns map[string]int
	// Owners are those of the tasks that own their keys (KeyGate.Owner): they go before all others.
	Owners []task.ID
}

// Ready says that a queue has ready spans that nobody holds.
type Ready struct {
	Queue string
	Rank  int64 // the least of them
}

// SyncRequest writes down what runs and asks what others settled.
type SyncRequest struct {
	Holder Holder
	Insert []Running // hand-outs older than about a second without a row
	Watch  []Watch   // all hand-outs of this node
}

// Watch is the seq of one hand-out.
type Watch struct {
	ID  task.ID
	Seq int32
}

// Synced answers a SyncRequest.
type Synced struct {
	Now       int64
	LeaseGone bool
	Settled   []task.ID // watched hand-outs at whose seq a step stands
}

// Taking is one time that a span was held: when it is held again, by whomever, the token is
// another.
type Taking struct {
	Span  int64
	Token int64
}

// GiveRequest gives spans back, whole.
type GiveRequest struct {
	Holder Holder
	Spans  []Taking
	// of the spans: when the first of their tasks is due, and its rank. Empty = as they are
	Orders  []Move
	Running []Running // all hand-outs of these spans: their tokens stay good
}

// RestRequest gives the rests of spans back: what begins with a number of theirs.
type RestRequest struct {
	Holder Holder
	Rests  []Rest
}

// Rest is the end of a span.
type Rest struct {
	Taking
	From int32 // its first number
	Move       // when the first of its tasks is due, and its rank
}

// OverdueQuery asks for hand-outs that have a running row and are past their limit.
type OverdueQuery struct {
	// Steady is since when the store's clock has gone steadily, as far as the caller knows. A
	// hand-out that started before is overdue only Late microseconds after its limit: by so much
	// the clock was put forward then.
	Steady, Late int64
	After        Running // goes on behind this one, by Until, ID and Seq; zero = from the first
	Limit        int
}

// Overdue answers an OverdueQuery.
type Overdue struct {
	Now  int64     // 0 when there are none
	Rows []Running // by Until, then ID, then Seq
}

// Action asks for something to happen to a task from outside: KindCancelled, KindMoved (run now),
// KindReplayed (a final task begins again), KindEdited or KindRemoved.
type Action struct {
	ID   task.ID
	Kind task.Kind
	By   string // who asked
	// Mark is the same whenever this action is repeated, and no other action on the task has it. 0:
	// it is never repeated.
	Mark int64
	// Worker and Started are those of the hand-out that a cancellation ends, if its node knows of
	// one; the step then names them instead of who asked.
	Worker  string
	Started int64
	Rank    int64  // of KindMoved and KindReplayed
	Due     int64  // of KindMoved and KindReplayed
	Replay  Replay // of KindReplayed
	Edit    *Edit  // of KindEdited
	// Holder is who asks for a KindEdited. Of a span that another node holds only that one knows
	// what has just gone out, so there no edit happens: Acted.Held says who has it.
	Holder Holder
	// Fenced: the task is handed out by Begin only (Loaded.Unique). So it may be edited whoever
	// holds it: who has what was there before asks for a hand-out that is none any more.
	Fenced bool
	// Tree: all that hangs below the task is cancelled, too, begun or not. Of KindCancelled,
	// KindRemoved and KindReplayed.
	Tree bool
	// When is the only state in which it may happen to the task; "" = any that its kind fits. Who
	// acts on what a list shows means what was in the list.
	When  task.State
	Error string // for people
}

// Replay says where a final task begins again. The zero value: a done task in its first stage, with
// the context that it was submitted with; another one in the stage in which it ended, with the
// context that it has.
type Replay struct {
	Whole bool    // in its first stage, with the context that it was submitted with
	Stage *string // in this stage, with the context with which it first came there; nil = another
}

// Acted answers an Action. Not Changed: Was says why (already final, not final, running), or Held.
type Acted struct {
	ID      task.ID
	Queue   string
	Found   bool
	Changed bool
	Was     task.State // before; "" when not found
	Held    string     // the other node that holds the task, which therefore was not edited
}

// ActedAll is what came of acting on a page of the tasks that a filter selects.
type ActedAll struct {
	Matched int64   // tasks to which it may be done
	Changed int64   // those to which it was
	Next    task.ID // where to go on; zero at the end
}

// Standing of a task for whoever does not hold it.
type Stood struct {
	ID    task.ID
	Found bool
	Queue string
	Final bool
	Kind  task.Kind // of the newest step; 0 = there is none
	Owner Span      // the span it belongs to; zero ID when final
	Loaded
}

// Lease is a right that ends by itself.
type Lease struct {
	Name   string
	Holder string
	Token  int64  // only grows
	Until  int64  // when it expires by the store's clock; 0 = it was ended; WhileMember
	Value  []byte // what its holder says of itself, JSON
}

// WhileMember is the Until of a lease that is never renewed: it expires when the membership of its
// holder does, a lease whose name MembershipOf makes. So a node renews one row, however much it
// holds.
const WhileMember = math.MaxInt64

// MembershipOf is the name of the lease by which a holder is a member. A holder is a node, or one
// start of it, NODE@START.
func MembershipOf(holder string) string {
	return MembershipPrefix + NodeOf(holder)
}

// NodeOf is the name of the node that a holder is, or a start of. A node's name may have an @, a
// start has none, so the holder of such a name always ends with one.
func NodeOf(holder string) string {
	if i := strings.LastIndexByte(holder, '@'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// IsMembership tells whether a lease of that name makes its holder a member.
func IsMembership(name string) bool { return strings.HasPrefix(name, MembershipPrefix) }

// MembershipPrefix begins the names of the leases that are nodes' memberships.
const MembershipPrefix = "node/"

// Granted answers who asked for leases.
type Granted struct {
	Now    int64
	Leases []Lease // those that it got
}

// Beat is what a node learns when it renews what it holds.
type Beat struct {
	Now    int64
	Kept   []Lease // of those it held: renewed
	Leases []Lease // what all hold, and what ended, by name
}

// Filter selects tasks. Zero fields select everything.
type Filter struct {
	Queue  string
	State  task.State
	Stage  string
	Worker string
	Key    string
	Meta   Meta  // all of these a task must have
	Since  int64 // created at or after
	Until  int64 // created before
	// Error selects tasks whose view shows an error that it matches; nil = all
	Error *regexp.Regexp
	// Stuck selects tasks that run and seem stuck, and says why. It is the dispatcher's affair;
	// stores never see it.
	Stuck *Suspicion
	// Live are the hand-outs that only the node's memory knows yet; they count as running.
	Live map[task.ID]Live
}

// Suspicion is what makes a running task seem stuck, besides its own time.
type Suspicion struct {
	// workers that nobody has heard of within their limit, and when somebody last did; 0 = never
	Silent map[string]int64
}

// RunTime is how long a hand-out took whose outcome was done or next.
type RunTime struct {
	Stage string // that ran
	Took  int64  // microseconds
}

// Live is a hand-out in a node's memory.
type Live struct {
	Worker  string
	Started int64
	Attempt int32
}

// Retention is how far a store is behind with deleting what is kept no longer.
type Retention struct {
	Behind bool // there is more to delete, or to look at, at once
	// how long those that were deleted last were kept beyond their time; 0 when a walk over all
	// found none to delete
	Lag time.Duration
}

// QueueCounts are a queue's counts, derived from facts.
type QueueCounts struct {
	Queue       string
	Counts      task.Counts // Ready includes what is younger than a second in a worker's hands
	OldestReady int64       // due time of the oldest ready task; 0 = none
}

// Ahead says how many tasks come before another one.
type Ahead struct {
	Tasks int64
	More  bool // the search ended before it had seen all: there may be more
}

// Turn is where a task stands among the others of its queue.
type Turn struct {
	Now    int64  // the store's time
	Holder Holder // of its span; zero = nobody, or it is final
	Ahead  Ahead
	Usual  int64 // how long hand-outs of its stage took lately, on average; 0 = nobody knows
}

// LogPage is a piece of a task's log.
type LogPage struct {
	Lines []task.LogLine
	Next  int64 // give it back to read on
}

// Hashes of steps that have to do with transactions of workers' own.
const (
	CommittedHash = -1 // of a step that such a transaction recorded
	// of a report which says that such a transaction recorded the outcome, and of the step that
	// stands when none had: the task's next try
	UncommittedHash = -2
)

// Repeats tells whether a report with a hash says what a step with another one has recorded, both
// by the same token.
func Repeats(report, step int64) bool {
	if report == UncommittedHash {
		return step == CommittedHash
	}
	return report == step
}

// ReportHash tells whether two reports on one token say the same: outcome, stage, context, result,
// what is waited for, and which children come with it. A report without a wait and children has the
// hash that it had before there were any.
func ReportHash(o task.Outcome) int64 {
	h := fnv.New64a()
	h.Write([]byte{byte(o.Kind)})
	parts := [...][]byte{[]byte(o.Stage), o.Context, o.Result, nil, nil, nil, nil, nil}
	n := 3
	if a := o.Await; a != nil { // children have no key, and signals have a name
		n += copy(parts[n:], [][]byte{
			[]byte(a.Signal), []byte(a.Key + string(a.Children)), []byte(a.Timeout.String()),
			[]byte(a.Else),
		})
	}
	var children [8]byte
	if len(o.Spawn) > 0 {
		binary.LittleEndian.PutUint64(children[:], spawnHash(o.Spawn))
		parts[n] = children[:]
		n++
	}
	for _, part := range parts[:n] { // here, so that nothing of it goes to the heap
		n := len(part)
		h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		h.Write(part)
	}
	return int64(h.Sum64())
}
