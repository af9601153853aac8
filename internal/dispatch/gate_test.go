package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// limit gives queue q limits.
func (h *house) limit(running int, rate task.Rate, burst int) {
	h.t.Helper()
	if _, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
		q.MaxRunning, q.Rate, q.Burst = running, rate, burst
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// done reports tasks as done.
func (h *house) done(worker string, tasks ...task.Handout) {
	h.t.Helper()
	for _, x := range tasks {
		h.report(worker, x, task.Finish(nil), task.Recorded)
	}
}

func TestNoMoreRunThanTheLimitSays(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.limit(3, task.Rate{}, 0)
		h.many(10)
		first := h.hold("w", 10)
		if len(first) != 3 {
			t.Fatalf("%d tasks went out, want 3", len(first))
		}
		for _, id := range []string{"w", "other"} {
			if got := h.holdFor(id, 10, 5*time.Second); len(got) != 0 {
				t.Errorf("%s got %d tasks beyond the limit", id, len(got))
			}
		}
		if rows := h.rows(); rows != 3 {
			t.Errorf("%d hand-outs are written down, want 3", rows)
		}
		got := make(chan []task.Handout)
		go func() { got <- h.holdFor("other", 10, time.Minute) }()
		synctest.Wait()
		at := time.Now()
		h.done("w", first[0])
		next := <-got
		if waited := time.Since(at); len(next) != 1 || waited > 100*time.Millisecond {
			t.Errorf("%d tasks began %v after a place became free", len(next), waited)
		}
		h.done("w", first[1:]...)
		h.done("other", next...)
		for range 2 {
			batch := h.holdFor("w", 10, time.Minute)
			if len(batch) != 3 {
				t.Errorf("then %d tasks", len(batch))
			}
			h.done("w", batch...)
		}
		h.empty()
		h.counts(task.Counts{Done: 10})
	})
}

// rows is how many hand-outs of queue q are written down.
func (h *house) rows() int {
	h.t.Helper()
	_, gates, err := h.store.Gates(h.ctx, "q")
	if err != nil || len(gates) != 1 {
		h.t.Fatalf("gates: %+v, %v", gates, err)
	}
	return gates[0].Running
}

func TestTasksBeginAsFastAsTheRateAllows(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		const n = 60
		h.limit(0, task.Rate{Count: 20, Per: time.Second}, 5)
		time.Sleep(10 * time.Second)
		h.many(n)
		began := time.Now()
		var times []time.Duration
		for len(times) < n {
			got := h.holdFor("w", 10, time.Minute)
			if len(got) == 0 {
				t.Fatalf("nothing for a minute after %d", len(times))
			}
			for range got {
				times = append(times, time.Since(began))
			}
			h.done("w", got...)
		}
		for i, from := range times {
			for j := i; j < n; j++ {
				if most := 5 + int((times[j]-from)*20/time.Second) + 1; j-i+1 > most {
					t.Fatalf("%d began from %v to %v, at most %d", j-i+1, from, times[j], most)
				}
			}
		}
		if took := times[n-1]; took > 2750*time.Millisecond+200*time.Millisecond {
			t.Errorf("%d tasks took %v", n, took)
		}
	})
}

// Whoever waits is served at once when a limit is raised or taken away, and when somebody cancels
// what runs.
func TestWhatMakesRoomServesWhoWaits(t *testing.T) {
	for name, free := range map[string]func(*house, task.Handout){
		"a higher limit": func(h *house, _ task.Handout) { h.limit(2, task.Rate{}, 0) },
		"no limit":       func(h *house, _ task.Handout) { h.limit(0, task.Rate{}, 0) },
		"a cancellation": func(h *house, x task.Handout) {
			if err := h.d.Act(h.ctx, task.KindCancelled, "me", x.ID); err != nil {
				h.t.Fatal(err)
			}
		},
		"a retry": func(h *house, x task.Handout) {
			h.report("w", x, task.Outcome{Kind: task.KindRetry, Delay: time.Hour}, task.Recorded)
		},
		"a release": func(h *house, x task.Handout) {
			h.report("w", x, task.Release(), task.Recorded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.limit(1, task.Rate{}, 0)
				h.many(2)
				x := h.one("w")
				got := make(chan []task.Handout)
				go func() { got <- h.holdFor("w", 1, 50*time.Second) }()
				time.Sleep(300 * time.Millisecond)
				synctest.Wait()
				at := time.Now()
				free(h, x)
				if next := <-got; len(next) != 1 || time.Since(at) > 100*time.Millisecond {
					t.Errorf("%d tasks after %v", len(next), time.Since(at))
				}
			})
		})
	}
}

