package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

func busy(share float64) func(*Config) {
	return func(c *Config) {
		c.Busy = func() balance.Busyness {
			return balance.Busyness{
				CPU:       balance.Part{Used: share, Max: 1},
				Executors: balance.Part{Used: share, Max: 1}, Memory: balance.Part{
					Used: share, Max: 1,
				},
			}
		}
	}
}

func TestIdlestNodeDoesTheChores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		for name, share := range map[string]float64{"a": 0.9, "b": 0.1, "c": 0.5} {
			// their beats fall together
			h.startOne(name, busy(share))
		}
		time.Sleep(12 * time.Second)
		for _, n := range h.nodes {
			n.door.Forget()
		}
		time.Sleep(time.Minute)
		for name, n := range h.nodes {
			frees := n.door.Calls("Free")
			if (frees > 0) != (name == "b") {
				t.Errorf("%s did the chores %d times", name, frees)
			}
			if got := n.Cluster().Chores; got != "b" {
				t.Errorf("%s sees that %q did them", name, got)
			}
		}
		h.kill("b")
		time.Sleep(15 * time.Second)
		if got := h.nodes["a"].Cluster().Chores; got != "c" {
			t.Errorf("after b's death %q does them", got)
		}
	})
}

func TestIdleClusterOfFiveNodesNeedsTenStatementsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(50)
		h.start("a", "b", "c", "d", "e")
		time.Sleep(2 * time.Minute)
		for _, n := range h.nodes {
			n.door.Forget()
		}
		const seconds = 100
		time.Sleep(seconds * time.Second)
		sum, told := 0, ""
		for name, n := range h.nodes {
			calls, list := n.door.Calls(), n.door.Forget()
			sum += calls
			told += fmt.Sprintln(name, list)
		}
		t.Logf("%.1f statements a second", float64(sum)/seconds)
		if sum > 10*seconds {
			t.Errorf("%.1f statements a second:\n%s", float64(sum)/seconds, told)
		}
	})
}

func TestLoneIdleNodeWritesOneRowABeatAndAsksNobodyForItsChores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		n := h.startOne("a", func(c *Config) { c.Alone, c.Start = true, "" })
		time.Sleep(5500 * time.Millisecond)
		n.door.Forget()
		time.Sleep(10 * time.Second)
		calls := n.door.Forget()
		if calls["Beat"] != 10 || calls["Free"] != 10 || calls["Prune"] != 10 ||
			calls["Check"] != 10 || calls["AcquireAll"]+calls["EndAll"] != 0 {
			t.Errorf("in ten beats: %v", calls)
		}
	})
}

// No beat waits for what is deleted, nor for statistics, which Prune adds up.
func TestSlowChoresDelayNoBeat(t *testing.T) {
	for _, verb := range []string{"Prune", "Free", tell} {
		for _, alone := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, Config{})
				n := h.startOne("a", func(c *Config) { c.Alone = alone })
				n.door.Slow(verb, 40*time.Second) // whatever its context says
				time.Sleep(15500 * time.Millisecond)
				n.door.Forget()
				if verb == tell {
					h.startOne("b") // there is something to tell
				}
				time.Sleep(2 * time.Minute)
				beats, calls := n.door.Calls("Beat"), n.door.Calls(verb)
				if beats < 120 || verb != tell && beats > 121 || verb != tell &&
					(calls < 2 || calls > 4) {
					t.Errorf("alone %v: %d beats and %d calls to %s in two minutes", alone, beats,
						calls, verb)
				}
			})
		}
	}
}

func TestNodeThatStopsRenewsWhileAChoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(4)
		n := h.startOne("a")
		time.Sleep(15 * time.Second)
		h.mu.Lock()
		h.work = 20 * time.Second // that owners go on with what they are at
		h.mu.Unlock()
		n.door.Slow("Free", 40*time.Second)
		time.Sleep(10 * time.Second)
		n.stop()
		time.Sleep(15 * time.Second)
		h.want("while it stops", map[string]int{"a": 4})
	})
}

// behind is a store that has so much to prune left; each call takes a while and deletes one.
type behind struct {
	contract.Store
	left, calls int
	lag         time.Duration
}

func (b *behind) Prune(context.Context, int) (int, error) {
	b.calls++
	time.Sleep(10 * time.Millisecond)
	if b.left > 0 {
		b.left--
	}
	return 0, nil // what it looks at need not be old enough
}

func (b *behind) Retention() store.Retention {
	return store.Retention{Behind: b.left > 0, Lag: b.lag}
}

