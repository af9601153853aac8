package firing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// noon is when the schedules of these tests begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()

// about makes a subject whose cursor stands right behind noon.
func about(t testing.TB, cron string, change ...func(*store.Schedule)) *scheduleState {
	t.Helper()
	s := &store.Schedule{Schedule: limits.DefaultSchedule("s"), Version: 1, Since: noon}
	s.Cron, s.Queue = cron, "q"
	for _, f := range change {
		f(s)
	}
	table, err := newTimetables().of(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Next = table.next(s.Since)
	return &scheduleState{Schedule: s, times: table}
}

// opens are open fires whose tasks run, and, after those, ones that are queued.
func opens(running, queued int) func(*scheduleState) {
	return func(s *scheduleState) {
		for i := range running + queued {
			o := store.OpenFire{
				Fire: s.fire(noon-int64(running+queued-i)*60e6, task.OriginSchedule), Found: true,
				Step: -1,
			}
			o.Outcome, o.Task = task.FireFired, task.ID{Batch: 1, N: int32(i)}
			if i >= running {
				o.Outcome, o.Task, o.Found, o.Limit = task.FireQueued, task.ID{}, false, 1
			}
			s.open = append(s.open, o)
		}
	}
}

// ended are open fires whose tasks are final, or removed: nobody has looked yet.
func ended(s *scheduleState) {
	opens(2, 0)(s)
	s.open[0].Final, s.open[0].Kind = true, task.KindDone
	s.open[1].Found = false
}

// written are the rows of a decision in short: runs of equal outcome and reason, each with the
// first and the last of its due times.
func written(fires []store.Fire) string {
	var list []string
	for i := 0; i < len(fires); {
		k := i
		for k < len(fires) && fires[k].Outcome == fires[i].Outcome &&
			(fires[k].Count > 1) == (fires[i].Count > 1) {
			k++
		}
		s := fmt.Sprintf("%s %s", at(fires[i].At), fires[i].Outcome)
		if k > i+1 {
			s = fmt.Sprintf("%s–%s %s", at(fires[i].At), at(fires[k-1].At), fires[i].Outcome)
		}
		if fires[i].Count > 1 {
			s += fmt.Sprintf(" ×%d", fires[i].Count)
		}
		list, i = append(list, s), k
	}
	return strings.Join(list, ", ")
}

func TestRulings(t *testing.T) {
	overlap := func(o task.Overlap) func(*store.Schedule) {
		return func(s *store.Schedule) { s.Overlap = o }
	}
	misfire := func(m task.Misfire) func(*store.Schedule) {
		return func(s *store.Schedule) { s.Misfire = m }
	}
	paused := func(s *store.Schedule) { s.Paused = true }
	type changes []func(*store.Schedule)
	for _, c := range []struct {
		name   string
		cron   string
		change changes
		open   func(*scheduleState)
		after  time.Duration // noon
		want   string
		reason string // of the first row
		cancel int
	}{
		{name: "one is due", after: time.Minute, want: "12:01:00 fired"},
		{name: "nothing is due", after: time.Minute - time.Microsecond, want: ""},
		{name: "two are on time", after: 2 * time.Minute, want: "12:01:00–12:02:00 fired"},
		{name: "late by a hair", after: 2*time.Minute + time.Microsecond,
			want:   "12:01:00 missed, 12:02:00 fired",
			reason: "1m0s late, and only the newest is fired"},
		{name: "paused", change: changes{paused}, after: 2 * time.Minute,
			want: "12:01:00–12:02:00 skipped", reason: "paused"},
		{name: "paused and late", change: changes{paused}, after: time.Hour,
			want: "12:01:00–13:00:00 skipped", reason: "paused"},

		{name: "misfire once, none on time", cron: "*/10 * * * *", after: 42 * time.Minute,
			want: "12:10:00–12:30:00 missed, 12:40:00 fired"},
		{name: "misfire once, one on time", cron: "*/10 * * * *",
			after: 40*time.Minute + 30*time.Second,
			want:  "12:10:00–12:30:00 missed, 12:40:00 fired"},
		{name: "misfire skip, none on time", cron: "*/10 * * * *",
			change: changes{misfire(task.MisfireSkip)}, after: 42 * time.Minute,
			want: "12:10:00–12:40:00 missed", reason: "32m0s late, and what is late is not fired"},
		{name: "misfire skip, one on time", cron: "*/10 * * * *",
			change: changes{misfire(task.MisfireSkip)}, after: 40 * time.Minute,
			want: "12:10:00–12:30:00 missed, 12:40:00 fired"},
		{name: "misfire all", cron: "*/10 * * * *", change: changes{misfire(task.MisfireAll)},
			after: 42 * time.Minute, want: "12:10:00–12:40:00 fired"},
		{name: "misfire all, more than are fired", change: changes{misfire(task.MisfireAll)},
			after: 2*time.Hour + 30*time.Second,
			want:  "12:01:00–12:19:00 missed, 12:20:00–14:00:00 fired"},
		{name: "misfire window", cron: "0 * * * *",
			change: changes{misfire(task.MisfireAll), func(s *store.Schedule) {
				s.MisfireWindow = 2 * time.Hour
			}}, after: 5*time.Hour + 30*time.Minute,
			want:   "13:00:00–15:00:00 missed, 16:00:00–17:00:00 fired",
			reason: "4h30m0s late, more than 2h0m0s"},
		{name: "all in the window missed", cron: "0 13 * * *",
			change: changes{func(s *store.Schedule) {
				s.MisfireWindow = 0
			}}, after: 62 * time.Minute, want: "13:00:00 missed"},

		{name: "a run of a thousand", cron: "* * * * * *",
			change: changes{misfire(task.MisfireSkip)}, after: 1060 * time.Second,
			want: "12:00:01–12:16:39 missed, 12:16:40–12:17:40 fired"},
		{name: "a run of more", cron: "* * * * * *", change: changes{misfire(task.MisfireSkip)},
			after:  3 * time.Hour,
			want:   "12:00:01 missed ×9739, 14:42:20–14:58:59 missed, 14:59:00–15:00:00 fired",
			reason: "the last was 17m41s late, and what is late is not fired"},
		{name: "a run of two more", cron: "* * * * * *", change: changes{misfire(task.MisfireSkip)},
			after: 1063 * time.Second,
			want:  "12:00:01 missed ×2, 12:00:03–12:16:42 missed, 12:16:43–12:17:43 fired"},
		{name: "a long pause", cron: "* * * * * *", change: changes{paused}, after: 3 * time.Hour,
			want: "12:00:01 skipped ×9800, 14:43:21–15:00:00 skipped", reason: "paused"},

		{name: "skip, nothing open", change: changes{overlap(task.OverlapSkip)}, after: time.Minute,
			want: "12:01:00 fired"},
		{name: "skip, one open", change: changes{overlap(task.OverlapSkip)}, open: opens(1, 0),
			after: time.Minute, want: "12:01:00 skipped",
			reason: "the task of 2026-03-01T11:59:00Z is not final"},
		{name: "skip, what is open has ended", change: changes{overlap(task.OverlapSkip)},
			open: ended, after: time.Minute, want: "12:01:00 fired"},
		{name: "skip, one waits", change: changes{overlap(task.OverlapSkip)}, open: opens(0, 1),
			after: time.Minute, want: "12:01:00 skipped"},
		{name: "skip, two due", change: changes{overlap(task.OverlapSkip)}, after: 2 * time.Minute,
			want: "12:01:00 fired, 12:02:00 skipped"},
		{name: "queue, nothing open", change: changes{overlap(task.OverlapQueue)},
			after: 3 * time.Minute, want: "12:01:00 missed, 12:02:00 fired, 12:03:00 queued"},
		{name: "queue, one open", change: changes{overlap(task.OverlapQueue)}, open: opens(1, 0),
			after: time.Minute, want: "12:01:00 queued",
			reason: "waits for the task of 2026-03-01T11:59:00Z"},
		{name: "queue, what is open has ended", change: changes{overlap(task.OverlapQueue)},
			open: ended, after: time.Minute, want: "12:01:00 fired"},
		{name: "queue, one waits", change: changes{overlap(task.OverlapQueue)}, open: opens(0, 1),
			after: time.Minute, want: "12:01:00 queued"},
		{name: "queue, it is full", change: changes{overlap(task.OverlapQueue)},
			open: opens(1, limits.MaxQueued), after: time.Minute, want: "12:01:00 skipped",
			reason: "1000 due times wait for earlier tasks already"},
		{name: "replace, nothing open", change: changes{overlap(task.OverlapReplace)},
			after: time.Minute, want: "12:01:00 fired"},
		{name: "replace, two open", change: changes{overlap(task.OverlapReplace)},
			open: opens(2, 0), after: time.Minute, want: "12:01:00 fired", cancel: 2},
		{name: "replace, what is open has ended", change: changes{overlap(task.OverlapReplace)},
			open: ended, after: time.Minute, want: "12:01:00 fired"},
		{name: "replace, two due", change: changes{overlap(task.OverlapReplace)}, open: opens(1, 0),
			after: 2 * time.Minute, want: "12:01:00 skipped, 12:02:00 fired",
			reason: "the task of 2026-03-01T12:02:00Z takes its place", cancel: 1},
		{name: "replace, all missed",
			change: changes{overlap(task.OverlapReplace), misfire(task.MisfireSkip)},
			open:   opens(1, 0), cron: "0 13 * * *", after: 2 * time.Hour, want: "13:00:00 missed"},

		{name: "before it starts", change: changes{func(s *store.Schedule) {
			s.Starts = time.UnixMicro(noon + 90e6)
		}}, after: 2 * time.Minute, want: "12:02:00 fired"},
		{name: "starts when due", change: changes{func(s *store.Schedule) {
			s.Starts = time.UnixMicro(noon + 60e6)
		}}, after: time.Minute, want: "12:01:00 fired"},
		{name: "ends when due", change: changes{func(s *store.Schedule) {
			s.Ends = time.UnixMicro(noon + 60e6)
		}}, after: 2 * time.Minute, want: "12:01:00 fired"},
		{name: "after it ended", change: changes{func(s *store.Schedule) {
			s.Ends = time.UnixMicro(noon + 59e6)
		}}, after: 2 * time.Minute, want: ""},
		{name: "a chosen time comes first", cron: "*/10 * * * *",
			change: changes{func(s *store.Schedule) {
				s.First = noon + 15*60e6
			}}, after: 15 * time.Minute, want: "12:15:00 fired"},
		{name: "cron goes on after it", cron: "*/10 * * * *",
			change: changes{func(s *store.Schedule) {
				s.First = noon + 15*60e6
			}, misfire(task.MisfireAll)}, after: 30 * time.Minute, want: "12:15:00–12:30:00 fired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cron == "" {
				c.cron = "* * * * *"
			}
			s := about(t, c.cron, c.change...)
			if c.open != nil {
				c.open(s)
			}
			now := noon + c.after.Microseconds()
			r := s.due(now)
			if got := written(r.part.Fires); got != c.want {
				t.Errorf("wrote %q, want %q", got, c.want)
			}
			if c.reason != "" && r.part.Fires[0].Reason != c.reason {
				t.Errorf("reason %q, want %q", r.part.Fires[0].Reason, c.reason)
			}
			if len(r.cancel) != c.cancel {
				t.Errorf("cancels %v, want %d", r.cancel, c.cancel)
			}
			if r.part.Next != s.Next || r.part.Then != s.times.next(now) && r.part.Then != s.Next {
				t.Errorf("moves the cursor from %s to %s", at(r.part.Next), at(r.part.Then))
			}
		})
	}
}

