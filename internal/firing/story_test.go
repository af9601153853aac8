package firing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

func overlap(o task.Overlap) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.Overlap = o }
}

func misfire(m task.Misfire) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.Misfire = m }
}

func after(leader string) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.Cron, e.After = "", leader }
}

func inQueue(queue string) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.Queue = queue }
}

func TestDueTimesFireOnTime(t *testing.T) {
	alone(t, "2026-11-21 09:58:30", func(h *house) {
		h.put("minutely", "* * * * *")
		h.Until("2026-11-21 10:01:01")
		h.want("minutely", "09:59:00 fired", "10:00:00 fired", "10:01:00 fired")
		for _, f := range h.rows("minutely") {
			if late := lateness(f.At, f.Time); late < 0 || late > 50*time.Millisecond {
				t.Errorf("%s fired %v late", at(f.At), late)
			}
		}
		if n := len(h.tasks("q")); n != 3 {
			t.Errorf("%d tasks, want 3", n)
		}
	})
}

func TestTaskIsWhatTheScheduleSays(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", func(e *store.ScheduleEdit) {
			e.Stage = "begin"
			e.Context = []byte(`{"a": 1.0}`)
			e.Priority = time.Minute
			e.Jitter.Max = 30 * time.Second
		})
		h.Until("2026-11-21 10:00:01")
		row := h.rows("s")[0]
		v, err := h.Store.Task(h.T.Context(), row.Task)
		h.Must(err)
		if v.Queue != "q" || v.Stage != "begin" || string(v.Context) != `{"a": 1.0}` ||
			v.Priority != time.Minute {
			t.Errorf("task %+v", v)
		}
		if wait := v.Due.Sub(time.UnixMicro(row.At)); wait <= 0 || wait >= 30*time.Second {
			t.Errorf("it is due %v after its due time, with a jitter of 30s", wait)
		}
	})
}

func TestThreeNodesShareTheFiring(t *testing.T) {
	three(t, "2026-11-21 09:58:30", func(h *house) {
		nodes := map[string]bool{}
		for i := range 30 {
			h.put(fmt.Sprint("s", i), "*/10 * * * * *")
		}
		h.Until("2026-11-21 10:01:01")
		for i := range 30 {
			list := h.rows(fmt.Sprint("s", i))
			if len(list) != 15 {
				t.Errorf("s%d: %v", i, h.fires(fmt.Sprint("s", i)))
			}
			last := list[len(list)-1]
			nodes[last.Node] = true
			if late := lateness(last.At, last.Time); late > 50*time.Millisecond {
				t.Errorf("s%d fired %v late", i, late)
			}
		}
		if len(nodes) != 3 {
			t.Errorf("fired by %v, want all three", nodes)
		}
	})
}

func TestManySchedulesAreSharedOutByLots(t *testing.T) {
	three(t, "2026-11-21 09:58:30", func(h *house) {
		edits := make([]store.ScheduleEdit, 400)
		for i := range edits {
			edits[i].Schedule = limits.DefaultSchedule(fmt.Sprint("s", i))
			edits[i].Cron, edits[i].Queue = "* * * * *", "q"
		}
		_, err := h.firer().Put(h.T.Context(), edits...)
		h.Must(err)
		h.Pass(20 * time.Second) // shards are claimed
		h.Until("2026-11-21 10:00:00")
		h.Pass(time.Second)
		nodes := map[string]int{}
		for i := range edits {
			list := h.rows(edits[i].Name)
			if len(list) != 2 {
				t.Fatalf("%s: %v", edits[i].Name, h.fires(edits[i].Name))
			}
			nodes[list[1].Node]++
		}
		views, err := h.firer().Schedules(h.T.Context(), store.ScheduleQuery{
			Names: []string{"s1"},
		})
		h.Must(err)
		if len(nodes) != 3 || views[0].Owner == "" {
			t.Errorf("fired by %v, s1 is looked after by %q", nodes, views[0].Owner)
		}
	})
}

