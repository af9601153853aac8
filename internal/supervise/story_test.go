package supervise_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const silence = limits.DefaultSilence

func TestJobsRunOnAsManyWorkersAsTheyHaveReplicas(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		for worker, n := range h.spread("g") {
			if n != 8 {
				t.Errorf("%s has %d replicas, want 8", worker, n)
			}
		}
		for job, n := range h.copies() {
			if n != 2 {
				t.Errorf("%s runs %d times, want 2", job, n)
			}
		}
		if h.told(groupShort) != 0 {
			t.Errorf("told %v: there was room for all", h.events)
		}
	})
}

func TestDeadWorkersReplicasRunElsewhereAfterItsSilenceAndTwoBeats(t *testing.T) {
	settled(t, 4, 12, 2, func(h *house) {
		before, begunBefore := h.stand("g"), started(h)
		h.workers["w1"].kill()
		took := h.Await(silence+2*beat, "all run again", func() bool {
			for _, n := range h.copies() {
				if n != 2 {
					return false
				}
			}
			return len(h.running()) == 24
		})
		if took < silence {
			t.Errorf("the worker was taken for dead after %v", took)
		}
		lost := 0
		for _, a := range before {
			if a.Worker == "w1" {
				lost++
			} else if now := find(h.stand("g"), a.Job, a.Worker); now == nil ||
				now.Token != a.Token {
				t.Errorf("%s left %s, which is well", a.Job, a.Worker)
			}
		}
		if n := started(h) - begunBefore; n != lost {
			t.Errorf("%d replicas were started, %d were lost", n, lost)
		}
		h.Await(10*beat, "all is written down, and even", func() bool {
			return h.allRun("g", 24)() && spreadOf(h.spread("g")) <= 1
		})
		if h.told(workerDead) != 1 {
			t.Errorf("told %v, want the death once", h.events)
		}
	})
}

func started(h *house) int {
	begun, _ := h.begun()
	return begun
}

func TestWorkerThatIsCutOffHasStoppedBeforeOthersStart(t *testing.T) {
	settled(t, 3, 9, 1, func(h *house) {
		w := h.workers["w0"]
		w.reach()
		took := h.Await(silence, "it stops its jobs", func() bool { return len(w.list()) == 0 })
		if len(h.running()) != 6 {
			t.Errorf("%d run after %v: others began before it had stopped", len(h.running()), took)
		}
		h.Await(silence, "all run elsewhere", h.allRun("g", 9))
		w.reach("n1")
		h.Await(time.Minute, "it has its share again", func() bool {
			return len(w.list()) == 3 && h.allRun("g", 9)()
		})
	})
}

func TestJoiningWorkerGetsItsShareAndNoMore(t *testing.T) {
	settled(t, 4, 30, 2, func(h *house) {
		_, ended := h.begun()
		h.worker("w9", 60, "n1")
		h.Await(time.Minute, "it has its share", func() bool {
			return h.spread("g")["w9"] == 12 && h.allRun("g", 60)()
		})
		h.calm()
		if _, now := h.begun(); now-ended > 60/5 {
			t.Errorf("%d replicas moved, want at most 12", now-ended)
		}
	})
}

func TestJobNeverStopsWhileItMoves(t *testing.T) {
	settled(t, 3, 30, 1, func(h *house) {
		h.worker("w9", 60, "n1")
		for range 400 {
			h.Pass(100 * time.Millisecond)
			if n := len(h.copies()); n != 30 {
				t.Fatalf("%d of 30 jobs run", n)
			}
		}
		if n := h.spread("g")["w9"]; n != 7 {
			t.Errorf("the new worker has %d replicas, want 7", n)
		}
	})
}

func TestMovesPerRoundAreBounded(t *testing.T) {
	settled(t, 2, 60, 1, func(h *house) {
		h.configure("g", func(g *task.Group) { g.Policy.Moves = 3 })
		h.worker("w9", 60, "n1")
		h.Await(2*time.Minute, "it has its share", func() bool {
			moving := 0
			for _, a := range h.stand("g") {
				if a.State == task.JobMoving {
					moving++
				}
			}
			if moving > 3 {
				t.Fatalf("%d move at a time", moving)
			}
			return h.spread("g")["w9"] == 20
		})
	})
}

