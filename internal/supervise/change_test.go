package supervise_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestPausedGroupStaysAsItIs(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		before := h.running()
		h.configure("g", paused, replicas(2))
		h.worker("w9", 60, "n1")
		h.add("g", "more")
		h.Pass(30 * time.Second)
		if !slices.Equal(before, h.running()) {
			t.Errorf("it went from %v to %v", before, h.running())
		}
		h.workers["w0"].kill()
		h.Pass(30 * time.Second)
		if n := len(h.running()); n != 8 {
			t.Errorf("%d run, want the 8 of the workers that live", n)
		}
		h.configure("g", func(g *task.Group) { g.Paused = false })
		h.Await(time.Minute, "all run", h.allRun("g", 26))
	})
}

func TestRemovedJobsEnd(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		h.jobs("g", 4)
		h.Await(5*beat, "the others have ended", h.allRun("g", 8))
	})
}

func TestFewerReplicasEnd(t *testing.T) {
	settled(t, 3, 12, 3, func(h *house) {
		h.configure("g", replicas(1))
		h.Await(5*beat, "the others have ended", h.allRun("g", 12))
		h.calm()
		if s := spreadOf(h.spread("g")); s > 1 {
			t.Errorf("spread %d: %v", s, h.spread("g"))
		}
	})
}

func spreadOf(counts map[string]int) int {
	list := slices.Sorted(maps.Values(counts))
	return list[len(list)-1] - list[0]
}

func TestJobsLeaveWorkersThatAreNotSelected(t *testing.T) {
	settled(t, 2, 6, 1, func(h *house) {
		w := h.worker("gpu", 60, "n1")
		w.label("kind", "gpu")
		h.configure("g", selects("kind", "gpu"))
		h.Await(time.Minute, "all run there", func() bool {
			return len(w.list()) == 6 && h.allRun("g", 6)()
		})
	})
}

func TestDrainedWorkerIsEmptiedAndItsJobsNeverStop(t *testing.T) {
	settled(t, 3, 24, 1, func(h *house) {
		n := h.Node("n1")
		h.Must(n.Tasks.DrainWorker(h.T.Context(), "w1", store.Drain{}))
		h.Await(time.Minute, "it is empty", func() bool {
			if len(h.copies()) != 24 {
				t.Fatalf("%d of 24 jobs run", len(h.copies()))
			}
			return h.spread("g")["w1"] == 0 && h.allRun("g", 24)()
		})
		h.Pass(10 * beat)
		h.Must(n.Tasks.UndrainWorker(h.T.Context(), "w1"))
		h.Await(2*time.Minute, "it has its share again", func() bool {
			return h.spread("g")["w1"] == 8 && h.allRun("g", 24)()
		})
	})
}

func TestEachMoveIsToldOnce(t *testing.T) {
	settled(t, 3, 24, 1, func(h *house) {
		want := func(when string, want map[string]int) {
			h.T.Helper()
			h.calm()
			if got := h.movedBy(); !maps.Equal(got, want) {
				t.Errorf("%s: told %v, want %v", when, got, want)
			}
		}
		want("at first", map[string]int{"start": 24})
		h.Must(h.Node("n1").Tasks.DrainWorker(h.T.Context(), "w1", store.Drain{}))
		want("a drained worker", map[string]int{"move drained": 8})
		h.workers["w0"].kill()
		h.Await(time.Minute, "all run on w2", func() bool { return h.spread("g")["w2"] == 24 })
		want("a dead worker", map[string]int{"stop gone": 12, "start": 12})
		h.group("other", 0)
		h.Pass(10 * beat)
		h.Must(h.Store.DeleteGroup(h.T.Context(), "other", true))
		h.Pass(10 * beat)
		if h.movedBy()["gone"] == 0 {
			t.Error("it is not told that the group is gone")
		}
	})
}

func TestDrainedWorkerKeepsWhatHasNoOtherPlace(t *testing.T) {
	settled(t, 2, 6, 2, func(h *house) {
		h.Must(h.Node("n1").Tasks.DrainWorker(h.T.Context(), "w1", store.Drain{}))
		h.Pass(20 * beat)
		if !h.allRun("g", 12)() {
			t.Errorf("%v run", h.running())
		}
	})
}

func TestLoweredCapacityIsHeeded(t *testing.T) {
	settled(t, 3, 30, 1, func(h *house) {
		h.workers["w0"].resize(4)
		h.Await(20*beat, "it runs no more than it can", func() bool {
			return len(h.workers["w0"].list()) <= 4 && h.allRun("g", 30)()
		})
	})
}

