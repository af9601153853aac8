package view

import "github.com/rotahq/rota/task"

// Fire is what came of a due time of a schedule.
type Fire struct {
	At      Time             `json:"at" nullable:"true" doc:"the due time"`
	Through Time             `json:"through" nullable:"true" doc:"the last of the due times that the row stands for"`
	Count   int64            `json:"count" doc:"how many these were; 1, or more that were missed in a row: what was backfilled of them has a row of its own"`
	Origin  task.Origin      `json:"origin" enum:"schedule,manual,backfill,after,retry"`
	Outcome task.FireOutcome `json:"outcome" enum:"fired,skipped,missed,queued"`
	Reason  string           `json:"reason" doc:"why it was not fired"`
	Task    TaskID           `json:"task" doc:"its id; empty = there is none"`
	Ended   string           `json:"ended" doc:"how the task ended: done, fail, retry, timeout, lost, cancelled, removed; empty = it is not final, or nobody knows any more"`
	Node    string           `json:"node" doc:"that wrote the row"`
	Fired   Time             `json:"fired" nullable:"true" doc:"when it was written"`
	Run     FireKey          `json:"run" doc:"the fire with which its run began: itself, unless it follows others"`
	After   []FireKey        `json:"after" nullable:"false" doc:"the fires of other schedules of which it is what follows"`
}

// Backfilled is what a backfill did, or in a dry run would do.
type Backfilled struct {
	Times []Time `json:"times" nullable:"false" doc:"due times that get a task, oldest first"`
	Fired int64  `json:"fired" doc:"due times of the range that were fired or queued already"`
	Fires []Fire `json:"fires" nullable:"false" doc:"what was written; none in a dry run"`
}

// Audit compares what was due with what has a row.
type Audit struct {
	Schedule string   `json:"schedule"`
	Complete bool     `json:"complete" doc:"every due time has its row, and no other has one"`
	From     Time     `json:"from" nullable:"true" doc:"what was looked at: due times after it"`
	To       Time     `json:"to" nullable:"true" doc:"up to and with it"`
	Demanded int64    `json:"demanded" doc:"due times by what the schedule was at the time"`
	Fired    int64    `json:"fired"`
	Skipped  int64    `json:"skipped"`
	Missed   int64    `json:"missed"`
	Queued   int64    `json:"queued"`
	Aside    int64    `json:"aside" doc:"rows that nobody demanded: by hand, backfilled, following"`
	Holes    []Time   `json:"holes" nullable:"false" doc:"due times without a row, the first 1,000"`
	Strays   []Time   `json:"strays" nullable:"false" doc:"rows of times that were not due, the first 1,000"`
	Late     Duration `json:"late" doc:"the longest that a fired one was late"`
}

// Preview says when an expression is due.
type Preview struct {
	Times    []Time        `json:"times" nullable:"false" doc:"fewer than asked for when there are no more before the year 2200"`
	Notes    []PreviewNote `json:"notes" nullable:"false" doc:"what is unusual about some of them: clocks that change"`
	Sentence string        `json:"sentence" doc:"the expression in words"`
	Chinese  string        `json:"chinese" doc:"and in Chinese"`
	Zone     string        `json:"zone" doc:"in which the times are best read"`
}

// PreviewNote says what is unusual about a due time.
type PreviewNote struct {
	At   Time   `json:"at"`
	Text string `json:"text"`
}
