package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/task"
)

func TestStageThatLoopsGoesBehindOlderTasksInTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(6)
		var got []string
		for range 12 {
			x := h.one("w")
			got = append(got, fmt.Sprint(slices.Index(ids, x.ID), x.Stage))
			time.Sleep(10 * time.Millisecond)
			if x.Stage == "again" {
				h.report("w", x, task.Finish(nil), task.Recorded)
			} else {
				h.report("w", x, task.Next("again", nil), task.Recorded)
			}
		}
		want := []string{
			"0", "1", "2", "3", "4", "5", "0again", "1again", "2again", "3again", "4again",
			"5again",
		}
		if !slices.Equal(got, want) {
			t.Errorf("handed out\n%q, want\n%q", got, want)
		}
	})
}

func TestHeadStartOvertakesWhatIsHeldAhead(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(500)
		for range 100 { // so that some are held ahead
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		}
		synctest.Wait() // a take that is on its way hands out what it was asked for before
		h.d.mu.Lock()
		ahead := h.d.mem.queues["q"].ready.count()
		h.d.mu.Unlock()
		if ahead == 0 {
			t.Fatal("nothing is held ahead: this shows nothing")
		}
		first := h.submit(task.Submission{Queue: "q", Priority: time.Minute})[0]
		if x := h.one("w"); x.ID != first {
			t.Errorf("%v was handed out before %v, which has a head start", x.ID, first)
		}
	})
}

// retried is a task with a head start whose first attempt has failed, and is due again in a second.
func (h *house) retried(o task.Outcome) task.ID {
	h.t.Helper()
	conf := limits.DefaultQueue("q")
	conf.Retry.Jitter = 0
	_, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
		*q = conf
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	id := h.submit(task.Submission{Queue: "q", Priority: time.Hour})[0]
	h.report("w", h.one("w"), o, task.Recorded)
	return id
}

func TestRetryHasNoHeadStart(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, storetest.NewModel(time.Now))
			defer func() { h.close() }()
			late := h.retried(task.Retry(errors.New("no luck")))
			time.Sleep(100 * time.Millisecond)
			early := h.many(1)[0] // before the other one is due again
			if again {            // memory is lost
				h.close()
				h = open(t, h.store)
			}
			time.Sleep(5 * time.Second)
			if x := h.one("w"); x.ID != early {
				t.Errorf("%v was handed out before %v", x.ID, early)
			}
			x := h.one("w")
			if x.ID != late {
				t.Fatalf("%v was handed out, want %v", x.ID, late)
			}
			time.Sleep(time.Second)
			other := h.many(1)[0]
			time.Sleep(time.Second)
			h.report("w", x, task.Next("second", nil), task.Recorded) // its head start is back
			if x := h.one("w"); x.ID != late {
				t.Errorf("%v was handed out before the second stage of %v", x.ID, late)
			}
			if x := h.one("w"); x.ID != other {
				t.Errorf("%v was handed out, want %v", x.ID, other)
			}
		})
	}
}

func TestLongBackOffTakesTheHeadStartAndTheNextStageHasItAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		late := h.retried(task.RetryAfter(2*time.Minute, errors.New("no luck")))
		time.Sleep(110 * time.Second)
		early := h.many(1)[0]
		time.Sleep(15 * time.Second)
		if x := h.one("w"); x.ID != early {
			t.Errorf("%v was handed out before %v", x.ID, early)
		}
		x := h.one("w")
		other := h.many(1)[0]
		time.Sleep(time.Second)
		h.report("w", x, task.Next("second", nil), task.Recorded)
		if x := h.one("w"); x.ID != late {
			t.Errorf("%v was handed out before the second stage of %v", x.ID, late)
		}
		if x := h.one("w"); x.ID != other {
			t.Errorf("%v was handed out, want %v", x.ID, other)
		}
	})
}

func TestMemoryThatIsFullGoesBeforeTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(20)
		most := 0
		for range 40 {
			x := h.one("w")
			if x.Stage == "again" {
				h.report("w", x, task.Finish(nil), task.Recorded)
			} else {
				h.report("w", x, task.Next("again", nil), task.Recorded)
			}
			h.d.mu.Lock()
			most = max(most, h.d.mem.queues["q"].ready.count())
			h.d.mu.Unlock()
		}
		if most > 2*4 {
			t.Errorf("up to %d ready tasks were in memory, at a limit of 4", most)
		}
		for _, id := range ids {
			h.state(id, task.Done)
		}
	}, func(c *Config) { c.Ahead = 4 })
}

func TestTasksInMemoryGoOutWhileTheStoreRefusesTakes(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		h.many(3)
		x := h.one("w")
		l.on("take", func(error) error { return errHiccup })
		h.report("w", x, task.Next("again", nil), task.Recorded)
		if y := h.one("w"); y.ID != x.ID {
			t.Errorf("%v was handed out, want %v", y.ID, x.ID)
		}
	})
}