func TestPruningGoesOnAsLongAsMuchIsLeft(t *testing.T) {
	for _, test := range []struct {
		left  int
		lag   time.Duration
		calls int
	}{
		// a second of 40 or 12.5 ms each
		{0, 0, 1}, {5, 0, 5}, {1000, 0, 26}, {1000, time.Hour, 81},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &behind{Store: model.New(time.Now), left: test.left, lag: test.lag}
			d := fault.NewDoor(b)
			s, _ := joined(t, d, Config{Name: "a", Alone: true})
			if err := s.Prune(t.Context(), time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if b.calls != test.calls {
				t.Errorf("%d left, late by %v: %d calls in a second, want %d", test.left, test.lag,
					b.calls, test.calls)
			}
		})
	}
}

func TestEachChangeIsToldOnceByAllNodesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b", "c")
		time.Sleep(30 * time.Second)
		if told := h.told(); len(told) != 3 || slices.ContainsFunc(told, func(e string) bool {
			return !strings.HasPrefix(e, NodeJoined)
		}) {
			t.Errorf("at first: %q", told)
		}
		h.kill("c")
		time.Sleep(time.Minute)
		if told := h.told(); !slices.Equal(told,
			[]string{NodeUnreachable + " c", NodeOffline + " c"}) {
			t.Errorf("c died: %q", told)
		}
		h.kill("b")
		time.Sleep(time.Minute)
		if told := h.told(); !slices.Equal(told, []string{NodeOffline + " b", BudgetBroken}) {
			t.Errorf("b died: %q", told)
		}
		h.startOne("b")
		time.Sleep(time.Minute)
		if told := h.told(); !slices.Equal(told, []string{NodeJoined + " b", BudgetRestored}) {
			t.Errorf("b came: %q", told)
		}
		h.end(h.nodes["b"])
		time.Sleep(time.Minute)
		if told := h.told(); !slices.Equal(told, []string{NodeLeft + " b", BudgetBroken}) {
			t.Errorf("b left: %q", told)
		}
	})
}

func TestTheDeadAreShownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{TTL: time.Hour, Beat: 10 * time.Minute})
		h.startOne("a")
		h.startOne("b")
		h.kill("b")
		time.Sleep(20 * time.Hour)
		if got := h.nodes["a"].Cluster().state("b"); got != Offline {
			t.Errorf("hours later it is %q", got)
		}
		time.Sleep(10 * time.Hour)
		if got := h.nodes["a"].Cluster().state("b"); got != "" {
			t.Errorf("a day later it is %q", got)
		}
		if told := h.told(); strings.Count(fmt.Sprint(told), "b") != 2+
			strings.Count(fmt.Sprint(told), BudgetBroken) {
			t.Errorf("told %q", told)
		}
	})
}

func TestWhatANodeLeftBehindIsFreedAtOnceNotOnlyEveryFewBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b")
		b := h.nodes["b"]
		time.Sleep(16 * time.Second) // the chores looked at all a moment ago, or some beats
		for wait := range 5 {
			sub := store.Submission{Holder: store.Holder{Node: "b", Token: b.node.Token()},
				NewQueues: []string{"q"}, Batches: []store.Batch{{
					ID: store.BatchID(time.Now().UnixMicro(), 1), Queue: "q",
					Tasks: []store.Task{{}},
					Spans: []store.NewSpan{{Hold: true}},
				}}}
			if _, err := h.store.Submit(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
			h.end(b)
			time.Sleep(2500 * time.Millisecond)
			if spans, err := h.store.Held(t.Context(), sub.Holder, nil); err != nil ||
				len(spans) != 0 {
				t.Errorf("%d spans are held by one that left; %v", len(spans), err)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			b = h.startOne("b")
			time.Sleep(3 * time.Second)
		}
	})
}

// An answer may be lost after each of the writes that telling is made of, and whoever tells may die
// there: each change stands once.
func TestNoChangeIsLostWithAnAnswer(t *testing.T) {
	for _, verb := range []string{"AcquireAll", "Beat", tell} {
		for _, kind := range []fault.Fault{fault.Before, fault.After} {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, Config{})
				h.start("a", "b", "c", "d")
				time.Sleep(30 * time.Second)
				h.told()
				h.kill("d")
				for _, n := range h.nodes {
					var mu sync.Mutex
					calls := 0
					n.door.Fail(func(v string) fault.Fault { // two of three fail
						mu.Lock()
						defer mu.Unlock()
						if calls++; v != verb || calls%3 == 0 {
							return fault.None
						}
						return kind
					})
				}
				time.Sleep(time.Minute)
				for _, n := range h.nodes {
					n.door.Fail(nil)
				}
				time.Sleep(20 * time.Second)
				told := slices.DeleteFunc(h.told(), func(e string) bool {
					return !strings.HasSuffix(e, " d")
				})
				if want := []string{NodeUnreachable + " d", NodeOffline + " d"}; !slices.Equal(told,
					want) && !slices.Equal(told, want[1:]) {
					t.Errorf("%s fails (%v): told %q", verb, kind, told)
				}
			})
		}
	}
}