func TestRowsAreWatchedWhereSomebodyWantsToKnow(t *testing.T) {
	told := func(on ...task.Notice) func(*store.Schedule) {
		return func(s *store.Schedule) { s.Notices.On = on }
	}
	for _, c := range []struct {
		name     string
		change   func(*store.Schedule)
		followed bool
		after    time.Duration
		want     []bool // of the row of 12:01, and so on
	}{
		{name: "nobody does", change: told(), after: time.Minute, want: []bool{false}},
		{name: "followers", change: told(), followed: true, after: time.Minute, want: []bool{true}},
		{name: "overlap", change: func(s *store.Schedule) {
			s.Overlap = task.OverlapSkip
		}, after: 2 * time.Minute, want: []bool{true, false}},
		{name: "notices", change: told(task.NoticeDone), after: time.Minute, want: []bool{true}},
		{name: "notices of missed ones only", change: told(task.NoticeMissed),
			after: 2*time.Minute + 1e9, want: []bool{true, false}},
		{name: "notices of others", change: told(task.NoticeDone), after: 2*time.Minute + 1e9,
			want: []bool{false, true}},
		{name: "of runs by hand only", after: 2*time.Minute + 1e9, want: []bool{false, false},
			change: func(s *store.Schedule) {
				s.Notices = task.Notices{
					On: []task.Notice{task.NoticeMissed}, Origins: []task.Origin{task.OriginManual},
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := about(t, "* * * * *", c.change)
			s.followed = c.followed
			var got []bool
			for _, f := range s.due(noon + c.after.Microseconds()).part.Fires {
				got = append(got, f.Watch)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("watched %v, want %v", got, c.want)
			}
		})
	}
}

func TestJitterIsTheSameForADueTimeAndSpreadOverAll(t *testing.T) {
	share := func(s *store.Schedule) { s.Jitter.Share = 0.5 }
	s, other := about(t, "* * * * *", share), about(t, "* * * * *", share, func(s *store.Schedule) {
		s.Name = "other"
	})
	var low, high, same int
	for i := range int64(1000) {
		due := noon + i*60e6
		j := s.times.jitter(&s.Schedule.Schedule, due)
		if j != s.times.jitter(&s.Schedule.Schedule, due) || j < 0 || j >= 30e6 {
			t.Fatalf("jitter of %s is %d", at(due), j)
		}
		if j == other.times.jitter(&other.Schedule.Schedule, due) {
			same++
		}
		if j < 15e6 {
			low++
		} else {
			high++
		}
	}
	if low < 400 || high < 400 {
		t.Errorf("%d in the first half, %d in the second", low, high)
	}
	if same > 1 {
		t.Errorf("two schedules have the same jitter at %d of 1000 due times", same)
	}
}

// Whatever the schedule, the time and how often it is looked at: every due time gets one row or is
// one of those that share one, in order, the cursor only grows, and nothing is fired before its
// time.
func FuzzRulingsCoverEveryDueTimeOnce(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint32(100), uint32(5000), uint16(3), uint16(1170))
	f.Add(uint8(7), uint8(2), uint32(1), uint32(90000), uint16(0), uint16(5000))
	f.Add(uint8(84), uint8(47), uint32(1), uint32(89929), uint16(0), uint16(5000))
	f.Add(uint8(200), uint8(9), uint32(86400), uint32(3), uint16(1), uint16(65535))
	f.Fuzz(func(t *testing.T, kind, rule uint8, first, second uint32, open, limit uint16) {
		crons := []string{
			"* * * * * *", "*/7 * * * * *", "* * * * *", "H * * * *", "0 12 * * *", "30 2 L * *",
			"@every 90s",
		}
		s := about(t, crons[int(kind)%len(crons)], func(s *store.Schedule) {
			s.Overlap = []task.Overlap{task.OverlapAllow, task.OverlapSkip, task.OverlapQueue,
				task.OverlapReplace}[rule%4]
			s.Misfire = []task.Misfire{task.MisfireSkip, task.MisfireOnce,
				task.MisfireAll}[rule/4%3]
			s.Paused = rule/12%3 == 2
			s.Zone = []string{"", "Europe/Berlin", "Australia/Lord_Howe"}[rule/36%3]
			s.MisfireWindow = time.Duration(kind) * time.Minute
		})
		opens(int(open%3), int(open%5))(s)
		end := noon
		var rowsOf []store.Fire
		for _, step := range []uint32{first % 200_000, second % 200_000} {
			end += int64(step) * 1e6
			for s.Next <= end {
				r := s.dueUpTo(end, recent+1+int(limit))
				if r.part.Next != s.Next || r.part.Then <= s.Next {
					t.Fatalf("the cursor goes from %d to %d", r.part.Next, r.part.Then)
				}
				s.Next = r.part.Then
				rowsOf = append(rowsOf, r.part.Fires...)
			}
		}
		due := s.times.next(s.Since)
		for _, f := range rowsOf {
			if f.At != due || f.Outcome == "" || f.Outcome == task.FireFired &&
				(f.Count != 1 || f.At > end) {
				t.Fatalf("row %+v where %s is due", f, at(due))
			}
			n := int64(1)
			for ; due < f.Through; n++ {
				due = s.times.next(due)
			}
			if due != f.Through || n != f.Count {
				t.Fatalf("row %+v stands for %d due times up to %s", f, n, at(due))
			}
			due = s.times.next(due)
		}
		if due <= end || due != s.Next {
			t.Fatalf("due at %s has no row at %s; the cursor is at %s", at(due), at(end),
				at(s.Next))
		}
	})
}
