package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ofKeys submits tasks of group keys together, to queue q.
func (h *house) ofKeys(keys ...string) []task.ID {
	h.t.Helper()
	subs := make([]task.Submission, len(keys))
	for i, key := range keys {
		subs[i] = task.Submission{
			Queue: "q", GroupKey: key, Context: fmt.Appendf(nil, `["%s",%d]`, key, i),
		}
	}
	return h.submit(subs...)
}

// spans counts the spans of queue q in memory, and those of them that are not sorted.
func (h *house) spans() (all, mixed int) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	for _, sp := range h.d.mem.spans {
		if all++; !sp.Sorted {
			mixed++
		}
	}
	return all, mixed
}

// What is submitted to a node that has room for it is handed out as it came, and its keys count all
// the same.
func TestWhatFitsIsNotSorted(t *testing.T) {
	for name, limited := range map[string]func(q *task.Queue){
		"limits":     func(q *task.Queue) { q.PerKey.MaxRunning = 2 },
		"with turns": func(q *task.Queue) { q.PerKey.MaxRunning, q.Fair = 2, true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.set(limited)
				got := h.waits("w", 10)
				h.ofKeys("a", "b", "a", "a", "c", "")
				first := <-got
				if keys := keysOf(first); keys["a"] != 2 || keys["b"] != 1 || len(first) != 5 {
					t.Fatalf("%v run", keys)
				}
				if all, mixed := h.spans(); all != 1 || mixed != 1 {
					t.Errorf("%d spans, %d of which are not sorted", all, mixed)
				}
				next := h.waits("w", 10)
				at := time.Now()
				h.done("w", first[0])
				if got := <-next; len(got) != 1 || keyOfTask(got[0]) != "a" ||
					time.Since(at) > 100*time.Millisecond {
					t.Errorf("%v went on after %v", keysOf(got), time.Since(at))
				} else {
					h.done("w", append(first[1:], got...)...)
				}
				h.empty()
				h.counts(task.Counts{Done: 6})
			})
		})
	}
}

// What lies in the store is taken as it is when all of it fits in memory, else sorted; always so
// where keys go in order, or weigh.
func TestWhatDoesNotFitIsSorted(t *testing.T) {
	two := func(q *task.Queue) { q.PerKey.MaxRunning = 2 }
	for name, c := range map[string]struct {
		limited func(q *task.Queue)
		tasks   int
		mixed   bool
	}{
		"it fits":          {two, 8, true},
		"it does not":      {two, 40, false},
		"in order":         {func(q *task.Queue) { q.PerKey.MaxRunning = 1 }, 8, false},
		"in turn":          {func(q *task.Queue) { q.Fair = true }, 8, true},
		"in weighed turns": {func(q *task.Queue) { q.Fair = true }, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.set(func(q *task.Queue) { c.limited(q); q.Paused = true })
				if name == "in weighed turns" {
					if _, err := h.d.ChangeKey(h.ctx, store.KeyChange{
						Queue: "q", Key: "a", Weight: new(2),
					}); err != nil {
						t.Fatal(err)
					}
				}
				var keys []string
				for i := range c.tasks {
					keys = append(keys, string('a'+rune(i%5)))
				}
				h.ofKeys(keys...)
				h.set(func(q *task.Queue) { q.Paused = false })
				got := h.holdFor("w", 4, time.Second)
				if len(got) != 4 {
					t.Fatalf("%v run", keysOf(got))
				}
				if all, mixed := h.spans(); mixed > 0 != c.mixed || mixed > 0 && all != mixed {
					t.Errorf("%d spans, %d of which are not sorted", all, mixed)
				}
				for done := 0; done < c.tasks; {
					h.done("w", got...)
					if done += len(got); done < c.tasks {
						got = h.holdFor("w", 4, time.Second)
					}
				}
				h.empty()
				h.counts(task.Counts{Done: int64(c.tasks)})
			}, func(c *Config) { c.Ahead = 10 })
		})
	}
}

// Memory changes with what the queue is told: what came as it was is sorted when its keys are to go
// in order, and is handed out as it is again when they need not.
func TestMixedSpansFollowTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(2)
		got := h.waits("w", 3)
		h.ofKeys("a", "b", "a", "b", "a", "b", "c")
		first := <-got
		h.perKey(1)
		h.sound()
		h.done("w", first...)
		second := h.holdFor("w", 10, time.Second)
		for i, keys := 0, map[string]bool{}; i < len(second); i++ {
			if key := keyOfTask(second[i]); keys[key] {
				t.Errorf("two of %s run", key)
			} else {
				keys[key] = true
			}
		}
		h.set(func(q *task.Queue) { q.PerKey = task.KeyLimits{} })
		h.sound()
		h.done("w", second...)
		for left := 7 - len(first) - len(second); left > 0; {
			got := h.holdFor("w", 10, time.Second)
			if len(got) == 0 {
				t.Fatalf("%d are left", left)
			}
			h.done("w", got...)
			left -= len(got)
		}
		h.empty()
		h.counts(task.Counts{Done: 7})
	})
}

// Tasks of keys of which few may run are held ahead by a worker that is quick, up to half of what
// the key may have; by one that is not none are.
func TestOnlyQuickWorkersHoldTasksOfKeysAhead(t *testing.T) {
	for name, c := range map[string]struct {
		each time.Duration // how long a task takes
		idle time.Duration // after the last one
		want map[string]int
	}{
		"quick":           {10 * time.Millisecond, 0, map[string]int{"a": 4}},
		"slow":            {100 * time.Millisecond, 0, map[string]int{"a": 1}},
		"quick in a past": {10 * time.Millisecond, 2 * time.Second, map[string]int{"a": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.perKey(8)
				hold := func() []task.Handout {
					a, err := h.d.Hold(h.ctx, task.HoldRequest{
						Worker: "w", Queues: []string{"q"}, Limit: 20, Ahead: 20,
						Incarnation: "one", Wait: time.Second,
					})
					if err != nil {
						t.Fatal(err)
					}
					return a.Tasks
				}
				h.beat("w", "one", 1)
				for range 40 {
					h.ofKeys("c")
					got := hold()
					time.Sleep(c.each)
					h.done("w", got...)
				}
				time.Sleep(c.idle)
				h.beat("w", "one", 1)
				h.ofKeys("a", "a", "a", "a", "a", "a")
				if got := keysOf(hold()); fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%v were given, not %v", got, c.want)
				}
			})
		})
	}
}
