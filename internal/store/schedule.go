package store

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// Schedules stand in four tables:
//
//	schedule  (name, spec, version, since, next, …)          mutable: next is the cursor
//	era       (schedule, version, spec, since, until)       insert-only: what a schedule was before its last change
//	fire      (schedule, at, outcome, reason, task, …)      PK (schedule, at): what came of each due time;
//	                                                        (root, root_at): the fire with which its run began
//	calendar  (name, days)
//
// A schedule's due times after Since are handled in their order. Next is the first that is not:
// only a transaction that writes a row for every due time from there on moves it, and only if it
// still stands where the transaction's author saw it. So no due time is handled twice and none is
// left out, whoever fires, and however many do. Nothing else is needed for that, no lease either:
// claims only save nodes the work of trying.

// Never is the cursor of a schedule without another due time.
const Never = math.MaxInt64

// Until when is what came of due times kept.
const (
	FiresKept = 90 * 24 * time.Hour // rows of fires, unless they are open; and eras
	// due times missed in a row that have a row each; those before them share one
	MaxRun = 1000
)

// Schedule is a schedule as it stands.
type Schedule struct {
	task.Schedule
	Days *task.Calendar // what Calendar means; nil = all days
	// grows with every change, pauses and changes of its calendar included; greater than of any
	// that had the name before
	Version int64
	// due times after this are this version's. The smaller ones were the last version's
	Since int64
	// a due time that somebody chose: nothing between Since and this is due, this is, and Cron's go
	// on after it; 0 = nobody did
	First   int64
	Next    int64 // the first due time that is not handled; Never
	Created int64
	// of an era: due times after this are the next version's; 0 = it is the schedule as it stands
	Until int64
	Last  *Fire // the newest row whose outcome is fired; nil = none. Only with ScheduleQuery.Last
}

// AtOnce is how many of its tasks may run at once; 0 = any number.
func (s *Schedule) AtOnce() int {
	if s.Overlap == task.OverlapAllow {
		return 0
	}
	return max(s.Parallel, 1)
}

// ScheduleQuery selects schedules. Zero fields select all.
type ScheduleQuery struct {
	Names    []string
	Calendar string   // those that have this one
	Follows  []string // those that follow one of these (task.Schedule.Parents)
	After    string   // the name behind which the page begins
	Limit    int      // at most so many; 0 = all
	Last     bool     // fill in Last
}

// DueQuery asks which schedules' cursors are not after a time, in the order of (Next, Name).
type DueQuery struct {
	Until int64
	After Cursor // the page begins behind it
	Limit int
}

// Cursor is where a schedule stands in that order.
type Cursor struct {
	Next int64
	Name string
}

// ScheduleChange changes schedules and calendars: all or nothing.
type ScheduleChange struct {
	Puts     []SchedulePut
	Calendar *task.Calendar // created or replaced
	// Ends close fires of schedules among Puts, too, each as in a Firing (Ended is not 0); one that
	// finds its fire closed is ErrConflict. So what the end of a task calls for is done once,
	// whoever else saw it.
	Ends []FireEnd
}

// SchedulePut creates a schedule, or replaces one: what it was becomes an era, unless it is equal.
type SchedulePut struct {
	task.Schedule
	// Version and Next of the schedule that is replaced, as they were seen; Version 0: there is
	// none. When they are not so any more, or Since is not before Next (something is due: handle it
	// first) or lies before its Since, nothing of the change is done: ErrConflict.
	Version, Next int64
	// the calendar by which Then was found: when it has other days, ErrConflict, too; nil =
	// whatever it has
	Days  *task.Calendar
	Since int64 // due times after this are due by what is put
	First int64
	Then  int64 // the cursor from here on: the first due time
}

// Fire is what came of a due time.
type Fire struct {
	Schedule string
	// At is the due time. 0 in a request: now, by the store's clock, or the next microsecond that
	// has no row and is no whole millisecond, as the due times of schedules are; but if its task
	// has a row already, it is left.
	At int64
	// Through and Count are those of a row that stands for several missed ones: the last of them,
	// and how many they were. Else At and 1. Those of them that are fired after all have rows of
	// their own; if the first does, At is a microsecond behind it, and is none.
	Through int64
	Count   int64
	Origin  task.Origin
	Outcome task.FireOutcome
	Reason  string // why it was not fired; for people
	Task    task.ID
	Node    string // that wrote the row
	Time    int64  // when, by the store's clock
	// of a queued one: it is fired when fewer than so many of the schedule's fires are open; 0 else
	Limit int32
	Watch bool // whoever looks after the schedule wants to know what becomes of the task
	// Of watched ones: what is known of the task. its final step's; 0 = it is not final as far as
	// anybody has looked. Of one without a task: nothing is to be told any more
	Ended task.Kind
	Seq   int32 // the newest step that was looked at; -1 = none
	Tries int32 // how often its task was let begin again
	// Run is the fire with which its run began: what nobody followed up there. Zero in a request:
	// itself.
	Run FireKey
	// Parents are the fires of other schedules whose tasks ended, of which this one is what
	// follows. Their schedules differ.
	Parents []FireKey
}

// Open tells whether something is still to come of the fire.
func (f *Fire) Open() bool { return f.Outcome == task.FireQueued || f.Watch && f.Ended == 0 }

// HasTask tells whether the fire's task is submitted, or waits for its turn.
func (f *Fire) HasTask() bool {
	return f.Outcome == task.FireFired || f.Outcome == task.FireQueued
}

