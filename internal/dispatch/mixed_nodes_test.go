package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// counted counts takes, and the tasks that they bring.
type counted struct {
	contract.Store
	mu           sync.Mutex
	takes, tasks int
	sorted       int // of those tasks
}

func (c *counted) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	got, err := c.Store.Take(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes++
	for i := range got.Spans {
		c.tasks += len(got.Spans[i].Tasks)
		if got.Spans[i].Sorted {
			c.sorted += len(got.Spans[i].Tasks)
		}
	}
	return got, err
}

// What a node has taken as it was workers get that come to another node, when it has seen for
// GiveAfter that those here do not get to it; sooner or later, see ADR 65.
func TestWorkersElsewhereGetOfWhatWasTakenAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := neighbours(t, model.New(time.Now), true)
		defer time.Sleep(10 * time.Millisecond)
		defer a.close()
		defer b.close()
		a.perKey(40)
		time.Sleep(5 * time.Second)
		var keys []string
		for i := range 9000 {
			keys = append(keys, string('a'+rune(i%20)))
		}
		a.ofKeys(keys...)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var ran [2]atomic.Int64
		work := func(i int, h *house, name string) {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got := h.holdFor(name, 4, 100*time.Millisecond)
					time.Sleep(20 * time.Millisecond)
					h.done(name, got...)
					ran[i].Add(int64(len(got)))
				}
			})
		}
		work(0, a, "v")
		time.Sleep(500 * time.Millisecond)
		work(1, b, "w")
		time.Sleep(4 * time.Second)
		if n := ran[1].Load(); n < 40 {
			t.Errorf("workers elsewhere ran %d tasks in 4 s, those here %d", n, ran[0].Load())
		}
		close(stop)
		wg.Wait()
	})
}

// ready counts what memory has ready of queue q.
func (h *house) ready() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.mem.queues["q"].ready.count()
}

// What is submitted to one of three nodes each of them takes its part of as it is.
func TestPartsOfSeveralNodesAreNotSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counted{Store: model.New(time.Now)}
		houses := nodesOn(t, db, true, "a", "b", "c")
		defer time.Sleep(10 * time.Millisecond)
		for _, h := range houses {
			defer h.close()
		}
		houses[0].perKey(40)
		time.Sleep(5 * time.Second)
		const tasks = 3000
		var left atomic.Int64
		left.Store(tasks)
		var wg sync.WaitGroup
		for i, h := range houses {
			worker := fmt.Sprint("w", i)
			wg.Go(func() {
				for left.Load() > 0 {
					got := h.holdFor(worker, 40, 100*time.Millisecond)
					time.Sleep(5 * time.Millisecond)
					h.done(worker, got...)
					left.Add(-int64(len(got)))
				}
			})
		}
		time.Sleep(time.Second)
		for range tasks / 100 {
			keys := make([]string, 100)
			for i := range keys {
				keys[i] = string('a' + rune(i%20))
			}
			houses[0].ofKeys(keys...)
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if n := db.sorted; n > tasks/20 {
			t.Errorf("%d of %d tasks were sorted", n, tasks)
		}
	})
}

// Of keys that are full a node takes no more than it needs to see that they are, however much of
// them comes first.
func TestFullKeysThatComeFirstAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Paused = 2, true })
		full := make([]string, 1500)
		for i := range full {
			full[i] = "a"
		}
		h.ofKeys(full...)
		h.ofKeys("b", "c", "d")
		h.set(func(q *task.Queue) { q.Paused = false })
		keys := map[string]int{}
		for at := time.Now(); len(keys) < 4; {
			for key, n := range keysOf(h.holdFor("w", 10, time.Second)) {
				keys[key] += n
			}
			if time.Since(at) > 100*time.Millisecond {
				t.Fatalf("%v run after %v", keys, time.Since(at))
			}
		}
		if keys["a"] != 2 || h.ready() > 4*others {
			t.Errorf("%v run, and %d are ready", keys, h.ready())
		}
	}, func(c *Config) { c.Ahead = 1000 })
}