// A worker may hold quick tasks ahead: not those of a queue whose limit they would use up.
func TestNothingIsHeldAheadUnderALimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.limit(20, task.Rate{}, 0)
		h.many(30)
		h.beat("w", "one", 2)
		hold := func(worker string) int {
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: worker, Queues: []string{"q"}, Limit: 10, Ahead: 8, Incarnation: "one",
				Wait: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			return len(a.Tasks)
		}
		if n := hold("w"); n < 1 {
			t.Errorf("%d tasks at first", n)
		}
		if n := hold("w"); n != 0 {
			t.Errorf("%d tasks held ahead", n)
		}
	})
}

// However much is submitted while nothing may begin, a node holds no more than its workers could
// use.
func TestWhatMayNotBeginStaysInTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.limit(1, task.Rate{}, 0)
		h.many(1)
		x := h.one("w")
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() { h.holdFor(fmt.Sprint("w", i), 10, 30*time.Second) })
		}
		for range 100 {
			h.many(10)
			time.Sleep(100 * time.Millisecond)
			h.d.mu.Lock()
			held := h.d.mem.held()
			h.d.mu.Unlock()
			if held > 220 {
				t.Fatalf("%d tasks are held", held)
			}
		}
		group.Wait()
		h.done("w", x)
		if got := h.holdFor("w", 10, time.Minute); len(got) != 1 {
			t.Errorf("then %d tasks", len(got))
		}
	})
}

// neighbours are two nodes of one store. They tell each other what has ended, what there is to take
// and for how much they have room, as nodes on a database do; or nothing.
func neighbours(t *testing.T, db contract.Store, told bool) (a, b *house) {
	houses := nodesOn(t, db, told, "a", "b")
	return houses[0], houses[1]
}

// nodesOn are nodes of one store that hear each other's hints, if they are told.
func nodesOn(t *testing.T, db contract.Store, told bool, names ...string) (list []*house) {
	r := &road{houses: map[string]*house{}, lost: func(string) bool { return !told }}
	for _, name := range names {
		h := openAs(t, &linked{db, name, r}, name, func(c *Config) {
			c.Announce = func(room map[string]int) {
				r.tell(name, func(d *Dispatcher) { d.HearRoom(name, room) })
			}
			c.Changed = func() { r.tell(name, func(d *Dispatcher) { d.HearChanged() }) }
			c.Ended = func(queues []string) {
				for _, queue := range queues {
					r.tell(name, func(d *Dispatcher) { d.HearEnded(queue) })
				}
			}
		})
		r.mu.Lock()
		r.houses[name] = h
		r.mu.Unlock()
		list = append(list, h)
	}
	return list
}

func TestALimitHoldsOverNodes(t *testing.T) {
	for name, told := range map[string]bool{
		"that tell each other": true, "that hear nothing": false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := neighbours(t, model.New(time.Now), told)
				defer time.Sleep(10 * time.Millisecond) // hints that are on their way
				defer a.close()
				defer b.close()
				a.limit(2, task.Rate{}, 0)
				time.Sleep(5 * time.Second)
				a.many(20)
				within := 2 * time.Second
				if told {
					within = 100 * time.Millisecond
				}
				running := a.holdFor("w", 5, time.Second)
				if len(running) != 2 {
					t.Fatalf("%d tasks at first", len(running))
				}
				for range 5 {
					got := make(chan []task.Handout)
					go func() { got <- b.holdFor("v", 5, time.Minute) }()
					time.Sleep(3 * time.Second)
					synctest.Wait()
					select {
					case more := <-got:
						t.Fatalf("%d tasks beyond the limit", len(more))
					default:
					}
					at := time.Now()
					a.done("w", running[0])
					next := <-got
					if len(next) != 1 || time.Since(at) > within {
						t.Fatalf("%d tasks began at the other node after %v", len(next),
							time.Since(at))
					}
					b.done("v", next...)
					running = append(running[1:], a.holdFor("w", 1, time.Minute)...)
					if len(running) != 2 {
						t.Fatalf("%d tasks at the first node", len(running))
					}
				}
			})
		})
	}
}

// Who does not wait for tasks, but asks now and then, gets what others have left room for.
func TestWhoAsksNowAndThenIsServedUnderALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := neighbours(t, model.New(time.Now), false)
		defer time.Sleep(10 * time.Millisecond) // hints that are on their way
		defer a.close()
		defer b.close()
		a.limit(1, task.Rate{}, 0)
		time.Sleep(5 * time.Second) // the other node has heard of the queue
		a.many(3)
		x := a.one("w")
		poll := func(times int) (got []task.Handout) {
			for range times {
				if got = b.hold("v", 1); len(got) > 0 {
					break
				}
				time.Sleep(5 * time.Second)
			}
			return got
		}
		if got := poll(3); len(got) != 0 {
			t.Fatalf("%d tasks beyond the limit", len(got))
		}
		a.done("w", x)
		if got := poll(3); len(got) != 1 {
			t.Fatalf("%d tasks once there was room", len(got))
		}
	})
}

