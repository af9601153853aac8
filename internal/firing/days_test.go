package firing

import (
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// A calendar that another node replaces while a schedule is put that is to have it: the schedule is
// due by the days that it gets.
func TestScheduleIsDueByTheDaysThatItsCalendarHasWhenItIsPut(t *testing.T) {
	three(t, "2026-11-21 23:53:00", func(h *house) {
		days := func(day string) {
			_, err := h.firerOf("n2").PutCalendar(t.Context(), task.Calendar{
				Name: "days", Skip: []string{day},
			})
			h.Must(err)
		}
		days("2026-11-24")
		h.put("s", "*/5 * * * *")
		done := false
		h.Fail(func(verb string) fault.Fault {
			if verb == "ChangeSchedules" && !done {
				done = true
				days("2026-11-21")
			}
			return fault.None
		})
		h.put("s", "*/5 * * * *", func(e *store.ScheduleEdit) { e.Calendar = "days" })
		h.Fail(nil)
		h.Until("2026-11-22 00:07:00")
		h.want("s", "00:00:00 fired", "00:05:00 fired")
	})
}
