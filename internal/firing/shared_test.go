package firing

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// longMiss is an every-second schedule s of which a shared row stands for 10:00:01 to 10:42:19, and
// nothing is due any more.
func longMiss(h *house) {
	h.T.Helper()
	h.put("s", "* * * * * *", misfire(task.MisfireSkip))
	h.Kill("n1")
	h.Until("2026-11-21 11:00:00")
	h.Start("n1")
	h.Pass(5 * time.Second)
	h.put("s", "* * * * * *", func(e *store.ScheduleEdit) { e.Paused = true })
	if f := h.rows("s")[0]; f.Count < 2000 {
		h.T.Fatalf("no shared row: %+v", f)
	}
}

func (h *house) refill(f *Firer, from, to string, limit int) error {
	h.T.Helper()
	_, err := f.Backfill(h.T.Context(), "s", store.BackfillRequest{
		From: h.us(from), To: h.us(to), Limit: limit,
	})
	return err
}

// What is backfilled out of the middle of a shared row, and then from its beginning, leaves a row
// for all the others.
func TestBackfillsOutOfASharedRowInAnyOrderLeaveNoHole(t *testing.T) {
	for what, limit := range map[string]int{"at once": 0, "some wait": 1} {
		t.Run(what, func(t *testing.T) {
			alone(t, "2026-11-21 10:00:00", func(h *house) {
				longMiss(h)
				h.Must(h.refill(h.firer(), "10:00:05", "10:00:10", limit))
				h.Must(h.refill(h.firer(), "10:00:01", "10:00:05", limit))
				n := 0
				for _, f := range h.rows("s")[:10] {
					if f.Outcome == task.FireFired || f.Outcome == task.FireQueued {
						n++
					}
				}
				if n != 9 {
					t.Errorf("%d of 9 are fired or wait: %v", n, h.fires("s")[:10])
				}
			})
		})
	}
}

// A shared row is split by what the schedule was when its due times passed, not by what it is.
func TestBackfillByAnotherExpressionLeavesASharedRowsDueTimes(t *testing.T) {
	alone(t, "2026-11-21 09:59:59", func(h *house) {
		longMiss(h)
		h.put("s", "0 * * * *", func(e *store.ScheduleEdit) { e.Paused = true })
		h.Must(h.refill(h.firer(), "10:00:00", "11:00:00", 0))
	})
}

// A node that dies between the transactions of a large backfill leaves a row for every due time.
func TestBackfillThatIsBrokenOffLeavesNoHole(t *testing.T) {
	alone(t, "2026-11-21 10:00:00", func(h *house) {
		longMiss(h)
		fires := 0
		h.Fail(func(verb string) fault.Fault {
			if verb == "Fire" {
				fires++
				if fires > 1 {
					return fault.Before
				}
			}
			return fault.None
		})
		if err := h.refill(h.firer(), "10:00:01", "10:40:00", 0); err == nil {
			t.Error("the backfill was not broken off")
		}
		h.Fail(nil)
	})
}

// What an earlier try fired, of which nobody knew the outcome, is told of as fired by this
// backfill.
func TestBackfillThatIsDoneAgainAnswersAllOfIt(t *testing.T) {
	alone(t, "2026-11-21 10:00:00", func(h *house) {
		longMiss(h)
		fires := 0
		h.Fail(func(verb string) fault.Fault {
			if verb == "Fire" {
				fires++
				if 1 < fires && fires < 5 {
					return fault.After
				}
			}
			return fault.None
		})
		got, err := h.firer().Backfill(h.T.Context(), "s", store.BackfillRequest{
			From: h.us("10:00:01"), To: h.us("10:40:00"),
		})
		h.Fail(nil)
		if err != nil || len(got.Times) != 2399 || got.Fired != 0 {
			t.Errorf("%d times, %d fired before, %v", len(got.Times), got.Fired, err)
		}
	})
}

// Two people ask two nodes for the same, or for what overlaps, at once: each due time is fired
// once, and none loses its row.
func TestBackfillsAtOnceFireEachDueTimeOnce(t *testing.T) {
	for what, other := range map[string][2]string{"the same": {"10:00:01", "10:30:00"},
		"its middle": {"10:00:30", "10:01:00"}, "around it": {"09:59:00", "10:50:00"}} {
		for _, limit := range []int{0, 1} {
			t.Run(fmt.Sprint(what, limit), func(t *testing.T) {
				alone(t, "2026-11-21 10:00:00", func(h *house) {
					longMiss(h)
					h.StartOne("n2")
					fires := 0
					h.Fail(func(verb string) fault.Fault {
						if verb == "Fire" {
							if fires++; fires == 2 {
								h.Must(h.refill(h.firerOf("n2"), other[0], other[1], limit))
							}
						}
						return fault.None
					})
					h.Must(h.refill(h.firerOf("n1"), "10:00:01", "10:30:00", limit))
					h.Fail(nil)
					done := 0
					for _, f := range h.rows("s") {
						if f.At >= h.us("10:00:01") && f.At < h.us("10:30:00") &&
							(f.Outcome == task.FireFired || f.Outcome == task.FireQueued) {
							done++
						}
					}
					if done != 1799 {
						t.Errorf("%d of 1799 are fired or wait", done)
					}
				})
			})
		}
	}
}
