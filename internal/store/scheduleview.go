package store

import (
	"cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// ScheduleView is a schedule as people see it.
type ScheduleView struct {
	Schedule
	Owner string // the node that fires it; "" = none does just now
}

// LastOutcome is what became of the newest fire: fired, or how its task ended; "" = there was none.
func (v *ScheduleView) LastOutcome() string {
	if v.Last == nil {
		return ""
	}
	return cmp.Or(v.Last.End(), string(v.Last.Outcome))
}

// End is how the task of a fire ended; "" = it is not final, or there is none (then Ended says that
// somebody was told).
func (f *Fire) End() string {
	if f.Ended == 0 || f.Task == (task.ID{}) {
		return ""
	}
	return f.Ended.String()
}

// ScheduleEdit is what somebody wants a schedule to be.
type ScheduleEdit struct {
	task.Schedule
	First int64 // the next due time, whatever Cron says; 0 = as Cron says
	// the version that the edit was made from, or FromNone; 0 = it is the whole schedule, made from
	// none
	From int64
}

// FromNone is From when there was no such schedule.
const FromNone = -1

// Edited answers an edit.
type Edited struct {
	ScheduleView
	Created bool
}

// Amend is the edit by which change makes a schedule of what it was; was is nil when there is none.
// next, when not nil, chooses the next due time, 0 = as Cron says. A choice that stands and is
// still to come stays, unless the due times become others.
func Amend(name string, was *ScheduleView, change func(*task.Schedule), next *int64) ScheduleEdit {
	edit := ScheduleEdit{Schedule: limits.DefaultSchedule(name), From: FromNone}
	if was != nil {
		edit.Schedule, edit.From = was.Schedule.Schedule, was.Version
	}
	change(&edit.Schedule)
	switch {
	case next != nil:
		edit.First = *next
	case was != nil && was.First == was.Next && sameTimes(&edit.Schedule, &was.Schedule.Schedule):
		edit.First = was.First
	}
	return edit
}

// sameTimes tells whether two schedules are due at the same times, apart from when they end. One
// that follows another has no Cron.
func sameTimes(a, b *task.Schedule) bool {
	return a.Cron == b.Cron && a.Zone == b.Zone && a.Calendar == b.Calendar &&
		a.Starts.Equal(b.Starts)
}

// BackfillRequest asks for the tasks of due times of the past that were not fired.
type BackfillRequest struct {
	From, To int64 // due times from From on, before To
	Limit    int   // tasks of the schedule at a time; 0 = all at once
	DryRun   bool  // only say which
}

// Backfilled answers a BackfillRequest.
type Backfilled struct {
	Times []int64 // due times that get a task, oldest first
	Fired int64   // due times of the range that had one already
	Fires []Fire  // what was written; none of a dry run
}

// PreviewRequest asks when an expression is due.
type PreviewRequest struct {
	Cron     string
	Zone     string
	Calendar string
	Name     string // that H stands for
	From     int64  // due times after this
	Count    int
}

// Preview answers a PreviewRequest.
type Preview struct {
	Times    []int64
	Notes    []PreviewNote // of those of Times that are unusual
	Sentence string        // the expression in words, English
	Chinese  string        // and Chinese
	Zone     string        // in which the times are best read
}

// PreviewNote says what is unusual about a due time.
type PreviewNote struct {
	At   int64
	Text string
}

// Audit compares what was due with what has a row.
type Audit struct {
	Schedule string
	// what was looked at: due times after From, up to and with To, not before the schedule was made
	// nor after its cursor
	From, To int64
	Demanded int64 // due times by what the schedule was at the time
	Fired    int64
	Skipped  int64
	Missed   int64
	Queued   int64
	Aside    int64   // rows of runs that nobody demanded: by hand, backfilled, following
	Holes    []int64 // due times without a row, the first MaxHoles
	Strays   []int64 // rows of due times that were not due, the first MaxHoles
	Late     int64   // microseconds: the longest that a fired one was late
}

// MaxHoles is how many an audit lists.
const MaxHoles = 1000

// Complete tells whether every due time has its row, and no other has one.
func (a *Audit) Complete() bool { return len(a.Holes) == 0 && len(a.Strays) == 0 }
