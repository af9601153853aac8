package dispatch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// Keys take turns in a fair queue, however many tasks each has, and wherever they lie.
func TestAFairQueueGivesEachKeyItsTurn(t *testing.T) {
	for name, running := range map[string]int{"without limits": 0, "with a limit": 500} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.set(func(q *task.Queue) { q.Fair, q.PerKey.MaxRunning = true, running })
				for range 20 {
					h.keyed("a", 1000)
				}
				for range 5 {
					h.done("w", h.holdFor("w", 20, time.Second)...)
				}
				h.keyed("b", 10)
				time.Sleep(50 * time.Millisecond)
				h.done("w", h.one("w"))
				synctest.Wait()
				got := h.holdFor("w", 20, time.Second)
				if keys := keysOf(got); keys["a"] != 10 || keys["b"] != 10 {
					t.Fatalf("%v of 20", keys)
				}
				for i := range 18 {
					if keyOfTask(got[i]) == keyOfTask(got[i+1]) {
						t.Errorf("%s twice, at %d", keyOfTask(got[i]), i)
					}
				}
				h.done("w", got...)
			})
		})
	}
}

// Where keys take no turns rank decides, over memory and store.
func TestRankDecidesAmongKeys(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(5)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			h.keyed(key, 100)
			time.Sleep(time.Second)
		}
		h.done("w", h.holdFor("w", 8, time.Second)...)
		h.submit(task.Submission{Queue: "q", GroupKey: "z", Priority: time.Hour,
			Context: []byte(`["z",0]`)})
		time.Sleep(50 * time.Millisecond)
		x := h.one("w")
		synctest.Wait()
		if y := h.one("w"); keyOfTask(x) != "z" && keyOfTask(y) != "z" {
			t.Errorf("%s and %s went out before what is urgent", keyOfTask(x), keyOfTask(y))
		}
	})
}

// Nobody starves, and memory stays bounded, however the keys' work lies.
func TestEachKeyComesToItsEnd(t *testing.T) {
	for name, conf := range map[string]task.Queue{
		"one of each":         {PerKey: task.KeyLimits{MaxRunning: 1}},
		"fair":                {Fair: true},
		"fair and two":        {Fair: true, PerKey: task.KeyLimits{MaxRunning: 2}},
		"with a limit of all": {Fair: true, MaxRunning: 5, PerKey: task.KeyLimits{MaxRunning: 2}},
		"rates": {PerKey: task.KeyLimits{Rate: task.Rate{Count: 20, Per: time.Second},
			MaxRunning: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			const keys, each, ahead = 60, 10, 40
			bubble(t, func(t *testing.T, h *house) {
				h.set(func(q *task.Queue) {
					q.PerKey, q.Fair, q.MaxRunning = conf.PerKey, conf.Fair, conf.MaxRunning
				})
				for i := range keys {
					if i%7 == 0 {
						h.keyed(fmt.Sprint("k", i), each)
						continue
					}
					for range each {
						h.keyed(fmt.Sprint("k", i), 1)
					}
				}
				var workers sync.WaitGroup
				var left, most atomic.Int32
				left.Store(keys * each)
				began := time.Now()
				for w := range 6 {
					worker := fmt.Sprint("w", w)
					workers.Go(func() {
						for left.Load() > 0 && time.Since(began) < 5*time.Minute {
							got := h.holdFor(worker, 1+w, time.Second)
							time.Sleep(time.Duration(10+5*w) * time.Millisecond)
							h.done(worker, got...)
							left.Add(-int32(len(got)))
							h.d.mu.Lock()
							most.Store(max(most.Load(), int32(h.d.mem.held())))
							h.d.mu.Unlock()
						}
					})
				}
				workers.Wait()
				if left.Load() > 0 || most.Load() > 2*keysAhead*ahead {
					t.Errorf("%d tasks are left after %v; at most %d were held", left.Load(),
						time.Since(began), most.Load())
				}
				h.empty()
				h.d.mu.Lock()
				defer h.d.mu.Unlock()
				if ls := h.d.mem.queues["q"].ready.lanes; len(ls.by) != 0 || len(ls.asked) != 0 {
					t.Errorf("%d lanes of nothing, %d are asked about", len(ls.by), len(ls.asked))
				}
			}, func(c *Config) { c.Ahead = ahead })
		})
	}
}

// Memory that is full of what may not run makes room for what may.
func TestWhatIsShutMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.perKey(1)
		for key := 'a'; key <= 'z'; key++ {
			h.keyed(string(key), 30)
		}
		seen := map[string]int{}
		for range 20 {
			for _, x := range h.holdFor("w", 10, time.Second) {
				seen[keyOfTask(x)]++
			}
		}
		if len(seen) != 26 {
			t.Errorf("%v run", seen)
		}
	}, func(c *Config) { c.Ahead = 10 })
}

// What a take passes over, because there is enough of its key here, is taken before that is used
// up.
func TestWhatATakePassesOverIsTakenInTime(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) { q.Fair = true })
		for range 50 {
			h.keyed("a", 20)
		}
		began := time.Now()
		for left := 1010; left > 0; {
			if left == 950 {
				h.keyed("b", 10)
				time.Sleep(50 * time.Millisecond)
			}
			got := h.holdFor("w", 10, time.Minute)
			if len(got) == 0 {
				t.Fatalf("%d are left after %v", left, time.Since(began))
			}
			h.done("w", got...)
			left -= len(got)
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("all were done after %v", took)
		}
	})
}

// A node takes nothing while memory is full of a queue, though nothing of it may begin.
func TestFullMemoryTakesNothing(t *testing.T) {
	l := newLanesTest(t, 1, task.Queue{PerKey: task.KeyLimits{MaxRunning: 1}})
	l.m.conf.GiveAfter = 2 * time.Second
	now := time.UnixMicro(1_000_000)
	if _, _, err := l.m.wait(task.HoldRequest{
		Worker: "w", Queues: []string{"q"}, Limit: 10,
	}, now); err != nil {
		t.Fatal(err)
	}
	l.span("a", 1, keysAhead*l.m.conf.Ahead-1)
	if n := l.q.demand(now); n != 9 {
		t.Errorf("%d more are wanted of ten, where one may begin", n)
	}
	l.span("b", 1, 1)
	if n := l.q.demand(now); n != 0 {
		t.Errorf("%d more are wanted in full memory", n)
	}
}
