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
				h, h.nodes["n1"].firer, "s", "0 0 1 1 *", from(version),
			); !errors.Is(err, store.ErrStale) {
				t.Errorf("%s: %v, want %v", what, err, store.ErrStale)
			}
		}
		h.must(put(h, h.nodes["n1"].firer, "s", "* * * * *", from(store.FromNone)))
		made := h.version("s")
		refused("made by another", store.FromNone)
		if _, err := h.nodes["n2"].firer.Pause(t.Context(), "s", true); err != nil {
			t.Fatal(err)
		}
		refused("paused by another", made)
		h.pass(90e9) // a schedule that was fired is what it was
		h.must(put(h, h.nodes["n1"].firer, "s", "*/2 * * * *", from(h.version("s"))))
		last := h.version("s")
		h.deleted = true
		h.must(h.nodes["n3"].firer.Delete(t.Context(), "s"))
		refused("deleted by another", last)
		h.put("s", "* * * * *")
		refused("deleted, and made anew", last)
	})
}

func (h *house) version(name string) int64 {
	h.t.Helper()
	list, err := h.store.Schedules(h.t.Context(), store.ScheduleQuery{Names: []string{name}})
	h.must(err)
	return list[0].Version
}
