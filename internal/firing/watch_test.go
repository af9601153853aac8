package firing

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestFollowersFireWhenTheTaskEndedWell(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("load", "* * * * *")
		h.put("report", "", after("load"), inQueue("reports"))
		h.put("mail", "", after("report"), inQueue("mails"))
		var ill atomic.Bool
		ill.Store(true)
		h.work("n1", "q", 10*time.Second, func(task.Handout) task.Outcome {
			if ill.Load() {
				return task.Fail(errors.New("no disk"))
			}
			return task.Finish(nil)
		})
		h.work("n2", "reports", time.Second, finish)
		h.Until("2026-11-21 10:00:30")
		h.want("report", "10:00:00 skipped")
		if r := h.rows("report")[0]; r.Reason != "the task of schedule load for 2026-11-21T10:00:00Z is dead: no disk" || r.Origin != task.OriginAfter {
			t.Errorf("%+v", r)
		}
		h.Until("2026-11-21 10:00:50")
		ill.Store(false)
		h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindReplayed, "test", h.rows("load")[0].Task))
		h.Until("2026-11-21 10:01:30")
		h.want("load", "10:00:00 fired", "10:01:00 fired")
		h.want("report", "10:00:00 fired", "10:01:00 fired")
		h.want("mail", "10:00:00 fired", "10:01:00 fired")
		if open(h, "load")+open(h, "report") != 0 || open(h, "mail") != 0 {
			t.Errorf("open: %d, %d, %d", open(h, "load"), open(h, "report"), open(h, "mail"))
		}
		if err := h.firer().Delete(h.T.Context(), "load"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("delete of one that is followed: %v", err)
		}
	})
}

// What is done and begins again opens its fire until it has ended again; what follows has been
// fired, and is not once more. One that was cancelled, and ends well then, lets its follower fire.
func TestReplayOfWhatIsOverFiresItsFollowersOnce(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("load", "* * * * *")
		h.put("report", "", after("load"), inQueue("reports"))
		var reports, loads atomic.Int64
		h.work("n1", "q", 10*time.Second, func(task.Handout) task.Outcome {
			loads.Add(1)
			return task.Finish(nil)
		})
		h.work("n2", "reports", time.Second, func(task.Handout) task.Outcome {
			reports.Add(1)
			return task.Finish(nil)
		})
		h.Until("2026-11-21 10:00:20")
		h.want("load", "10:00:00 fired")
		h.want("report", "10:00:00 fired")
		first := h.rows("report")[0].Task
		h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindReplayed, "test", h.rows("load")[0].Task))
		h.Until("2026-11-21 10:00:25")
		if n := open(h, "load"); n != 1 {
			t.Errorf("%d fires of load are open while its task is done again", n)
		}
		h.Until("2026-11-21 10:00:50")
		if n := open(h, "load"); n != 0 || loads.Load() != 2 {
			t.Errorf("%d fires of load are open after it ran %d times", n, loads.Load())
		}
		if r := h.rows("report")[0]; r.Task != first || reports.Load() != 1 {
			t.Errorf("the follower ran %d times: %+v", reports.Load(), r)
		}
		h.Until("2026-11-21 10:01:05")
		load := h.rows("load")[1].Task
		h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindCancelled, "test", load))
		h.Until("2026-11-21 10:01:20")
		h.want("report", "10:00:00 fired", "10:01:00 skipped")
		h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindReplayed, "test", load))
		h.Until("2026-11-21 10:01:45")
		h.want("report", "10:00:00 fired", "10:01:00 fired")
		if reports.Load() != 2 {
			t.Errorf("the follower ran %d times", reports.Load())
		}
	})
}

