package supervise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func silentFor(d time.Duration) func(*task.Group) { return func(g *task.Group) { g.Silence = d } }

func jobSilence(d time.Duration) func(*task.Group) {
	return func(g *task.Group) { g.JobSilence = d }
}

// settledAt is how long a change of a limit takes to reach everybody.
const settledAt = 40 * time.Second

func TestSilentWorkerLosesItsReplicasWhenItsGroupSays(t *testing.T) {
	for _, limit := range []time.Duration{4 * time.Second, 30 * time.Second, time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			settled(t, 3, 12, 1, func(h *house) {
				h.configure("g", silentFor(limit))
				h.Pass(settledAt)
				h.workers["w0"].reach()
				h.Pass(limit - limit/4)
				if n := h.spread("g")["w0"]; n != 4 {
					t.Fatalf("w0 has %d of its 4 replicas before its limit", n)
				}
				none := func() bool { return h.spread("g")["w0"] == 0 }
				took := h.Await(limit, "w0 has none", none)
				if all := took + limit - limit/4; all > limit+3*beat {
					t.Errorf("it lost them after %v", all)
				}
				h.Await(20*beat, "all run elsewhere", h.allRun("g", 12))
			})
		})
	}
}

// A worker is judged by what it was told, whatever its group says by now: else it would run what
// others have got. The audit of the house would see that.
func TestLimitIsLoweredOnlyWhenWorkersGoByIt(t *testing.T) {
	for _, lowered := range []time.Duration{0, time.Second, 5 * time.Second, 20 * time.Second} {
		t.Run(lowered.String(), func(t *testing.T) {
			settled(t, 2, 6, 1, func(h *house) {
				h.configure("g", silentFor(30*time.Second))
				h.Pass(settledAt)
				w := h.workers["w0"]
				if lowered == 0 {
					w.reach() // it never hears of it
				}
				h.configure("g", silentFor(4*time.Second))
				h.Pass(lowered)
				w.reach()
				h.Await(time.Minute, "all run elsewhere", func() bool {
					return len(w.list()) == 0 && h.allRun("g", 6)()
				})
			})
		})
	}
}

// The same when the node of the workers dies instead: others judge them by what their seats say.
// When the node dies that supervises, the next one may wait for orphans as long as it warms up, if
// that is longer.
func TestOrphansAreJudgedByWhatTheyWereTold(t *testing.T) {
	judged := func(t *testing.T, limit, within time.Duration, dies, left string) {
		inHouse(t, func(h *house) {
			h.group("g", 6, silentFor(limit))
			h.Start("n1") // it supervises
			h.Pass(2 * beat)
			h.Start("n2")
			h.worker("w1", 60, "n1")
			h.worker("w2", 60, "n2")
			h.Await(2*time.Minute, "all run", h.allRun("g", 6))
			h.Pass(settledAt)
			h.Kill(dies)
			h.Await(within+lease+5*beat, left+" has all", func() bool {
				return h.spread("g")[left] == 6 && h.allRun("g", 6)()
			})
		})
	}
	for _, limit := range []time.Duration{4 * time.Second, 40 * time.Second} {
		t.Run(limit.String(), func(t *testing.T) {
			judged(t, limit, limit, "n2", "w1")
			judged(t, limit, max(limit, limits.DefaultGroup("g").Policy.Warmup), "n1", "w2")
		})
	}
}

func TestShortestOfAWorkersGroupsCounts(t *testing.T) {
	settled(t, 2, 6, 1, func(h *house) {
		h.group("h", 2, silentFor(4*time.Second))
		h.configure("g", silentFor(time.Minute))
		for _, w := range h.workers {
			w.serve("g", "h")
		}
		h.Pass(settledAt)
		h.workers["w0"].reach()
		h.Await(8*time.Second, "w0 has nothing", func() bool {
			return h.spread("g")["w0"]+h.spread("h")["w0"] == 0
		})
	})
}

func TestQuietReplicaStartsElsewhereAndEndsHere(t *testing.T) {
	settled(t, 3, 6, 1, func(h *house) {
		h.configure("g", jobSilence(20*time.Second))
		h.Pass(time.Minute)
		begun, ended := h.begun()
		row := h.stand("g")[0]
		w := h.workers[row.Worker]
		w.change(func() { w.quiet[row.Job] = true })
		h.Pass(15 * time.Second)
		if h.stand("g")[0].Worker != row.Worker {
			t.Fatal("it moved before its limit")
		}
		h.Await(20*time.Second, "it runs elsewhere", func() bool {
			now := h.stand("g")[0]
			return now.Worker != row.Worker && h.allRun("g", 6)()
		})
		// another may have changed places with it, for balance
		if b, e := h.begun(); b > begun+2 || e-ended != b-begun || h.told("job.quiet") != 1 {
			t.Errorf("%d began and %d ended; told %v", b-begun, e-ended, h.events)
		}
		h.Pass(30 * time.Second) // its handler gives signs there
		if h.told("job.quiet") != 1 {
			t.Errorf("told %v", h.events)
		}
		h.Pass(time.Minute)
		for _, a := range h.stand("g") {
			if a.Job == row.Job && a.Worker == row.Worker {
				t.Errorf("it went back within its penalty")
			}
		}
	})
}

func TestQuietReplicaThatHasNoOtherPlaceStartsAnew(t *testing.T) {
	settled(t, 1, 2, 1, func(h *house) {
		h.configure("g", jobSilence(10*time.Second))
		row := h.stand("g")[0]
		w := h.workers[row.Worker]
		w.change(func() { w.quiet[row.Job] = true })
		h.Await(30*time.Second, "it has ended", func() bool { return len(h.running()) == 1 })
		w.change(func() { clear(w.quiet) })
		h.Await(90*time.Second, "it runs again, after its penalty", h.allRun("g", 2))
		if again := h.stand("g")[0]; again.Token == row.Token || h.told("job.quiet") != 1 {
			t.Errorf("it is %+v, told %v", again, h.events)
		}
	})
}

func TestQuietReplicaIsLeftAloneUnlessItsGroupSays(t *testing.T) {
	settled(t, 2, 4, 1, func(h *house) {
		for _, w := range h.workers {
			w.change(func() {
				for n := range 4 {
					w.quiet[fmt.Sprintf("j%04d", n)] = true
				}
			})
		}
		begun, ended := h.begun()
		h.Pass(10 * time.Minute)
		if b, e := h.begun(); b != begun || e != ended {
			t.Errorf("%d began, %d ended", b-begun, e-ended)
		}
	})
}

// A node that was stopped, or lost the beats, has not heard that handlers gave signs meanwhile.
func TestNobodyIsQuietForWhatWasNotHeard(t *testing.T) {
	settled(t, 2, 4, 1, func(h *house) {
		h.configure("g", jobSilence(20*time.Second), silentFor(5*time.Minute))
		h.Pass(settledAt)
		begun, ended := h.begun()
		for _, w := range h.workers {
			w.reach()
		}
		h.Pass(2 * time.Minute)
		for _, w := range h.workers {
			w.reach("n1")
		}
		h.Pass(time.Minute)
		if b, e := h.begun(); b != begun || e != ended || h.told("job.quiet") > 0 {
			t.Errorf("%d began, %d ended; told %v", b-begun, e-ended, h.events)
		}
	})
}