// Signs of ready tasks may come without end, from other nodes or from tasks that fall due; what is
// in memory goes out all the same.
func TestSignsWithoutEndKeepNobodyWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ctx, stop := context.WithCancel(h.ctx)
		var signs sync.WaitGroup
		signs.Go(func() {
			for ctx.Err() == nil {
				h.d.Hear("q", nil)
				time.Sleep(100 * time.Microsecond)
			}
		})
		defer signs.Wait()
		defer stop()
		h.many(1)
		for range 100 {
			h.report("w", h.one("w"), task.Next("again", nil), task.Recorded)
		}
	})
}

// overtakenFor is how long only tasks of later ranks may be handed out while one is ready,
// whichever nodes hold them (docs/cluster.md): until a node whose workers have no room for it gives
// it back, and the others see it. Calls take no time here.
const overtakenFor = 2*time.Second + 2*time.Second

// waiting is a task that may be handed out, as the test knows it.
type waiting struct {
	rank      int64
	overtaken time.Time // since when only tasks of later ranks have been handed out
}

func TestTasksAreOvertakenByLaterOnesAtOtherNodesForAWhileOnly(t *testing.T) {
	for seed := range uint64(40) {
		townAs(t, func(c *Config) {
			c.Look = time.Second
		}, func(t *testing.T, _ storetest.Store, houses map[string]*house) {
			// there are no hints
			luck := rand.New(rand.NewPCG(seed, 0))
			between := func(low, high time.Duration) time.Duration {
				return low + time.Duration(luck.Int64N(int64(high-low)))
			}
			var mu sync.Mutex
			ready := map[task.ID]waiting{}
			priority, seen := map[task.ID]time.Duration{}, map[task.ID]bool{}
			handed := func(h *house, x task.Handout) {
				seen[x.ID] = true
				mine, known := ready[x.ID]
				if !known { // before its submitter was answered
					return
				}
				for id, w := range ready {
					switch {
					case w.rank >= mine.rank: // it is not its turn yet
						w.overtaken = time.Time{}
						ready[id] = w
					case w.overtaken.IsZero():
						w.overtaken = time.Now()
						ready[id] = w
					case time.Since(w.overtaken) > overtakenFor:
						t.Errorf("seed %d: %v of rank %d was handed out by %s, and %v of rank %d has been overtaken for %v",
							seed, x.ID, mine.rank, h.d.conf.Holder.Node, id, w.rank,
							time.Since(w.overtaken))
					}
				}
				delete(ready, x.ID)
			}
			ctx, stop := context.WithCancel(t.Context())
			var crew sync.WaitGroup
			for i, name := range []string{"a", "b", "b", "c"} {
				// those before it are at work already
				mu.Lock()
				h, pause := houses[name], between(0, 4*time.Second) // some rest between holds
				mu.Unlock()
				crew.Go(func() {
					for ctx.Err() == nil {
						a, err := h.d.Hold(ctx, task.HoldRequest{
							Worker: fmt.Sprint("w", i), Queues: []string{"q"}, Limit: 1,
							Wait: 3 * time.Second,
						})
						if err != nil || len(a.Tasks) == 0 {
							continue
						}
						a.Written()
						mu.Lock()
						x := a.Tasks[0]
						handed(h, x)
						takes, outcome := between(time.Millisecond, 300*time.Millisecond),
							luck.IntN(4)
						if luck.IntN(10) == 0 {
							takes = between(time.Second, 6*time.Second)
						}
						mu.Unlock()
						time.Sleep(takes)
						o := task.Finish(nil)
						mu.Lock()
						w := waiting{rank: time.Now().Add(-priority[x.ID]).UnixMicro()}
						if outcome == 0 {
							o = task.Next("again", nil)
							ready[x.ID] = w
						}
						mu.Unlock()
						h.report(fmt.Sprint("w", i), x, o, task.Recorded)
						time.Sleep(pause)
					}
				})
			}
			for range 60 {
				mu.Lock()
				h := houses[[]string{"a", "b", "c"}[luck.IntN(3)]]
				n, p, rest := 1+luck.IntN(6), between(0, 20*time.Second), between(0, time.Second)
				mu.Unlock()
				subs := make([]task.Submission, n)
				for i := range subs {
					subs[i] = task.Submission{Queue: "q", Priority: p}
				}
				rank := time.Now().Add(-p).UnixMicro()
				for _, id := range h.submit(subs...) {
					mu.Lock()
					if priority[id] = p; !seen[id] {
						ready[id] = waiting{rank: rank}
					}
					mu.Unlock()
				}
				time.Sleep(rest)
			}
			time.Sleep(20 * time.Second)
			stop()
			crew.Wait()
		}, "a", "b", "c")
	}
}
