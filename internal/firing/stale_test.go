package firing

import (
	"errors"
	"testing"

	"github.com/rotahq/rota/internal/store"
)

// An edit that was made from one version changes no other: what others changed meanwhile stays,
// also when it made or deleted the schedule.
func TestEditOfAVersionIsRefusedWhenItIsAnother(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		from := func(version int64) func(*store.ScheduleEdit) {
			return func(e *store.ScheduleEdit) { e.From = version }
		}
		refused := func(what string, version int64) {
			t.Helper()
			if err := put(
				h, h.firerOf("n1"), "s", "0 0 1 1 *", from(version),
			); !errors.Is(err, store.ErrStale) {
				t.Errorf("%s: %v, want %v", what, err, store.ErrStale)
			}
		}
		h.Must(put(h, h.firerOf("n1"), "s", "* * * * *", from(store.FromNone)))
		made := h.version("s")
		refused("made by another", store.FromNone)
		if _, err := h.firerOf("n2").Pause(t.Context(), "s", true); err != nil {
			t.Fatal(err)
		}
		refused("paused by another", made)
		h.Pass(90e9) // a schedule that was fired is what it was
		h.Must(put(h, h.firerOf("n1"), "s", "*/2 * * * *", from(h.version("s"))))
		last := h.version("s")
		h.deleted = true
		h.Must(h.firerOf("n3").Delete(t.Context(), "s"))
		refused("deleted by another", last)
		h.put("s", "* * * * *")
		refused("deleted, and made anew", last)
	})
}

func (h *house) version(name string) int64 {
	h.T.Helper()
	list, err := h.Store.Schedules(h.T.Context(), store.ScheduleQuery{Names: []string{name}})
	h.Must(err)
	return list[0].Version
}
