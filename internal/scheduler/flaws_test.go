package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/balance"
)

// manual is a house where nothing moves but by a person's hand, as in the document that the
// situations come from.
func manual(t *testing.T) *house {
	return newHouse(t, Config{Limits: balance.Limits{Rebalance: balance.RebalanceManual}})
}

func alarmAbove(m int) func(*Config) { return func(c *Config) { c.Alarm = m } }

// The demonstration of SIA-TASK's document, with its numbers.
func TestSituationsOneToThreeWithTheDocumentsNumbers(t *testing.T) {
	begin := func(t *testing.T) *house {
		h := manual(t)
		h.add(9)
		h.startOne("a", alarmAbove(10))
		time.Sleep(3 * time.Second)
		h.want("K=9, S=1", map[string]int{"a": 9})
		h.add(1)
		time.Sleep(2 * time.Second)
		h.want("K=10, S=1", map[string]int{"a": 10})
		time.Sleep(137 * time.Millisecond)
		h.startOne("b", alarmAbove(8))
		h.add(8)
		time.Sleep(15 * time.Second)
		h.want("K=18, S=2", map[string]int{"a": 10, "b": 8})
		if told := h.told(); slices.Contains(told, AlarmRaised+" a") ||
			slices.Contains(told, AlarmRaised+" b") {
			t.Errorf("told before there is cause: %q", told)
		}
		return h
	}
	t.Run("one: B dies", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := begin(t)
			h.kill("b")
			time.Sleep(13 * time.Second)
			h.want("K=18, S=1", map[string]int{"a": 18})
			told := h.told()
			if n := strings.Count(fmt.Sprint(told), AlarmRaised+" a"); n != 1 {
				t.Errorf("the alarm was raised %d times: %q", n, told)
			}
			if !slices.Contains(told, NodeOffline+" b") {
				t.Errorf("nothing of b's death in %q", told)
			}
		})
	})
	t.Run("three: a key more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := begin(t)
			h.add(1)
			time.Sleep(3 * time.Second)
			h.want("K=19, S=2", map[string]int{"a": 10, "b": 9})
			if told := h.told(); !slices.Contains(told, AlarmRaised+" b") {
				t.Errorf("no alarm at b: %q", told)
			}
			h.startOne("c", alarmAbove(4)) // 5.3: nothing moves by itself
			time.Sleep(15 * time.Second)
			h.want("K=19, S=3", map[string]int{"a": 10, "b": 9, "c": 0})
			for _, n := range h.nodes["a"].Cluster().Nodes {
				if n.Cap != 10 {
					t.Errorf("the cap of %s is %d, want 10", n.Name, n.Cap)
				}
			}
			h.giveBack("a", 1) // a person balances: 9, 7, 3
			h.giveBack("b", 2)
			time.Sleep(5 * time.Second)
			h.want("balanced by hand", map[string]int{"a": 9, "b": 7, "c": 3})
			// four: who takes how many of seven is open; all do have an owner, and nobody is above
			// the cap of 20
			h.kill("b")
			time.Sleep(13 * time.Second)
			if got := h.owned(); got["a"]+got["c"] != 19 || got["a"] < 9 || got["c"] < 3 {
				t.Errorf("situation four: %v", got)
			}
			h.wantNothingUnowned("situation four")
		})
	})
}

// giveBack asks for some keys of a node, by hand.
func (h *house) giveBack(name string, n int) {
	h.t.Helper()
	h.mu.Lock()
	asker := h.nodes[name].Scheduler
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(h.owners)) {
		if h.owners[key].name == name {
			keys = append(keys, key)
		}
	}
	h.mu.Unlock()
	for _, key := range keys[:n] {
		if err := asker.GiveBack(h.t.Context(), "key", key); err != nil {
			h.t.Error(err)
		}
	}
}

// Flaws of the old scheduler, and what is done about them.

func TestFirstComerDoesNotKeepAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(90)
		h.startOne("a")
		time.Sleep(2 * time.Minute)
		h.want("alone", map[string]int{"a": 90})
		h.start("b", "c", "d", "e")
		time.Sleep(30 * time.Second)
		if h.spread() > 1 {
			t.Errorf("half a minute later: %v", h.owned())
		}
		time.Sleep(5 * time.Minute)
		if h.spread() > 1 {
			t.Errorf("minutes later: %v", h.owned())
		}
		h.wantNothingUnowned("in the end")
		h.mu.Lock()
		defer h.mu.Unlock()
		moved := 0
		for key, at := range h.moves {
			moved += len(at)
			for i := 1; i < len(at); i++ {
				if at[i].Sub(at[i-1]) < time.Minute {
					t.Errorf("key %s moved by choice %v after it had", key, at[i].Sub(at[i-1]))
				}
			}
		}
		if moved != 72 {
			t.Errorf("%d moves, where 72 of 90 keys had to go", moved)
		}
	})
}

func TestKeyMovesByChoiceAtMostOnceAMinuteWhoeverOwnsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(40)
		h.startOne("a")
		time.Sleep(90 * time.Second)
		for _, name := range []string{"b", "c", "d", "e"} {
			h.startOne(name)
			time.Sleep(8 * time.Second)
		}
		h.kill("b") // what moved to it by choice keeps its rest, at whoever has it next
		time.Sleep(13 * time.Second)
		h.startOne("f")
		time.Sleep(3 * time.Minute)
		if h.spread() > 1 {
			t.Errorf("in the end: %v", h.owned())
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for key, at := range h.moves {
			for i := 1; i < len(at); i++ {
				if since := at[i].Sub(at[i-1]); since < time.Minute {
					t.Errorf("key %s moved by choice %v after it had", key, since)
				}
			}
		}
	})
}

func TestTwoOfFourDieAndNoKeyIsAnOrphanForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := manual(t)
		h.add(19)
		h.start("a", "b", "c", "d")
		time.Sleep(20 * time.Second)
		h.wantNothingUnowned("at first")
		h.kill("a")
		h.kill("b")
		time.Sleep(15 * time.Second)
		h.wantNothingUnowned("15 s after two of four died")
	})
}

func TestKeysWithoutRoomUnderAnyCapAreOwnedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := manual(t)
		h.conf.Tolerance = 1
		h.add(20)
		h.start("a", "b", "c", "d", "e")
		time.Sleep(20 * time.Second)
		// The dead stay members for the others, as long as their leases live; so the caps are still
		// those of five: 6 each.
		for _, name := range []string{"c", "d", "e"} {
			h.kill(name)
		}
		longest := time.Duration(0)
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			_, unowned := h.unowned()
			longest = max(longest, unowned)
		}
		h.wantNothingUnowned("in the end")
		if longest > 15*time.Second {
			t.Errorf("a key was unowned for %v", longest)
		}
	})
}

func TestDrainedNodeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(30)
		h.start("a", "b", "c", "d")
		time.Sleep(20 * time.Second)
		if err := h.nodes["a"].Drain(t.Context(), "d", "a test", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := h.owned(); got["d"] != 0 {
			t.Errorf("drained: %v", got)
		}
		h.wantNothingUnowned("drained")
		h.kill("c")
		time.Sleep(13 * time.Second)
		h.wantNothingUnowned("one of the other three died")
		if got := h.owned(); got["d"] != 0 || got["a"]+got["b"] != 30 {
			t.Errorf("one of the other three died: %v", got)
		}
	})
}

func TestOwnerThatReturnsByItselfGivesTheKeyToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		var mu sync.Mutex
		tries := map[string]int{}
		good := ""
		h.kinds = func(name string) []Kind {
			return []Kind{{Name: "hard", Keys: func(context.Context) ([]string, error) {
				return []string{"x"}, nil
			},
				Look: func(ctx context.Context, c Claim) {
					mu.Lock()
					tries[name]++
					first := len(tries) == 1 // whoever is first fails
					if !first {
						good = name
					}
					mu.Unlock()
					if !first {
						<-ctx.Done()
					}
				}}}
		}
		h.start("a", "b")
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(tries) != 2 || good == "" {
			t.Errorf("tries %v, in good hands with %q", tries, good)
		}
	})
}
