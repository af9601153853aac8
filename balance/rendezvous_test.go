package balance

import (
	"fmt"
	"slices"
	"testing"
)

func ExampleSortNodes() {
	nodes := []string{"a", "b", "c"}
	SortNodes(nodes, "schedule/nightly")
	fmt.Println(nodes)
	fmt.Println(Rendezvous("b", "schedule/nightly") > Rendezvous("a", "schedule/nightly"))
	// Output:
	// [b a c]
	// true
}

func ExampleSortKeys() {
	keys := []string{"group/crawl", "schedule/hourly", "schedule/nightly"}
	SortKeys(keys, "a")
	fmt.Println(keys)
	// Output: [schedule/nightly group/crawl schedule/hourly]
}

// TestHeightsNeverChange pins the function: nodes of different versions and platforms must agree on
// who goes first. The hash's values are those that its authors publish.
func TestHeightsNeverChange(t *testing.T) {
	for text, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c,
		"foobar": 0x85944171f73967e8} {
		if got := fnv(text); got != want {
			t.Errorf("fnv(%q) = %#x, want %#x", text, got, want)
		}
	}
	for z, want := range map[uint64]uint64{0: 0xe220a8397b1dcdaf,
		0x9e3779b97f4a7c15: 0x6e789e6aa1b965f4} {
		// SplitMix64 of seed 0
		if got := mix(z); got != want {
			t.Errorf("mix(%#x) = %#x, want %#x", z, got, want)
		}
	}
	for _, test := range []struct {
		node, key string
		want      uint64
	}{
		{"", "", 0xa0490b007fca3c4b},
		{"a", "b", 0x10c3a6f7a88467ad},
		{"b", "a", 0x24cddbd78c61033d},
		{"node-7.example.org", "schedule/nightly-report", 0x5a1c646840621019},
	} {
		if got := Rendezvous(test.node, test.key); got != test.want {
			t.Errorf("Rendezvous(%q, %q) = %#x, want %#x", test.node, test.key, got, test.want)
		}
	}
}

// TestEveryOrderIsEquallyLikely: over 12,000 keys each of the six orders of three nodes is that of
// about a sixth (2,000 ± five standard deviations of 41), whether names differ much or by one
// letter.
func TestEveryOrderIsEquallyLikely(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"node-1", "node-2", "node-3"},
		{"alpha", "a-very-long-name-of-a-node.example.org", ""}} {
		orders := map[string]int{}
		for i := range 12_000 {
			nodes := slices.Clone(names)
			SortNodes(nodes, fmt.Sprint("schedule/", i))
			orders[fmt.Sprint(nodes)]++
		}
		for order, n := range orders {
			if len(orders) != 6 || n < 1795 || n > 2205 {
				t.Errorf("order %s of %d keys", order, n)
			}
		}
	}
}

func TestANodeThatGoesLeavesTheOthersOrders(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e"}
	for i := range 100 {
		key := fmt.Sprint("key", i)
		all := slices.Clone(nodes)
		SortNodes(all, key)
		rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == "c" })
		SortNodes(rest, key)
		if !slices.Equal(rest, slices.DeleteFunc(all, func(n string) bool { return n == "c" })) {
			t.Fatalf("%s: %v without c is %v", key, all, rest)
		}
	}
}

func TestBothOrdersAreByHeight(t *testing.T) {
	keys := []string{"x", "y", "z", "x"}
	SortKeys(keys, "node")
	for i := range keys[1:] {
		if Rendezvous("node", keys[i]) < Rendezvous("node", keys[i+1]) {
			t.Errorf("%s before %s", keys[i], keys[i+1])
		}
	}
	SortKeys(nil, "node")
	SortNodes(nil, "key")
}

func BenchmarkRendezvous(b *testing.B) {
	for b.Loop() {
		Rendezvous("node-7.example.org", "schedule/nightly-report")
	}
}

func BenchmarkSortKeys(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("schedule/", i)
	}
	for i := 0; b.Loop(); i++ {
		SortKeys(keys, [2]string{"a", "b"}[i%2])
	}
}
