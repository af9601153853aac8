package firing

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// What is told of each due time says how late it was fired, by the store's clock, once.
func TestEachDueTimeIsToldWithHowLateItWas(t *testing.T) {
	alone(t, "2026-03-01 10:00:30", func(h *house) {
		overdue := func(want time.Duration) {
			h.T.Helper()
			got, err := h.firer().Overdue(h.T.Context())
			h.Must(err)
			if got < want || got > want+beat {
				t.Errorf("%v after the earliest due time, want %v", got, want)
			}
		}
		h.put("s", "* * * * *")
		h.put("later", "0 12 * * *")
		overdue(0)
		h.Until("2026-03-01 10:01:01")
		overdue(0)
		h.Fail(fault.Each(fault.Before, "Fire"))
		h.Until("2026-03-01 10:02:20")
		overdue(20 * time.Second)
		h.Fail(nil)
		h.Until("2026-03-01 10:02:50")
		overdue(0)
		_, err := h.firer().Pause(h.T.Context(), "s", true)
		h.Must(err)
		h.Until("2026-03-01 10:03:01")
		var told []string
		for _, f := range h.handled {
			late := time.Duration(f.Time-f.At) * time.Microsecond
			told = append(told, fmt.Sprint(at(f.At), " ", f.Outcome, " ",
				late.Truncate(2*time.Second)))
		}
		want := fmt.Sprint([]string{
			"10:01:00 " + string(task.FireFired) + " 0s",
			"10:02:00 " + string(task.FireFired) + " 20s",
			"10:03:00 " + string(task.FireSkipped) + " 0s",
		})
		if got := fmt.Sprint(told); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}
