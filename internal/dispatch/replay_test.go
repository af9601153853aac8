package dispatch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
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
			if err := h.replay("me", id, c.from); err != nil {
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

// One call about many tasks is about the dead ones, unless its filter says otherwise.
func TestReplayOfManyIsOfDeadTasksUnlessItSaysOtherwise(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(6)
		for i := range 6 {
			o := []task.Outcome{task.Finish(nil), task.Fail(errHiccup)}[i%2]
			if x := h.one("w"); i < 4 {
				h.report("w", x, o, task.Recorded)
			} else if err := h.d.Act(h.ctx, task.KindCancelled, "me", x.ID); err != nil {
				t.Fatal(err)
			}
		}
		h.counts(task.Counts{Done: 2, Dead: 2, Cancelled: 2})
		all := func(f store.Filter, dry bool, matched, changed int64) {
			t.Helper()
			got, err := h.d.ActAll(h.ctx, store.Action{Kind: task.KindReplayed, By: "me"}, f,
				task.ID{}, dry)
			if err != nil || got.Matched != matched || got.Changed != changed {
				t.Errorf("%+v: %+v, %v, want %d of %d", f, got, err, changed, matched)
			}
		}
		all(store.Filter{}, true, 2, 0)
		all(store.Filter{Queue: "q"}, false, 2, 2)
		h.counts(task.Counts{Ready: 2, Done: 2, Cancelled: 2})
		all(store.Filter{State: task.Cancelled}, false, 2, 2)
		all(store.Filter{State: task.Done}, true, 2, 0)
		all(store.Filter{State: task.Done}, false, 2, 2)
		all(store.Filter{State: task.Ready}, false, 0, 0)
		h.counts(task.Counts{Ready: 6})
		for range 6 {
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		}
		h.counts(task.Counts{Done: 6})
	})
}

// A task that a list shows as dead, and that somebody else has replayed and a worker done before
// anything comes of the list, stays done.
func TestReplayOfManyLeavesWhatChangedSinceItWasListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		defer h.close()
		id := h.many(1)[0]
		h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
		h.door.AfterNext("Tasks", func(err error) error {
			if err := h.d.Act(h.ctx, task.KindReplayed, "another", id); err != nil {
				t.Error(err)
			}
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
			return err
		})
		got, err := h.d.ActAll(h.ctx, store.Action{Kind: task.KindReplayed, By: "me"},
			store.Filter{}, task.ID{}, false)
		if err != nil || got.Matched != 1 || got.Changed != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		h.state(id, task.Done)
	})
}

func TestReplaySaysWhyItCantBe(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		refused := func(id task.ID, from store.Replay, want error, says string) {
			t.Helper()
			if err := h.replay("me", id, from); !errors.Is(err, want) ||
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

func (h *house) replay(by string, id task.ID, from store.Replay) error {
	return h.d.ActOn(h.ctx, store.Action{Kind: task.KindReplayed, By: by, Replay: from}, id)
}
