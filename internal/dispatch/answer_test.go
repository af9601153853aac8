package dispatch

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A hand-out whose context can't be read ends, also where the store fails when that is to be
// written down: no worker was told of it, so none reports it.
func TestAHandOutWhoseContextCannotBeReadEndsThoughTheStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("w", "1", 5)
		large := `"` + strings.Repeat("x", store.InlineLimit) + `"`
		id := h.submit(task.Submission{Queue: "q", Context: []byte(large)})[0]
		h.door.Answer("Value", fmt.Errorf("no such file: %w", fs.ErrNotExist))
		h.door.Answer(settleReports, store.ErrBusy)
		if got := h.hold("w", 1); len(got) != 0 {
			t.Fatalf("it was handed out: %+v", got)
		}
		time.Sleep(100 * time.Millisecond)
		h.door.Answer(settleReports, nil)
		h.door.Answer("Value", nil)
		got := h.holdFor("w", 1, 5*time.Second)
		if len(got) != 1 || got[0].ID != id {
			t.Fatalf("%d tasks were handed out; it is %s", len(got), h.view(id).State)
		}
		h.report("w", got[0], task.Finish(nil), task.Recorded)
	})
}
