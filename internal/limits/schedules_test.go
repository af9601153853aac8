package limits

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

func TestFaultsOfSchedulesAreLocated(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change func(*task.Schedule)
		want   string // the locations
	}{
		{"a good one", func(*task.Schedule) {}, ""},
		{"it follows another", func(s *task.Schedule) { s.Cron, s.After = "", "other" }, ""},
		{"it starts and ends at once", func(s *task.Schedule) { s.Starts, s.Ends = noon, noon }, ""},
		{"all of the interval", func(s *task.Schedule) { s.Jitter.Share = 1 }, ""},
		{"a day", func(s *task.Schedule) { s.Jitter.Max = MaxJitter }, ""},
		{"a context as long as may be", func(s *task.Schedule) {
			s.Context = []byte(`"` + strings.Repeat("x", MaxScheduleContext-2) + `"`)
		}, ""},
		{"told of what is slow", func(s *task.Schedule) {
			s.Notices = task.Notices{On: []task.Notice{task.NoticeSlow}, Slow: 1,
				Origins: []task.Origin{task.OriginRetry}}
		}, ""},
		{"no name", func(s *task.Schedule) { s.Name = "A b" }, "s.name"},
		{"never due", func(s *task.Schedule) { s.Cron = "" }, "s.cron"},
		{"due in two ways", func(s *task.Schedule) { s.After = "other" }, "s.after"},
		{"after no name", func(s *task.Schedule) { s.Cron, s.After = "", "A b" }, "s.after"},
		{"after itself", func(s *task.Schedule) { s.Cron, s.After = "", s.Name }, "s.after"},
		{"it follows several", func(s *task.Schedule) {
			s.Cron, s.After, s.AfterMode, s.AfterOn = "", "a,b", task.AfterAny, task.AfterEnded
			s.AfterDelay = MaxAfterDelay
		}, ""},
		{"it follows one twice", func(s *task.Schedule) { s.Cron, s.After = "", "a,b,a" }, "s.after"},
		{"it follows itself, too", func(s *task.Schedule) {
			s.Cron, s.After = "", "a,"+s.Name
		}, "s.after"},
		{"it follows no name, too", func(s *task.Schedule) { s.Cron, s.After = "", "a," }, "s.after"},
		{"it follows too many", func(s *task.Schedule) {
			s.Cron, s.After = "", strings.Repeat("a,", MaxParents)+"b"
		}, "s.after"},
		{"how it follows nothing", func(s *task.Schedule) {
			s.AfterMode, s.AfterOn, s.AfterDelay = task.AfterAny, task.AfterFailed, 1
		}, "s.after_mode s.after_on s.after_delay"},
		{"it follows in no way", func(s *task.Schedule) {
			s.Cron, s.After, s.AfterMode, s.AfterOn, s.AfterDelay = "", "a", "most", "", -1
		}, "s.after_mode s.after_on s.after_delay"},
		{"told of too much", func(s *task.Schedule) {
			s.Notices.On = slices.Repeat([]task.Notice{task.NoticeDead}, 101)
		}, "s.notify.on"},
		{"told of too many origins", func(s *task.Schedule) {
			s.Notices.Origins = slices.Repeat([]task.Origin{task.OriginRetry}, 101)
		}, "s.notify.origins"},
		{"by hand", func(s *task.Schedule) { s.Cron, s.Manual = "", true }, ""},
		{"by hand, or as a follower", func(s *task.Schedule) {
			s.Cron, s.After, s.Manual = "", "a", true
		}, ""},
		{"by hand, and due", func(s *task.Schedule) { s.Manual = true }, "s.manual"},
		{"so many at once", func(s *task.Schedule) {
			s.Parallel, s.Overlap = MaxParallel, task.OverlapReplace
		}, ""},
		{"so many, and any number", func(s *task.Schedule) { s.Parallel = 1 }, "s.parallel"},
		{"less than none at once", func(s *task.Schedule) {
			s.Parallel, s.Overlap = -1, task.OverlapSkip
		}, "s.parallel"},
		{"too many at once", func(s *task.Schedule) {
			s.Parallel, s.Overlap = MaxParallel+1, task.OverlapSkip
		}, "s.parallel"},
		{"stopped by a death", func(s *task.Schedule) { s.OnDead = task.OnDeadStop }, ""},
		{"what a death does", func(s *task.Schedule) { s.OnDead = "" }, "s.on_dead"},
		{"the longest title and owner", func(s *task.Schedule) {
			s.Title, s.Responsible = strings.Repeat("é", MaxTitle/2), strings.Repeat("o", MaxTitle)
		}, ""},
		{"too long a title, an owner of two lines", func(s *task.Schedule) {
			s.Title, s.Responsible = strings.Repeat("é", MaxTitle), "ana\nbob"
		}, "s.title s.owner"},
		{"no calendar's name", func(s *task.Schedule) { s.Calendar = "A b" }, "s.calendar"},
		{"starts too early", func(s *task.Schedule) { s.Starts = MinTime.Add(-1) }, "s.starts"},
		{"ends too late", func(s *task.Schedule) { s.Ends = MaxTime.Add(1) }, "s.ends"},
		{"ends before it starts", func(s *task.Schedule) {
			s.Starts, s.Ends = noon, noon.Add(-1)
		}, "s.ends"},
		{"no queue", func(s *task.Schedule) { s.Queue = "" }, "s.queue"},
		{"too long a context", func(s *task.Schedule) {
			s.Context = []byte(`"` + strings.Repeat("x", MaxScheduleContext-1) + `"`)
		}, "s.context"},
		{"no JSON", func(s *task.Schedule) { s.Context = []byte("{") }, "s.context"},
		{"unknown words", func(s *task.Schedule) {
			s.Overlap, s.Misfire = "never", ""
		}, "s.overlap s.misfire"},
		{"a window that is negative", func(s *task.Schedule) {
			s.MisfireWindow = -1
		}, "s.misfire_window"},
		{"a window that overflows", func(s *task.Schedule) {
			s.MisfireWindow = math.MaxInt64
		}, "s.misfire_window"},
		{"two jitters", func(s *task.Schedule) { s.Jitter = task.Jitter{Share: 0.5, Max: 1} }, "s.jitter"},
		{"less than nothing", func(s *task.Schedule) { s.Jitter.Share = -0.1 }, "s.jitter"},
		{"more than the interval", func(s *task.Schedule) { s.Jitter.Share = 1.1 }, "s.jitter"},
		{"no number", func(s *task.Schedule) { s.Jitter.Share = math.NaN() }, "s.jitter"},
		{"more than a day", func(s *task.Schedule) { s.Jitter.Max = MaxJitter + 1 }, "s.jitter"},
		{"a jitter that is negative", func(s *task.Schedule) { s.Jitter.Max = -1 }, "s.jitter"},
		{"told of what there is not", func(s *task.Schedule) {
			s.Notices = task.Notices{On: []task.Notice{"lost"}, Origins: []task.Origin{"luck"}}
		}, "s.notify.on s.notify.origins"},
		{"slow after what", func(s *task.Schedule) {
			s.Notices.On = []task.Notice{task.NoticeSlow}
		}, "s.notify.slow"},
		{"slow before it begins", func(s *task.Schedule) { s.Notices.Slow = -1 }, "s.notify.slow"},
	} {
		s := DefaultSchedule("nightly")
		s.Cron, s.Queue = "0 3 * * *", "q"
		c.change(&s)
		var e task.InvalidError
		CheckSchedule(&s, &e, "s")
		if got := places(&e); got != c.want {
			t.Errorf("%s: wrong are %q, want %q: %v", c.name, got, c.want, e.Fields)
		}
	}
}

func TestFaultsOfCalendarsAreLocated(t *testing.T) {
	day := []string{"2026-12-25"}
	for want, c := range map[string]task.Calendar{
		"":       {Name: "a", Skip: day},
		"c.name": {Name: "A b", Keep: day},
		"c":      {Name: "a"},
		"c ":     {Name: "a", Skip: day, Keep: day},
		"c.skip": {Name: "a", Skip: []string{"2026-12-25", "2026-02-30"}},
		"c.keep": {Name: "a", Keep: slices.Repeat(day, MaxCalendar+1)},
	} {
		var e task.InvalidError
		CheckCalendar(&c, &e, "c")
		if got := places(&e); got != strings.TrimSpace(want) {
			t.Errorf("wrong are %q, want %q: %v", got, want, e.Fields)
		}
	}
}

// places are the locations of an error.
func places(e *task.InvalidError) string {
	var list []string
	for _, f := range e.Fields {
		list = append(list, f.Location)
	}
	return strings.Join(list, " ")
}
