package task

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Check adds to e all that is wrong with the schedule, under location. Whether its expression, zone
// and calendar are any is the affair of who can read them.
func (s *Schedule) Check(e *InvalidError, location string) {
	wrong := func(field, format string, args ...any) { e.Add(location+"."+field, format, args...) }
	if !ValidName(s.Name) {
		wrong("name", "%q %s", cut(s.Name), NameRule)
	}
	switch {
	case s.Cron == "" && s.After == "":
		wrong("cron",
			"is missing: write when it is due, as in 0 3 * * *, or the schedule that it follows in after")
	case s.Cron != "" && s.After != "":
		wrong("after", "a schedule is due by cron or after another one, not both")
	case s.After != "" && !ValidName(s.After):
		wrong("after", "%q %s", cut(s.After), NameRule)
	case s.After != "" && s.After == s.Name:
		wrong("after", "a schedule can't follow itself")
	}
	if s.Calendar != "" && !ValidName(s.Calendar) {
		wrong("calendar", "%q %s", cut(s.Calendar), NameRule)
	}
	checkTime(e, location+".starts", s.Starts)
	checkTime(e, location+".ends", s.Ends)
	if !s.Starts.IsZero() && !s.Ends.IsZero() && s.Ends.Before(s.Starts) {
		wrong("ends", "lies before starts")
	}
	s.checkTask(e, location)
	switch s.Overlap {
	case OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplace:
	default:
		wrong("overlap", "must be %s, %s, %s or %s", OverlapAllow, OverlapSkip, OverlapQueue,
			OverlapReplace)
	}
	switch s.Misfire {
	case MisfireSkip, MisfireOnce, MisfireAll:
	default:
		wrong("misfire", "must be %s, %s or %s", MisfireSkip, MisfireOnce, MisfireAll)
	}
	checkDuration(e, location+".misfire_window", s.MisfireWindow, 0, MaxDuration)
	s.Jitter.check(e, location+".jitter")
	s.Notices.check(e, location+".notify")
}

// checkTask checks what is to be submitted.
func (s *Schedule) checkTask(e *InvalidError, location string) {
	sub := Submission{
		Queue: s.Queue, Stage: s.Stage, Context: s.Context, Priority: s.Priority,
		MaxAttempts: s.MaxAttempts, Timeout: s.Timeout,
	}
	sub.Check(e, location)
	if len(s.Context) > MaxScheduleContext {
		e.Add(location+".context",
			"%d bytes are more than %d: keep what is large elsewhere, and its name here",
			len(s.Context), MaxScheduleContext)
	} else if s.Context != nil && !json.Valid(s.Context) {
		e.Add(location+".context", "must be a JSON value")
	}
}

func (j Jitter) check(e *InvalidError, location string) {
	switch {
	case j.Share != 0 && j.Max != 0:
		e.Add(location, "is a share or a duration, not both")
	case math.IsNaN(j.Share) || j.Share < 0 || j.Share > 1:
		e.Add(location, "must be a share of the time to the next due time, 0 to 1, or a duration")
	}
	checkDuration(e, location, j.Max, 0, MaxJitter)
}

func (n *Notices) check(e *InvalidError, location string) {
	for _, what := range n.On {
		switch what {
		case NoticeSubmitted, NoticeFailed, NoticeTimeout, NoticeDead, NoticeDone, NoticeSlow,
			NoticeMissed:
		default:
			e.Add(location+".on", "%q: must be some of %s, %s, %s, %s, %s, %s, %s",
				cut(string(what)),
				NoticeSubmitted, NoticeFailed, NoticeTimeout, NoticeDead, NoticeDone, NoticeSlow,
				NoticeMissed)
		}
	}
	for _, origin := range n.Origins {
		switch origin {
		case OriginSchedule, OriginManual, OriginBackfill, OriginAfter, OriginRetry:
		default:
			e.Add(location+".origins", "%q: must be some of %s, %s, %s, %s, %s",
				cut(string(origin)),
				OriginSchedule, OriginManual, OriginBackfill, OriginAfter, OriginRetry)
		}
	}
	checkDuration(e, location+".slow", n.Slow, 0, MaxDuration)
	if slices.Contains(n.On, NoticeSlow) && n.Slow == 0 {
		e.Add(location+".slow", "is missing: how long a task takes that is told of as slow")
	}
}

// Check adds to e all that is wrong with the calendar, under location.
func (c *Calendar) Check(e *InvalidError, location string) {
	if !ValidName(c.Name) {
		e.Add(location+".name", "%q %s", cut(c.Name), NameRule)
	}
	if (len(c.Skip) > 0) == (len(c.Keep) > 0) {
		e.Add(location, "needs days in skip or in keep, and not in both")
	}
	checkDays(e, location+".skip", c.Skip)
	checkDays(e, location+".keep", c.Keep)
}

func checkDays(e *InvalidError, location string, days []string) {
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

func checkTime(e *InvalidError, location string, t time.Time) {
	if !t.IsZero() && (t.Before(MinTime) || t.After(MaxTime)) {
		e.Add(location, "must be from %d up to %d", MinTime.Year(), MaxTime.Year())
	}
}
