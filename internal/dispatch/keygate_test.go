package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// set changes queue q.
func (h *house) set(change func(q *task.Queue)) {
	h.t.Helper()
	if _, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
		change(q)
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// perKey lets so many tasks of each group key of queue q run at a time.
func (h *house) perKey(n int) {
	h.t.Helper()
	h.set(func(q *task.Queue) { q.PerKey.MaxRunning = n })
}

// keyed submits n tasks with a group key to queue q; each knows its key and its number.
func (h *house) keyed(key string, n int) []task.ID {
	h.t.Helper()
	subs := make([]task.Submission, n)
	for i := range subs {
		subs[i] = task.Submission{
			Queue: "q", GroupKey: key, Context: fmt.Appendf(nil, `["%s",%d]`, key, i),
		}
	}
	return h.submit(subs...)
}

// keysOf counts the tasks of each group key.
func keysOf(tasks []task.Handout) map[string]int {
	keys := map[string]int{}
	for _, x := range tasks {
		keys[keyOfTask(x)]++
	}
	return keys
}

func keyOfTask(x task.Handout) string {
	var key string
	if text := string(x.Context); text[2] != '"' {
		key = text[2:3]
	}
	return key
}

// waits holds for a worker in the background.
func (h *house) waits(worker string, limit int) <-chan []task.Handout {
	got := make(chan []task.Handout, 1)
	go func() { got <- h.holdFor(worker, limit, 50*time.Second) }()
	time.Sleep(300 * time.Millisecond)
	synctest.Wait()
	return got
}

// In a queue that lets one task of each key run, the tasks of a key run one after another, and no
// longer than a moment passes between them, wherever they lie.
func TestTasksOfAKeyRunOneAfterAnother(t *testing.T) {
	for name, submit := range map[string]func(h *house){
		"submitted together": func(h *house) { h.keyed("a", 5); h.keyed("b", 5) },
		"one by one": func(h *house) {
			for range 5 {
				h.keyed("a", 1)
				h.keyed("b", 1)
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.perKey(1)
				submit(h)
				running := map[string]task.Handout{}
				for _, x := range h.holdFor("w", 10, time.Second) {
					running[keyOfTask(x)] = x
				}
				for len(running) < 2 {
					x := h.one("w")
					running[keyOfTask(x)] = x
				}
				for range 4 {
					for _, key := range []string{"a", "b"} {
						last, got := running[key], h.waits("w", 10)
						at := time.Now()
						h.done("w", last)
						next := <-got
						if len(next) != 1 || keyOfTask(next[0]) != key ||
							next[0].ID.Compare(last.ID) <= 0 ||
							time.Since(at) > 100*time.Millisecond {
							t.Fatalf("after %v of %s: %+v, after %v", last.ID, key, next,
								time.Since(at))
						}
						running[key] = next[0]
					}
				}
				h.done("w", running["a"], running["b"])
				h.empty()
				h.counts(task.Counts{Done: 10})
			})
		})
	}
}

// A key at its limit does not keep another one waiting, however much of it is ready, here or in the
// store, and however early.
func TestAKeyAtItsLimitKeepsNoOtherWaiting(t *testing.T) {
	for name, submit := range map[string]func(h *house, n int){
		"in one span": func(h *house, n int) { h.keyed("a", n) },
		"one by one": func(h *house, n int) {
			for range n {
				h.keyed("a", 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.perKey(1)
				submit(h, 1000)
				if got := keysOf(h.holdFor("w", 10, time.Second)); got["a"] != 1 || len(got) != 1 {
					t.Fatalf("%v at first", got)
				}
				got := h.waits("v", 10)
				at := time.Now()
				h.keyed("b", 1)
				if next := <-got; keysOf(next)["b"] != 1 || time.Since(at) > 100*time.Millisecond {
					t.Errorf("%v after %v", keysOf(next), time.Since(at))
				}
				h.keyed("", 20)
				if next := h.holdFor("w", 30, time.Second); keysOf(next)[""] != 20 {
					t.Errorf("%v of those without a key", keysOf(next))
				}
			})
		})
	}
}