// Firing writes down what came of due times, and submits their tasks, in one transaction.
type Firing struct {
	Node  string
	Parts []FirePart
	// Batches and NewQueues are of all tasks of all parts, as in a Submission, with free spans only
	// and no keys. Those tasks are submitted that Task of a written row names. The others are left
	// out, and leave gaps; so are spans, batches and new queues of which nothing is left.
	NewQueues []string
	Batches   []Batch
	Ends      []FireEnd
}

// FirePart is what is to be written of one schedule. It is done as a whole, or refused.
type FirePart struct {
	Schedule string
	Version  int64 // must be the schedule's
	// Next must be the schedule's cursor, which then becomes Then. Both 0: the cursor is left alone
	// (run now, backfill, what was queued, what follows another schedule).
	Next, Then int64
	// Fires are to be written. One whose (Schedule, At) has a row is left out, unless Over and the
	// row is not fired: then it replaces it, also one that stands for several (whoever does that
	// writes another one for the rest). None may lie in the future, by the store's clock.
	Fires []Fire
	Over  bool
	// Most, unless 0, is how many of the schedule's tasks may run: a part that would fire more,
	// with those of open fires that were not final before the call, is refused (FireMoved). Who
	// wrote it counted before others fired.
	Most int32
	// Tail, unless 0, must be the newest due time of the schedule that has a row with Parents, -1 =
	// none has: else the part is refused (FireMoved). Who joins what several schedules did takes
	// what no row has taken yet.
	Tail int64
}

// Fired counts the fires of a part that are fired.
func (p *FiredPart) Fired() (n int32) {
	for i := range p.Fires {
		if p.Fires[i].Outcome == task.FireFired {
			n++
		}
	}
	return n
}

// FireEnd writes down what became of a watched fire's task, as long as its row is open, not queued,
// and has this task (a zero one, too), and nobody looked at a later step of it.
type FireEnd struct {
	Schedule string
	At       int64
	Task     task.ID
	Ended    task.Kind // 0 = not yet: only Seq grows
	Seq      int32
}

// Fired answers a Firing.
type Fired struct {
	Now   int64
	Parts []FiredPart // in the order of the request
}

// FiredPart is what was done of a part.
type FiredPart struct {
	Refused string  // why nothing of it was done; "" = it was
	Fires   []Fire  // that were written, as they stand
	Left    []int64 // due times that had rows already
}

// Why parts are refused.
const (
	FireGone = "the schedule is gone"
	// or a batch that a task is to be submitted in stands already
	FireMoved = "the schedule was changed or fired meanwhile"
	FireEarly = "it is not time yet"
)

// OpenQuery asks for open fires, by (Schedule, At).
type OpenQuery struct {
	Schedules []string // of these; none = of all
	After     FireKey  // the page begins behind it
	Limit     int      // at most so many; 0 = all
}

// FireKey is where a fire stands.
type FireKey struct {
	Schedule string
	At       int64
}

// OpenFire is an open fire, and how its task stands.
type OpenFire struct {
	Fire
	Found    bool      // the task is there (not removed); false of a queued one
	Kind     task.Kind // of its newest step; 0 = there is none
	Step     int32     // that step's seq; -1
	Final    bool      // nothing but a replay can follow
	Finished int64     // when that step was recorded
	Error    string    // of that step, for people
	Worker   string    // of that step
}

// Circle is a circle of schedules that puts would make: each follows the next, and the last the
// first; nil = they make none. after says whom those follow that are not put, as far as they lead
// on from what is put.
func Circle(puts []SchedulePut, after map[string][]string) []string {
	c := circles{after: maps.Clone(after), over: map[string]bool{}, on: map[string]int{}}
	if c.after == nil {
		c.after = map[string][]string{}
	}
	for i := range puts {
		c.after[puts[i].Name] = puts[i].Parents()
	}
	for i := range puts {
		if found := c.from(puts[i].Name); found != nil {
			return found
		}
	}
	return nil
}

// circles looks for a circle.
type circles struct {
	after map[string][]string
	over  map[string]bool // they lead to no circle
	on    map[string]int  // where those stand in path that lead to where it looks
	path  []string
}

func (c *circles) from(name string) []string {
	if i, again := c.on[name]; again {
		return slices.Clone(c.path[i:])
	}
	if c.over[name] {
		return nil
	}
	c.on[name] = len(c.path)
	c.path = append(c.path, name)
	for _, parent := range c.after[name] {
		if found := c.from(parent); found != nil {
			return found
		}
	}
	c.path = c.path[:len(c.path)-1]
	delete(c.on, name)
	c.over[name] = true
	return nil
}

// CircleText names a circle, for people.
func CircleText(circle []string) string {
	const most = 10
	shown := circle
	if len(circle) > most {
		shown = append(slices.Clone(circle[:most]), fmt.Sprintf("%d others", len(circle)-most))
	}
	return strings.Join(append(slices.Clone(shown), circle[0]), " after ")
}

// FireQuery selects fires of a schedule.
type FireQuery struct {
	Schedule string
	// due times from From on, before To; 0 = unbounded. A row that stands for several is in it if
	// any of them is
	From, To int64
	Outcomes []task.FireOutcome // none = all
	After    int64              // the page begins behind this At; 0 = at the beginning
	Newest   bool               // newest first, else oldest first
	Limit    int                // at most so many; 0 = all
}

// ScheduleStand is how the schedules of one queue stand.
type ScheduleStand struct {
	Queue  string
	All    int64
	Paused int64
	Late   int64 // not paused, and the next due time is before the one that was asked for
}

// ScheduleKeys are what nodes claim, to share out the work of firing.
type ScheduleKeys struct {
	Count int64    // of all schedules
	Names []string // all, by name, if they are not more than were asked for
}