func TestPausedFollowersAndOverlappingOnesSkip(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("load", "* * * * *")
		h.put("slow", "", after("load"), inQueue("slow"), overlap(task.OverlapQueue))
		h.put("off", "", after("load"), inQueue("off"), func(e *store.ScheduleEdit) {
			e.Paused = true
		})
		h.put("spread", "", after("load"), inQueue("spread"), func(e *store.ScheduleEdit) {
			e.Jitter.Max = 30 * time.Second
		})
		h.work("n1", "q", time.Second, finish)
		h.Until("2026-11-21 10:02:30")
		h.want("slow", "10:00:00 fired", "10:01:00 queued", "10:02:00 queued")
		h.want("off", "10:00:00 skipped", "10:01:00 skipped", "10:02:00 skipped")
		for _, f := range h.rows("spread") {
			v, err := h.Store.Task(h.T.Context(), f.Task)
			h.Must(err)
			if wait := v.Due.Sub(time.UnixMicro(f.Time)); wait <= 0 || wait >= 30*time.Second {
				t.Errorf("the task of %s is due %v after it was submitted, with a jitter of 30s",
					at(f.At), wait)
			}
		}
	})
}

func TestNoticesAreToldOnce(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", misfire(task.MisfireSkip), func(e *store.ScheduleEdit) {
			e.MaxAttempts = 2
			e.Notices = task.Notices{Slow: 20 * time.Second, On: []task.Notice{
				task.NoticeSubmitted, task.NoticeFailed, task.NoticeDead, task.NoticeDone,
				task.NoticeSlow, task.NoticeMissed,
			}}
		})
		var ill atomic.Bool
		ill.Store(true)
		for _, n := range []string{"n1", "n2"} {
			h.work(n, "q", 12*time.Second, func(task.Handout) task.Outcome {
				if ill.Load() {
					return task.Retry(errors.New("no disk"))
				}
				return task.Finish(nil)
			})
		}
		h.Until("2026-11-21 10:00:50")
		ill.Store(false)
		h.Must(h.Live().Tasks.Act(h.T.Context(), task.KindReplayed, "test", h.rows("s")[0].Task))
		h.Until("2026-11-21 10:01:15")
		for _, name := range []string{"n1", "n2", "n3"} {
			h.Kill(name)
		}
		h.Until("2026-11-21 10:04:30")
		h.Start("n1", "n2", "n3")
		h.Until("2026-11-21 10:04:50")
		told := map[string]int{}
		page, err := h.Store.Events(h.T.Context(), store.EventQuery{Limit: 1000})
		h.Must(err)
		for _, e := range page.Events {
			told[e.Kind+" "+e.Fields["at"][11:16]+" "+e.Fields["origin"]]++
		}
		want := map[string]int{
			"schedule.submitted 10:00 schedule": 1, "schedule.failed 10:00 schedule": 1,
			"schedule.slow 10:00 schedule": 1, "schedule.dead 10:00 schedule": 1,
			"schedule.submitted 10:00 retry": 1, "schedule.done 10:00 retry": 1,
			"schedule.submitted 10:01 schedule": 1, "schedule.done 10:01 schedule": 1,
			"schedule.missed 10:02 schedule": 1, "schedule.missed 10:03 schedule": 1,
			"schedule.submitted 10:04 schedule": 1,
		}
		for key, n := range want {
			if told[key] != n {
				t.Errorf("%s: told %d times, want %d", key, told[key], n)
			}
			delete(told, key)
		}
		if len(told) > 0 {
			t.Errorf("told besides: %v", told)
		}
		if texts := h.Events("schedule.dead"); !strings.HasSuffix(texts[0], "is dead: no disk") {
			t.Errorf("text %q", texts[0])
		}
	})
}

func TestNoticesOfSomeOriginsOnly(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", func(e *store.ScheduleEdit) {
			e.Notices = task.Notices{
				On: []task.Notice{task.NoticeDone}, Origins: []task.Origin{task.OriginManual},
			}
		})
		h.work("n1", "q", time.Second, finish)
		h.Until("2026-11-21 10:00:30")
		if texts := h.Events("schedule.done"); len(texts) != 0 {
			t.Errorf("told %v", texts)
		}
		_, err := h.firer().RunNow(h.T.Context(), "s")
		h.Must(err)
		h.Pass(5 * time.Second)
		if texts := h.Events("schedule.done"); len(texts) != 1 {
			t.Errorf("told %v, want one", texts)
		}
	})
}

