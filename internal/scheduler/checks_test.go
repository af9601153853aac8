package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMissesCountOnlyInARowAndOnlyForThoseWhoReachHalfOfTheOthers(t *testing.T) {
	for _, c := range []struct {
		name    string
		rounds  []string // of each round: who is asked, in capitals when it is reached
		misses  map[string]int
		suspect bool
	}{
		{"nobody to ask", []string{""}, map[string]int{}, false},
		{"all reached", []string{"B C D"}, map[string]int{}, false},
		{"three in a row", []string{"b C D", "b C D", "b C D"}, map[string]int{"b": 3}, false},
		{"three blips are not three in a row",
			[]string{"b C D", "B C D", "b C D", "B C D", "b C D"}, map[string]int{"b": 1}, false},
		{"half of them", []string{"b C", "b C"}, map[string]int{"b": 2}, false},
		{"fewer than half", []string{"b c D", "b c D"}, nil, true},
		{"of two nodes none can say", []string{"b"}, nil, true},
		{"back from its own trouble it begins anew", []string{"b C D", "b C D", "b c d", "b C D"},
			map[string]int{"b": 1}, false},
		{"who is no longer asked is forgotten", []string{"b C D", "C D"}, map[string]int{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got checks
			for _, round := range c.rounds {
				reached := map[string]bool{}
				for _, name := range strings.Fields(round) {
					reached[strings.ToLower(name)] = name != strings.ToLower(name)
				}
				got = got.after(reached)
			}
			if !maps.Equal(got.misses, c.misses) || got.suspect != c.suspect {
				t.Errorf("got %+v, want %v, suspect %v", got, c.misses, c.suspect)
			}
		})
	}
}

func TestOnlyAMajorityOfTheOtherFitNodesConvicts(t *testing.T) {
	for _, c := range []struct {
		name      string
		observers string // of node x: how often each missed it; s = suspects itself, o = is offline
		want      bool
	}{
		{"nobody", "", false},
		{"one accuser alone", "3", false},
		{"both of two", "3 3", true},
		{"one of two", "3 0", false},
		{"two of three", "3 5 0", true},
		{"two of four", "3 3 0 0", false},
		{"three of four, twice only", "3 3 2 0", false},
		{"the unfit don't count", "3 3 0s 0o", true},
		{"nor do they accuse", "3s 3o 3 0", false},
		{"one accuser among the unfit", "3 0s 0s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Member{Name: "x", holder: "x@1", State: Working}
			all := []*Member{x}
			for i, word := range strings.Fields(c.observers) {
				o := &Member{
					Name: fmt.Sprint("o", i), State: Working, Suspect: strings.HasSuffix(word, "s"),
				}
				if strings.HasSuffix(word, "o") {
					o.State = Offline
				}
				o.Misses = map[string]int{"x@1": int(word[0] - '0'), "x@0": 9}
				all = append(all, o)
			}
			if got := unreachable(x, all); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// isolate cuts a node's connections to the others, both ways; not to the store.
func (h *house) isolate(name string, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other := range h.nodes {
		h.cut[[2]string{name, other}] = cut
		h.cut[[2]string{other, name}] = cut
	}
}

func TestUnreachableNodeGivesItsKeysBackAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(12)
		h.start("a", "b", "c", "d")
		time.Sleep(90 * time.Second)
		h.want("at first", map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})
		h.told()
		h.isolate("b", true)
		time.Sleep(10 * time.Second)
		h.want("b is unreachable", map[string]int{"a": 4, "b": 0, "c": 4, "d": 4})
		if got := h.nodes["a"].Cluster().state("b"); got != Unreachable {
			t.Errorf("b is %s", got)
		}
		if h.nodes["b"].Working() {
			t.Error("b thinks that it works")
		}
		h.isolate("b", false)
		time.Sleep(90 * time.Second)
		if h.spread() > 0 || h.nodes["a"].Cluster().state("b") != Working {
			t.Errorf("b is back, %s: %v", h.nodes["a"].Cluster().state("b"), h.owned())
		}
		if told := h.told(); !slices.Equal(told,
			[]string{NodeUnreachable + " b", NodeReachable + " b"}) {
			t.Errorf("told %q", told)
		}
	})
}

// state is that of a node, as seen.
func (c Cluster) state(name string) State {
	for _, m := range c.Nodes {
		if m.Name == name {
			return m.State
		}
	}
	return ""
}

func TestIsolatedAccuserConvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e"}} {
			h := newHouse(t, Config{})
			h.start(names...)
			h.mu.Lock()
			h.cut[[2]string{"a", "*"}] = true // it reaches nobody, and all reach it
			h.mu.Unlock()
			time.Sleep(time.Minute)
			for _, m := range h.nodes["b"].Cluster().Nodes {
				if m.State != Working || m.Suspect != (m.Name == "a") {
					t.Errorf("of %d nodes, %s is %s, and suspects itself: %v", len(names), m.Name,
						m.State, m.Suspect)
				}
			}
		}
	})
}

func TestPeersOpinionAloneNeverEndsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b", "c")
		token := h.nodes["b"].node.Token()
		h.isolate("b", true)
		time.Sleep(10 * time.Minute)
		if l := h.nodes["b"].node; l.Token() != token || l.Err() != nil {
			t.Errorf("token %d, it was %d; %v", l.Token(), token, l.Err())
		}
	})
}

func TestTheDeadAreNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b", "c", "x1", "x2", "x3", "x4", "x5", "x6")
		time.Sleep(20 * time.Second)
		for i := range 6 {
			h.kill(fmt.Sprint("x", i+1))
		}
		time.Sleep(20 * time.Second)
		asked := map[string]int{}
		h.mu.Lock()
		h.asked = asked
		h.mu.Unlock()
		h.startOne("d", func(c *Config) { c.Address = "nowhere" })
		time.Sleep(10 * time.Second)
		for _, m := range h.nodes["a"].Cluster().Nodes {
			want := map[string]State{"a": Working, "b": Working, "c": Working,
				"d": Unreachable}[m.Name]
			if want == "" {
				want = Offline
			}
			if m.State != want || m.Suspect {
				t.Errorf("%s is %s, want %s; suspects itself: %v", m.Name, m.State, want, m.Suspect)
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if asked["x1"] != 0 || asked["a"] == 0 {
			t.Errorf("asked: %v", asked)
		}
	})
}

func TestStrikesAgainstADeadStartDoNotCountAgainstTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b", "c", "d")
		time.Sleep(20 * time.Second)
		h.kill("a")
		time.Sleep(9 * time.Second) // unreachable, and its lease lives
		if got := h.nodes["b"].Cluster().state("a"); got != Unreachable {
			t.Fatalf("it is %s", got)
		}
		h.told()
		h.start("a")
		time.Sleep(10 * time.Second)
		if told := h.told(); slices.ContainsFunc(told, func(e string) bool {
			return strings.HasPrefix(e, NodeUnreachable) || strings.HasPrefix(e, NodeReachable)
		}) {
			t.Errorf("told %q", told)
		}
	})
}
