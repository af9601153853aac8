package firing

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

func onDead(d task.OnDead) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.OnDead = d }
}

func manual(e *store.ScheduleEdit) { e.Cron, e.Manual = "", true }

// stopped reads whether a schedule is paused.
func (h *house) stopped(name string) bool {
	h.T.Helper()
	list, err := h.Store.Schedules(h.T.Context(), store.ScheduleQuery{Names: []string{name}})
	h.Must(err)
	return list[0].Paused
}

func TestDeathStopsTheScheduleAndWhatFollows(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("lead", "* * * * *", onDead(task.OnDeadStop))
		h.put("follow", "", after("lead"), inQueue("f"))
		h.put("clean", "", after("lead"), inQueue("f"), on(task.AfterFailed))
		var ill atomic.Bool
		h.work("n1", "q", time.Second, func(task.Handout) task.Outcome {
			if ill.Load() {
				return task.Fail(errors.New("no disk"))
			}
			return task.Finish(nil)
		})
		h.work("n2", "f", time.Second, finish)
		h.Until("2026-11-21 10:00:30")
		ill.Store(true)
		h.Until("2026-11-21 10:02:30")
		h.want("lead", "10:00:00 fired", "10:01:00 fired", "10:02:00 skipped")
		h.want("follow", "10:00:00 fired", "10:01:00 skipped")
		h.want("clean", "10:00:00 skipped", "10:01:00 fired")
		texts := h.Events(EventStopped)
		if len(texts) != 1 || !strings.Contains(texts[0], "schedule lead is paused") ||
			!strings.Contains(texts[0], "no disk; rota schedule resume") {
			t.Errorf("told %q", texts)
		}
		ill.Store(false)
		_, err := h.firer().Pause(h.T.Context(), "lead", false)
		h.Must(err)
		h.Until("2026-11-21 10:03:30")
		if h.stopped("lead") {
			t.Error("it is paused again, and nothing died")
		}
		h.want("follow", "10:00:00 fired", "10:01:00 skipped", "10:03:00 fired")
	})
}

// Whoever is late, and whichever write fails, a death pauses its schedule once: who resumed it is
// not overruled.
func TestDeathStopsOnceWhoeverIsLate(t *testing.T) {
	for n := range story.Often(8, 2) {
		for _, kind := range []fault.Fault{fault.Before, fault.After} {
			t.Run(fmt.Sprint(n, kind), func(t *testing.T) {
				three(t, "2026-11-21 09:59:30", func(h *house) {
					h.put("s", "* * * * *", onDead(task.OnDeadStop))
					var ill atomic.Bool
					ill.Store(true)
					h.work("n1", "q", time.Second, func(task.Handout) task.Outcome {
						if ill.Load() {
							return task.Fail(errors.New("no disk"))
						}
						return task.Finish(nil)
					})
					h.crowded(uint64(n), fault.Nth(n, kind, "ChangeSchedules", closeFires, "Fire"), "s")
					for range 300 {
						if h.Pass(100 * time.Millisecond); h.stopped("s") {
							break
						}
					}
					h.Until("2026-11-21 10:00:20")
					ill.Store(false)
					if !h.stopped("s") {
						h.T.Fatal("it is not paused, and its task is dead")
					}
					for range 20 { // a write may fail
						_, err := h.firer().Pause(h.T.Context(), "s", false)
						if err == nil {
							break
						}
					}
					h.Until("2026-11-21 10:03:30")
					if h.stopped("s") || len(h.Events(EventStopped)) != 1 {
						h.T.Errorf("paused %v, told %q", h.stopped("s"), h.Events(EventStopped))
					}
					h.Fail(nil)
					h.Pass(5 * time.Second)
				})
			})
		}
	}
}

// A schedule is paused in the transaction that closes the fire: no write is left that could be
// late.
func TestDeathStopsOnceThoughNoFireCanBeClosed(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", onDead(task.OnDeadStop))
		h.work("n1", "q", time.Second, func(task.Handout) task.Outcome {
			return task.Fail(errors.New("no disk"))
		})
		h.Fail(fault.Each(fault.Before, closeFires))
		h.Until("2026-11-21 10:00:10")
		if !h.stopped("s") {
			t.Fatal("it is not paused, and its task is dead")
		}
		_, err := h.firer().Pause(h.T.Context(), "s", false)
		h.Must(err)
		h.Until("2026-11-21 10:00:50")
		if h.stopped("s") || open(h, "s") > 0 {
			t.Errorf("paused again %v, %d open", h.stopped("s"), open(h, "s"))
		}
		h.Fail(nil)
	})
}