func TestWhatIsToldOfATask(t *testing.T) {
	const s = 1e6
	all := []task.Notice{
		task.NoticeSubmitted, task.NoticeFailed, task.NoticeTimeout, task.NoticeDead,
		task.NoticeDone, task.NoticeSlow, task.NoticeMissed,
	}
	step := func(seq int32, kind task.Kind, final bool) func(*store.OpenFire) {
		return func(o *store.OpenFire) {
			o.Step, o.Kind, o.Final, o.Finished = seq, kind, final, noon+s
		}
	}
	outcome := func(outcome task.FireOutcome) func(*store.OpenFire) {
		return func(o *store.OpenFire) { o.Outcome, o.Found, o.Task = outcome, false, task.ID{} }
	}
	begun := func(o *store.OpenFire) {
		o.Tries, o.Step, o.Seq, o.Kind, o.Finished = 1, 3, 3, task.KindReplayed, noon+50*s
	}
	both := func(a, b func(*store.OpenFire)) func(*store.OpenFire) {
		return func(o *store.OpenFire) { a(o); b(o) }
	}
	for _, c := range []struct {
		name   string
		change func(*store.OpenFire)
		after  int64 // noon, when it was submitted
		known  notified
		want   string // the events' words
		end    string // what is written down: the seq, and how it ended
	}{
		{"it waits or runs", func(*store.OpenFire) {}, 59 * s, notified{}, "submitted", ""},
		{"that was told", func(*store.OpenFire) {}, 59 * s, notified{submitted: true}, "", ""},
		{"it is slow", func(*store.OpenFire) {}, 60 * s, notified{submitted: true}, "slow", ""},
		{"that was told, too", func(*store.OpenFire) {}, 99 * s, notified{true, true}, "", ""},
		{"it is done late", step(0, task.KindDone, true), 99 * s, notified{}, "submitted done",
			"0 done"},
		{"an attempt failed", step(0, task.KindRetry, false), s, notified{submitted: true},
			"failed", "0 open"},
		{"that was looked at", func(o *store.OpenFire) {
			o.Step, o.Seq, o.Kind = 0, 0, task.KindRetry
		}, s, notified{submitted: true}, "", ""},
		{"its worker was lost", step(0, task.KindLost, false), s, notified{submitted: true},
			"failed", "0 open"},
		{"an attempt took too long", step(0, task.KindTimeout, false), s, notified{submitted: true},
			"timeout", "0 open"},
		{"the last attempt failed", step(4, task.KindRetry, true), s, notified{submitted: true},
			"dead", "4 retry"},
		{"it failed for good", step(0, task.KindFail, true), s, notified{submitted: true}, "dead",
			"0 fail"},
		{"the last attempt took too long", step(4, task.KindTimeout, true), s,
			notified{submitted: true}, "timeout dead", "4 timeout"},
		{"it was cancelled", step(0, task.KindCancelled, true), s, notified{submitted: true}, "",
			"0 cancelled"},
		{"it is in its next stage", step(0, task.KindNext, false), s, notified{submitted: true}, "",
			""},
		{"it was removed", func(o *store.OpenFire) {
			o.Found = false
		}, s, notified{submitted: true}, "", "-1 removed"},
		{"it began again", begun, 109 * s, notified{}, "submitted", ""},
		{"and is slow again", begun, 110 * s, notified{submitted: true}, "slow", ""},
		{"and done", both(begun, step(4, task.KindDone, true)), 51 * s, notified{submitted: true},
			"done", "4 done"},
		{"it is queued", outcome(task.FireQueued), 99 * s, notified{}, "", ""},
		{"it was missed", outcome(task.FireMissed), s, notified{}, "missed", "-1 cancelled"},
		{"it was skipped", outcome(task.FireSkipped), s, notified{}, "missed", "-1 cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			about := about(t, "* * * * *", func(s *store.Schedule) {
				s.Notices = task.Notices{On: all, Slow: time.Minute}
			})
			o := store.OpenFire{Fire: about.fire(noon, task.OriginSchedule), Found: true, Step: -1}
			o.Outcome, o.Task, o.Time = task.FireFired, task.ID{Batch: 1024}, noon
			c.change(&o)
			v := about.followUp(&o, noon+c.after, c.known)
			var words []string
			keys := map[string]bool{}
			for _, e := range v.events {
				words = append(words, strings.TrimPrefix(e.Kind, EventPrefix))
				if want := map[bool]string{true: "retry",
					false: "schedule"}[o.Tries > 0]; keys[e.Key] || e.Subject != "s" ||
					e.Fields["origin"] != want {
					t.Errorf("event %+v", e)
				}
				keys[e.Key] = true
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
			end := ""
			if v.end != nil {
				end = strings.Replace(fmt.Sprint(v.end.Seq, v.end.Ended), "kind(0)", "open", 1)
			}
			if end != c.end {
				t.Errorf("writes down %q, want %q", end, c.end)
			}
			if again := about.followUp(&o, noon+c.after, v.notified); v.end == nil &&
				len(again.events) > 0 {
				t.Errorf("told again: %+v", again.events)
			}
		})
	}
}