func TestNothingMovesWhenTheGroupMayNotMove(t *testing.T) {
	settled(t, 2, 10, 1, func(h *house) {
		h.configure("g", func(g *task.Group) { g.Policy.Moves = 0 })
		h.worker("w9", 60, "n1")
		h.Pass(30 * time.Second)
		if n := h.spread("g")["w9"]; n != 0 {
			t.Errorf("%d replicas moved", n)
		}
	})
}

func TestRestartOfEveryNodeMovesNothing(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 50, replicas(2))
		h.Start("n1", "n2", "n3")
		h.addWorkers(5, 60, "n1", "n2", "n3")
		h.Await(time.Minute, "all run", h.allRun("g", 100))
		h.calm()
		before, rowsBefore := started(h), h.stand("g")
		for _, name := range []string{"n1", "n2", "n3"} {
			h.Kill(name)
		}
		h.Start("n1", "n2", "n3") // each waits until its predecessor is certainly dead
		h.Pass(time.Minute)
		h.Await(beat, "all run", h.allRun("g", 100))
		for _, a := range rowsBefore {
			if now := find(h.stand("g"), a.Job, a.Worker); now == nil || now.Token != a.Token {
				t.Errorf("%s left %s", a.Job, a.Worker)
			}
		}
		t.Log("begun again:", started(h)-before)
	})
}

func TestDeathOfANodeMovesNoJob(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 20, replicas(2))
		h.Start("n1", "n2", "n3")
		h.addWorkers(6, 60, "n1", "n2", "n3")
		h.Await(time.Minute, "all run", h.allRun("g", 40))
		h.calm()
		before := started(h)
		for _, name := range []string{"n1", "n2"} {
			// one of them may be the supervisor's, then the other is not
			h.Kill(name)
			h.Pass(45 * time.Second)
			h.Await(beat, "all run", h.allRun("g", 40))
		}
		if n := started(h) - before; n != 0 {
			t.Errorf("%d replicas were started anew", n)
		}
	})
}

func TestGroupsOfADeadNodeAreSupervisedAgain(t *testing.T) {
	inHouse(t, func(h *house) {
		for i := range 6 {
			h.group(fmt.Sprint("g", i), 2)
		}
		h.Start("n1", "n2")
		w := h.worker("w0", 60, "n1", "n2")
		w.serve("g0", "g1", "g2", "g3", "g4", "g5")
		h.Await(time.Minute, "all run", func() bool { return len(h.running()) == 12 })
		h.Kill("n1")
		for i := range 6 {
			h.jobs(fmt.Sprint("g", i), 3)
		}
		h.Await(time.Minute, "what came since runs", func() bool { return len(h.running()) == 18 })
	})
}

func TestFirstWorkersWaitForEachOther(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 30, func(g *task.Group) { g.Policy.Moves = 0 })
		h.Start("n1")
		h.Pass(time.Minute) // longer than any warm-up
		for i := range 3 {
			h.worker(fmt.Sprint("w", i), 60, "n1")
			h.Pass(beat / 2)
		}
		h.Await(20*beat, "all run", h.allRun("g", 30))
		for worker, n := range h.spread("g") {
			if n != 10 {
				t.Errorf("%s has %d jobs, want 10", worker, n)
			}
		}
	})
}

func TestWhatTheStoreLostIsAdopted(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 20, replicas(2))
		h.Start("n1")
		h.addWorkers(4, 60, "n1")
		h.Await(time.Minute, "all run", h.allRun("g", 40))
		h.calm()
		before, runs := started(h), h.running()
		h.Kill("n1")
		h.lax = true
		h.newStore()
		h.group("g", 20, replicas(2))
		h.Start("n1")
		h.Await(30*time.Second, "all is adopted", h.allRun("g", 40))
		h.lax = false
		h.calm()
		if n := started(h) - before; n != 0 || !slices.Equal(runs, h.running()) {
			t.Errorf("%d replicas were started anew", n)
		}
		if !slices.Contains(h.events, groupWarm+" g") {
			t.Errorf("told %v, want the end of the warm-up", h.events)
		}
		if h.add("g", "new"); true {
			h.Await(10*beat, "what is new runs, too", h.allRun("g", 42))
		}
	})
}

