package supervise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// troubled is a story with all that a supervisor does in it: it assigns, places anew what a dead
// worker ran, moves to one that joins, and empties one that is drained.
func troubled(h *house) {
	h.group("g", 8, replicas(2))
	h.Start("n1", "n2")
	h.addWorkers(4, 60, "n1", "n2")
	h.Await(2*time.Minute, "all run", h.allRun("g", 16))
	h.workers["w0"].kill()
	h.Await(2*time.Minute, "all run without w0", h.allRun("g", 16))
	h.worker("w9", 60, "n2", "n1")
	h.Await(2*time.Minute, "w9 has its share", func() bool {
		return h.spread("g")["w9"] == 4 && h.allRun("g", 16)()
	})
	h.jobs("g", 6)
	h.Await(2*time.Minute, "what was removed has ended", h.allRun("g", 12))
}

// Each write fails once, in both ways.
func TestEveryWriteMayFail(t *testing.T) {
	for _, verb := range []string{"Seat", "Observe", "Assign"} {
		for _, kind := range []fault.Fault{fault.Before, fault.After} {
			for nth := story.Often(0, 1); nth < 12; nth += story.Often(1, 5) {
				t.Run(fmt.Sprint(verb, kind, nth), func(t *testing.T) {
					inHouse(t, func(h *house) {
						h.Fail(fault.Nth(nth, kind, verb))
						troubled(h)
					})
				})
			}
		}
	}
}

// A node dies right before or right after each of its writes, and its workers and groups go to the
// other one.
func TestNodeMayDieAtEveryWrite(t *testing.T) {
	for _, kind := range []fault.Fault{fault.Before, fault.After} {
		for nth := story.Often(0, 1); nth < 24; nth += story.Often(1, 5) {
			t.Run(fmt.Sprint(kind, nth), func(t *testing.T) {
				inHouse(t, func(h *house) {
					h.CrashAt("n1", fault.Nth(nth, kind, "Seat", "Observe", "Assign"))
					troubled(h)
				})
			})
		}
	}
}

func TestFaultsForAWhileAreOvercome(t *testing.T) {
	for seed := range uint64(story.Often(10, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inHouse(t, func(h *house) {
				plan, n := fault.Seeded(seed, 3), 0
				h.Fail(func(verb string) fault.Fault {
					h.mu.Lock()
					defer h.mu.Unlock()
					if !ofJobs(verb) {
						return fault.None
					}
					n++
					return plan(n)
				})
				troubled(h)
			})
		})
	}
}

func TestShortOutageOfTheStoreStopsNothing(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		begun, ended := h.begun()
		h.Node("n1").Door.Cut()
		h.Pass(6 * beat)
		h.Node("n1").Door.Restore()
		h.Pass(20 * beat)
		if b, e := h.begun(); b != begun || e != ended || !h.allRun("g", 24)() {
			t.Errorf("%d began, %d ended", b-begun, e-ended)
		}
	})
}

// In an outage that is longer than the node's lease the workers stop their jobs by themselves:
// nobody could know who else starts them. Afterwards all is where it was.
func TestLongOutageOfTheStoreMovesNothing(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		before := h.running()
		h.Node("n1").Door.Cut()
		h.Pass(time.Minute)
		if n := len(h.running()); n != 0 {
			t.Errorf("%d still run", n)
		}
		h.Node("n1").Door.Restore()
		h.Await(10*beat, "all run where they did", func() bool {
			return fmt.Sprint(before) == fmt.Sprint(h.running()) && h.allRun("g", 24)()
		})
	})
}

// Supervisors, one of which has something to do, the sessions and the membership meet the outage
// with every beat.
func TestOutageIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	settled(t, 3, 12, 2, func(h *house) {
		h.group("other", 60)
		h.workers["w0"].serve("g", "other")
		h.Await(time.Minute, "another group is about to be assigned", func() bool {
			n := len(h.stand("other"))
			return n > 0 && n < 30
		})
		h.Node("n1").Door.Cut()
		h.Pass(8 * beat)
		if n := h.Journal.Count("level=ERROR"); n != 1 ||
			h.Journal.Count("the store is out of reach") != 1 {
			t.Errorf("the log has %d errors in an outage, want one of it", n)
		}
		h.Node("n1").Door.Restore()
		h.Pass(10 * beat)
		if n := h.Journal.Count("level=ERROR"); n != 1 ||
			h.Journal.Count("the store answers again") != 1 {
			t.Errorf("the log has %d errors after an outage, want the same one, and its end once",
				n)
		}
	})
}

// A node that is cut off from the store answers its workers no more, so they go to the other one
// before theirs are taken for lost.
func TestWorkersLeaveANodeThatIsCutOff(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 12, replicas(2))
		h.Start("n1", "n2")
		h.addWorkers(4, 60, "n1", "n2")
		h.Await(time.Minute, "all run", h.allRun("g", 24))
		h.calm()
		begun, ended := h.begun()
		h.Node("n1").Door.Cut()
		h.Pass(time.Minute)
		if b, e := h.begun(); b != begun || e != ended || !h.allRun("g", 24)() {
			t.Errorf("%d began, %d ended", b-begun, e-ended)
		}
		for _, name := range []string{"w0", "w2"} {
			if seat := h.seat(name); seat.Node.Node != "n2" {
				t.Errorf("%s sits at %q", name, seat.Node.Node)
			}
		}
	})
}

