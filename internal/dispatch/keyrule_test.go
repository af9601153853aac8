package dispatch

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// rule changes what is said of a group key of queue q.
func (h *house) rule(key string, c store.KeyChange) {
	h.t.Helper()
	c.Queue, c.Key = "q", key
	if _, err := h.d.ChangeKey(h.ctx, c); err != nil {
		h.t.Fatal(err)
	}
}

// twoNodes runs a story on two nodes that tell each other what there is.
func twoNodes(t *testing.T, story func(t *testing.T, a, b *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := neighbours(t, model.New(time.Now), true)
		defer time.Sleep(10 * time.Millisecond) // hints that are on their way
		defer a.close()
		defer b.close()
		story(t, a, b)
	})
}

// A key that is paused at one node begins nowhere, and other keys go on. Resumed at the other node
// it begins at once.
func TestAPausedKeyBeginsNowhereUntilItIsResumed(t *testing.T) {
	for name, pause := range map[string]time.Duration{
		"for good": store.Forever, "for an hour": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *house) {
				a.set(func(q *task.Queue) { q.Fair = true })
				time.Sleep(3 * time.Second)
				a.keyed("a", 20)
				runs := a.one("w")
				a.rule("a", store.KeyChange{Pause: pause})
				time.Sleep(3 * time.Second) // the queue's first rule
				for _, h := range []*house{a, b} {
					a.keyed("b", 2)
					time.Sleep(50 * time.Millisecond)
					got := h.holdFor("w", 2, time.Minute)
					if keys := keysOf(got); len(got) == 0 || keys["a"] > 0 {
						t.Fatalf("%v began", keys)
					}
					h.done("w", append(got, h.holdFor("w", 2-len(got), time.Second)...)...)
				}
				a.done("w", runs) // what ran goes on
				atA, atB := a.waits("w", 1), b.waits("v", 1)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				select {
				case got := <-atA:
					t.Fatalf("%v began", keysOf(got))
				case got := <-atB:
					t.Fatalf("%v began", keysOf(got))
				default:
				}
				at := time.Now()
				b.rule("a", store.KeyChange{Resume: true})
				for _, got := range []<-chan []task.Handout{atA, atB} {
					if list := <-got; keysOf(list)["a"] != 1 ||
						time.Since(at) > 100*time.Millisecond {
						t.Errorf("%v after %v", keysOf(list), time.Since(at))
					}
				}
			})
		})
	}
}

// A pause with an end is over at its end, whether anybody looks then or not, at each node.
func TestAPauseEndsByItself(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *house) {
		a.set(func(q *task.Queue) { q.PerKey.MaxRunning = 5 })
		time.Sleep(3 * time.Second)
		a.rule("b", store.KeyChange{Pause: time.Millisecond}) // so that there has been a rule
		a.keyed("a", 2)
		time.Sleep(3 * time.Second)
		at := time.Now()
		b.rule("a", store.KeyChange{Pause: 10 * time.Second})
		atA, atB := a.waits("w", 1), b.waits("v", 1)
		for _, got := range []<-chan []task.Handout{atA, atB} {
			list := <-got
			if took := time.Since(at); len(list) != 1 || took < 10*time.Second ||
				took > 10*time.Second+100*time.Millisecond {
				t.Errorf("%d began after %v", len(list), took)
			}
		}
	})
}

// A report pauses the key of its task, and no other: also where no key had a rule before, one beat
// later.
func TestARetryPausesItsKey(t *testing.T) {
	for name, before := range map[string]func(h *house){
		"without limits": func(h *house) {},
		"in a fair one":  func(h *house) { h.set(func(q *task.Queue) { q.Fair = true }) },
		"with limits of each key": func(h *house) {
			h.perKey(100)
			h.rule("z", store.KeyChange{Weight: new(2)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				before(h)
				h.keyed("a", 1)
				h.keyed("a", 1)
				h.keyed("b", 1)
				first := h.one("w")
				if keyOfTask(first) != "a" {
					t.Fatalf("%s is first", keyOfTask(first))
				}
				at := time.Now()
				hold := task.RetryAfter(time.Second, errors.New("slow down")).HoldingKey(
					20 * time.Second)
				h.report("w", first, hold, task.Recorded)
				time.Sleep(1500 * time.Millisecond) // a round
				got := h.holdFor("w", 10, time.Second)
				if keys := keysOf(got); len(got) != 1 || keys["b"] != 1 {
					t.Fatalf("%v began", keys)
				}
				h.done("w", got...)
				for n := 0; n < 2; {
					got = h.holdFor("w", 10, 50*time.Second)
					n += len(got)
					if took := time.Since(at); len(got) == 0 || took < 20*time.Second ||
						took > 20*time.Second+200*time.Millisecond {
						t.Fatalf("%v began after %v", keysOf(got), took)
					}
				}
			})
		})
	}
}

