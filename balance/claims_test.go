package balance

import (
	"fmt"
	"math"
	"testing"
)

func ExampleClaims() {
	s := Snapshot{
		Self: "a",
		Nodes: []Node{
			{Name: "a", Tolerance: 1, Working: true},
			{Name: "b", Tolerance: 1, Working: true},
			{Name: "c"}, // drained
		},
		Keys: []Key{
			{Name: "schedule/hourly", Owner: "a"},
			{Name: "schedule/nightly"},
			{Name: "group/crawl", Free: 1}, // nobody took it for a beat
		},
	}
	p := Claims(s)
	fmt.Println("X =", p.Owned, "T =", p.Target, "N =", p.Cap)
	fmt.Println("claim", p.Claim, "release", p.Release)
	for _, r := range p.Refused {
		fmt.Printf("%s is %v: %s\n", r.Key, r.Reason, r.For)
	}
	// Output:
	// X = 1 T = 2 N = 4
	// claim [group/crawl] release []
	// schedule/nightly is left to a node below its share: b
}

func ExampleLoosest() {
	s := Snapshot{
		Self:  "a",
		Nodes: []Node{{Name: "a", Working: true}, {Name: "b", Working: true}},
		Keys: []Key{
			{Name: "group/crawl", Owner: "a"}, {Name: "group/feeds", Owner: "a"},
			{Name: "group/tails", Owner: "a", Pinned: "a"}, {Name: "group/other", Owner: "b"},
		},
	}
	fmt.Println(Loosest(s, "a"), "may leave a, in this order")
	// Output: [group/crawl group/feeds] may leave a, in this order
}

// FuzzNonsense: whatever a snapshot holds, names that come twice included, there is a plan, with
// only unowned keys to claim and own ones to release.
func FuzzNonsense(f *testing.F) {
	f.Add("a", "b", "a/b/c", 1, 1, 1, 0, 0, uint8(0), true)
	f.Add("", "", "", 0, 0, 0, 0, 0, uint8(9), false)
	f.Add("a", "a", "a/a//b", -1, math.MinInt, math.MaxInt, -1, math.MinInt, uint8(1), true)
	f.Add("a", "b", "//", math.MaxInt, math.MaxInt, math.MinInt, math.MaxInt, math.MaxInt, uint8(1),
		true)
	f.Fuzz(func(t *testing.T, a, b, keys string, weight, tolerance, free, claim, release int,
		rebalance uint8, working bool) {
		s := Snapshot{Self: a, Limits: Limits{Rebalance(rebalance), claim, release}, Nodes: []Node{
			{a, weight, tolerance, free, true}, {b, tolerance, weight, claim, working},
			{"c", 0, 0, 0, true}, {"c", 7, 7, 7, false},
		}}
		for i := range len(keys) {
			s.Keys = append(s.Keys, Key{
				Name: keys[i:min(i+2, len(keys))], Owner: []string{"", a, b, "gone"}[keys[i]%4],
				Free: free, Given: working,
			})
		}
		unowned, own := map[string]bool{}, map[string]bool{}
		for _, k := range s.Keys {
			switch k.Owner {
			case "":
				unowned[k.Name] = true
			case a:
				own[k.Name] = true
			}
		}
		p := Claims(s)
		for _, key := range p.Claim {
			if !unowned[key] {
				t.Errorf("claims %q", key)
			}
		}
		for _, key := range p.Release {
			if !own[key] {
				t.Errorf("releases %q", key)
			}
		}
		if p.Owned < 0 || p.Share < 0 || p.Target < p.Share || p.Cap < p.Target {
			t.Errorf("X=%d share=%d T=%d N=%d", p.Owned, p.Share, p.Target, p.Cap)
		}
		if budget := FaultBudget(s); budget.AtOnce < 0 || budget.AtOnce > budget.InTurn ||
			budget.Short < 0 {
			t.Errorf("budget %+v", budget)
		}
	})
}

// BenchmarkClaims decides for one of ten nodes and 10,000 keys.
func BenchmarkClaims(b *testing.B) {
	const nodes, keys = 10, 10_000
	s := Snapshot{Self: "node-3.example.org"}
	for i := range nodes {
		s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("node-%d.example.org", i), Working: true})
	}
	owned := func(owner func(i int) string) Snapshot {
		s := s
		for i := range keys {
			s.Keys = append(s.Keys, Key{
				Name: fmt.Sprintf("schedule/report-%d", i), Owner: owner(i),
			})
		}
		return s
	}
	name := func(i int) string { return s.Nodes[i%nodes].Name }
	for _, test := range []struct {
		name string
		s    Snapshot
	}{
		{"at rest", owned(name)},
		{"a node died", owned(func(i int) string {
			if i%nodes == 5 {
				return ""
			}
			return name(i)
		})},
		{"all unowned", owned(func(int) string { return "" })},
		{"one has all", owned(func(int) string { return s.Self })},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Claims(test.s)
			}
		})
	}
	b.Run("budget", func(b *testing.B) {
		s := owned(name)
		b.ReportAllocs()
		for b.Loop() {
			FaultBudget(s)
		}
	})
}
