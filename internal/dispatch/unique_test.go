package dispatch

import (
	"errors"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What lies in this node's memory of a task that was replaced never reaches a worker.
func TestReplacedTaskGoesOutAsItWasReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		only := func(text string, how task.OnExisting) (task.Receipt, error) {
			list, err := h.d.Submit(h.ctx, []task.Submission{
				{Queue: "q", Context: []byte(text),
					Unique: &task.Unique{Key: "k"}, OnExisting: how},
			})
			if err != nil {
				return task.Receipt{}, err
			}
			return list[0], nil
		}
		h.many(1)
		h.one("w") // from now on a worker waits, and the queue is held here
		first, err := only(`"old"`, "")
		if err != nil || first.Action != task.SubmittedCreated {
			t.Fatalf("first: %+v, %v", first, err)
		}
		next, err := only(`"new"`, task.OnExistingReplace)
		want := task.Receipt{ID: first.ID, Existing: true, Action: task.SubmittedReplaced}
		if err != nil || next != want {
			t.Fatalf("second: %+v (%v), want %+v", next, err, want)
		}
		if _, err := only(`"never"`, task.OnExistingRefuse); !errors.Is(err, store.ErrConflict) {
			t.Errorf("refused: %v, want a conflict", err)
		}
		x := h.one("w")
		if x.ID != first.ID || string(x.Context) != `"new"` {
			t.Errorf("handed out %v with %s", x.ID, x.Context)
		}
		if got, err := only(`"late"`, task.OnExistingDebounce); err != nil ||
			got.Action != task.SubmittedKept {
			t.Errorf("of one that runs: %+v, %v", got, err)
		}
		h.done("w", x)
		if got, err := only(`"again"`, task.OnExistingRefuse); err != nil ||
			got.Action != task.SubmittedCreated || got.ID == first.ID {
			t.Errorf("when it is done: %+v, %v", got, err)
		}
	})
}
