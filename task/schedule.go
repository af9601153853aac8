package task

import (
	"encoding/json"
	"strings"
	"time"
)

// Schedule says when tasks are submitted by themselves, and which. Its due times are those of Cron
// between Starts and Ends, on the days of Calendar; or, with After, the due times of other
// schedules whose tasks ended; or none, with Manual.
type Schedule struct {
	Name  string
	Title string // what people call it, in any language; "" = nothing
	// Responsible is who answers for it, a name or a mail address; "" = nobody said. Queues and
	// groups call it Owner: of a schedule that is the node that fires it.
	Responsible string

	Cron     string    // see package cron
	After    string    // in place of Cron: a schedule, or several with commas between their names
	Manual   bool      // in place of Cron: it has no due times, and runs when somebody says so
	Zone     string    // as in Europe/Berlin, of Cron's times of day; "" = UTC
	Calendar string    // its name; "" = all days
	Starts   time.Time // no due time lies before it; zero = whenever
	Ends     time.Time // nor after it
	Paused   bool      // due times leave rows that say so, and no tasks

	Queue       string
	Stage       string
	Context     json.RawMessage // any JSON value, kept byte for byte; nil = none
	Priority    time.Duration
	MaxAttempts int               // 0 = the queue's
	Timeout     time.Duration     // of one attempt; 0 = the queue's
	StartWithin time.Duration     // see Submission; 0 = no limit
	Meta        map[string]string // that the tasks carry: see Submission; nil = none

	// Of schedules with After: how many of the tasks that belong together must have ended, how, and
	// how long after the last of them the task is due.
	AfterMode  AfterMode
	AfterOn    AfterOn
	AfterDelay time.Duration

	Overlap Overlap
	// how many of its tasks may run at once before Overlap decides; 0 = one. Only with another
	// Overlap than OverlapAllow, which lets any number run
	Parallel      int
	OnDead        OnDead
	Misfire       Misfire
	MisfireWindow time.Duration // what is later than this is missed, whatever Misfire says
	// the task is due so long after its due time, at random, the same for the same due time always
	Jitter  Jitter
	Notices Notices
}

// Parents are the schedules that it follows, in the order in which After names them.
func (s *Schedule) Parents() []string {
	if s.After == "" {
		return nil
	}
	return strings.Split(s.After, ",")
}

// AfterMode says how many of the tasks of the schedules that one follows must have ended.
type AfterMode string

// How many must have ended.
const (
	AfterAll AfterMode = "all" // each that belongs to the turn
	AfterAny AfterMode = "any" // one
)

// AfterOn says how they must have ended.
type AfterOn string

// How they must have ended.
const (
	AfterDone   AfterOn = "done"   // well
	AfterFailed AfterOn = "failed" // dead: no attempt was left, or it failed for good; or expired
	AfterEnded  AfterOn = "ended"  // in any way: done, dead, expired, cancelled, removed
)

// OnDead says what becomes of a schedule whose task is dead, or of a key that goes in order.
type OnDead string

// What becomes of it.
const (
	OnDeadContinue OnDead = "continue" // nothing
	// OnDeadStop pauses a schedule, until somebody resumes it. A key waits until the dead task is
	// retried and over, or deleted.
	OnDeadStop OnDead = "stop"
)

// Overlap says what to do when a due time comes while a task of an earlier one is not final.
type Overlap string

// What to do on overlap. With Parallel it begins when so many run.
const (
	OverlapAllow   Overlap = "allow"   // submit
	OverlapSkip    Overlap = "skip"    // don't; the due time is skipped
	OverlapQueue   Overlap = "queue"   // submit when there is room, in order
	OverlapReplace Overlap = "replace" // cancel the earliest ones, then submit
)

// Misfire says what becomes of due times that nobody fired in time, because every node was down or
// cut off.
type Misfire string

// What becomes of misfires: due times handled more than a minute late.
const (
	MisfireSkip Misfire = "skip" // missed
	// the newest is fired, unless a due time that is on time is fired with it; the others are
	// missed
	MisfireOnce Misfire = "once"
	MisfireAll  Misfire = "all" // the newest 100 are fired, in order; the others are missed
)

// Jitter spreads the tasks of due times: over Max, or over Share of the time until the next due
// time. At most one of them is set.
type Jitter struct {
	Share float64 // 0 to 1
	Max   time.Duration
}

// Notices says of what about a schedule's tasks there is to be an event, which notifiers then tell
// of.
type Notices struct {
	On      []Notice      // none = nothing
	Origins []Origin      // only about tasks that came so; none = all
	Slow    time.Duration // not final so long after it was submitted: NoticeSlow
}

// Notice is what can be told of a schedule's task.
type Notice string

// What can be told; the event's kind is "schedule." and this.
const (
	NoticeSubmitted Notice = "submitted"
	NoticeFailed    Notice = "failed"  // an attempt failed, and there will be another
	NoticeTimeout   Notice = "timeout" // an attempt took too long
	NoticeDead      Notice = "dead"    // no attempt is left, or it failed for good
	NoticeDone      Notice = "done"
	NoticeSlow      Notice = "slow"
	NoticeMissed    Notice = "missed" // due times were missed or skipped
)

// Origin is how a task came of its schedule.
type Origin string

// How tasks come of schedules.
const (
	OriginSchedule Origin = "schedule" // its due time came
	OriginManual   Origin = "manual"   // somebody asked for it to run now
	OriginBackfill Origin = "backfill" // somebody asked for due times of the past
	OriginAfter    Origin = "after"    // the tasks of the schedules that it follows ended
	OriginRetry    Origin = "retry"    // its task was dead, and somebody let it begin again
)

// FireOutcome is what came of a due time.
type FireOutcome string

// What can come of a due time.
const (
	FireFired   FireOutcome = "fired"   // its task was submitted
	FireSkipped FireOutcome = "skipped" // by what the schedule says: paused, overlap
	FireMissed  FireOutcome = "missed"  // it was too late
	FireQueued  FireOutcome = "queued"  // waits until earlier tasks are final
)

// Calendar is a named set of days: nothing is due on those of Skip; or, when Keep has any, on
// others.
type Calendar struct {
	Name string
	Skip []string // as in 2026-12-25
	Keep []string
}
