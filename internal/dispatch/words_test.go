package dispatch

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/task"
)

func TestDrainSaidAtOneNodeHoldsAtAll(t *testing.T) {
	town(t, func(t *testing.T, db storetest.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		for _, h := range houses {
			h.beat("w", "1", 4)
		}
		drain := func(at *house, yes bool) {
			if err := at.d.DrainWorker(at.ctx, "w", yes); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond) // a beat
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

func TestUndrainSaidAtOnceAtAnotherNodeHolds(t *testing.T) {
	town(t, func(t *testing.T, db storetest.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		for _, h := range houses {
			h.beat("w", "1", 4)
		}
		if err := a.d.DrainWorker(a.ctx, "w", true); err != nil {
			t.Fatal(err)
		}
		if err := b.d.DrainWorker(b.ctx, "w", false); err != nil {
			// b has not heard of the drain yet
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		for name, h := range houses {
			h.many(1)
			if got := h.hold("w", 1); len(got) != 1 {
				t.Errorf("undrained, the worker gets nothing at %s", name)
			}
		}
	}, "a", "b")
}

func TestPauseSaidAtOneNodeHoldsAtAllWithinTwoBeats(t *testing.T) {
	town(t, func(t *testing.T, db storetest.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		b.many(4)
		b.one("w")
		for _, paused := range []bool{true, false} {
			if err := a.d.PauseQueue(a.ctx, "q", paused); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2100 * time.Millisecond)
			if got := b.hold("w", 1); len(got) == 1 == paused {
				t.Errorf("paused %t: b gives %d", paused, len(got))
			}
		}
		err := a.d.PauseQueue(a.ctx, "q", true)
		if err == nil {
			err = a.d.DeleteQueue(a.ctx, "q", true)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2100 * time.Millisecond)
		b.many(1) // b no longer counts on a configuration that is there, nor on what it said
		b.one("w")
		if list, err := a.d.Queues(a.ctx); err != nil || len(list) != 1 {
			t.Errorf("queues: %+v, %v", list, err)
		}
	}, "a", "b")
}

func TestDrainingNodeGivesBackAndRefusesHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.NewModel(time.Now)
		var draining atomic.Bool
		a := openAs(t, db, "a", func(c *Config) {
			c.Working = func() bool { return !draining.Load() }
		})
		b := openAs(t, db, "b")
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
		_, err := a.d.Hold(a.ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Wait: time.Minute,
		})
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

func TestWordsOlderThanOnesOwnAreNotHeard(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("w", "1", 4)
		asked := time.Now()
		time.Sleep(time.Millisecond)
		if err := h.d.DrainWorker(h.ctx, "w", true); err != nil {
			t.Fatal(err)
		}
		h.d.HearStore(asked, time.Now(), store.Beat{Now: time.Now().UnixMicro()})
		h.many(1)
		if got := h.hold("w", 1); len(got) != 0 {
			t.Error("a drained worker got a task")
		}
	})
}
