package store

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/rotahq/rota/task"
)

// Final is the base of a step that nothing but a replay can follow.
const Final int32 = -1

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
