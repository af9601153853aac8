package dispatch

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
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

// Turns hand the tasks of a span out in any order: each of them has its hard limit all the same,
// and each comes back when its worker falls silent.
func TestTasksOfAMixedSpanComeBack(t *testing.T) {
	for name, beats := range map[string]bool{"hard limit": false, "silence": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.set(func(q *task.Queue) { q.Fair = true })
				if beats {
					h.beat("lost", "one", 10)
				}
				got := h.waits("lost", 10)
				h.ofKeys("a", "a", "b")
				if n := len(<-got); n != 3 {
					t.Fatalf("%d were given", n)
				}
				h.sound()
				seen := map[string]bool{}
				for end := time.Now().Add(2 * limits.DefaultTimeout); time.Now().Before(end); {
					for _, x := range h.holdFor("w", 10, 10*time.Second) {
						seen[string(x.Context)] = true
						h.done("w", x)
					}
				}
				if len(seen) != 3 {
					t.Errorf("%v ran again", seen)
				}
			})
		})
	}
}

// What was submitted first of a key runs first, though it did not fit in memory, and what comes
// later would.
func TestWhatIsNewDoesNotOvertakeWhatIsSorted(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(2)
		old := map[task.ID]bool{}
		for range 100 {
			old[h.ofKeys("a")[0]] = true
		}
		var newer atomic.Int64
		stop := make(chan struct{})
		go func() { // as fast as they end
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					h.ofKeys("a", "a")
				}
			}
		}()
		for began := time.Now(); len(old) > 0; {
			if time.Since(began) > 20*time.Second {
				t.Errorf("%d are left, and %d newer ones ran", len(old), newer.Load())
				break
			}
			for _, x := range h.holdFor("w", 20, 30*time.Millisecond) {
				if old[x.ID] {
					delete(old, x.ID)
				} else {
					newer.Add(1)
				}
				go func() {
					time.Sleep(50 * time.Millisecond)
					h.done("w", x)
				}()
			}
		}
		close(stop)
		time.Sleep(time.Second)
		if n := newer.Load(); n > 10 { // rank is kept among what takes have seen
			t.Errorf("%d newer ones ran before", n)
		}
	}, func(c *Config) { c.Ahead = 40 })
}

// However much comes of a key that is full, it does not fill memory in front of others.
func TestAFullKeyThatIsFloodedKeepsNoOtherWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(2)
		got := h.waits("w", 20)
		h.ofKeys("a", "a")
		<-got
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
					h.ofKeys("a", "a")
				}
			}
		}()
		time.Sleep(time.Duration(story.Often(2000, 500)) * time.Millisecond)
		for i := range 5 {
			got := h.waits("w", 20)
			time.Sleep(137 * time.Millisecond)
			at := time.Now()
			h.ofKeys(string('b' + rune(i)))
			if next := <-got; len(next) == 0 || time.Since(at) > 100*time.Millisecond {
				t.Errorf("%v went on after %v", keysOf(next), time.Since(at))
			}
		}
		close(stop)
		time.Sleep(time.Second)
	}, func(c *Config) { c.Ahead = 40 })
}

// What memory gives back because it is full of it does not come back as it was.
func TestWhatIsGivenBackForRoomIsSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counted{Store: model.New(time.Now)}
		h := openAs(t, db, "n", func(c *Config) { c.Ahead, c.AheadBytes = 400, 200<<10 })
		defer h.close()
		h.perKey(2)
		subs := make([]task.Submission, 300)
		for i := range subs {
			key := string('a' + rune(i%3))
			subs[i] = task.Submission{Queue: "q", GroupKey: key, Context: fmt.Appendf(nil,
				`["%s",%d,"%s"]`, key, i, strings.Repeat("x", 2000))}
		}
		h.submit(subs...)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			h.holdFor("w", 20, time.Second)
		}
		if db.tasks > 2*len(subs) {
			t.Errorf("%d tasks were taken of %d", db.tasks, len(subs))
		}
	})
}

// What lies in the store is taken as it is, also a part of it; where keys take turns only if all of
// it fits in memory, else it is sorted; always so where keys go in order, or weigh.
func TestWhatDoesNotFitIsSorted(t *testing.T) {
	two := func(q *task.Queue) { q.PerKey.MaxRunning = 2 }
	for name, c := range map[string]struct {
		limited func(q *task.Queue)
		tasks   int
		mixed   bool
	}{
		"it fits":          {two, 8, true},
		"it does not":      {two, 40, true},
		"turns do not":     {func(q *task.Queue) { q.Fair = true }, 40, false},
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
		"one by one":      {10 * time.Millisecond, 0, nil},
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
				if name == "one by one" {
					got := map[string]int{}
					for range 10 {
						h.ofKeys("b")
						for _, x := range hold() {
							got[keyOfTask(x)]++
						}
					}
					if got["b"] > 4 {
						t.Errorf("%d of 8 places of b are held, by one that runs one", got["b"])
					}
					return
				}
				h.ofKeys("a", "a", "a", "a", "a", "a")
				if got := keysOf(hold()); fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%v were given, not %v", got, c.want)
				}
			})
		})
	}
}

// What was given back to be sorted counts no longer as ready here: else memory would be full of it
// for good, and take nothing any more.
func TestWhatIsGivenBackToBeSortedIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		left := map[task.ID]bool{}
		for range 10 { // the tasks have strings, so that each is spoken of by itself
			h.perKey(2)
			got := h.waits("w", 4)
			var subs []task.Submission
			for _, key := range []string{"a", "a", "a", "b", "b", "b"} {
				subs = append(subs, task.Submission{
					Queue: "q", GroupKey: key, Meta: map[string]string{"for": key},
				})
			}
			for _, id := range h.submit(subs...) {
				left[id] = true
			}
			first := <-got
			h.perKey(1)
			time.Sleep(2 * time.Second)
			h.sound()
			h.done("w", first...)
			for _, x := range first {
				delete(left, x.ID)
			}
			for end := time.Now().Add(10 * time.Second); len(left) > 0; {
				if time.Now().After(end) {
					t.Fatalf("%d tasks are left, and %d count as ready", len(left), h.ready())
				}
				for _, x := range h.holdFor("w", 4, time.Second) {
					h.done("w", x)
					delete(left, x.ID)
				}
			}
		}
		time.Sleep(2 * time.Second)
		if n := h.ready(); n != 0 {
			t.Errorf("%d tasks count as ready", n)
		}
	}, func(c *Config) { c.Ahead = 4 })
}