// A rate of each key holds it, and no other, and opens it in time.
func TestAKeyBeginsAsFastAsItsRateAllows(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) {
			q.PerKey.Rate, q.PerKey.Burst = task.Rate{Count: 10, Per: time.Second}, 2
		})
		time.Sleep(10 * time.Second)
		h.keyed("a", 20)
		h.keyed("b", 10)
		began := time.Now()
		last := map[string]time.Duration{}
		seen := map[string]int{}
		for seen["a"] < 20 || seen["b"] < 10 {
			got := h.holdFor("w", 10, time.Minute)
			if len(got) == 0 {
				t.Fatalf("nothing for a minute after %v", seen)
			}
			for _, x := range got {
				key, at := keyOfTask(x), time.Since(began)
				last[key] = at
				if seen[key]++; seen[key] > 2+int(at*10/time.Second)+1 {
					t.Fatalf("%d of %s after %v", seen[key], key, at)
				}
			}
			h.done("w", got...)
		}
		if last["a"] > 2*time.Second || last["b"] > time.Second {
			t.Errorf("the last began at %v", last)
		}
	})
}

// A queue may begin to go by keys, or cease to, whatever is in memory and runs: what runs counts
// for its key.
func TestAQueueBeginsAndCeasesToGoByKeys(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(80)
		h.done("w", h.holdFor("w", 80, time.Second)...) // so much that some is held ahead
		h.keyed("a", 10)
		h.keyed("b", 10)
		if got := keysOf(h.holdFor("w", 4, time.Second)); got["a"] != 4 {
			t.Fatalf("%v at first", got)
		}
		h.d.mu.Lock()
		held := h.d.mem.held()
		h.d.mu.Unlock()
		if held <= 4 {
			t.Fatalf("%d tasks are held", held)
		}
		running := map[string]int{"a": 4}
		for _, c := range []struct {
			running, a, b int
			fair          bool
		}{
			{running: 1, a: 4, b: 1},
			{running: 3, fair: true, a: 4, b: 3},
			{running: 5, a: 5, b: 5},
			{fair: true, a: 10, b: 10},
		} {
			at := time.Now()
			h.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Fair = c.running, c.fair })
			for running["a"] < c.a || running["b"] < c.b {
				list := h.holdFor("v", 20, time.Second)
				if len(list) == 0 {
					break
				}
				for _, x := range list {
					running[keyOfTask(x)]++
				}
			}
			if took := time.Since(at); running["a"] != c.a || running["b"] != c.b ||
				took > 100*time.Millisecond {
				t.Fatalf("%+v: %v began, in %v", c, running, took)
			}
			if list := h.holdFor("v", 20, time.Second); len(list) > 0 {
				t.Fatalf("%+v: then %v", c, keysOf(list))
			}
			h.sound()
		}
		h.counts(task.Counts{Running: 20, Done: 80})
	})
}

// Keys open when their rates let them, whether anybody waits just then or not.
func TestKeysOpenThoughNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) {
			q.PerKey.Rate, q.PerKey.Burst = task.Rate{Count: 10, Per: time.Second}, 1
		})
		time.Sleep(10 * time.Second)
		for _, key := range []string{"a", "b", "c"} {
			h.keyed(key, 2)
			h.one("w")
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		if got := h.hold("w", 10); len(got) != 3 {
			t.Errorf("%v began", keysOf(got))
		}
	})
}

