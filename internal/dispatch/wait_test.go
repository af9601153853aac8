package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// between is a task that waits between its first stage and its second.
func (h *house) between(wait time.Duration) task.ID {
	h.t.Helper()
	id := h.submit(task.Submission{Queue: "q", Stage: "send", Priority: time.Minute})[0]
	h.report("w", h.one("w"), task.NextAfter(wait, "remind", "ann"), task.Recorded)
	h.state(id, task.Waiting)
	return id
}

// waits are a wait that a node keeps in its memory, and one that the store keeps.
var waits = map[string]time.Duration{"short": 40 * time.Second, "long": 40 * time.Minute}

func TestNextStageBeginsAfterItsDelayAndNotBefore(t *testing.T) {
	for name, wait := range waits {
		for again, restarts := range map[string]bool{"": false, ", and the node restarts": true} {
			t.Run(name+again, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := open(t, model.New(time.Now))
					defer func() { h.close() }()
					id := h.between(wait)
					h.counts(task.Counts{Waiting: 1})
					began := time.Now()
					if restarts {
						h.close()
						h = open(t, h.store)
					}
					x := h.holdFor("w", 1, time.Minute)
					for len(x) == 0 && time.Since(began) < 2*wait {
						x = h.holdFor("w", 1, time.Minute)
					}
					if len(x) != 1 || x[0].ID != id || x[0].Stage != "remind" ||
						string(x[0].Context) != `"ann"` || x[0].Attempt != 1 {
						t.Fatalf("handed out %+v", x)
					}
					if took := time.Since(began); took < wait || took > wait+2*time.Second {
						t.Errorf("it began after %v, want %v", took, wait)
					}
					h.report("w", x[0], task.Finish(nil), task.Recorded)
					h.state(id, task.Done)
				})
			})
		}
	}
}

// A long wait takes the task out of the node's memory, a short one does not.
func TestLongDelayOfAStageLeavesMemory(t *testing.T) {
	for name, wait := range waits {
		bubble(t, func(t *testing.T, h *house) {
			h.between(wait)
			h.d.mu.Lock()
			held := h.d.mem.held()
			h.d.mu.Unlock()
			if want := map[string]int{"short": 1, "long": 0}[name]; held != want {
				t.Errorf("a %s wait leaves %d tasks in memory, want %d", name, held, want)
			}
		})
	}
}

// The stage that follows a wait ranks as a submission with that delay: due - priority.
func TestStageAfterADelayHasItsHeadStart(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				late := h.between(wait)
				time.Sleep(wait - 30*time.Second)
				// due 30 s before it, and without a priority
				early := h.submit(task.Submission{Queue: "q"})[0]
				time.Sleep(35 * time.Second)
				if x := h.one("w"); x.ID != late {
					t.Errorf("%v was handed out before the one with a head start", x.ID)
				}
				if x := h.one("w"); x.ID != early {
					t.Errorf("%v was handed out, want %v", x.ID, early)
				}
			})
		})
	}
}

func TestTaskThatWaitsBetweenStagesIsRunNowAndCancelled(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				run, end := h.between(wait), h.between(wait)
				if err := h.d.Act(h.ctx, task.KindMoved, "me", run); err != nil {
					t.Fatal(err)
				}
				if x := h.one("w"); x.ID != run || x.Stage != "remind" {
					t.Errorf("run now brought %+v", x)
				} else {
					h.report("w", x, task.Finish(nil), task.Recorded)
				}
				if err := h.d.Act(h.ctx, task.KindCancelled, "me", end); err != nil {
					t.Fatal(err)
				}
				h.state(end, task.Cancelled)
				time.Sleep(2 * wait)
				if got := h.hold("w", 1); len(got) != 0 {
					t.Errorf("handed out after its cancellation: %+v", got)
				}
			})
		})
	}
}
