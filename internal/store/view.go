package store

import (
	"regexp"
	"time"

	"github.com/rotahq/rota/task"
)

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
	// Reach selects tasks of the queues for which it says so, besides all else; nil = all. Pages
	// are as if there were no other tasks: where one ends tells nothing of them.
	Reach func(queue string) bool
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
