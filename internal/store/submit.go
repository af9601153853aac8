package store

import (
	"time"

	"github.com/rotahq/rota/task"
)

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