// As through a proxy that sends each call to another node.
func TestWorkersMayBeatAtAnotherNodeEachTime(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 12, replicas(2))
		h.Start("n1", "n2", "n3")
		h.addWorkers(4, 60, "n1", "n2", "n3")
		for _, w := range h.workers {
			w.change(func() { w.roams = true })
		}
		h.Await(time.Minute, "all run", h.allRun("g", 24))
		h.jobs("g", 8)
		h.Await(time.Minute, "what was removed has ended", h.allRun("g", 16))
		h.workers["w0"].kill()
		h.Await(time.Minute, "all run elsewhere", h.allRun("g", 16))
	})
}

// While the store is away nobody can come back, so its absence counts against none of those that
// lost their node.
func TestOutageAfterADeathMovesNothing(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 12, replicas(2))
		h.Start("n2") // it supervises
		h.Pass(2 * beat)
		h.Start("n1")
		for i := range 4 {
			h.worker(fmt.Sprint("w", i), 60, "n1")
		}
		h.Await(time.Minute, "all run", h.allRun("g", 24))
		h.calm()
		before := h.stand("g")
		h.Kill("n1")
		h.Await(20*beat, "its workers are orphans", func() bool {
			return h.seat("w0").State == store.SeatOrphan
		})
		h.Node("n2").Door.Cut()
		for _, w := range h.workers {
			w.reach("n2")
		}
		h.Pass(40 * beat)
		h.Node("n2").Door.Restore()
		h.Await(20*beat, "all run", h.allRun("g", 24))
		for _, a := range before {
			if now := find(h.stand("g"), a.Job, a.Worker); now == nil || now.Token != a.Token {
				t.Errorf("%s left %s", a.Job, a.Worker)
			}
		}
	})
}

// A process that is stopped can't stop its jobs. What began elsewhere meanwhile goes on there, and
// it is told to end its own.
func TestWorkerThatWasStoppedEndsWhatBeganElsewhere(t *testing.T) {
	settled(t, 3, 9, 1, func(h *house) {
		w := h.workers["w0"]
		w.freeze(true)
		h.Await(silence+5*beat, "others run its jobs", func() bool {
			return len(h.copies()) == 9 && h.spread("g")["w0"] == 0
		})
		h.lax = true // until it has heard
		w.freeze(false)
		h.Pass(2 * beat)
		h.lax = false
		h.Await(time.Minute, "each runs once", h.allRun("g", 9))
	})
}

// Many that lose their node at once, and are heard at no other, get twice the time; few don't.
func TestManySilentWorkersGetOneMoreLimit(t *testing.T) {
	for lost, told := range map[int]int{4: 0, 6: 1} {
		inHouse(t, func(h *house) {
			h.group("g", 30)
			h.Start("n2") // it supervises
			h.Pass(2 * beat)
			h.Start("n1")
			for i := range 10 {
				h.worker(fmt.Sprint("w", i), 60, "n1", "n2")
			}
			h.Await(time.Minute, "all run", h.allRun("g", 30))
			h.calm()
			before := started(h)
			for i := range lost {
				h.workers[fmt.Sprint("w", i)].reach()
			}
			h.Kill("n1")
			h.Pass(lease + silence + 5*beat)
			if began := started(h) > before; began == (told > 0) {
				t.Errorf("%d of 10 lost, %d replicas began elsewhere within one limit", lost,
					started(h)-before)
			}
			h.Await(silence, "all run elsewhere", h.allRun("g", 30))
			if h.told(workersSilent) != told {
				t.Errorf("%d of 10 lost: told %v, want the brake %d times", lost, h.events, told)
			}
		})
	}
}

func TestCapacityIsSharedAmongGroups(t *testing.T) {
	inHouse(t, func(h *house) {
		h.group("g", 10)
		h.group("a", 10)
		h.Start("n1", "n2")
		for i := range 2 {
			h.worker(fmt.Sprint("w", i), 10, "n1", "n2").serve("a", "g")
		}
		h.Await(time.Minute, "both run", func() bool { return len(h.running()) == 20 })
		h.jobs("a", 0)
		h.jobs("g", 16)
		h.Await(time.Minute, "one has the other's room", func() bool {
			return len(h.running()) == 16 && h.allRun("g", 16)()
		})
	})
}

func TestTasksLeaveRoomForJobs(t *testing.T) {
	settled(t, 1, 58, 1, func(h *house) {
		n := h.Node("n1")
		_, err := n.Tasks.Submit(h.T.Context(), submissions(10))
		h.Must(err)
		got, err := n.Tasks.Hold(h.T.Context(), task.HoldRequest{
			Worker: "w0", Queues: []string{"q"}, Limit: 10, Wait: time.Second,
		})
		h.Must(err)
		if len(got.Tasks) != 2 {
			t.Errorf("a worker with 58 of 60 units in use by jobs got %d tasks, want 2",
				len(got.Tasks))
		}
	})
}
