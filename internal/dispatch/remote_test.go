package dispatch

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// town runs a story on several nodes that share a store.
func town(
	t *testing.T, story func(t *testing.T, db contract.Store, houses map[string]*house),
	nodes ...string,
) {
	t.Helper()
	townAs(t, func(*Config) {}, story, nodes...)
}

// townAs is town with another configuration of its nodes.
func townAs(
	t *testing.T, change func(*Config),
	story func(t *testing.T, db contract.Store, houses map[string]*house), nodes ...string,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		houses := map[string]*house{}
		for _, n := range nodes {
			houses[n] = openAs(t, db, n, change)
		}
		story(t, db, houses)
		for _, h := range houses {
			h.close()
		}
	})
}

// free does the chore that frees what the dead held, as any node.
func (h *house) free() {
	h.t.Helper()
	if _, err := h.store.Free(
		h.ctx, store.Holder{Node: "n", Token: h.lease.Token}, math.MaxInt64,
	); err != nil {
		h.t.Fatal(err)
	}
}

// orphan lets a worker begin a task at node a, kills the node, and has node c take the task over,
// whose worker it is not.
func orphan(t *testing.T, houses map[string]*house) (begun task.Handout) {
	t.Helper()
	a, c := houses["a"], houses["c"]
	a.submit(task.Submission{Queue: "q"})
	a.beat("w", "1", 4)
	begun = a.one("w")
	a.beat("w", "1", 4, begun)
	time.Sleep(3 * time.Second) // its row is written
	a.kill()
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
	if it := c.d.mem.item(begun.ID); it == nil || it.place != out {
		t.Fatal("c has not taken it over")
	}
	delete(houses, "a")
	return begun
}

func TestWorkThatSurvivedItsNodeIsNotLostWhileItsWorkerBeatsElsewhere(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
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

func TestWorkThatSurvivedItsNodeIsNotJudgedByWhatWasHeardBefore(t *testing.T) {
	for name, before := range map[string]func(b *house) error{
		"it was here long ago": func(b *house) error {
			b.beat("w", "1", 4)
			return nil
		},
		"it was drained here": func(b *house) error {
			b.beat("w", "1", 4)
			return b.d.DrainWorker(b.ctx, "w", store.Drain{})
		},
		"it is only known to be drained": func(b *house) error {
			_, err := b.store.AcquireAll(b.ctx, anyNode, []store.Lease{{Name: store.DrainPrefix + "w"}},
				time.Hour, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
				a, b := houses["a"], houses["b"]
				a.many(1)
				begun := a.one("w")
				if err := before(b); err != nil {
					t.Fatal(err)
				}
				for range 60 {
					a.beat("w", "1", 4, begun)
					time.Sleep(time.Second)
				}
				a.kill()
				delete(houses, "a")
				// so b takes it over
				go b.d.Hold(b.ctx, task.HoldRequest{
					Worker: "other", Queues: []string{"q"}, Limit: 1, Wait: 20 * time.Second,
				})
				for range 15 {
					time.Sleep(time.Second)
					b.free()
				}
				if action := b.beat("w", "1", 4, begun)[begun.ID]; action != task.ActionContinue {
					t.Errorf("the worker is told to %s", action)
				}
				b.report("w", begun, task.Finish(nil), task.Recorded)
			}, "a", "b")
		})
	}
}

func TestWorkThatSurvivedItsNodeIsLostWithItsWorker(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		time.Sleep(limits.DefaultSilence + 2*time.Second)
		v := houses["b"].view(begun.ID)
		if len(v.Steps) != 1 || v.Steps[0].Kind != task.KindLost {
			t.Errorf("steps %+v, want one that says it was lost", v.Steps)
		}
		houses["b"].report("w", begun, task.Finish(nil), task.Stale)
	}, "a", "b", "c")
}

func TestWorkerThatLeavesGivesBackWhatOtherNodesWaitFor(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		begun := orphan(t, houses)
		b := houses["b"]
		_, err := b.d.Beat(b.ctx, task.Beat{
			Worker: "w", Incarnation: "1", Capacity: 4, Leaving: true,
			Tasks: []task.Held{{ID: begun.ID, Token: begun.Token}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := b.view(begun.ID); len(v.Steps) != 1 || v.Steps[0].Kind != task.KindRelease {
			t.Errorf("steps %+v, want a release", v.Steps)
		}
	}, "a", "b", "c")
}

func TestCancelReachesItsWorkerWhateverNodeHoldsTheTask(t *testing.T) {
	for _, c := range []struct {
		name string
		// at which node the task is held, its cancellation asked for, and its worker beats
		hold, ask, beat string
		hint            bool // the holder hears of it at once
	}{
		{"held, asked and heard at one", "a", "a", "a", false},
		{"asked at another, which tells the holder", "a", "b", "a", true},
		{"asked at another, and the holder finds out", "a", "b", "a", false},
		{"heard at another", "a", "a", "b", false},
		{"asked and heard at another", "a", "b", "b", true},
		{"asked, heard and held at three", "a", "b", "c", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
				hold, beat := houses[c.hold], houses[c.beat]
				ids := hold.many(2)
				got := hold.holdFor("w", 2, time.Minute)
				for _, h := range houses { // the worker was at all of them
					h.beat("w", "1", 4, got...)
				}
				time.Sleep(3 * time.Second)
				beat.beat("w", "1", 4, got...)
				if err := houses[c.ask].d.Act(
					hold.ctx, task.KindCancelled, "me", ids[0],
				); err != nil {
					t.Fatal(err)
				}
				if c.hint {
					hold.d.Hear("", ids[:1])
					synctest.Wait()
				} else {
					time.Sleep(1100 * time.Millisecond)
				}
				for range 2 { // an answer may be lost
					orders := beat.beat("w", "1", 4, got...)
					if orders[ids[0]] != task.ActionCancel ||
						orders[ids[1]] != task.ActionContinue {
						t.Errorf("the worker is told %v", orders)
					}
				}
				beat.report("w", got[0], task.Finish(nil), task.Stale)
				beat.report("w", got[1], task.Finish(nil), task.Recorded)
			}, "a", "b", "c")
		})
	}
}

func TestHandOutOfAnEarlierTurnIsStaleNotCancelled(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		id := a.many(1)[0]
		old := a.one("w")
		a.report("w", old, task.Retry(errHiccup), task.Recorded)
		a.one("w")
		if err := a.d.Act(a.ctx, task.KindCancelled, "me", id); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*house{a, b} {
			if order := h.beat("w", "1", 4, old)[id]; order != task.ActionStale {
				t.Errorf("the worker is told %v of what it reported", order)
			}
		}
	}, "a", "b")
}

func TestCancelReachesABeatThatWaits(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		id := a.many(1)[0]
		x := a.one("w")
		first, err := b.d.Beat(b.ctx, task.Beat{Worker: "w", Incarnation: "1", Capacity: 4})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() {
			if err := a.d.Act(a.ctx, task.KindCancelled, "me", id); err != nil {
				t.Error(err)
			}
		})
		got, err := b.d.Beat(b.ctx, task.Beat{
			Worker: "w", Incarnation: "1", Capacity: 4, Wait: 10 * time.Second,
			Version: first.Version, Tasks: []task.Held{{ID: id, Token: x.Token}},
		})
		if err != nil || got.Tasks[0].Action != task.ActionCancel {
			t.Errorf("the worker is told %+v, %v", got.Tasks, err)
		}
	}, "a", "b")
}
