package limits

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/task"
)

// Limits of schedules.
const (
	// a due time handled within it after its time fires whatever Misfire says
	OnTime               = time.Minute
	DefaultMisfireWindow = 24 * time.Hour
	MaxCatchUp           = 100 // misfires that MisfireAll fires at once
	// due times of one schedule that wait for earlier tasks; more are skipped
	MaxQueued          = 1_000
	MaxBackfill        = 10_000   // due times in one backfill
	MaxSchedules       = 10_000   // in one call
	MaxScheduleContext = 64 << 10 // bytes
	MaxJitter          = 24 * time.Hour
	MaxCalendar        = 50_000 // days
	MaxParents         = 32     // schedules that one follows
	MaxParallel        = 10_000
	MaxAfterDelay      = 30 * 24 * time.Hour
	maxNotices         = 100 // words that say of what there is an event, and of tasks that came how
)

// CheckSchedule adds to e all that is wrong with a schedule, under location. Whether its
// expression, zone and calendar are any is the affair of who can read them.
func CheckSchedule(s *task.Schedule, e *task.InvalidError, location string) {
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	if !ValidName(s.Name) {
		wrong("name", "%q %s", cut(s.Name), NameRule)
	}
	checkDue(s, wrong)
	checkAfter(s, e, location)
	if s.Calendar != "" && !ValidName(s.Calendar) {
		wrong("calendar", "%q %s", cut(s.Calendar), NameRule)
	}
	checkTime(e, location+".starts", s.Starts)
	checkTime(e, location+".ends", s.Ends)
	if !s.Starts.IsZero() && !s.Ends.IsZero() && s.Ends.Before(s.Starts) {
		wrong("ends", "lies before starts")
	}
	checkTask(s, e, location)
	switch s.Overlap {
	case task.OverlapAllow, task.OverlapSkip, task.OverlapQueue, task.OverlapReplace:
	default:
		wrong("overlap", "must be %s, %s, %s or %s", task.OverlapAllow, task.OverlapSkip,
			task.OverlapQueue, task.OverlapReplace)
	}
	switch {
	case s.Parallel < 0 || s.Parallel > MaxParallel:
		wrong("parallel", "must be 0, as overlap says, to %d", MaxParallel)
	case s.Parallel > 0 && s.Overlap == task.OverlapAllow:
		wrong("parallel",
			"%d is a limit, and overlap allow has none: choose overlap %s, %s or %s, or parallel 0",
			s.Parallel, task.OverlapSkip, task.OverlapQueue, task.OverlapReplace)
	}
	if s.OnDead != task.OnDeadContinue && s.OnDead != task.OnDeadStop {
		wrong("on_dead", "must be %s or %s", task.OnDeadContinue, task.OnDeadStop)
	}
	switch s.Misfire {
	case task.MisfireSkip, task.MisfireOnce, task.MisfireAll:
	default:
		wrong("misfire", "must be %s, %s or %s",
			task.MisfireSkip, task.MisfireOnce, task.MisfireAll)
	}
	checkDuration(e, location+".misfire_window", s.MisfireWindow, 0, MaxDuration)
	checkJitter(s.Jitter, e, location+".jitter")
	checkNotices(&s.Notices, e, location+".notify")
	checkPeople(s.Title, s.Responsible, e, location)
}

// checkDue checks that there is one thing that says when it is due.
func checkDue(s *task.Schedule, wrong func(field, format string, args ...any)) {
	switch {
	case s.Cron != "" && s.Manual:
		wrong("manual", "a manual schedule has no cron")
	case s.Cron == "" && s.After == "" && !s.Manual:
		wrong("cron", "is missing: write when it is due, as in 0 3 * * *, or what it follows in after, "+
			"or that it is manual")
	case s.Cron != "" && s.After != "":
		wrong("after", "a schedule is due by cron or after another one, not both")
	}
}

// checkAfter checks what it follows, and how.
func checkAfter(s *task.Schedule, e *task.InvalidError, location string) {
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	parents := s.Parents()
	if len(parents) > MaxParents {
		wrong("after", "%d schedules are too many to follow: at most %d", len(parents), MaxParents)
		parents = nil
	}
	for i, name := range parents {
		switch {
		case !ValidName(name):
			wrong("after", "%q %s", cut(name), NameRule)
		case name == s.Name:
			wrong("after", "a schedule can't follow itself")
		case slices.Contains(parents[:i], name):
			wrong("after", "%q stands in it twice", name)
		default:
			continue
		}
		break
	}
	if s.AfterMode != task.AfterAll && s.AfterMode != task.AfterAny {
		wrong("after_mode", "must be %s or %s", task.AfterAll, task.AfterAny)
	}
	switch s.AfterOn {
	case task.AfterDone, task.AfterFailed, task.AfterEnded:
	default:
		wrong("after_on", "must be %s, %s or %s", task.AfterDone, task.AfterFailed, task.AfterEnded)
	}
	checkDuration(e, location+".after_delay", s.AfterDelay, 0, MaxAfterDelay)
	if s.After != "" {
		return
	}
	const only = "is for schedules that follow others (after)"
	if s.AfterMode == task.AfterAny {
		wrong("after_mode", only)
	}
	if s.AfterOn == task.AfterFailed || s.AfterOn == task.AfterEnded {
		wrong("after_on", only)
	}
	if s.AfterDelay > 0 {
		wrong("after_delay", only)
	}
}

