package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// Whoever looks while the store is asked whether tasks may begin never sees more of them run than
// may: not what is held back in a moment, nor what begins twice.
func TestWhatMayNotBeginIsNeverSeenToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		defer h.close()
		h.limit(2, task.Rate{}, 0)
		ids := h.many(5)
		looked, before := 0, int64(0)
		look := func(begun bool) {
			looked++
			want := before
			if begun {
				want = 2
			}
			counts, err := h.d.Counts(h.ctx, "q")
			if err != nil || counts[0].Counts.Running != want || counts[0].Counts.Ready != 5-want {
				t.Errorf("counts %+v, %v, want %d that run", counts, err, want)
			}
			running := store.Filter{Queue: "q", State: task.Running}
			list, _, err := h.d.Tasks(h.ctx, running, task.ID{}, 9)
			if err != nil || int64(len(list)) != want {
				t.Errorf("%d tasks are listed as running, %v, want %d", len(list), err, want)
			}
			runs := int64(0)
			for _, id := range ids {
				if v, err := h.d.Task(h.ctx, id, 0); err != nil {
					t.Error(err)
				} else if v.State == task.Running {
					runs++
				}
			}
			if runs != want {
				t.Errorf("%d tasks say that they run, want %d", runs, want)
			}
		}
		h.door.Before("Begin", func() error {
			look(false)
			return nil
		})
		h.door.After("Begin", func(err error) error {
			look(true)
			return err
		})
		if got := h.hold("w", 5); len(got) != 2 {
			t.Fatalf("%d tasks went out", len(got))
		}
		before = 2
		h.limit(1, task.Rate{}, 0) // the next is tried all the same
		h.holdFor("v", 1, 100*time.Millisecond)
		if looked < 4 {
			t.Errorf("looked %d times", looked)
		}
	})
}