// A task without a group key holds nothing back.
func TestARetryOfATaskWithoutAKeyPausesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.keyed("", 2)
		h.keyed("a", 1)
		first := h.one("w")
		h.report("w", first, task.RetryAfter(time.Minute, nil).HoldingKey(time.Hour),
			task.Recorded)
		time.Sleep(3 * time.Second)
		if got := h.hold("w", 5); len(got) != 2 {
			t.Errorf("%v began", keysOf(got))
		}
	})
}

// In a queue of which nothing was said, a pause holds one beat later at each node.
func TestTheFirstPauseOfAQueueHoldsABeatLater(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *house) {
		a.keyed("a", 200)
		b.done("v", b.holdFor("v", 10, time.Second)...) // more is held ahead
		a.rule("a", store.KeyChange{Pause: store.Forever})
		time.Sleep(2 * time.Second)
		for _, h := range []*house{a, b} {
			a.keyed("b", 1)
			if keys := keysOf(h.holdFor("w", 1, time.Minute)); keys["a"] != 0 || keys["b"] != 1 {
				t.Errorf("%v began", keys)
			}
		}
	})
}

// Keys have turns as they weigh, however their tasks lie: of a key that weighs 1 and one that
// weighs 3 one and three begin in each window of four, from whatever node they are asked for.
func TestTurnsAreAsKeysWeigh(t *testing.T) {
	for name, submit := range map[string]func(h *house, n int){
		"long spans": func(h *house, n int) { h.keyed("a", n); h.keyed("b", n) },
		"single tasks": func(h *house, n int) {
			for range n {
				h.keyed("a", 1)
				h.keyed("b", 1)
			}
		},
	} {
		for _, limit := range []int{1, 4, 20} {
			t.Run(fmt.Sprintf("%s, %d at a time", name, limit), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *house) {
					h.set(func(q *task.Queue) { q.Fair = true })
					h.rule("b", store.KeyChange{Weight: new(3)})
					submit(h, 300)
					for range 3 { // until both are here
						time.Sleep(50 * time.Millisecond)
						h.done("w", h.one("w"))
						synctest.Wait()
					}
					order := ""
					for len(order) < 300 {
						time.Sleep(10 * time.Millisecond) // takes come along
						synctest.Wait()
						got := h.holdFor("w", limit, time.Second)
						if len(got) == 0 {
							t.Fatalf("nothing after %s", order)
						}
						for _, x := range got {
							order += keyOfTask(x)
						}
						h.done("w", got...)
					}
					for i := range 240 {
						n := 0
						for _, key := range order[i : i+4] {
							if key == 'a' {
								n++
							}
						}
						if n != 1 {
							t.Fatalf("%d of a in %s at %d of %s", n, order[i:i+4], i, order)
						}
					}
				})
			})
		}
	}
}

// However much another key weighs, one that has work has its turn.
func TestNobodyStarvesBesideAKeyThatWeighsMuch(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.set(func(q *task.Queue) { q.Fair = true })
		h.rule("b", store.KeyChange{Weight: new(50)})
		h.keyed("b", 1000)
		h.keyed("a", 10)
		seen := 0
		for began := 0; seen < 10; {
			time.Sleep(20 * time.Millisecond)
			got := h.holdFor("w", 7, time.Second)
			if began += len(got); began > 10*51+7 || len(got) == 0 {
				t.Fatalf("%d of a among %d", seen, began)
			}
			seen += keysOf(got)["a"]
			h.done("w", got...)
		}
	})
}

// What a node has at hand of a key when that is paused goes out as soon as the pause is over, by
// itself or as somebody says so.
func TestWhatIsAtHandOfAPausedKeyGoesOutAfterwards(t *testing.T) {
	for name, resumed := range map[string]bool{"by itself": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				h.set(func(q *task.Queue) { q.Fair = true })
				h.rule("z", store.KeyChange{Weight: new(2)})
				h.keyed("a", 100)
				h.done("w", h.holdFor("w", 20, time.Second)...)
				at, pause := time.Now(), 700*time.Millisecond
				if resumed {
					pause = time.Hour
				}
				h.rule("a", store.KeyChange{Pause: pause})
				got := h.waits("w", 1)
				h.d.mu.Lock()
				shut := len(h.d.mem.queues["q"].ready.lanes.shut.list)
				h.d.mu.Unlock()
				if shut != 1 {
					t.Fatalf("%d keys are shut", shut)
				}
				if resumed {
					time.Sleep(200 * time.Millisecond)
					at = time.Now()
					h.rule("a", store.KeyChange{Resume: true})
					pause = 0
				}
				list := <-got
				if took := time.Since(at); len(list) != 1 || took < pause ||
					took > pause+100*time.Millisecond {
					t.Errorf("%d began after %v", len(list), took)
				}
			})
		})
	}
}
