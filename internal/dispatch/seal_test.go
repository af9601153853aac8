package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// earlier is a hand-out as an earlier version would have given it out.
func (h *house) earlier(t task.Handout) task.Handout {
	h.t.Helper()
	token, err := task.ParseToken(t.Token)
	if err != nil {
		h.t.Fatal(err)
	}
	t.Token = h.d.mem.seals.SealBefore(token, t.ID).String()
	return t
}

// What an earlier version handed out, and what runs when the node is updated, is reported and named
// in beats as it was given out.
func TestHandOutsOutliveTheUpdateOfTheirSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := model.New(time.Now)
		h := open(t, store)
		h.many(3)
		h.beat("w1", "i", 3)
		held := h.hold("w1", 3)
		h.beat("w1", "i", 3, held...)
		time.Sleep(3 * time.Second) // their rows are written
		h.kill()
		h = open(t, store)
		defer h.close()
		h.d.mem.seals = seal.NewSealer(seal.Secret{
			Key: [32]byte{1}, Old: 4711, Since: time.Now().UnixMicro(),
		})
		for i := range held {
			held[i] = h.earlier(held[i])
		}
		for id, action := range h.beat("w1", "i", 3, held...) {
			if action != task.ActionContinue {
				t.Errorf("%v: %s", id, action)
			}
		}
		// such a seal says nothing of whom it was made for
		h.report("w2", held[0], task.Finish(nil), task.Stale)
		h.report("w1", held[0], task.Finish(nil), task.Recorded)
		h.report("w1", held[0], task.Finish(nil), task.Repeated)
		h.d.mem.seals.Old = 4712 // that of another store
		h.report("w1", held[1], task.Finish(nil), task.Stale)
	})
}

// Whoever finds out how earlier versions sealed can forge nothing but what they have handed out.
func TestOldSealsAreGoodForNothingThatBeganLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		defer h.close()
		h.d.mem.seals = seal.NewSealer(seal.Secret{
			Key: [32]byte{1}, Old: 4711, Since: time.Now().UnixMicro(),
		})
		time.Sleep(time.Second)
		h.many(2)
		quick := h.one("w1")
		h.report("w1", h.earlier(quick), task.Finish(nil), task.Stale)
		slow := h.one("w1")
		h.beat("w1", "i", 3, quick, slow)
		time.Sleep(3 * time.Second)
		h.report("w1", h.earlier(slow), task.Finish(nil), task.Stale)
		h.report("w1", quick, task.Finish(nil), task.Recorded)
		h.report("w1", slow, task.Finish(nil), task.Recorded)
	})
}

// A hand-out names the worker whose report wrote its context, from memory and from the store, for
// as long as that context stands.
func TestHandOutSaysWhoWroteItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := model.New(time.Now)
		h := open(t, store)
		h.many(1)
		by := func(worker, want string) task.Handout {
			t.Helper()
			got := h.one(worker)
			if got.ContextBy != want {
				t.Errorf("stage %q: written by %q, want %q", got.Stage, got.ContextBy, want)
			}
			return got
		}
		write := func(stage string) task.Outcome {
			o := task.Next(stage, nil)
			o.Context = []byte(`{"command":"x"}`)
			return o
		}
		h.report("w1", by("w1", ""), task.Next("without another context", nil), task.Recorded)
		h.report("w2", by("w2", ""), write("s"), task.Recorded)
		h.report("w3", by("w3", "w2"), task.Retry(nil), task.Recorded)
		time.Sleep(time.Minute)
		h.report("w4", by("w4", "w2"), task.Next("t", nil), task.Recorded)
		h.kill()
		h = open(t, store)
		defer h.close()
		h.report("w5", by("w5", "w2"), write("u"), task.Recorded)
		h.report("w1", by("w1", "w5"), task.Finish(nil), task.Recorded)
	})
}