func TestDeathOfTheOwnerMakesADueTimeLateByALeaseAtMost(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/5 * * * * *")
		h.Until("2026-11-21 10:00:11")
		views, err := h.firer().Schedules(h.T.Context(), store.ScheduleQuery{})
		h.Must(err)
		h.Kill(views[0].Owner)
		h.Until("2026-11-21 10:01:01")
		list := h.rows("s")
		if len(list) != 18 {
			t.Errorf("%d rows, want 18: %v", len(list), h.fires("s"))
		}
		for _, f := range list {
			if late := lateness(f.At, f.Time); f.Outcome != task.FireFired ||
				late > 12*time.Second {
				t.Errorf("%s: %s %v late", at(f.At), f.Outcome, late)
			}
		}
	})
}

func TestWhatNobodyLooksAfterIsFiredByWhoHasTheChores(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		for _, n := range h.Nodes() {
			h.Must(n.Rounds.Drain(h.T.Context(), n.Name, "test", true))
		}
		h.Pass(10 * time.Second)
		h.put("s", "* * * * *")
		h.Until("2026-11-21 10:00:11")
		h.want("s", "10:00:00 fired")
		if views, err := h.firer().Schedules(
			h.T.Context(), store.ScheduleQuery{},
		); err != nil || views[0].Owner != "" {
			t.Errorf("it is looked after: %v, %v", views, err)
		}
	})
}

func TestOutageIsCaughtUpAsThePoliciesSay(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		for _, m := range []task.Misfire{task.MisfireSkip, task.MisfireOnce, task.MisfireAll} {
			h.put(string(m), "*/10 * * * *", misfire(m))
		}
		h.Until("2026-11-21 10:00:30")
		h.Kill("n1")
		h.Until("2026-11-21 10:35:30")
		h.Start("n1")
		h.Until("2026-11-21 10:40:01")
		h.want("skip", "10:00:00 fired", "10:10:00 missed", "10:20:00 missed", "10:30:00 missed",
			"10:40:00 fired")
		h.want("once", "10:00:00 fired", "10:10:00 missed", "10:20:00 missed", "10:30:00 fired",
			"10:40:00 fired")
		h.want("all", "10:00:00 fired", "10:10:00 fired", "10:20:00 fired", "10:30:00 fired",
			"10:40:00 fired")
	})
}

// More due times than one transaction passes over.
func TestVeryLongOutageIsCaughtUpInPieces(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * * *")
		h.Until("2026-11-21 10:00:00")
		h.Kill("n1")
		h.Until("2026-11-22 16:00:00")
		h.Start("n1")
		h.Pass(time.Second)
		late, shared := 0, 0
		for _, f := range h.rows("s") {
			if f.Count > 1 {
				shared++
			}
			if f.Outcome == task.FireFired && lateness(f.At, f.Time) > limits.OnTime {
				late++
			}
		}
		if shared != 2 || late > 0 {
			t.Errorf("%d rows are shared, want 2; %d fired late, want none", shared, late)
		}
	})
}

func TestOverlapSkips(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapSkip))
		h.work("n1", "q", 100*time.Second, finish)
		h.Until("2026-11-21 10:04:30")
		h.want("s", "10:00:00 fired", "10:01:00 skipped", "10:02:00 fired", "10:03:00 skipped",
			"10:04:00 fired")
	})
}