func TestWithoutRoomTheRestWaitsAndThatIsToldOnce(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 30, replicas(2))
		h.Start("n1")
		h.worker("w0", 10, "n1")
		h.worker("w1", 25, "n1")
		h.Await(30*beat, "what has room runs", h.allRun("g", 35))
		h.Pass(30 * beat)
		if n := len(h.copies()); n != 30 {
			t.Errorf("%d of 30 jobs run at all: seconds came before firsts", n)
		}
		if h.told(groupShort) != 1 || h.told(groupOK) != 0 {
			t.Errorf("told %v, want the shortage once", h.events)
		}
		h.worker("w2", 60, "n1")
		h.Await(time.Minute, "all run", h.allRun("g", 60))
		h.Pass(2 * beat)
		if h.told(groupShort) != 1 || h.told(groupOK) != 1 {
			t.Errorf("told %v, want the shortage and its end", h.events)
		}
	})
}

func TestEndOfAShortageIsToldWhoeverToldOfItsBeginning(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 12, replicas(2))
		h.Start("n1", "n2")
		h.addWorkers(2, 9, "n1", "n2")
		h.Await(time.Minute, "the shortage is told", func() bool { return h.told(groupShort) == 1 })
		h.Kill("n1")
		h.Kill("n2")
		h.Start("n3")
		for i := range 3 {
			h.worker(fmt.Sprint("more", i), 9, "n3")
		}
		for _, w := range []string{"w0", "w1"} {
			h.workers[w].reach("n3")
		}
		h.Await(2*time.Minute, "all run", h.allRun("g", 24))
		h.Pass(10 * beat)
		if h.told(groupShort) != 1 || h.told(groupOK) != 1 {
			t.Errorf("told %v, want the shortage, and its end by another node", h.events)
		}
		h.Kill("n3")
		h.Start("n4")
		for _, w := range h.workers {
			w.reach("n4")
		}
		h.Pass(time.Minute)
		if h.told(groupWarm) != 3 || h.told(groupOK) != 1 {
			t.Errorf("told %v: what was never short is told to be so no more", h.events)
		}
	})
}

func TestWorkerWithoutCapacityGetsNothing(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 3)
		h.Start("n1")
		h.worker("w0", 0, "n1")
		h.Pass(20 * beat)
		if len(h.running()) != 0 || h.told(groupShort) != 1 {
			t.Errorf("%v run, told %v", h.running(), h.events)
		}
	})
}

func TestFailingJobGoesToAnotherWorkerOnce(t *testing.T) {
	settled(t, 3, 6, 1, func(h *house) {
		sick := h.stand("g")[0]
		w := h.workers[sick.Worker]
		w.failOn(func(job string) string {
			if job == sick.Job {
				return "no disk"
			}
			return ""
		})
		h.Await(20*beat, "it runs elsewhere", func() bool {
			rows := h.stand("g")
			return h.allRun("g", 6)() && find(rows, sick.Job, sick.Worker) == nil
		})
		h.Pass(50 * time.Second)
		if find(h.stand("g"), sick.Job, sick.Worker) != nil {
			t.Errorf("it came back within its penalty")
		}
	})
}

func TestPenaltyOutlivesTheNodeThatKnewOfIt(t *testing.T) {
	settled(t, 2, 1, 1, func(h *house) {
		h.configure("g", func(g *task.Group) { g.Policy.Penalty = 10 * time.Minute })
		sick := h.workers[h.stand("g")[0].Worker]
		sick.failOn(func(string) string { return "no disk" })
		h.Await(20*beat, "it runs elsewhere", func() bool {
			return h.allRun("g", 1)() && h.stand("g")[0].Worker != sick.name
		})
		sick.failOn(func(string) string { return "" })
		h.Kill("n1")
		h.Start("n1")
		h.Await(time.Minute, "it goes on there", h.allRun("g", 1))
		h.workers[h.stand("g")[0].Worker].leave()
		h.Pass(time.Minute)
		if len(h.stand("g")) != 0 {
			t.Errorf("it came back within its penalty")
		}
		h.Await(10*time.Minute, "it runs again", h.allRun("g", 1))
	})
}

func TestJobThatFailsEverywhereDoesNotWander(t *testing.T) {
	settled(t, 3, 6, 1, func(h *house) {
		_, before := h.begun()
		for _, w := range h.workers {
			w.failOn(func(job string) string {
				if job == "j0000" {
					return "bad spec"
				}
				return ""
			})
		}
		h.Pass(2 * time.Minute)
		if _, now := h.begun(); now-before > 6 {
			t.Errorf("it was ended %d times in two minutes", now-before)
		}
	})
}