// checkTask checks what is to be submitted.
func checkTask(s *task.Schedule, e *task.InvalidError, location string) {
	sub := task.Submission{
		Queue: s.Queue, Stage: s.Stage, Context: s.Context, Priority: s.Priority,
		MaxAttempts: s.MaxAttempts, Timeout: s.Timeout, StartWithin: s.StartWithin, Meta: s.Meta,
	}
	CheckSubmission(&sub, e, location)
	if len(s.Context) > MaxScheduleContext {
		e.Add(location+".context",
			"%d bytes are more than %d: keep what is large elsewhere, and its name here",
			len(s.Context), MaxScheduleContext)
	} else if s.Context != nil && !json.Valid(s.Context) {
		e.Add(location+".context", "must be a JSON value")
	}
}

func checkJitter(j task.Jitter, e *task.InvalidError, location string) {
	switch {
	case j.Share != 0 && j.Max != 0:
		e.Add(location, "is a share or a duration, not both")
	case math.IsNaN(j.Share) || j.Share < 0 || j.Share > 1:
		e.Add(location, "must be a share of the time to the next due time, 0 to 1, or a duration")
	}
	checkDuration(e, location, j.Max, 0, MaxJitter)
}

func checkNotices(n *task.Notices, e *task.InvalidError, location string) {
	if len(n.On) > maxNotices {
		e.Add(location+".on", "must be at most %d", maxNotices)
		return
	}
	if len(n.Origins) > maxNotices {
		e.Add(location+".origins", "must be at most %d", maxNotices)
		return
	}
	for _, what := range n.On {
		switch what {
		case task.NoticeSubmitted, task.NoticeFailed, task.NoticeTimeout, task.NoticeDead,
			task.NoticeDone, task.NoticeSlow,
			task.NoticeMissed:
		default:
			e.Add(location+".on", "%q: must be some of %s, %s, %s, %s, %s, %s, %s",
				cut(string(what)),
				task.NoticeSubmitted, task.NoticeFailed, task.NoticeTimeout, task.NoticeDead,
				task.NoticeDone, task.NoticeSlow,
				task.NoticeMissed)
		}
	}
	for _, origin := range n.Origins {
		switch origin {
		case task.OriginSchedule, task.OriginManual, task.OriginBackfill,
			task.OriginAfter, task.OriginRetry:
		default:
			e.Add(location+".origins", "%q: must be some of %s, %s, %s, %s, %s",
				cut(string(origin)),
				task.OriginSchedule, task.OriginManual, task.OriginBackfill,
				task.OriginAfter, task.OriginRetry)
		}
	}
	checkDuration(e, location+".slow", n.Slow, 0, MaxDuration)
	if slices.Contains(n.On, task.NoticeSlow) && n.Slow == 0 {
		e.Add(location+".slow", "is missing: how long a task takes that is told of as slow")
	}
}

// CheckCalendar adds to e all that is wrong with a calendar, under location.
func CheckCalendar(c *task.Calendar, e *task.InvalidError, location string) {
	if !ValidName(c.Name) {
		e.Add(location+".name", "%q %s", cut(c.Name), NameRule)
	}
	if (len(c.Skip) > 0) == (len(c.Keep) > 0) {
		e.Add(location, "needs days in skip or in keep, and not in both")
	}
	checkDays(e, location+".skip", c.Skip)
	checkDays(e, location+".keep", c.Keep)
}

func checkDays(e *task.InvalidError, location string, days []string) {
	if len(days) > MaxCalendar {
		e.Add(location, "must have at most %d days", MaxCalendar)
		return
	}
	for i, day := range days {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			e.Add(location, "[%d] %q: write a day as in 2026-12-25", i, cut(day))
			return
		}
	}
}

func checkTime(e *task.InvalidError, location string, t time.Time) {
	if !t.IsZero() && (t.Before(MinTime) || t.After(MaxTime)) {
		e.Add(location, "must be from %d up to %d", MinTime.Year(), MaxTime.Year())
	}
}