// The same news has the same key, and other news another: of another step, another beginning,
// another due time.
func TestNewsAreKnownByTheirKeys(t *testing.T) {
	s := about(t, "* * * * *", func(s *store.Schedule) {
		s.Notices.On = []task.Notice{task.NoticeSubmitted, task.NoticeFailed, task.NoticeMissed}
	})
	key := func(outcome task.FireOutcome, at int64, tries, step int32) string {
		o := store.OpenFire{
			Fire: s.fire(at, task.OriginSchedule), Found: true, Step: step, Kind: task.KindRetry,
		}
		o.Outcome, o.Task, o.Tries = outcome, task.ID{Batch: 1024}, tries
		if outcome == task.FireMissed {
			o.Task = task.ID{}
		}
		return s.followUp(&o, noon, notified{submitted: step >= 0}).events[0].Key
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		outcome     task.FireOutcome
		at          int64
		tries, step int32
	}{
		{task.FireFired, noon, 0, -1}, {task.FireFired, noon, 1, -1}, {task.FireFired, noon, 0, 0},
		{task.FireFired, noon, 0, 1},
		{task.FireMissed, noon, 0, -1}, {task.FireMissed, noon + 60e6, 0, -1},
	} {
		k := key(c.outcome, c.at, c.tries, c.step)
		if seen[k] || k != key(c.outcome, c.at, c.tries, c.step) {
			t.Errorf("%+v: key %q", c, k)
		}
		seen[k] = true
	}
}