func TestFailedSuccessorLeavesThePredecessorRunning(t *testing.T) {
	settled(t, 2, 10, 1, func(h *house) {
		w := h.worker("w9", 60, "n1")
		w.failOn(func(string) string { return "no licence" })
		for range 300 {
			h.Pass(100 * time.Millisecond)
			good := 0
			for _, r := range h.running() {
				if !strings.HasSuffix(r, "@w9") {
					good++
				}
			}
			if good != 10 {
				t.Fatalf("%d of 10 jobs run where they are well", good)
			}
		}
		h.Await(5*beat, "what failed there has ended", func() bool {
			return h.spread("g")["w9"] == 0 && h.allRun("g", 10)()
		})
	})
}

func TestOneAfterAnotherStartsAnewWhenItsJobChanges(t *testing.T) {
	settled(t, 3, 4, 2, func(h *house) {
		_, err := h.Store.ChangeJobs(h.T.Context(), store.JobChange{
			Group: "g", Put: []task.Job{{Name: "j0000", Load: task.Unit, Spec: []byte(`{"v":2}`)}},
		})
		h.Must(err)
		h.Await(time.Minute, "both replicas have the new spec", func() bool {
			if n := h.copies()["j0000"]; n < 1 {
				t.Fatalf("%d replicas run", n)
			}
			return h.specs("j0000", `{"v":2}`) == 2 && h.allRun("g", 8)()
		})
	})
}

func TestGroupThatIsDeletedEnds(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		h.lax = true
		h.Must(h.Store.DeleteGroup(h.T.Context(), "g", true))
		h.Await(3*beat, "nothing runs", func() bool { return len(h.running()) == 0 })
	})
}

func TestLeavingWorkersJobsRunElsewhereAtOnce(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		h.workers["w0"].leave()
		h.Await(2*beat, "all run", func() bool { return len(h.running()) == 12 })
	})
}

func TestForgottenWorkersJobsRunElsewhereAtOnce(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		h.workers["w0"].kill()
		h.Must(h.Store.DeleteSeat(h.T.Context(), "w0"))
		h.Await(3*beat, "all run", func() bool { return len(h.running()) == 12 })
	})
}

func TestWorkerThatServesTheGroupNoMoreEndsItsJobs(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		w := h.workers["w0"]
		w.serve()
		h.Await(20*beat, "it runs none, and all run", func() bool {
			return len(w.list()) == 0 && h.allRun("g", 12)()
		})
	})
}

func TestJobThatMovedRestsUnlessSomebodyAsks(t *testing.T) {
	settled(t, 1, 4, 1, func(h *house) {
		h.worker("w9", 60, "n1")
		h.Await(20*beat, "two have moved", func() bool {
			return h.spread("g")["w9"] == 2 && h.allRun("g", 4)()
		})
		change := store.JobChange{Group: "g"}
		for _, a := range h.stand("g") {
			if a.Worker == "w0" {
				change.Remove = append(change.Remove, a.Job)
			}
		}
		_, err := h.Store.ChangeJobs(h.T.Context(), change)
		h.Must(err)
		h.Pass(20 * beat)
		if n := h.spread("g")["w9"]; n != 2 {
			t.Errorf("%d of the two that just moved are where they were", n)
		}
		h.Must(h.Store.AskGroup(h.T.Context(), "g", false, true))
		h.Await(10*beat, "each has one", func() bool {
			return h.spread("g")["w9"] == 1 && h.allRun("g", 2)()
		})
	})
}

func TestWorkerThatShedsGivesUpAPartByMoves(t *testing.T) {
	settled(t, 3, 24, 1, func(h *house) { // eight each, and each can carry 60
		n := h.Node("n1")
		p, err := h.views().DrainPrice(h.T.Context(), "w1", store.Drain{Shed: 55 * task.Unit}, nil)
		h.Must(err)
		h.Must(n.Tasks.DrainWorker(h.T.Context(), "w1", store.Drain{Shed: 55 * task.Unit}))
		h.Await(time.Minute, "it carries no more than five", func() bool {
			if len(h.copies()) != 24 {
				t.Fatalf("%d of 24 jobs run", len(h.copies()))
			}
			return h.spread("g")["w1"] <= 5 && h.allRun("g", 24)()
		})
		h.Pass(10 * beat)
		if got := 8 - h.spread("g")["w1"]; p.Jobs != got || p.Stays != 0 || p.Moves < got {
			t.Errorf("%d left, and the price was %+v", got, p)
		}
		h.Must(n.Tasks.UndrainWorker(h.T.Context(), "w1"))
		h.Await(2*time.Minute, "it has its share again", func() bool {
			return h.spread("g")["w1"] == 8 && h.allRun("g", 24)()
		})
	})
}

