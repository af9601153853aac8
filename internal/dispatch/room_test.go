package dispatch

import (
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestContextsForWhichThereIsNoRoomAreGivenBackUnrun(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		large := []byte(`"` + strings.Repeat("x", 2*store.InlineLimit) + `"`)
		ids := h.submit(
			task.Submission{Queue: "q", Context: large},
			task.Submission{Queue: "q", Context: large}, task.Submission{Queue: "q"},
		)
		// for one of them, before anybody knows how large it is
		room := int64(limits.DefaultContextLimit)
		var asked []int64
		hold := func() []task.Handout {
			a, err := h.d.Hold(h.ctx,
				task.HoldRequest{Worker: "w", Queues: []string{"q"}, Room: func(n int64) bool {
					asked = append(asked, n)
					if room < n {
						return false
					}
					room -= n
					return true
				}})
			if err != nil {
				t.Fatal(err)
			}
			a.Written()
			return a.Tasks
		}
		got := hold()
		if len(got) != 2 || string(got[0].Context) != string(large) || got[1].ID != ids[2] {
			t.Fatalf("%d tasks came, want the first large one and the small one", len(got))
		}
		const most = limits.DefaultContextLimit
		if want := int64(most - len(large)); room != want || len(asked) != 3 || asked[0] != most ||
			asked[1] != -want || asked[2] != most {
			t.Errorf("room %d after it was asked for %v", room, asked)
		}
		h.state(ids[1], task.Ready)
		if v := h.view(ids[1]); len(v.Steps) != 0 || v.Attempt != 1 {
			t.Errorf("the one without room was charged: %+v", v)
		}
		room = 1 << 30
		if got := hold(); len(got) != 1 || got[0].ID != ids[1] || got[0].Attempt != 1 {
			t.Errorf("when there was room %d tasks came", len(got))
		}
	})
}

func TestAwaitEndsWithTheTaskOrItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		begin := time.Now()
		if err := h.d.Await(h.ctx, id, 7*time.Second); err != nil ||
			time.Since(begin) != 7*time.Second {
			t.Errorf("of a task that nobody runs: %v after %v", err, time.Since(begin))
		}
		handout := h.one("w")
		begin = time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			h.report("w", handout, task.Finish(nil), task.Recorded)
		})
		if err := h.d.Await(h.ctx, id, time.Minute); err != nil || time.Since(begin) > time.Second {
			t.Errorf("of a task that ended: %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		for _, id := range []task.ID{id, {Batch: id.Batch, N: 77}} { // final; none at all
			if err := h.d.Await(h.ctx, id, time.Minute); err != nil || time.Since(begin) != 0 {
				t.Errorf("of %v: %v after %v", id, err, time.Since(begin))
			}
		}
	})
}
