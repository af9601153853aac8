package firing

import (
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// The store's clock is an hour ahead for a minute. What it said was due was due: it is fired, or
// missed, as the schedule says, with a row for each due time. When the clock is set right none of
// that happens again, and nothing is left out: the schedules wait for the first due time without a
// row. What is to be done all the same, a person lets be done.
func TestClockThatStepsForwardAndBackFiresNothingTwiceAndLeavesNothingOut(t *testing.T) {
	houses := []func(*testing.T, string, func(*house)){alone, three}
	for _, nodes := range houses[:story.Often(2, 1)] {
		nodes(t, "2026-11-21 10:05:00", func(h *house) {
			h.put("once", "*/20 * * * *", misfire(task.MisfireOnce))
			h.put("all", "*/20 * * * *", misfire(task.MisfireAll), inQueue("all"))
			h.put("skip", "*/20 * * * *", misfire(task.MisfireSkip), inQueue("skip"))
			h.Until("2026-11-21 10:20:30")
			h.Jump(time.Hour)
			h.Until("2026-11-21 11:22:00")
			h.Jump(-time.Hour)
			h.Until("2026-11-21 11:39:59")
			first := map[string][]string{}
			for _, name := range []string{"once", "all", "skip"} {
				first[name] = h.fires(name)
				if n := len(first[name]); n == 0 || first[name][0] != "10:20:00 fired" ||
					rowsUpTo(h, name) != 4 {
					t.Errorf("%s: rows %q", name, first[name])
				}
			}
			h.Until("2026-11-21 11:40:01")
			for name, rows := range first { // what waited goes on where the rows end
				h.want(name, append(slices.Clone(rows), "11:40:00 fired")...)
			}
			if !slices.Equal(first["all"],
				[]string{"10:20:00 fired", "10:40:00 fired", "11:00:00 fired", "11:20:00 fired"}) {
				t.Errorf("all: %q", first["all"])
			}

			skipped := 4 - count(first["skip"], "fired")
			got, err := h.firer().Backfill(t.Context(), "skip", store.BackfillRequest{
				From: micros(t, "2026-11-21 10:20:01"), To: micros(t, "2026-11-21 11:39:00"),
			})
			h.Must(err)
			if len(got.Times) != skipped || skipped == 0 {
				t.Errorf("a person lets %d due times be fired after all, want %d", len(got.Times),
					skipped)
			}
			for queue, name := range map[string]string{"q": "once", "all": "all", "skip": "skip"} {
				fired := 0
				for _, f := range h.rows(name) {
					if f.Outcome == task.FireFired {
						fired++
					}
				}
				if tasks := len(h.tasks(queue)); tasks != fired {
					t.Errorf("%s: %d tasks of %d fires", name, tasks, fired)
				}
			}
		})
	}
}

// rowsUpTo counts the due times that have a row.
func rowsUpTo(h *house, name string) (n int) {
	for _, f := range h.rows(name) {
		n += int(max(f.Count, 1))
	}
	return n
}

func count(fires []string, outcome string) (n int) {
	for _, f := range fires {
		if len(f) > 9 && f[9:] == outcome {
			n++
		}
	}
	return n
}

func micros(t *testing.T, clock string) int64 {
	t.Helper()
	at, err := time.Parse(time.DateTime, clock)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}
