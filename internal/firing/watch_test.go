package firing

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/rows"
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
		h.until("2026-11-21 10:00:30")
		h.want("report", "10:00:00 skipped")
		if r := h.rows("report")[0]; r.Reason != "the task of schedule load for 2026-11-21T10:00:00Z is dead: no disk" || r.Origin != task.OriginAfter {
			t.Errorf("%+v", r)
		}
		h.until("2026-11-21 10:00:50")
		ill.Store(false)
		h.must(h.live().tasks.Act(h.t.Context(), task.KindReplayed, "test", h.rows("load")[0].Task))
		h.until("2026-11-21 10:01:30")
		h.want("load", "10:00:00 fired", "10:01:00 fired")
		h.want("report", "10:00:00 fired", "10:01:00 fired")
		h.want("mail", "10:00:00 fired", "10:01:00 fired")
		if open(h, "load")+open(h, "report") != 0 || open(h, "mail") != 0 {
			t.Errorf("open: %d, %d, %d", open(h, "load"), open(h, "report"), open(h, "mail"))
		}
		if err := h.live().firer.Delete(h.t.Context(), "load"); !errors.Is(err, rows.ErrConflict) {
			t.Errorf("delete of one that is followed: %v", err)
		}
	})
}

func TestPausedFollowersAndOverlappingOnesSkip(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("load", "* * * * *")
		h.put("slow", "", after("load"), inQueue("slow"), overlap(task.OverlapQueue))
		h.put("off", "", after("load"), inQueue("off"), func(e *rows.ScheduleEdit) { e.Paused = true })
		h.put("spread", "", after("load"), inQueue("spread"), func(e *rows.ScheduleEdit) { e.Jitter.Max = 30 * time.Second })
		h.work("n1", "q", time.Second, finish)
		h.until("2026-11-21 10:02:30")
		h.want("slow", "10:00:00 fired", "10:01:00 queued", "10:02:00 queued")
		h.want("off", "10:00:00 skipped", "10:01:00 skipped", "10:02:00 skipped")
		for _, f := range h.rows("spread") {
			v, err := h.store.Task(h.t.Context(), f.Task)
			h.must(err)
			if wait := v.Due.Sub(time.UnixMicro(f.Time)); wait <= 0 || wait >= 30*time.Second {
				t.Errorf("the task of %s is due %v after it was submitted, with a jitter of 30s", at(f.At), wait)
			}
		}
	})
}

func TestNoticesAreToldOnce(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", misfire(task.MisfireSkip), func(e *rows.ScheduleEdit) {
			e.MaxAttempts = 2
			e.Notices = task.Notices{Slow: 20 * time.Second, On: []task.Notice{
				task.NoticeSubmitted, task.NoticeFailed, task.NoticeDead, task.NoticeDone, task.NoticeSlow, task.NoticeMissed,
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
		h.until("2026-11-21 10:00:50")
		ill.Store(false)
		h.must(h.live().tasks.Act(h.t.Context(), task.KindReplayed, "test", h.rows("s")[0].Task))
		h.until("2026-11-21 10:01:15")
		for _, name := range []string{"n1", "n2", "n3"} {
			h.kill(name)
		}
		h.until("2026-11-21 10:04:30")
		h.start("n1", "n2", "n3")
		h.until("2026-11-21 10:04:50")
		told := map[string]int{}
		page, err := h.store.Events(h.t.Context(), rows.EventQuery{Limit: 1000})
		h.must(err)
		for _, e := range page.Events {
			told[e.Kind+" "+e.Fields["at"][11:16]+" "+e.Fields["origin"]]++
		}
		want := map[string]int{
			"schedule.submitted 10:00 schedule": 1, "schedule.failed 10:00 schedule": 1, "schedule.slow 10:00 schedule": 1, "schedule.dead 10:00 schedule": 1,
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
		if texts := h.events("schedule.dead"); !strings.HasSuffix(texts[0], "is dead: no disk") {
			t.Errorf("text %q", texts[0])
		}
	})
}

func TestNoticesOfSomeOriginsOnly(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", func(e *rows.ScheduleEdit) {
			e.Notices = task.Notices{On: []task.Notice{task.NoticeDone}, Origins: []task.Origin{task.OriginManual}}
		})
		h.work("n1", "q", time.Second, finish)
		h.until("2026-11-21 10:00:30")
		if texts := h.events("schedule.done"); len(texts) != 0 {
			t.Errorf("told %v", texts)
		}
		_, err := h.live().firer.RunNow(h.t.Context(), "s")
		h.must(err)
		h.pass(5 * time.Second)
		if texts := h.events("schedule.done"); len(texts) != 1 {
			t.Errorf("told %v, want one", texts)
		}
	})
}
