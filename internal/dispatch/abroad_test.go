package dispatch

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/storetest"
	"github.com/rotahq/rota/task"
)

// town runs a story on several nodes that share a store.
func town(t *testing.T, story func(t *testing.T, store storetest.Store, houses map[string]*house), nodes ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		houses := map[string]*house{}
		for _, n := range nodes {
			houses[n] = openAs(t, store, n)
		}
		story(t, store, houses)
		for _, h := range houses {
			h.close()
		}
	})
}

// free does the chore that frees what the dead held, as any node.
func (h *house) free() {
	h.t.Helper()
	if _, err := h.store.Free(h.ctx, rows.Holder{Node: "n", Token: h.lease.Token}); err != nil {
		h.t.Fatal(err)
	}
}

// orphan lets a worker begin a task at node a, kills the node, and has node c take the task over, whose worker it is not.
func orphan(t *testing.T, houses map[string]*house) (begun task.Handout) {
	t.Helper()
	a, c := houses["a"], houses["c"]
	a.submit(task.Submission{Queue: "q"})
	a.beat("w", "1", 4)
	begun = a.one("w")
	a.beat("w", "1", 4, begun)
	time.Sleep(3 * time.Second) // its row is written
	a.halt()
	waiting := make(chan struct{})
	go func() { defer close(waiting); c.holdFor("other", 1, 20*time.Second) }()
	for range 15 {
		time.Sleep(time.Second)
		houses["b"].beat("w", "1", 4, begun)
		c.free()
	}
	<-waiting
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if it := c.d.items[begun.ID]; it == nil || it.place != out {
		t.Fatal("c has not taken it over")
	}
	delete(houses, "a")
	return begun
}

func TestWorkThatSurvivedItsNodeIsNotLostWhileItsWorkerBeatsElsewhere(t *testing.T) {
	town(t, func(t *testing.T, store storetest.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		b := houses["b"]
		for range 60 {
			time.Sleep(time.Second)
			if action := b.beat("w", "1", 4, begun)[begun.ID]; action != task.ActionContinue {
				t.Fatalf("the worker is told to %s", action)
			}
		}
		b.report("w", begun, task.Finish(nil), task.Recorded)
		houses["c"].d.Hear("", []task.ID{begun.ID})
		synctest.Wait()
		if v := b.view(begun.ID); v.State != task.Done || len(v.Steps) != 1 {
			t.Errorf("it is %s after %d steps", v.State, len(v.Steps))
		}
		houses["c"].empty()
	}, "a", "b", "c")
}

func TestWorkThatSurvivedItsNodeIsLostWithItsWorker(t *testing.T) {
	town(t, func(t *testing.T, store storetest.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		time.Sleep(task.DefaultSilence + 2*time.Second)
		v := houses["b"].view(begun.ID)
		if len(v.Steps) != 1 || v.Steps[0].Kind != task.KindLost {
			t.Errorf("steps %+v, want one that says it was lost", v.Steps)
		}
		houses["b"].report("w", begun, task.Finish(nil), task.Stale)
	}, "a", "b", "c")
}