func TestOverlapQueuesInOrder(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapQueue))
		for _, name := range []string{"n1", "n2", "n3"} {
			h.work(name, "q", 150*time.Second, finish)
		}
		h.Until("2026-11-21 10:04:30")
		h.want("s", "10:00:00 fired", "10:01:00 fired", "10:02:00 queued", "10:03:00 queued",
			"10:04:00 queued")
		h.put("s", "0 0 1 1 *", overlap(task.OverlapQueue)) // no more
		h.Until("2026-11-21 10:20:00")
		h.want("s", "10:00:00 fired", "10:01:00 fired", "10:02:00 fired", "10:03:00 fired",
			"10:04:00 fired")
		last := time.Time{}
		for _, f := range h.rows("s") {
			v, err := h.Store.Task(h.T.Context(), f.Task)
			h.Must(err)
			if v.State != task.Done || v.Steps[0].Started.Before(last) {
				t.Errorf("%s: %s, began %v, and the one before ended %v", at(f.At), v.State,
					v.Steps[0].Started, last)
			}
			last = v.Steps[0].Finished
		}
	})
}

func TestWhatWaitsStaysSoWhilePaused(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapQueue))
		h.work("n1", "q", 70*time.Second, finish)
		h.Until("2026-11-21 10:01:05")
		h.want("s", "10:00:00 fired", "10:01:00 queued")
		_, err := h.firer().Pause(h.T.Context(), "s", true)
		h.Must(err)
		h.Until("2026-11-21 10:02:30")
		h.want("s", "10:00:00 fired", "10:01:00 queued", "10:02:00 skipped")
		_, err = h.firer().Pause(h.T.Context(), "s", false)
		h.Must(err)
		h.Until("2026-11-21 10:02:40")
		h.want("s", "10:00:00 fired", "10:01:00 fired", "10:02:00 skipped")
	})
}

func TestOverlapReplaces(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapReplace))
		h.Until("2026-11-21 10:02:30")
		var states []task.State
		for _, v := range h.tasks("q") {
			states = append(states, v.State)
		}
		if !slices.Equal(states, []task.State{task.Cancelled, task.Cancelled, task.Ready}) {
			t.Errorf("tasks are %v", states)
		}
		if n := open(h, "s"); n != 1 {
			t.Errorf("%d fires are open, want 1", n)
		}
	})
}

// open is how many fires of a schedule are open.
func open(h *house, name string) int {
	h.T.Helper()
	list, err := h.Store.OpenFires(h.T.Context(), store.OpenQuery{Schedules: []string{name}})
	h.Must(err)
	return len(list)
}

func TestPausedSchedulesLeaveRows(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *")
		h.Until("2026-11-21 10:00:30")
		v, err := h.firerOf("n2").Pause(h.T.Context(), "s", true)
		h.Must(err)
		if !v.Paused {
			t.Error("it is not paused")
		}
		h.Until("2026-11-21 10:02:30")
		_, err = h.firerOf("n3").Pause(h.T.Context(), "s", false)
		h.Must(err)
		h.Until("2026-11-21 10:03:30")
		h.want("s", "10:00:00 fired", "10:01:00 skipped", "10:02:00 skipped", "10:03:00 fired")
		if _, err := h.firer().Pause(h.T.Context(), "none", true); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("pause of none: %v", err)
		}
	})
}

func TestRunNow(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapSkip), func(e *store.ScheduleEdit) {
			e.Paused = true
		})
		for range 2 { // whatever overlaps
			f, err := h.firer().RunNow(h.T.Context(), "s")
			h.Must(err)
			if f.Outcome != task.FireFired || f.Origin != task.OriginManual ||
				f.Task == (task.ID{}) {
				t.Errorf("%+v", f)
			}
		}
		_, err := h.firer().Pause(h.T.Context(), "s", false)
		h.Must(err)
		h.Until("2026-11-21 10:00:30") // it counts for what comes later
		h.want("s", "09:59:30 fired", "09:59:30 fired", "10:00:00 skipped")
		if _, err := h.firer().RunNow(h.T.Context(), "none"); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("run of none: %v", err)
		}
	})
}