// What a node had handed out that is gone is lost when two beats of its worker do not name it, also
// where the worker asks another node for tasks meanwhile, which takes it for the sake of its limit.
func TestWhatItsWorkerHasNoMoreIsLostThoughTheWorkerIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		a.set(func(q *task.Queue) { q.MaxRunning, q.PerKey.MaxRunning = 1, 2 })
		time.Sleep(25 * time.Second)
		a.keyed("x", 2) // in one span
		a.beat("w", "one", 4)
		had := a.one("w")
		time.Sleep(2 * time.Second)
		a.kill()
		time.Sleep(11 * time.Second)
		b := openAs(t, db, "b")
		defer b.close()
		for at := time.Now(); ; {
			b.beat("w", "one", 4)
			for range 5 {
				if got := b.holdFor("w", 4, time.Second); len(got) > 0 {
					b.done("w", got...)
				}
			}
			switch v := b.view(had.ID); {
			case v.State == task.Done:
				return
			case time.Since(at) > time.Minute:
				t.Fatalf("a minute later the task is %s, after %d steps", v.State, len(v.Steps))
			}
		}
	})
}

// What a node had handed out that is gone counts until it is lost.
func TestWhatADeadNodeHandedOutCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		a.limit(2, task.Rate{}, 0)
		a.many(4)
		a.beat("w", "one", 4)
		had := a.hold("w", 2)
		a.kill()
		time.Sleep(11 * time.Second)
		b := openAs(t, db, "b")
		defer b.close()
		if got := b.holdFor("v", 4, 10*time.Second); len(got) != 0 {
			t.Fatalf("%d tasks began while %d ran", len(got), len(had))
		}
		b.report("w", had[0], task.Finish(nil), task.Recorded)
		if got := b.holdFor("v", 4, time.Second); len(got) != 1 {
			t.Fatalf("%d tasks began when one was reported", len(got))
		}
		got := b.holdFor("v", 4, time.Minute) // its worker is silent
		if len(got) != 1 {
			t.Fatalf("%d tasks began when the other was lost", len(got))
		}
		if v := b.view(had[1].ID); v.Steps[0].Kind != task.KindLost {
			t.Errorf("steps of the other: %+v", v.Steps)
		}
	})
}

// A store that fails before or after it let tasks begin costs time, and no place.
func TestNoPlaceIsLostWhenTheStoreFails(t *testing.T) {
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
			h.limit(2, task.Rate{}, 0)
			h.many(8)
			failing.Store(true)
			done, began := 0, time.Now()
			var held []task.Handout
			for done < 8 {
				if time.Since(began) > 5*time.Minute {
					t.Fatalf("seed %d: %d of 8 are done", seed, done)
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
				if held = append(held, a.Tasks...); len(held) > 2 {
					t.Fatalf("seed %d: %d tasks run", seed, len(held))
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

// An outcome that stands already when a task is to begin, because somebody cancelled it at another
// node, makes nothing of the hand-out.
func TestWhatIsOverDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		defer h.close()
		h.limit(2, task.Rate{}, 0)
		ids := h.many(2)
		h.door.BeforeNext("Begin", func() error {
			if _, err := h.store.Act(h.ctx, []store.Action{{
				ID: ids[0], Kind: task.KindCancelled, By: "somebody",
			}}); err != nil {
				t.Error(err)
			}
			return nil
		})
		got := h.holdFor("w", 2, time.Second)
		if len(got) != 1 || got[0].ID != ids[1] {
			t.Fatalf("%d tasks went out: %+v", len(got), got)
		}
		h.done("w", got...)
		h.state(ids[0], task.Cancelled)
		h.empty()
	})
}

// Who leaves while the store is asked leaves its tasks to others.
func TestWhoLeavesWhileTasksBeginLeavesThemToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		defer h.close()
		h.limit(1, task.Rate{}, 0)
		h.many(1)
		ctx, leave := context.WithCancel(h.ctx)
		h.door.BeforeNext("Begin", func() error {
			leave()
			return nil
		})
		if _, err := h.d.Hold(ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Second, Incarnation: "one",
		}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for range 10 { // its beats do not name the task
			h.beat("w", "one", 1)
			time.Sleep(time.Second)
		}
		if got := h.holdFor("v", 1, time.Minute); len(got) != 1 {
			t.Errorf("%d tasks", len(got))
		}
	})
}