// TestGroupsThatShareAWorkerShedTogether: each of two groups gives up its part of what is too much,
// and not all of it.
func TestGroupsThatShareAWorkerShedTogether(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Start("n1")
		for _, name := range []string{"g", "h"} {
			h.group(name, 24)
		}
		for i := range 3 {
			h.worker(fmt.Sprintf("w%d", i), 40, "n1").serve("g", "h")
		}
		both := func() bool { return len(h.running()) >= 48 }
		h.Await(2*time.Minute, "all run", both)
		h.calm()
		least := 100
		h.Must(h.Node("n1").Tasks.DrainWorker(h.T.Context(), "w1",
			store.Drain{Shed: 28 * task.Unit}))
		h.Await(time.Minute, "it carries no more than twelve", func() bool {
			n := h.spread("g")["w1"] + h.spread("h")["w1"]
			least = min(least, n)
			return n <= 12 && both()
		})
		if least < 10 {
			t.Errorf("the groups left %d of 12", least)
		}
	})
}

func TestWhatIsLeftIsTakenAwayWhenTheTimeIsUp(t *testing.T) {
	for name, what := range map[string]store.Drain{
		"all": {}, "a part": {Shed: 58 * task.Unit},
	} {
		t.Run(name, func(t *testing.T) {
			settled(t, 2, 6, 2, func(h *house) {
				what.By = time.Now().Add(20 * time.Second).UnixMicro()
				h.Must(h.Node("n1").Tasks.DrainWorker(h.T.Context(), "w1", what))
				h.Pass(10 * beat)
				if !h.allRun("g", 12)() {
					t.Fatalf("before: %v run", h.running())
				}
				h.Await(time.Minute, "it has given up what it was to", func() bool {
					return h.spread("g")["w1"] <= int((60*task.Unit-what.Shed)/task.Unit)%60
				})
				if n := h.spread("g")["w0"]; n != 6 {
					t.Errorf("the other worker has %d", n)
				}
			})
		})
	}
}

// TestPriceOfGroupsThatShareAWorker: each group is priced with its own part of what is shed, and
// nothing is refused for what has a place.
func TestPriceOfGroupsThatShareAWorker(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Start("n1")
		for _, name := range []string{"g", "h"} {
			h.group(name, 10)
		}
		h.worker("w0", 20, "n1").serve("g", "h")
		h.Await(2*time.Minute, "all run", func() bool { return len(h.running()) >= 20 })
		h.worker("w1", 3, "n1").serve("g")
		h.worker("w2", 3, "n1").serve("h")
		h.Pass(3 * time.Minute)
		h.calm()
		before := h.spread("g")["w0"] + h.spread("h")["w0"]
		what := store.Drain{Shed: 6 * task.Unit}
		p, err := h.views().DrainPrice(h.T.Context(), "w0", what, nil)
		h.Must(err)
		h.Must(h.Node("n1").Tasks.DrainWorker(h.T.Context(), "w0", what))
		h.Pass(time.Minute)
		after := h.spread("g")["w0"] + h.spread("h")["w0"]
		if after > 14 || p.Stays != 0 || p.Jobs != before-after ||
			p.Load != task.Units(after)*task.Unit {
			t.Errorf("%d of %d are left, and the price was %+v", after, before, p)
		}
	})
}

// TestPriceIsOfTheDrainAlone: what is to leave a worker for another reason, and can't, refuses no
// drain; a paused group gives up nothing.
func TestPriceIsOfTheDrainAlone(t *testing.T) {
	settled(t, 2, 6, 2, func(h *house) { // both have all six
		h.workers["w1"].label("x", "y")
		h.configure("g", selects("x", "y"))
		h.Pass(time.Minute)
		price := func(what store.Drain, said map[string]store.Drain) store.GroupsPrice {
			p, err := h.views().DrainPrice(h.T.Context(), "w0", what, said)
			h.Must(err)
			return p
		}
		if p := price(store.Drain{Shed: task.Unit}, nil); p.Stays != 0 {
			t.Errorf("a unit of the 54 that are free: %+v", p)
		}
		if p := price(store.Drain{}, nil); p.Stays != 6 {
			t.Errorf("all: %+v", p)
		}
		h.configure("g", paused)
		h.Pass(3 * time.Second)
		if p := price(store.Drain{}, nil); p.Jobs+p.Moves+p.Stays != 0 ||
			!strings.Contains(p.Text, "paused") {
			t.Errorf("paused: %+v", p)
		}
	})
}