func TestContextThatTheQueueRefusesSkips(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		q := limits.DefaultQueue("small")
		q.ContextLimit = 10
		_, err := h.Live().Tasks.ChangeQueue(h.T.Context(), q.Name, store.Whole(q))
		h.Must(err)
		h.put("large", "* * * * *", inQueue("small"), func(e *store.ScheduleEdit) {
			e.Context = []byte(`"0123456789"`)
		})
		h.put("other", "* * * * *")
		h.Until("2026-11-21 10:01:30")
		h.want("large", "10:00:00 skipped", "10:01:00 skipped")
		h.want("other", "10:00:00 fired", "10:01:00 fired")
		if r := h.rows("large")[0].Reason; !strings.Contains(r, "are more than the 10 that queue") {
			t.Errorf("reason %q", r)
		}
	})
}

// The clocks of Berlin go back on 25 October 2026 at 3:00, and forward on 28 March 2027 at 2:00.
func TestTimesOfDayWhenClocksChange(t *testing.T) {
	berlin := func(e *store.ScheduleEdit) { e.Zone = "Europe/Berlin" }
	for _, c := range []struct{ begin, end, daily, hourly string }{
		{"2026-10-25 00:25:00", "2026-10-25 01:35:00", "2026-10-25T00:30:00Z", "00:30 01:30"},
		{"2027-03-28 00:25:00", "2027-03-28 01:35:00", "2027-03-28T01:00:00Z", "00:30 01:30"},
	} {
		alone(t, c.begin, func(h *house) {
			h.put("daily", "30 2 * * *", berlin)
			h.put("hourly", "30 * * * *", berlin)
			h.Until(c.end)
			list := h.rows("daily")
			if len(list) != 1 || time.UnixMicro(list[0].At).UTC().Format(time.RFC3339) != c.daily {
				t.Errorf("daily at half past two: %v, want %s", h.fires("daily"), c.daily)
			}
			var times []string
			for _, f := range h.rows("hourly") {
				times = append(times, at(f.At)[:5])
			}
			if got := strings.Join(times, " "); got != c.hourly {
				t.Errorf("hourly: %s, want %s", got, c.hourly)
			}
		})
	}
}

// A node's own clock may be anything. One whose idea of the store's runs ahead is refused, and
// fires when it is time.
func TestNothingFiresBeforeItsTimeByTheStoresClock(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "0 0 1 1 *", next(h.us("10:00:00")+500_000)) // between two beats
		h.Until("2026-11-21 10:00:00")
		h.Pass(200 * time.Millisecond)
		h.Jump(-300 * time.Millisecond) // no beat brings word of it before the due time
		h.Pass(500 * time.Millisecond)
		h.want("s")
		h.Pass(200 * time.Millisecond)
		h.want("s", "10:00:00 fired")
	})
}

func TestRunNowThatMeetsAChangeIsMade(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "0 0 1 1 *")
		var fires atomic.Int32
		h.Fail(func(verb string) fault.Fault {
			if verb == "Fire" && fires.Add(1) == 1 {
				if _, err := h.firerOf("n2").Pause(h.T.Context(), "s", true); err != nil {
					t.Error(err)
				}
			}
			return fault.None
		})
		if f, err := h.firerOf("n1").RunNow(h.T.Context(), "s"); err != nil ||
			f.Task == (task.ID{}) {
			t.Errorf("%+v, %v", f, err)
		}
		h.Fail(nil)
		h.want("s", "09:59:30 fired")
	})
}

// A run is made once, also when the answer of the store is lost.
func TestRunNowOfUnknownOutcomeIsMadeOnce(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "0 0 1 1 *")
		h.Fail(fault.Nth(0, fault.After, "Fire"))
		f, err := h.firer().RunNow(h.T.Context(), "s")
		h.Must(err)
		h.want("s", "09:59:30 fired")
		if f.Task != h.rows("s")[0].Task {
			t.Errorf("answered %+v", f)
		}
		h.Fail(fault.Each(fault.After, "Fire"))
		if _, err := h.firer().RunNow(h.T.Context(), "s"); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("while no answer comes: %v", err)
		}
		h.Fail(nil)
		if n := len(h.rows("s")); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
}