func TestRunThatWasNeverGivenIsEnded(t *testing.T) {
	settled(t, 2, 4, 1, func(h *house) {
		w := h.workers["w0"]
		h.lax = true
		for _, token := range []task.JobToken{{Number: 1, Seal: 1},
			seal.NewSealer(nodetest.Secret()).SealJob(task.JobToken{Number: 1 << 40}, "g", "other", 0, "w0"),
			{}} {
			w.pretend("g", "other", token)
			h.Await(10*time.Second, "it is told to end it", func() bool {
				return !slices.Contains(w.list(), "g/other/0@w0")
			})
		}
		for _, token := range []task.JobToken{{Number: 5, Seal: 5}} {
			w.pretend("nobody", "j", token)
			h.Await(10*time.Second, "it is told to end it", func() bool {
				return !slices.Contains(w.list(), "nobody/j/0@w0")
			})
		}
		h.lax = false
		h.Await(10*time.Second, "all else runs", h.allRun("g", 4))
	})
}

// What its earlier incarnation still does, if it was only stopped, can be told from what this one
// does.
func TestWorkerThatBeginsAnewHasWhatItHadUnderGreaterTokens(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		before := h.stand("g")
		h.workers["w0"].kill()
		h.worker("w0", 60, "n1")
		h.Await(5*beat, "all run", h.allRun("g", 24))
		for _, a := range before {
			switch now := find(h.stand("g"), a.Job, a.Worker); {
			case now == nil:
				t.Errorf("%s left %s", a.Job, a.Worker)
			case a.Worker == "w0" && now.Token <= a.Token, a.Worker != "w0" && now.Token != a.Token:
				t.Errorf("%s on %s had token %d, and has %d", a.Job, a.Worker, a.Token, now.Token)
			}
		}
	})
}

func TestWorkerThatBeginsAnewHasNothingThatMoves(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		s := d.supervisor("g", "n1")
		d.addWorkers(2, 60)
		d.decide(s)
		had := d.stand("g")[0].Worker
		d.obey(had, 60)
		d.sessions.HearStore([]store.Lease{{Name: "worker/" + had, Until: math.MaxInt64}})
		d.round()
		d.Must(s.Round(d.T.Context(), time.Now()))
		if a := find(d.stand("g"), "j0000", had); a == nil || a.State != task.JobMoving {
			t.Fatalf("it does not move: %+v", d.stand("g"))
		}
		time.Sleep(beat)
		d.sessions.Hear(&task.Beat{
			Worker: had, Incarnation: "next", Capacity: 60, Groups: []string{"g"},
		})
		d.round()
		if a := d.stand("g"); len(a) != 1 || a[0].Worker == had {
			t.Errorf("there are %+v", a)
		}
	})
}

func TestOfTwoWorkersWithOneNameTheNewerWins(t *testing.T) {
	for _, at := range []string{"n1", "n2"} {
		t.Run("at "+at, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.group("g", 4)
				h.Start("n1", "n2")
				older := h.worker("w0", 60, "n1")
				h.Await(time.Minute, "all run", h.allRun("g", 4))
				h.lax = true
				newer := h.worker("w0", 60, at)
				h.mu.Lock()
				h.workers["older"] = older
				h.mu.Unlock()
				h.Await(10*time.Second, "the older is told to end", func() bool {
					older.mu.Lock()
					defer older.mu.Unlock()
					return older.over != nil && len(older.runs) == 0
				})
				h.lax = false
				h.Await(10*time.Second, "the newer runs all", func() bool {
					return len(newer.list()) == 4 && h.allRun("g", 4)()
				})
			})
		})
	}
}
