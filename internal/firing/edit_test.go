package firing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// us is a time of day on the first day of a story, as stores count it.
func (h *house) us(clock string) int64 {
	h.T.Helper()
	at, err := time.Parse(time.DateTime, "2026-11-21 "+clock)
	h.Must(err)
	return at.UnixMicro()
}

func TestEditAtTheVeryDueTimeLosesAndDoublesNothing(t *testing.T) {
	for _, early := range []time.Duration{time.Millisecond, time.Microsecond, 0, -time.Microsecond,
		-5 * time.Millisecond, -50 * time.Millisecond} {
		for what, edit := range map[string]func(h *house){
			"pause": func(h *house) {
				_, err := h.firerOf("n2").Pause(h.T.Context(), "s", true)
				h.Must(err)
			},
			"cron": func(h *house) { h.put("s", "*/2 * * * *") },
			"delete": func(h *house) {
				h.deleted = true
				h.Must(h.firerOf("n3").Delete(h.T.Context(), "s"))
			},
			"next": func(h *house) { h.put("s", "* * * * *", next(h.us("10:00:30"))) },
		} {
			t.Run(fmt.Sprint(what, early), func(t *testing.T) {
				three(t, "2026-11-21 09:59:30", func(h *house) {
					h.put("s", "* * * * *")
					h.Until("2026-11-21 09:59:59")
					time.Sleep(time.Second - early)
					edit(h)
					h.Until("2026-11-21 10:00:20")
					if n := len(h.tasks("q")); n > 1 || what != "delete" &&
						n != len(fired(h, "s")) {
						t.Errorf("%d tasks; fires: %v", n, h.fires("s"))
					}
				})
			})
		}
	}
}

// next chooses the next due time.
func next(at int64) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.First = at }
}

func fired(h *house, name string) (list []store.Fire) {
	h.T.Helper()
	return slices.DeleteFunc(h.rows(name), func(f store.Fire) bool {
		return f.Outcome != task.FireFired
	})
}

func TestEditsHandleWhatIsDueByWhatTheScheduleWas(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/10 * * * *", misfire(task.MisfireAll))
		h.Until("2026-11-21 10:00:30")
		h.Kill("n1")
		h.Until("2026-11-21 10:25:00")
		h.Fail(fault.Each(fault.Before, "Due")) // the rounds see nothing yet
		h.Start("n1")
		h.put("s", "5 * * * *", misfire(task.MisfireAll))
		h.Fail(nil)
		h.Until("2026-11-21 11:10:00")
		h.want("s", "10:00:00 fired", "10:10:00 fired", "10:20:00 fired", "11:05:00 fired")
	})
}

// What was handled stays handled, and is not due again by the new version.
func TestEditAfterTheStoresClockWentBack(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/20 * * * * *")
		h.Until("2026-11-21 10:00:50")
		h.Jump(-time.Minute)
		h.Pass(2 * time.Second)
		h.put("s", "*/10 * * * * *")
		h.Until("2026-11-21 10:01:15")
		h.want("s", "09:59:40 fired", "10:00:00 fired", "10:00:20 fired", "10:00:40 fired",
			"10:00:50 fired", "10:01:00 fired", "10:01:10 fired")
	})
}

// A version holds from when the last one began, at least.
func TestEditsWhileTheStoresClockIsBack(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/20 * * * * *")
		h.Jump(-time.Minute)
		h.Pass(2 * time.Second)
		h.put("s", "*/30 * * * * *")
		h.put("s", "*/15 * * * * *")
		h.Until("2026-11-21 10:00:01")
		h.want("s", "09:59:45 fired", "10:00:00 fired")
	})
}

func TestNextDueTimeCanBeChosen(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "*/10 * * * *", next(h.us("10:05:00")+123)) // whole milliseconds
		if got, err := h.firer().Schedules(
			h.T.Context(), store.ScheduleQuery{},
		); err != nil || got[0].Next != h.us("10:05:00") {
			t.Errorf("next is %v, %v", got, err)
		}
		_, err := h.firer().Pause(h.T.Context(), "s", true) // keeps it
		h.Must(err)
		_, err = h.firer().Pause(h.T.Context(), "s", false)
		h.Must(err)
		h.Until("2026-11-21 10:10:30")
		h.want("s", "10:05:00 fired", "10:10:00 fired")
		h.put("s", "*/10 * * * *", next(h.us("10:05:00"))) // as somebody read it before it came
		h.Until("2026-11-21 10:20:30")
		h.want("s", "10:05:00 fired", "10:10:00 fired", "10:20:00 fired")
	})
}

func TestCalendars(t *testing.T) {
	alone(t, "2026-11-21 23:45:00", func(h *house) {
		f := h.firer()
		created, err := f.PutCalendar(h.T.Context(), task.Calendar{
			Name: "holidays", Skip: []string{"2026-11-22"},
		})
		h.Must(err)
		h.put("s", "*/10 * * * *", func(e *store.ScheduleEdit) { e.Calendar = "holidays" })
		h.Until("2026-11-22 00:15:00")
		again, err := f.PutCalendar(h.T.Context(), task.Calendar{
			Name: "holidays", Skip: []string{"2026-11-23"},
		})
		h.Must(err)
		if !created || again {
			t.Errorf("created %v, then %v", created, again)
		}
		h.Until("2026-11-22 00:25:00")
		h.want("s", "23:50:00 fired", "00:20:00 fired")
		if err := f.DeleteCalendar(h.T.Context(), "holidays"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("delete one in use: %v", err)
		}
	})
}

