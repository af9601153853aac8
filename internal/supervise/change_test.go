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
		h.pass(30 * time.Second)
		if !slices.Equal(before, h.running()) {
			t.Errorf("it went from %v to %v", before, h.running())
		}
		h.workers["w0"].kill()
		h.pass(30 * time.Second)
		if n := len(h.running()); n != 8 {
			t.Errorf("%d run, want the 8 of the workers that live", n)
		}
		h.configure("g", func(g *task.Group) { g.Paused = false })
		h.await(time.Minute, "all run", h.allRun("g", 26))
	})
}

func TestRemovedJobsEnd(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		h.jobs("g", 4)
		h.await(5*beat, "the others have ended", h.allRun("g", 8))
	})
}

func TestFewerReplicasEnd(t *testing.T) {
	settled(t, 3, 12, 3, func(h *house) {
		h.configure("g", replicas(1))
		h.await(5*beat, "the others have ended", h.allRun("g", 12))
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
		h.await(time.Minute, "all run there", func() bool {
			return len(w.list()) == 6 && h.allRun("g", 6)()
		})
	})
}

func TestDrainedWorkerIsEmptiedAndItsJobsNeverStop(t *testing.T) {
	settled(t, 3, 24, 1, func(h *house) {
		n := h.nodes["n1"]
		h.must(n.tasks.DrainWorker(h.t.Context(), "w1", true))
		h.await(time.Minute, "it is empty", func() bool {
			if len(h.copies()) != 24 {
				t.Fatalf("%d of 24 jobs run", len(h.copies()))
			}
			return h.spread("g")["w1"] == 0 && h.allRun("g", 24)()
		})
		h.pass(10 * beat)
		h.must(n.tasks.DrainWorker(h.t.Context(), "w1", false))
		h.await(2*time.Minute, "it has its share again", func() bool {
			return h.spread("g")["w1"] == 8 && h.allRun("g", 24)()
		})
	})
}

func TestDrainedWorkerKeepsWhatHasNoOtherPlace(t *testing.T) {
	settled(t, 2, 6, 2, func(h *house) {
		h.must(h.nodes["n1"].tasks.DrainWorker(h.t.Context(), "w1", true))
		h.pass(20 * beat)
		if !h.allRun("g", 12)() {
			t.Errorf("%v run", h.running())
		}
	})
}

func TestLoweredCapacityIsHeeded(t *testing.T) {
	settled(t, 3, 30, 1, func(h *house) {
		h.workers["w0"].resize(4)
		h.await(20*beat, "it runs no more than it can", func() bool {
			return len(h.workers["w0"].list()) <= 4 && h.allRun("g", 30)()
		})
	})
}

func TestWithoutRoomTheRestWaitsAndThatIsToldOnce(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 30, replicas(2))
		h.start("n1")
		h.worker("w0", 10, "n1")
		h.worker("w1", 25, "n1")
		h.await(30*beat, "what has room runs", h.allRun("g", 35))
		h.pass(30 * beat)
		if n := len(h.copies()); n != 30 {
			t.Errorf("%d of 30 jobs run at all: seconds came before firsts", n)
		}
		if h.told(groupShort) != 1 || h.told(groupOK) != 0 {
			t.Errorf("told %v, want the shortage once", h.events)
		}
		h.worker("w2", 60, "n1")
		h.await(time.Minute, "all run", h.allRun("g", 60))
		h.pass(2 * beat)
		if h.told(groupShort) != 1 || h.told(groupOK) != 1 {
			t.Errorf("told %v, want the shortage and its end", h.events)
		}
	})
}

func TestEndOfAShortageIsToldWhoeverToldOfItsBeginning(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 12, replicas(2))
		h.start("n1", "n2")
		h.addWorkers(2, 9, "n1", "n2")
		h.await(time.Minute, "the shortage is told", func() bool { return h.told(groupShort) == 1 })
		h.kill("n1")
		h.kill("n2")
		h.start("n3")
		for i := range 3 {
			h.worker(fmt.Sprint("more", i), 9, "n3")
		}
		for _, w := range []string{"w0", "w1"} {
			h.workers[w].reach("n3")
		}
		h.await(2*time.Minute, "all run", h.allRun("g", 24))
		h.pass(10 * beat)
		if h.told(groupShort) != 1 || h.told(groupOK) != 1 {
			t.Errorf("told %v, want the shortage, and its end by another node", h.events)
		}
		h.kill("n3")
		h.start("n4")
		for _, w := range h.workers {
			w.reach("n4")
		}
		h.pass(time.Minute)
		if h.told(groupWarm) != 3 || h.told(groupOK) != 1 {
			t.Errorf("told %v: what was never short is told to be so no more", h.events)
		}
	})
}

