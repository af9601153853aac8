package task

import "time"

// Unique makes a task the only one of its queue that has a key, for as long as While says. The key
// is free again when that ends: the next submission with it makes another task. It has nothing to
// do with Submission.Key, which is remembered for a time, whatever became of the task.
type Unique struct {
	Key   string
	While While // "" = WhileUnfinished
	// For ends it so long after the task got the key, if it has the key then; 0 = only While ends
	// it. The task itself goes on.
	For time.Duration
}

// While is how long a task has its unique key.
type While string

const (
	WhileWaiting    While = "waiting"    // until it is handed out for the first time
	WhileUnfinished While = "unfinished" // until it is done, dead, cancelled, expired or removed
)

// OnExisting says what becomes of a submission whose unique key a task has. What waits can be
// replaced: a task that was handed out once is kept as it is.
type OnExisting string

const (
	// OnExistingKeep leaves the task as it is; the receipt has its id. It is the default.
	OnExistingKeep OnExisting = "keep"
	// OnExistingReplace gives the task the submission's context, stage, priority, due time and
	// meta; it keeps its id. A Delay is not begun anew: the task is due when it was.
	OnExistingReplace OnExisting = "replace"
	// OnExistingDebounce is OnExistingReplace with the submission's delay begun anew.
	OnExistingDebounce OnExisting = "debounce"
	// OnExistingRefuse refuses all tasks of the call, with ErrConflict.
	OnExistingRefuse OnExisting = "refuse"
)

// Submitted is what became of one Submission.
type Submitted string

const (
	SubmittedCreated   Submitted = "created"   // there is a new task
	SubmittedKept      Submitted = "kept"      // another task has the key, and is as it was
	SubmittedReplaced  Submitted = "replaced"  // what waited is now what was submitted
	SubmittedDebounced Submitted = "debounced" // the same, and its delay begins anew
)