func TestManualSchedulesRunWhenSomebodySaysSo(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", misfire(task.MisfireSkip))
		h.Until("2026-11-21 10:00:10")
		_, err := h.firer().Pause(h.T.Context(), "s", true)
		h.Must(err)
		h.Until("2026-11-21 10:01:10")
		if is := h.put("s", "", manual); is.Next != store.Never {
			t.Errorf("it is due at %d", is.Next)
		}
		h.Until("2026-11-21 10:05:00")
		h.want("s", "10:00:00 fired", "10:01:00 skipped")
		// what it left out when it had due times can be fired
		got, err := h.firer().Backfill(h.T.Context(), "s", store.BackfillRequest{
			From: h.us("09:00:00"), To: h.us("10:04:00"),
		})
		h.Must(err)
		if len(got.Times) != 1 || got.Fired != 1 {
			t.Errorf("backfilled %+v", got)
		}
		_, err = h.firer().RunNow(h.T.Context(), "s")
		h.Must(err)
		h.want("s", "10:00:00 fired", "10:01:00 fired", "10:05:00 fired")
		h.Pass(time.Second)
		a, err := h.firer().Audit(h.T.Context(), "s", 0, 0)
		h.Must(err)
		if !a.Complete() || a.Demanded != 2 || a.Aside != 1 {
			t.Errorf("audit %+v", a)
		}
		for what, change := range map[string]func(*store.ScheduleEdit){
			"body.next":     func(e *store.ScheduleEdit) { manual(e); e.First = h.us("10:30:00") },
			"body.calendar": func(e *store.ScheduleEdit) { manual(e); e.Calendar = "none" },
		} {
			var wrong *task.InvalidError
			if err := put(h, h.firer(), "s", "", change); !errors.As(err, &wrong) ||
				wrong.Fields[0].Location != what {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestRunIsShownWithTheStatesOfItsTasks(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("load", "* * * * *")
		h.put("good", "", after("load"), inQueue("good"))
		h.put("bad", "", after("load"), inQueue("bad"))
		h.put("both", "", after("good,bad"), inQueue("good"))
		h.put("waits", "", after("good"), inQueue("nobody"))
		h.work("n1", "q", time.Second, finish)
		h.work("n1", "good", 2*time.Second, finish)
		h.work("n1", "bad", time.Second, func(task.Handout) task.Outcome {
			return task.Fail(errors.New("no disk"))
		})
		h.Until("2026-11-21 10:00:30")
		for _, name := range []string{"load", "both"} { // any of its fires finds it
			run, err := h.firer().RunOf(h.T.Context(), name, h.us("10:00:00"))
			h.Must(err)
			var got []string
			for i := range run.Fires {
				f := &run.Fires[i]
				under := "-"
				if f.Under >= 0 {
					under = run.Fires[f.Under].Schedule
				}
				text := fmt.Sprintf("%s %s %s %s", f.Schedule, f.Outcome, f.State, under)
				if f.State.Final() && (f.Began.IsZero() || f.Finished.Before(f.Began)) {
					t.Errorf("%s began %v, finished %v", f.Schedule, f.Began, f.Finished)
				}
				got = append(got, text)
			}
			want := "load fired done -, bad fired dead load, good fired done load, " +
				"waits fired ready good, both skipped  good"
			alike := "load fired done -, bad fired dead load, good fired done load, " +
				"both skipped  good, waits fired ready good"
			if text := strings.Join(got, ", "); text != want && text != alike ||
				!run.Whole || run.Root.Schedule != "load" {
				t.Errorf("%s: %q of %+v, want %q", name, text, run.Root, want)
			}
		}
		for at, want := range map[int64]error{
			h.us("10:00:00"): nil, h.us("10:00:00") + 1: store.ErrNotFound,
			h.us("09:59:59"): store.ErrNotFound,
		} {
			if _, err := h.firer().RunOf(h.T.Context(), "load", at); !errors.Is(err, want) {
				t.Errorf("the run at %d: %v, want %v", at, err, want)
			}
		}
		f, err := h.firer().RunNow(h.T.Context(), "load")
		h.Must(err)
		if run, err := h.firer().RunOf(h.T.Context(), "load", f.At/1000*1000); err != nil ||
			run.Root.At != f.At {
			t.Errorf("the run by hand, found by its millisecond: %+v, %v", run.Root, err)
		}
	})
}

// Whatever keeps one schedule from being stopped keeps no other one waiting: what waits for its
// turn is fired.
func TestScheduleThatCannotBeStoppedHoldsUpNoOther(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("ill", "0 10 * * *", onDead(task.OnDeadStop))
		h.put("line", "* * * * *", inQueue("l"), atOnce(1, task.OverlapQueue))
		h.work("n1", "q", time.Second, func(task.Handout) task.Outcome {
			return task.Fail(errors.New("no disk"))
		})
		h.work("n1", "l", 70*time.Second, finish)
		h.Fail(fault.Each(fault.Before, "ChangeSchedules"))
		h.Until("2026-11-21 10:01:15")
		h.want("line", "10:00:00 fired", "10:01:00 fired")
		h.Fail(nil)
		h.Pass(5 * time.Second)
		if !h.stopped("ill") {
			t.Error("it is not stopped when it can be")
		}
	})
}