func TestALimitOfAKeyHoldsOverNodes(t *testing.T) {
	for name, told := range map[string]bool{
		"that tell each other": true, "that hear nothing": false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := neighbours(t, model.New(time.Now), told)
				defer time.Sleep(10 * time.Millisecond) // hints that are on their way
				defer a.close()
				defer b.close()
				a.perKey(1)
				time.Sleep(25 * time.Second)
				within := 6 * time.Second // a look at the store
				if told {
					within = 100 * time.Millisecond
				}
				for _, n := range []int{10, 1, 1, 1, 1, 1} {
					a.keyed("a", n)
				}
				running, at := a.one("w"), "a"
				for range 10 {
					other, its := b, "b"
					if at == "b" {
						other, its = a, "a"
					}
					got := other.waits("v"+its, 5)
					if time.Sleep(3 * time.Second); len(got) > 0 {
						t.Fatalf("%v beyond the limit", <-got)
					}
					now := time.Now()
					b.done("w", running)
					next := <-got
					if len(next) != 1 || time.Since(now) > within {
						t.Fatalf("%v at %s after %v", next, its, time.Since(now))
					}
					running, at = next[0], its
				}
			})
		})
	}
}

// Whatever the store fails to do or to say, of each key no more run than may, and all is done.
func TestNoPlaceOfAKeyIsLostWhenTheStoreFails(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			var failing atomic.Bool
			plan := fault.Seeded(seed, 3)
			h := open(t, fault.New(model.New(time.Now),
				func(n int) fault.Fault {
					if !failing.Load() {
						return fault.None
					}
					return plan(n)
				}))
			defer h.close()
			h.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Fair = 1, seed%2 == 0 })
			for _, key := range []string{"a", "b", "c"} {
				h.keyed(key, 3)
			}
			failing.Store(true)
			done, began := 0, time.Now()
			var held []task.Handout
			for done < 9 {
				if time.Since(began) > 5*time.Minute {
					t.Fatalf("seed %d: %d of 9 are done", seed, done)
				}
				a, err := h.d.Hold(h.ctx, task.HoldRequest{
					Worker: "w", Queues: []string{"q"}, Limit: 4, Wait: time.Second,
				})
				if err != nil {
					t.Fatal(err)
				}
				if a.Written != nil {
					a.Written()
				}
				held = append(held, a.Tasks...)
				for key, n := range keysOf(held) {
					if n > 1 {
						t.Fatalf("seed %d: %d of %s run", seed, n, key)
					}
				}
				for len(held) > 0 {
					r := []task.Report{{
						ID: held[0].ID, Token: held[0].Token, Outcome: task.Finish(nil),
					}}
					if got, err := h.d.Report(h.ctx, "w", r); err != nil {
						time.Sleep(time.Second)
					} else if s := got[0].Status; s == task.Recorded || s == task.Repeated {
						held, done = held[1:], done+1
					} else {
						t.Fatalf("seed %d: %s", seed, s)
					}
				}
			}
			failing.Store(false)
		})
	}
}

// What was chosen just before its queue came to go by keys does not begin without its key.
func TestNothingBeginsWithoutItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &keyless{Store: model.New(time.Now)}
		h := open(t, db)
		defer h.close()
		h.set(func(q *task.Queue) { q.MaxRunning = 10 })
		large := append([]byte(`["a",`), bytes.Repeat([]byte("1"), store.InlineLimit)...)
		for range 3 {
			h.submit(task.Submission{Queue: "q", GroupKey: "a", Context: append(large, ']')})
		}
		h.door.BeforeNext("Value", func() error {
			h.perKey(1)
			return nil
		})
		if got := h.holdFor("w", 3, time.Second); len(got) != 1 {
			t.Errorf("%d tasks began", len(got))
		}
		if db.rows > 0 {
			t.Errorf("the store was asked about %d without their keys", db.rows)
		}
	})
}

// keyless is a store that counts the hand-outs that are to begin without a key.
type keyless struct {
	contract.Store
	rows int
}

func (k *keyless) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	for i := range r.Rows {
		if r.Rows[i].Key == "" {
			k.rows++
		}
	}
	return k.Store.Begin(ctx, r)
}
