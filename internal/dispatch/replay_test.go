package dispatch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestDeadTaskBeginsAgainWhereTheReplaySays(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q", Stage: "fetch", Context: []byte("1")})[0]
		next := func(stage, context string) task.Outcome {
			o := task.Next(stage, nil)
			o.Context = []byte(context)
			return o
		}
		h.report("w", h.one("w"), next("parse", "2"), task.Recorded)
		changed := task.Retry(errHiccup)
		changed.Context = []byte("3")
		h.report("w", h.one("w"), changed, task.Recorded)
		time.Sleep(2 * time.Second)
		h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
		for _, c := range []struct {
			from           store.Replay
			stage, context string
		}{
			{store.Replay{}, "parse", "3"}, {store.Replay{Stage: new("parse")}, "parse", "2"},
			{store.Replay{Stage: new("fetch")}, "fetch", "1"},
			{store.Replay{Whole: true}, "fetch", "1"},
		} {
			if err := h.d.Replay(h.ctx, "me", id, c.from); err != nil {
				t.Fatal(err)
			}
			x := h.one("w")
			if x.Stage != c.stage || string(x.Context) != c.context || x.Attempt != 1 {
				t.Errorf("%+v begins in stage %q with context %s at attempt %d", c.from, x.Stage,
					x.Context, x.Attempt)
			}
			h.report("w", x, task.Fail(errHiccup), task.Recorded)
		}
	})
}

func TestReplaySaysWhyItCantBe(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		refused := func(id task.ID, from store.Replay, want error, says string) {
			t.Helper()
			if err := h.d.Replay(h.ctx, "me", id, from); !errors.Is(err, want) ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v", from, err)
			}
		}
		refused(id, store.Replay{Whole: true}, store.ErrConflict, "is ready")
		h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
		refused(id, store.Replay{Stage: new("sleep")}, store.ErrConflict,
			`never was in stage "sleep"`)
		refused(task.ID{Batch: id.Batch + 1}, store.Replay{Whole: true}, store.ErrNotFound, "")
		h.state(id, task.Dead)
	})
}
