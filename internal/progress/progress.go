// Package progress decides how a task goes on: what an outcome makes of it ([Decide]), when it is
// due next, and where it stands in its queue then ([Rank]). It is pure: identity, time and limits
// are arguments, and the same arguments give the same answer on every node.
//
// What a task, an outcome and a stage are, package task says; it draws the states, too. Both
// stores, their model and the dispatcher go by the decisions made here, and by no others.
package progress

import (
	"time"

	"github.com/rotahq/rota/task"
)

// Rank is the order inside a queue, smallest first: the due time minus the priority, in
// microseconds.
func Rank(due int64, priority time.Duration) int64 { return due - priority.Microseconds() }

// RankAfter is the rank of a task after a step: a stage that has failed goes on at its due time,
// without the head start that its priority gives it; a new stage has that again. attempt is what is
// charged in the stage after the step.
func RankAfter(due int64, priority time.Duration, attempt int32) int64 {
	if attempt > 0 {
		return due
	}
	return Rank(due, priority)
}

// RankNow is the rank of a task that is not final. The span that it belongs to has the rank that
// its tasks got when it was made; steps that its tasks have made since then give them another.
// seq0 is the span's, seq that of the task's next hand-out, due when the newest step lets the task
// run again (0 = there is none, or at once).
func RankNow(
	span int64, seq0, seq int32, due int64, priority time.Duration, attempt int32,
) int64 {
	if due > 0 && (seq0 == 0 || seq > seq0) {
		return RankAfter(due, priority, attempt)
	}
	return span
}

// Standing is a task between two steps: all that a decision needs to know of its past.
type Standing struct {
	Stage   string
	Seq     int32 // where the outcome of the present (or next) hand-out will stand
	Attempt int32 // attempts charged in this stage so far
	Base    int32 // seq0 of the span that the task belongs to
}

// Limits is how often and how long a task may be tried.
type Limits struct {
	MaxAttempts int // per stage; at least 1
	Retry       task.Backoff
}

// LimitsOf are the queue's limits for a task that may have its own number of attempts (0 = none of
// its own).
func LimitsOf(q *task.Queue, maxAttempts int) Limits {
	if maxAttempts <= 0 {
		maxAttempts = q.MaxAttempts
	}
	return Limits{MaxAttempts: maxAttempts, Retry: q.Retry}
}

// Decision is what a step makes of a task: the columns of the step that are not simply the report.
type Decision struct {
	Final   task.State    // Done, Dead, Cancelled, Expired, or empty while the task goes on
	Stage   string        // the stage that follows; of a final step the stage it ended in
	Attempt int32         // attempts charged in that stage after this step
	Delay   time.Duration // until the task is due again, 0 = now
	Moved   bool          // the delay is long: the task moves into a span of its own
	Parked  bool          // with Moved: it waits there for something else than a time
}

// LongDelay is the delay from which a task leaves its holder's memory for a span of its own.
const LongDelay = time.Minute

// Decide says what outcome o makes of a task. It is the only place where attempts are counted:
// retry, lost and timeout are charged, snooze and release are not, a new stage begins at none.
func Decide(id task.ID, s Standing, o task.Outcome, l Limits) Decision {
	d := Decision{Stage: s.Stage, Attempt: s.Attempt}
	switch o.Kind {
	case task.KindDone:
		d.Final, d.Attempt = task.Done, s.Attempt+1
	case task.KindFail:
		d.Final, d.Attempt = task.Dead, s.Attempt+1
	case task.KindCancelled:
		d.Final = task.Cancelled
	case task.KindExpired:
		d.Final = task.Expired
	case task.KindNext:
		d.Stage, d.Attempt, d.Delay = o.Stage, 0, max(o.Delay, 0)
		if o.Await != nil {
			d.Delay, d.Moved, d.Parked = 0, true, true
		}
	case task.KindRetry, task.KindLost, task.KindTimeout:
		d.Attempt = s.Attempt + 1
		if int(d.Attempt) >= max(l.MaxAttempts, 1) {
			d.Final = task.Dead
			return d
		}
		if o.Kind != task.KindLost {
			// a worker's death is not the task's fault: it goes out again at once
			d.Delay = l.Retry.Delay(int(d.Attempt), id.Seed(s.Seq))
		}
		if o.Kind == task.KindRetry && o.Delay > 0 {
			d.Delay = o.Delay
		}
	case task.KindSnooze:
		d.Delay = max(o.Delay, 0)
	case task.KindReplayed:
		d.Attempt, d.Moved = 0, true
	case task.KindMoved:
		d.Moved = true
	}
	d.Moved = d.Moved || d.Delay > LongDelay
	return d
}
