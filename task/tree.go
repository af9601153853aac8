package task

import "time"

// MaxTree is how many tasks a Tree has at most.
const MaxTree = 1000

// Tree is a task and what hangs below it: the tasks that it has submitted in its present run, and
// theirs. Children of former runs, before it was retried, are not in it.
type Tree struct {
	// as in a list, besides Children, and After of the first 10,000 that somebody waited for
	Task  View
	Began time.Time // its first hand-out in its present run; zero = nobody has begun it
	// Since is when it came into the state in which it is; of one that is over, its end. One that
	// is ready is so since it was due.
	Since time.Time
	Below []Tree // its children, oldest first
	// LeftOut is how many children of it are not among Below, as a tree has so many tasks at most;
	// what hangs below those is not counted. Where some are left out, deleted ones count, too.
	LeftOut int64
}
