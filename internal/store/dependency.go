package store

import "github.com/rotahq/rota/task"

// A task may wait for other tasks before it begins: Task.After. It is blocked from its submission
// on, until all of them have ended as they should, or one has not: then it is cancelled. What it
// waits for stands in rows of their own, and stays there as long as the task does: whoever has the
// task in his hands is told how they ended.
//
// A batch has only tasks that wait for others, or none. Its id tells which: see MayDepend. Nobody
// can tell from an id whether others wait for a task, so whoever ends tasks asks once for each of
// their batches.

// DependBit is set in the ids of all batches of tasks that wait for others. Others have it, too,
// where nodes of before chose the ids; so it says for certain only that tasks wait for none.
const DependBit = 2

// MayDepend tells whether the tasks of a batch may wait for others, or have waited.
func MayDepend(batch int64) bool { return batch&DependBit != 0 }

// MaxAfter is how many others a task may wait for.
const MaxAfter = 1000

// ChainAtOnce is how many links of a chain one look cancels at most: tasks each of which waits for
// the one before.
const ChainAtOnce = 100

// Dependency is a task that another one waits for.
type Dependency struct {
	// On is that task: one of the same submission, in any of its batches, or one that stands. Where
	// one of the submission is not inserted, as another task has its key, it is that one. Of one
	// that does not stand the wait ends as if it had been cancelled.
	On    task.ID
	Ref   string // what the submission calls it; "" = by its id
	Ended bool   // it is enough that the task has ended, in whatever state; else it has to be done
}

// Prior is a task that another one has waited for, as that one's holder reads it.
type Prior struct {
	Dependency
	State task.State // in which it ended the wait
	// Context and Result are those with which it ended. LeftOut: they were too large for all of
	// them to be read (PriorLimit), or the task is deleted.
	Context, Result Value
	LeftOut         bool
}

// PriorLimit is how many bytes of contexts and results of other tasks are read along with a task
// that has waited for them: first come, first served. A blob counts by its name.
const PriorLimit = 64 << 10