func TestFollowersAreFiredByHowTheTaskEnded(t *testing.T) {
	first, second := noon+60e6, noon+120e6
	ended := func(at int64, kind task.Kind, change ...func(*store.OpenFire)) *store.OpenFire {
		o := &store.OpenFire{
			Fire: store.Fire{Schedule: "leader", At: at, Outcome: task.FireFired}, Found: true,
			Final: true, Kind: kind,
		}
		for _, f := range change {
			f(o)
		}
		return o
	}
	failed := func(text string) func(*store.OpenFire) {
		return func(o *store.OpenFire) { o.Error = text }
	}
	removed := func(o *store.OpenFire) { o.Found, o.Kind = false, 0 }
	other := func(o *store.OpenFire) { o.Schedule = "other" }
	for _, c := range []struct {
		name   string
		change func(*store.Schedule)
		ended  []*store.OpenFire
		want   string
		reason string // of the first row
	}{
		{name: "well", ended: []*store.OpenFire{ended(first, task.KindDone)},
			want: "12:01:00 fired over"},
		{name: "well, in the order of their times",
			ended: []*store.OpenFire{ended(second, task.KindDone), ended(first, task.KindDone)},
			want:  "12:01:00 fired over, 12:02:00 fired over"},
		{name: "for good", ended: []*store.OpenFire{ended(first, task.KindFail, failed("no disk"))},
			want:   "12:01:00 skipped",
			reason: "the task of schedule leader for 2026-03-01T12:01:00Z is dead: no disk"},
		{name: "without another attempt", ended: []*store.OpenFire{ended(first, task.KindTimeout)},
			want:   "12:01:00 skipped",
			reason: "the task of schedule leader for 2026-03-01T12:01:00Z is dead: timeout"},
		{name: "cancelled", ended: []*store.OpenFire{ended(first, task.KindCancelled)},
			want:   "12:01:00 skipped",
			reason: "the task of schedule leader for 2026-03-01T12:01:00Z was cancelled"},
		{name: "removed", ended: []*store.OpenFire{ended(first, 0, removed)},
			want:   "12:01:00 skipped",
			reason: "the task of schedule leader for 2026-03-01T12:01:00Z was removed"},
		{name: "one well, one not",
			ended: []*store.OpenFire{ended(first, task.KindFail), ended(second, task.KindDone)},
			want:  "12:02:00 fired over, 12:01:00 skipped"},
		{name: "of another schedule", ended: []*store.OpenFire{ended(first, task.KindDone, other)},
			want: ""},
		{name: "paused", change: func(s *store.Schedule) {
			s.Paused = true
		}, ended: []*store.OpenFire{ended(first, task.KindDone)}, want: "12:01:00 skipped over",
			reason: "paused"},
		{name: "overlapping", change: func(s *store.Schedule) {
			s.Overlap = task.OverlapSkip
		}, ended: []*store.OpenFire{ended(first, task.KindDone), ended(second, task.KindDone)},
			want: "12:01:00 fired over, 12:02:00 skipped over"},
		{name: "before it starts", change: func(s *store.Schedule) {
			s.Starts = time.UnixMicro(second)
		},
			ended: []*store.OpenFire{ended(first, task.KindDone), ended(second, task.KindDone)},
			want:  "12:02:00 fired over"},
		{name: "after it ended", change: func(s *store.Schedule) { s.Ends = time.UnixMicro(first) },
			ended: []*store.OpenFire{ended(first, task.KindDone), ended(second, task.KindFail)},
			want:  "12:01:00 fired over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			follow := func(s *store.Schedule) { s.Cron, s.After = "", "leader" }
			if c.change == nil {
				c.change = func(*store.Schedule) {}
			}
			var got []string
			reason := ""
			for _, r := range about(t, "", follow, c.change).after(c.ended,
				about(t, "* * * * *").times) {
				for i := range r.part.Fires {
					f := &r.part.Fires[i]
					text := at(f.At) + " " + string(f.Outcome)
					if r.part.Over { // also where a row stands that was not fired
						text += " over"
					}
					if got = append(got, text); len(got) == 1 {
						reason = f.Reason
					}
					if f.Origin != task.OriginAfter || r.part.Next != 0 || r.part.Then != 0 {
						t.Errorf("row %+v of part %+v", f, r.part)
					}
				}
			}
			if got := strings.Join(got, ", "); got != c.want || c.reason != "" &&
				reason != c.reason {
				t.Errorf("wrote %q, because %q; want %q, because %q", got, reason, c.want, c.reason)
			}
		})
	}
}

func TestWhatWaitsIsFiredInItsOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		running int
		limits  []int32 // of those that wait
		want    int     // of them are fired
	}{
		{"one at a time", 0, []int32{1, 1}, 1},
		{"one runs", 1, []int32{1, 1}, 0},
		{"two at a time", 0, []int32{2, 2, 2}, 2},
		{"two at a time, one runs", 1, []int32{2, 2, 2}, 1},
		{"nobody overtakes", 1, []int32{1, 2}, 0},
		{"first those of more", 1, []int32{2, 1}, 1},
	} {
		s := about(t, "* * * * *")
		opens(c.running, len(c.limits))(s)
		for i, limit := range c.limits {
			s.open[c.running+i].Limit = limit
		}
		p := s.next()
		if len(p.Fires) != c.want || !p.Over || p.Next != 0 {
			t.Errorf("%s: %+v, want %d", c.name, p, c.want)
		}
		for i, f := range p.Fires {
			if f.At != s.open[c.running+i].At || f.Outcome != task.FireFired || f.Reason != "" ||
				!f.Watch {
				t.Errorf("%s: fires %+v", c.name, f)
			}
		}
	}
}