func TestBadEditsAreRefusedWithThePlace(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("there", "0 * * * *")
		h.put("second", "", after("there"))
		h.put("third", "", after("second"))
		_, err := h.firer().PutCalendar(h.T.Context(), task.Calendar{
			Name: "days", Skip: []string{"2026-12-25"},
		})
		h.Must(err)
		good := store.ScheduleEdit{Schedule: limits.DefaultSchedule("s")}
		good.Cron, good.Queue = "0 * * * *", "q"
		for _, c := range []struct {
			change func(*store.ScheduleEdit)
			where  string
			what   string
		}{
			{func(e *store.ScheduleEdit) {
				e.Cron = "0 25 * * *"
			}, "body.cron", `hour "25" (at 3)`},
			{func(e *store.ScheduleEdit) { e.Cron = "0 0 30 2 *" }, "body.cron", "never"},
			{func(e *store.ScheduleEdit) {
				e.Cron = strings.Repeat("0", 10_000)
			}, "body.cron", "at most"},
			{func(e *store.ScheduleEdit) { e.Cron = "" }, "body.cron", "missing"},
			{func(e *store.ScheduleEdit) {
				e.Zone = "Mars/Base"
			}, "body.zone", `"Mars/Base" is no time zone`},
			{func(e *store.ScheduleEdit) { e.Zone = "Local" }, "body.zone", "no time zone"},
			{func(e *store.ScheduleEdit) {
				e.Calendar = "none"
			}, "body.calendar", `no calendar "none"`},
			{after("none"), "body.after", `no schedule "none"`},
			{func(e *store.ScheduleEdit) {
				e.Name, e.Cron, e.After = "there", "", "second"
			}, "body.after", "makes a circle: there after"},
			{func(e *store.ScheduleEdit) {
				e.Name, e.Cron, e.After = "there", "", "third"
			}, "body.after", "makes a circle: there after"},
			{after("s"), "body.after", "itself"},
			{func(e *store.ScheduleEdit) {
				e.Cron, e.After, e.Calendar = "", "there", "days"
			}, "body.calendar", "is for schedules with cron"},
			{next(1e6), "body.next", "not in the future"},
			{func(e *store.ScheduleEdit) {
				e.First, e.Ends = h.us("10:30:00"), time.UnixMicro(h.us("10:20:00"))
			}, "body.next", "not between"},
			{func(e *store.ScheduleEdit) {
				e.First, e.Starts = h.us("10:30:00"), time.UnixMicro(h.us("10:40:00"))
			}, "body.next", "not between"},
			{func(e *store.ScheduleEdit) { e.Queue = "" }, "body.queue", "must be"},
			{func(e *store.ScheduleEdit) {
				e.MisfireWindow = -1
			}, "body.misfire_window", "must be"},
			{func(e *store.ScheduleEdit) {
				e.Jitter.Max = 25 * time.Hour
			}, "body.jitter", "must be"},
		} {
			e := good
			c.change(&e)
			_, err := h.firer().Put(h.T.Context(), e)
			refused(t, err, c.where, c.what)
			_, err = h.firer().Put(h.T.Context(), good, e)
			refused(t, err, strings.Replace(c.where, "body.", "body.schedules[1].", 1), c.what)
		}
		bad := good
		bad.Cron, bad.Zone, bad.Queue = "0 25 * * *", "Mars/Base", "" // all at once
		_, err = h.firer().Put(h.T.Context(), bad)
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 3 {
			t.Errorf("three faults: %v", err)
		}
		many := make([]store.ScheduleEdit, limits.MaxSchedules+1)
		_, err = h.firer().Put(h.T.Context(), many...)
		refused(t, err, "body.schedules", "too many")
		_, err = h.firer().PutCalendar(h.T.Context(), task.Calendar{
			Name: "c", Skip: []string{"2026-02-30"},
		})
		refused(t, err, "body.skip", "2026-02-30")
		if list, err := h.Store.Schedules(
			h.T.Context(), store.ScheduleQuery{},
		); err != nil || len(list) != 3 {
			t.Errorf("schedules are %v, %v", list, err)
		}
	})
}

// refused checks that an error names one place, and says what is wrong.
func refused(t *testing.T, err error, where, what string) {
	t.Helper()
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) {
		t.Errorf("error %v, want one about %s", err, where)
		return
	}
	if f := invalid.Fields[0]; len(invalid.Fields) != 1 || f.Location != where ||
		!strings.Contains(f.Message, what) {
		t.Errorf("refused: %v, want %q at %s", invalid.Fields, what, where)
	}
}

func TestSameEditTwiceChangesNothing(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		first := h.put("s", "* * * * *")
		h.Until("2026-11-21 10:00:30")
		second := h.put("s", "* * * * *")
		if !first.Created || second.Created || second.Version != first.Version ||
			second.Owner == "" {
			t.Errorf("first %+v, then %+v", first, second)
		}
	})
}
