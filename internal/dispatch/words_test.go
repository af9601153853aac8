package dispatch

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func TestDrainSaidAtOneNodeHoldsAtAll(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		for _, h := range houses {
			h.beat("w", "1", 4)
		}
		drain := func(at *house, yes bool) {
			err := at.d.UndrainWorker(at.ctx, "w")
			if yes {
				err = at.d.DrainWorker(at.ctx, "w", store.Drain{})
			}
			if err != nil {
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
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		for _, h := range houses {
			h.beat("w", "1", 4)
		}
		if err := a.d.DrainWorker(a.ctx, "w", store.Drain{}); err != nil {
			t.Fatal(err)
		}
		if err := b.d.UndrainWorker(b.ctx, "w"); err != nil {
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
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
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
		db := model.New(time.Now)
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
		if err := h.d.DrainWorker(h.ctx, "w", store.Drain{}); err != nil {
			t.Fatal(err)
		}
		h.d.HearStore(asked, time.Now(), store.Beat{Now: time.Now().UnixMicro()})
		h.many(1)
		if got := h.hold("w", 1); len(got) != 0 {
			t.Error("a drained worker got a task")
		}
	})
}

func TestWorkerThatShedsGetsNoMoreThanTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(6)
		h.beat("w", "1", 5)
		if err := h.d.DrainWorker(h.ctx, "w", store.Drain{Shed: 3 * task.Unit}); err != nil {
			t.Fatal(err)
		}
		if got := h.holdFor("w", 6, time.Second); len(got) != 2 {
			t.Errorf("it got %d", len(got))
		}
		list, err := h.d.Workers(h.ctx)
		if w := list[0]; err != nil || w.Draining || w.State != task.WorkerActive || w.Shed != 3 ||
			w.Used != 2 || w.Free != 0 || !w.DrainBy.IsZero() {
			t.Errorf("%+v, %v", w, err)
		}
		if err := h.d.UndrainWorker(h.ctx, "w"); err != nil {
			t.Fatal(err)
		}
		if got := h.holdFor("w", 6, time.Second); len(got) != 3 {
			t.Errorf("undrained it got %d more", len(got))
		}
	})
}

func TestWhatIsLeftAtTheDeadlineBeginsElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		shed task.Units
		left int
	}{"all": {0, 0}, "a part": {3 * task.Unit, 2}, "more than there is": {9 * task.Unit, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.many(4)
				h.beat("w", "1", 5)
				h.beat("v", "1", 9)
				first := h.holdFor("w", 2, time.Second)
				time.Sleep(100 * time.Millisecond)
				later := h.holdFor("w", 2, time.Second)
				soon := time.Now().Add(3 * time.Second)
				what := store.Drain{Shed: test.shed, By: soon.UnixMicro()}
				if err := h.d.DrainWorker(h.ctx, "w", what); err != nil {
					t.Fatal(err)
				}
				both := append(first, later...)
				h.beat("w", "1", 5, both...)
				if got := h.holdFor("v", 4, time.Second); len(got) != 0 {
					t.Fatalf("%d went before their time", len(got))
				}
				time.Sleep(4 * time.Second)
				got := h.holdFor("v", 4, time.Second)
				if len(got) != 4-test.left {
					t.Fatalf("%d began elsewhere", len(got))
				}
				for _, g := range got {
					if g.Attempt != 1 {
						t.Errorf("it counts as attempt %d", g.Attempt)
					}
					if test.left > 0 && (g.ID == first[0].ID || g.ID == first[1].ID) {
						t.Error("what began first was taken away")
					}
				}
				h.report("w", later[0], task.Finish(nil), task.Stale)
			})
		})
	}
}

// What could not be written down at the deadline of a drain is taken from the worker later.
func TestWhatIsLeftAtTheDeadlineBeginsElsewhereThoughTheStoreFailsThen(t *testing.T) {
	for name, shed := range map[string]task.Units{"all": 0, "a part": 3 * task.Unit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.many(4)
				h.beat("w", "1", 5)
				h.beat("v", "1", 9)
				h.holdFor("w", 4, time.Second)
				what := store.Drain{Shed: shed, By: time.Now().Add(time.Second).UnixMicro()}
				if err := h.d.DrainWorker(h.ctx, "w", what); err != nil {
					t.Fatal(err)
				}
				h.door.Answer(settleReports, store.ErrBusy)
				time.Sleep(2500 * time.Millisecond)
				h.door.Answer(settleReports, nil)
				time.Sleep(1500 * time.Millisecond)
				if got := h.holdFor("v", 4, time.Second); len(got) < 2 {
					t.Errorf("%d began elsewhere", len(got))
				}
			})
		})
	}
}

// A worker that sheds gets nothing ahead of its lanes: it would run that in what it is to give up,
// and after the deadline it would be taken from it and handed to it again for ever.
func TestWorkerThatShedsGetsNothingAhead(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(20)
		h.beat("w", "1", 5)
		soon := time.Now().Add(time.Second)
		what := store.Drain{Shed: 3 * task.Unit, By: soon.UnixMicro()}
		if err := h.d.DrainWorker(h.ctx, "w", what); err != nil {
			t.Fatal(err)
		}
		got := 0
		for range 5 {
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: 10, Ahead: 8, Wait: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			got += len(a.Tasks)
			time.Sleep(2 * time.Second)
		}
		if got != 2 {
			t.Errorf("it got %d tasks", got)
		}
	})
}

func TestWorkersSayTheirVersion(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		for _, version := range []string{"2.1 <b>", "", "2.2"} {
			beat := task.Beat{Worker: "w", Incarnation: "1", Capacity: 1, Build: version}
			if _, err := h.d.Beat(h.ctx, beat); err != nil {
				t.Fatal(err)
			}
			list, err := h.d.Workers(h.ctx)
			if err != nil || list[0].Version != version {
				t.Errorf("%+v, %v, want version %q", list, err, version)
			}
		}
		for _, version := range []string{strings.Repeat("x", 257), "a\nb", "\x1b[2J"} {
			beat := task.Beat{Worker: "w", Incarnation: "1", Capacity: 1, Build: version}
			if _, err := h.d.Beat(h.ctx, beat); !errors.Is(err, task.ErrInvalid) ||
				!strings.Contains(err.Error(), "body.version") {
				t.Errorf("%.20q: %v", version, err)
			}
		}
	})
}
