package balance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ExampleFaultBudget() {
	s := Snapshot{
		Nodes: []Node{
			{Name: "a", Working: true}, {Name: "b", Working: true}, {Name: "c", Working: true},
		},
	}
	for i := range 30 {
		s.Keys = append(s.Keys, Key{Name: fmt.Sprint(i)})
	}
	b := FaultBudget(s)
	fmt.Println(b.AtOnce, "at once,", b.InTurn, "in turn, broken:", b.Broken())

	s.Nodes[0].Working, s.Nodes[1].Working = false, false // what if a and b were drained?
	fmt.Println("broken:", FaultBudget(s).Broken())
	// Output:
	// 1 at once, 2 in turn, broken: false
	// broken: true
}

// members makes working nodes named a, b, c … of the given tolerances, and k keys that the first
// owns.
func members(k int, tolerances ...int) Snapshot {
	var s Snapshot
	for i, n := range tolerances {
		s.Nodes = append(s.Nodes, Node{Name: string(rune('a' + i)), Tolerance: n, Working: true})
	}
	for i := range k {
		s.Keys = append(s.Keys, Key{Name: fmt.Sprint(i), Owner: "a"})
	}
	return s
}

func TestFaultBudget(t *testing.T) {
	drained := func(s Snapshot, i int) Snapshot { s.Nodes[i].Working = false; return s }
	for _, test := range []struct {
		name string
		s    Snapshot
		want Budget
	}{
		{"the document's five, 10 keys: caps 3 3 4 6 11", members(10, 1, 1, 2, 3, 4),
			Budget{1, 2, 4, []string{"e", "d", "c", "a", "b"}, 4}},
		{"12 keys: caps 4 4 5 7 13", members(12, 1, 1, 2, 3, 4),
			Budget{1, 2, 4, []string{"e", "d", "c", "a", "b"}, 4}},
		{"15 keys: caps 4 4 6 8 16", members(15, 1, 1, 2, 3, 4),
			Budget{1, 1, 4, []string{"e", "d", "c", "a", "b"}, 1}},
		{"three of n = 1", members(30, 1, 1, 1), Budget{1, 1, 2, []string{"a", "b", "c"}, 14}},
		{"n = 0 is 1", members(30, 0, 0, 0), Budget{1, 1, 2, []string{"a", "b", "c"}, 14}},
		{"four of n = 2", members(30, 2, 2, 2, 2),
			Budget{2, 2, 3, []string{"a", "b", "c", "d"}, 14}},
		{"fewer keys than nodes: caps of 1 + 2/4 = 1", members(2, 1, 1, 1, 1, 1),
			Budget{1, 3, 4, []string{"a", "b", "c", "d", "e"}, 1}},
		{"one of two", members(18, 1, 1), Budget{1, 1, 1, []string{"a", "b"}, 18}},
		{"n as many as nodes", members(18, 2, 2), Budget{2, 1, 1, []string{"a", "b"}, 18}},
		{"alone", members(9, 1), Budget{1, 0, 0, []string{"a"}, 9}},
		{"no keys", members(0, 1, 1, 1), Budget{1, 2, 2, []string{"a", "b", "c"}, 0}},
		{"nobody", members(3), Budget{Short: 3}},
		{"nobody works", drained(members(3, 1), 0), Budget{Short: 3}},
		{"a drained one does not count", drained(members(30, 1, 1, 1, 1), 0),
			Budget{1, 1, 2, []string{"b", "c", "d"}, 14}},
	} {
		if diff := cmp.Diff(test.want, FaultBudget(test.s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWhoOwnsMoreHurtsMore(t *testing.T) {
	s := members(10, 1, 1, 1)
	for i := range s.Keys {
		s.Keys[i].Owner = []string{"c", "b", "b"}[i%3]
	}
	if got := FaultBudget(s).Worst; !slices.Equal(got, []string{"b", "c", "a"}) {
		t.Errorf("worst first: %v", got)
	}
}

// TestFaultBudgetIsExact asks every group of nodes and every order of deaths.
func TestFaultBudgetIsExact(t *testing.T) { rapid.Check(t, budgetIsExact) }

func FuzzFaultBudgetIsExact(f *testing.F) { f.Fuzz(rapid.MakeFuzz(budgetIsExact)) }

func budgetIsExact(t *rapid.T) {
	s := snapshots(t)
	b := FaultBudget(s)
	var working []Node
	for _, n := range s.Nodes {
		if n.Working {
			working = append(working, n)
		}
	}
	atOnce := len(working) // the smallest group that leaves too little room, less one
	for group := range uint(1) << len(working) {
		if dead, short := without(working, group, len(s.Keys)); short > 0 || dead == len(working) {
			atOnce = min(atOnce, dead-1)
			if dead == b.AtOnce+1 && short > b.Short {
				t.Fatalf("group %b leaves no room for %d keys, worse than %+v", group, short, b)
			}
		}
	}
	if len(working) == 0 {
		atOnce = 0
	}
	if b.AtOnce != atOnce {
		t.Fatalf("%d can die at once, not %d", atOnce, b.AtOnce)
	}
	worst := uint(0)
	for i, n := range working {
		if slices.Index(b.Worst, n.Name) <= b.AtOnce {
			worst |= 1 << i
		}
	}
	if _, short := without(working, worst, len(s.Keys)); short != b.Short {
		t.Fatalf("the worst group leaves no room for %d keys, not %d", short, b.Short)
	}
	if inTurn := deathsInTurn(working, len(s.Keys)); inTurn != b.InTurn {
		t.Fatalf("%d can die in turn, not %d", inTurn, b.InTurn)
	}
}

// without says how many nodes of a group there are, and how many of k keys the caps of the others,
// which still count the group, have no room for.
func without(nodes []Node, group uint, k int) (dead, short int) {
	var weights []int
	for _, n := range nodes {
		weights = append(weights, n.Weight)
	}
	short = k
	for i, n := range nodes {
		if group>>i&1 == 1 {
			dead++
		} else {
			short -= WeightedCap(k, n.Weight, n.Tolerance, weights)
		}
	}
	return dead, max(short, 0)
}

// deathsInTurn lets nodes die in every order, each seen before the next. What can go wrong depends
// only on who is left.
func deathsInTurn(nodes []Node, k int) int {
	deaths := max(len(nodes)-1, 0)
	for group := range uint(1) << len(nodes) {
		var left []Node
		for i, n := range nodes {
			if group>>i&1 == 1 {
				left = append(left, n)
			}
		}
		for i := range left {
			if _, short := without(left, 1<<i, k); short > 0 && len(left) > 1 {
				deaths = min(deaths, len(nodes)-len(left))
			}
		}
	}
	return deaths
}