func TestWorkerThatLeavesGivesBackWhatOtherNodesWaitFor(t *testing.T) {
	town(t, func(t *testing.T, store storetest.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		b := houses["b"]
		_, err := b.d.Beat(b.ctx, task.Beat{
			Worker: "w", Incarnation: "1", Capacity: 4, Leaving: true, Tasks: []task.Held{{ID: begun.ID, Token: begun.Token}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := b.view(begun.ID); len(v.Steps) != 1 || v.Steps[0].Kind != task.KindRelease {
			t.Errorf("steps %+v, want a release", v.Steps)
		}
	}, "a", "b", "c")
}

func TestHintsAreHeardAtOnce(t *testing.T) {
	town(t, func(t *testing.T, store storetest.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		got := make(chan []task.Handout, 1)
		go func() { got <- b.holdFor("w", 1, 10*time.Second) }()
		time.Sleep(1500 * time.Millisecond) // its rounds look now and then
		ids := a.submit(task.Submission{Queue: "q"})
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("b knew without a hint")
		}
		b.d.Hear("another", nil)
		synctest.Wait()
		if len(got) > 0 {
			t.Error("b looked for another queue's hint")
		}
		b.d.Hear("", nil) // whichever queue it is
		synctest.Wait()
		if len(got) == 0 {
			t.Fatal("b did not look")
		}
		begun := (<-got)[0]

		// b holds it; a settles it; b learns by a hint, and a caller that waits there too.
		final := make(chan task.View, 1)
		go func() {
			v, err := b.d.Task(b.ctx, ids[0], time.Minute)
			if err != nil {
				t.Error(err)
			}
			final <- v
		}()
		synctest.Wait()
		a.report("w", begun, task.Finish(nil), task.Recorded)
		begin := time.Now()
		b.d.Hear("", ids)
		if v := <-final; v.State != task.Done || time.Since(begin) > 0 {
			t.Errorf("the caller learns %s after %v", v.State, time.Since(begin))
		}
		b.d.Hear("nobody-knows-it", []task.ID{{Batch: 1, N: 1}}) // hints may be wrong
		synctest.Wait()
		b.empty()
	}, "a", "b")
}

func TestDrainSaidAtOneNodeHoldsAtAll(t *testing.T) {
	town(t, func(t *testing.T, store storetest.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		for _, h := range houses {
			h.beat("w", "1", 4)
		}
		drain := func(at *house, yes bool) {
			if err := at.d.DrainWorker(at.ctx, "w", yes); err != nil {
				t.Fatal(err)
			}
			time.Sleep(configEvery + time.Second)
		}
		draining := func(at *house) bool {
			list, err := at.d.Workers(at.ctx)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list, func(w task.Worker) bool { return w.Name == "w" })
			return list[i].Draining
		}
		drain(a, true)
		if !draining(a) || !draining(b) {
			t.Errorf("drained at a: a says %t, b says %t", draining(a), draining(b))
		}
		drain(b, true) // twice is no error
		drain(b, false)
		if draining(a) || draining(b) {
			t.Errorf("undrained at b: a says %t, b says %t", draining(a), draining(b))
		}
	}, "a", "b")
}

func TestDrainingNodeGivesBackAndRefusesHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		a, b := openAs(t, store, "a"), openAs(t, store, "b")
		var draining atomic.Bool
		a.d.conf.Working = func() bool { return !draining.Load() }
		ids := a.many(4)
		a.beat("w", "1", 4)
		begun := a.holdFor("w", 4, time.Second)
		a.beat("w", "1", 4, begun...)
		waits := make(chan int, 1)
		go func() { waits <- len(a.holdFor("idle", 100, time.Minute)) }()
		time.Sleep(time.Second)
		draining.Store(true)
		time.Sleep(2 * time.Second)
		if len(waits) == 0 || <-waits != 0 {
			t.Error("who waited at the draining node was not sent away")
		}
		go func() { waits <- len(b.holdFor("other", 100, time.Minute)) }()
		time.Sleep(time.Second)
		rest := a.many(5)
		b.d.Hear("q", nil)
		synctest.Wait()
		if len(waits) == 0 || <-waits != len(rest) {
			t.Error("b did not get what was submitted at a")
		}
		_, err := a.d.Hold(a.ctx, task.HoldRequest{Worker: "w", Queues: []string{"q"}, Wait: time.Minute})
		if !errors.Is(err, ErrDraining) {
			t.Errorf("a hold at the draining node: %v", err)
		}
		a.report("w", begun[0], task.Finish(nil), task.Recorded)
		late := a.many(1)
		a.state(late[0], task.Ready)
		draining.Store(false)
		time.Sleep(1100 * time.Millisecond)
		a.beat("w", "1", 4, begun[1:]...)
		if got := a.holdFor("w", 1, time.Minute); len(got) != 1 || got[0].ID != late[0] {
			t.Errorf("undrained, it gives %+v", got)
		}
		a.state(ids[0], task.Done)
		a.close()
		b.close()
	})
}