func TestWorkerWithoutCapacityGetsNothing(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 3)
		h.start("n1")
		h.worker("w0", 0, "n1")
		h.pass(20 * beat)
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
		h.await(20*beat, "it runs elsewhere", func() bool {
			rows := h.stand("g")
			return h.allRun("g", 6)() && find(rows, sick.Job, sick.Worker) == nil
		})
		h.pass(50 * time.Second)
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
		h.await(20*beat, "it runs elsewhere", func() bool {
			return h.allRun("g", 1)() && h.stand("g")[0].Worker != sick.name
		})
		sick.failOn(func(string) string { return "" })
		h.kill("n1")
		h.start("n1")
		h.await(time.Minute, "it goes on there", h.allRun("g", 1))
		h.workers[h.stand("g")[0].Worker].leave()
		h.pass(time.Minute)
		if len(h.stand("g")) != 0 {
			t.Errorf("it came back within its penalty")
		}
		h.await(10*time.Minute, "it runs again", h.allRun("g", 1))
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
		h.pass(2 * time.Minute)
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
			h.pass(100 * time.Millisecond)
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
		h.await(5*beat, "what failed there has ended", func() bool {
			return h.spread("g")["w9"] == 0 && h.allRun("g", 10)()
		})
	})
}

func TestOneAfterAnotherStartsAnewWhenItsJobChanges(t *testing.T) {
	settled(t, 3, 4, 2, func(h *house) {
		_, err := h.store.ChangeJobs(h.t.Context(), store.JobChange{
			Group: "g", Put: []task.Job{{Name: "j0000", Load: task.Unit, Spec: []byte(`{"v":2}`)}},
		})
		h.must(err)
		h.await(time.Minute, "both replicas have the new spec", func() bool {
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
		h.must(h.store.DeleteGroup(h.t.Context(), "g", true))
		h.await(3*beat, "nothing runs", func() bool { return len(h.running()) == 0 })
	})
}

func TestLeavingWorkersJobsRunElsewhereAtOnce(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		h.workers["w0"].leave()
		h.await(2*beat, "all run", func() bool { return len(h.running()) == 12 })
	})
}

func TestForgottenWorkersJobsRunElsewhereAtOnce(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		h.workers["w0"].kill()
		h.must(h.store.DeleteSeat(h.t.Context(), "w0"))
		h.await(3*beat, "all run", func() bool { return len(h.running()) == 12 })
	})
}

func TestWorkerThatServesTheGroupNoMoreEndsItsJobs(t *testing.T) {
	settled(t, 3, 12, 1, func(h *house) {
		w := h.workers["w0"]
		w.serve()
		h.await(20*beat, "it runs none, and all run", func() bool {
			return len(w.list()) == 0 && h.allRun("g", 12)()
		})
	})
}

func TestJobThatMovedRestsUnlessSomebodyAsks(t *testing.T) {
	settled(t, 1, 4, 1, func(h *house) {
		h.worker("w9", 60, "n1")
		h.await(20*beat, "two have moved", func() bool {
			return h.spread("g")["w9"] == 2 && h.allRun("g", 4)()
		})
		change := store.JobChange{Group: "g"}
		for _, a := range h.stand("g") {
			if a.Worker == "w0" {
				change.Remove = append(change.Remove, a.Job)
			}
		}
		_, err := h.store.ChangeJobs(h.t.Context(), change)
		h.must(err)
		h.pass(20 * beat)
		if n := h.spread("g")["w9"]; n != 2 {
			t.Errorf("%d of the two that just moved are where they were", n)
		}
		h.must(h.store.AskGroup(h.t.Context(), "g", false, true))
		h.await(10*beat, "each has one", func() bool {
			return h.spread("g")["w9"] == 1 && h.allRun("g", 2)()
		})
	})
}
