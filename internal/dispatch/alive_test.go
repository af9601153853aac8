package dispatch

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// lost wants the only step of a task to say that it was lost.
func (h *house) lost(id task.ID) {
	h.t.Helper()
	if v := h.view(id); len(v.Steps) != 1 || v.Steps[0].Kind != task.KindLost {
		h.t.Errorf("task %s has the steps %+v, want one that says it was lost", id, v.Steps)
	}
}

func TestNodeDoesNotVouchForWhomItOnlyHeardOf(t *testing.T) {
	town(t, func(t *testing.T, store contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		a.many(1)
		one := a.one("w")
		b.many(1)
		two := b.one("w")
		a.beat("w", "1", 4, one, two)
		b.beat("w", "1", 4, one, two)
		time.Sleep(limits.DefaultSilence + 5*time.Second)
		a.lost(one.ID)
		b.lost(two.ID)
	}, "a", "b")
}

func TestVouchingForALaterStartSavesNothingOfAnEarlierOne(t *testing.T) {
	town(t, func(t *testing.T, store contract.Store, houses map[string]*house) {
		a, b, c := houses["a"], houses["b"], houses["c"]
		a.many(1)
		before := a.one("w")
		a.beat("w", "1", 4, before)
		b.many(1)
		after := b.one("w") // of the second start, which speaks to c from now on
		for range 25 {
			c.beat("w", "2", 4, after)
			time.Sleep(time.Second)
		}
		a.lost(before.ID)
		c.report("w", after, task.Finish(nil), task.Recorded)
	}, "a", "b", "c")
}

// What says that a worker lives elsewhere comes through the store, and is as late as that is slow.
func TestWorkerThatBeatsElsewhereKeepsItsTasksWhileEachRoundIsSlow(t *testing.T) {
	town(t, func(t *testing.T, store contract.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		houses["b"].door.Slow("AcquireAll", 20*time.Second) // what says that it is alive
		houses["c"].door.Slow("Sync", 20*time.Second)
		for range 300 {
			time.Sleep(time.Second)
			houses["b"].beat("w", "1", 4, begun)
		}
		houses["b"].report("w", begun, task.Finish(nil), task.Recorded)
	}, "a", "b", "c")
}
