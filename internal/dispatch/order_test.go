package dispatch

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// outcome reports an outcome, which is to be recorded.
func (h *house) outcome(worker string, x task.Handout, o task.Outcome) {
	h.t.Helper()
	h.report(worker, x, o, task.Recorded)
}

// Of a key in order the next task goes out when the one before is over, whatever that takes; other
// keys go on.
func TestAKeyInOrderWaitsForWhatRetries(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(1)
		time.Sleep(25 * time.Second)
		h.keyed("a", 3)
		h.keyed("b", 2)
		one := func(want string) task.Handout {
			t.Helper()
			got := h.holdFor("w", 5, 30*time.Second)
			if len(got) != 1 || keyOfTask(got[0]) != want {
				t.Fatalf("%v went out, want one of %s", got, want)
			}
			return got[0]
		}
		got := h.hold("w", 5)
		if len(got) != 2 {
			t.Fatalf("%v went out first", keysOf(got))
		}
		first, other := got[0], got[1]
		h.outcome("w", first, task.RetryAfter(20*time.Second, errors.New("no")))
		h.done("w", other)
		h.done("w", one("b"))
		again := one("a")
		if again.ID != first.ID || again.Attempt != 2 {
			t.Fatalf("%v, attempt %d, went out instead of %v", again.ID, again.Attempt, first.ID)
		}
		h.outcome("w", again, task.Next("second", nil))
		if again = one("a"); again.ID != first.ID || again.Stage != "second" {
			t.Fatalf("%v at %q went out instead of %v", again.ID, again.Stage, first.ID)
		}
		h.outcome("w", again, task.RetryAfter(10*time.Minute, errors.New("no"))) // in the store
		for due := time.Now().Add(10 * time.Minute); ; {
			if got := h.holdFor("w", 5, time.Minute); len(got) > 0 {
				if again = got[0]; len(got) > 1 || again.ID != first.ID || time.Now().Before(due) {
					t.Fatalf("%v went out, not %v when it was due", got, first.ID)
				}
				break
			}
			if time.Since(due) > time.Minute {
				t.Fatal("nothing went out when it was due")
			}
		}
		h.outcome("w", again, task.Fail(errors.New("dead")))
		h.done("w", one("a"))
		h.done("w", one("a"))
		h.counts(task.Counts{Done: 4, Dead: 1})
		h.sound()
	})
}

// A dead task stops its key if it is to, until it is over in another way.
func TestADeadTaskStopsItsKey(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) {
			q.PerKey.MaxRunning, q.PerKey.OnDead = 1, task.OnDeadStop
		})
		time.Sleep(25 * time.Second)
		h.keyed("a", 3)
		dead := h.one("w")
		h.outcome("w", dead, task.Fail(errors.New("dead")))
		if got := h.holdFor("w", 5, time.Minute); len(got) > 0 {
			t.Fatalf("%v went out behind a dead one", keysOf(got))
		}
		if err := h.replay("somebody", dead.ID, store.Replay{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false, false} {
			got := h.holdFor("w", 5, time.Minute)
			if len(got) != 1 || (got[0].ID == dead.ID) != want {
				t.Fatalf("%v went out, dead was %v", got, dead.ID)
			}
			h.done("w", got[0])
		}
		h.sound()
	})
}

// On two nodes, whatever becomes of tasks, those of a key begin by rank, and each when the one
// before it is over.
func TestKeysGoInOrderOverNodes(t *testing.T) {
	for seed := range uint64(story.Often(30, 9)) {
		synctest.Test(t, func(t *testing.T) {
			luck := rand.New(rand.NewPCG(seed, 7))
			a, b := neighbours(t, model.New(time.Now), seed%3 > 0)
			defer time.Sleep(10 * time.Millisecond) // hints that are on their way
			defer a.close()
			defer b.close()
			a.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.MaxAttempts = 1, 1000 })
			time.Sleep(25 * time.Second)
			const each = 6
			var order [3][]task.ID
			for range each {
				for k := range order {
					order[k] = append(order[k], a.keyed(string(rune('a'+k)), 1)...)
					time.Sleep(time.Millisecond)
				}
			}
			key := func(id task.ID) int {
				for k, list := range order {
					if len(list) > 0 && list[0] == id {
						return k
					}
				}
				t.Fatalf("seed %d: %v began, next are %v", seed, id, order)
				return 0
			}
			out := map[task.ID]*house{}
			for limit := 0; len(order[0])+len(order[1])+len(order[2]) > 0; limit++ {
				if limit > 3000 {
					t.Fatalf("seed %d: these never began: %v", seed, order)
				}
				h := []*house{a, b}[luck.IntN(2)]
				worker := []string{"w0", "w1"}[luck.IntN(2)]
				for _, got := range h.holdFor(worker, 1+luck.IntN(3), 500*time.Millisecond) {
					k := key(got.ID)
					if _, twice := out[got.ID]; twice {
						t.Fatalf("seed %d: %v began twice", seed, got.ID)
					}
					at := []*house{a, b}[luck.IntN(2)]
					switch luck.IntN(4) {
					case 0:
						at.outcome(worker, got, task.RetryAfter(
							time.Duration(luck.IntN(90))*time.Second, errors.New("no")))
					case 1:
						at.outcome(worker, got, task.Next("next", nil))
					case 2:
						at.outcome(worker, got, task.Release())
					default:
						at.done(worker, got)
						order[k] = order[k][1:]
					}
				}
			}
			a.sound()
			b.sound()
		})
	}
}
