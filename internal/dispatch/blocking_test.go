package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// However a task of a key in order ends, the next one begins at once and waits for no round.
func TestTheNextOfAKeyInOrderWaitsForNoRound(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, h *house, x task.Handout){
		"done": func(_ *testing.T, h *house, x task.Handout) { h.done("w", x) },
		"cancelled": func(t *testing.T, h *house, x task.Handout) {
			if err := h.d.Act(h.ctx, task.KindCancelled, "ann", x.ID); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.perKey(1)
				h.keyed("a", 1)
				h.keyed("a", 1)
				x := h.one("w")
				got := h.waits("v", 1)
				time.Sleep(3300 * time.Millisecond)
				synctest.Wait()
				at := time.Now()
				end(t, h, x)
				if next := <-got; len(next) != 1 || time.Since(at) > 100*time.Millisecond {
					t.Errorf("%v after %v", next, time.Since(at))
				}
			})
		})
	}
}
