package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ExampleClaimCap() {
	fmt.Println(ClaimCap(19, 3, 1), ClaimCap(21, 3, 1), ClaimCap(9, 1, 1))
	// Output: 10 11 10
}

func ExampleTarget() {
	fmt.Println(Target(90, 5), Target(91, 5))
	// Output: 18 19
}

func ExampleWeightedCap() {
	weights := []int{1, 1, 2}
	// half of 20; any two nodes have room for 20
	fmt.Println(WeightedTarget(20, 2, weights), WeightedCap(20, 2, 1, weights))
	// Output: 10 21
}

func TestCapsAreTheDocuments(t *testing.T) {
	tolerances := []int{1, 1, 2, 3, 4}
	for k, want := range map[int][]int{10: {3, 3, 4, 6, 11}, 12: {4, 4, 5, 7, 13},
		15: {4, 4, 6, 8, 16}} {
		for i, n := range tolerances {
			if got := ClaimCap(k, 5, n); got != want[i] {
				t.Errorf("ClaimCap(%d, 5, %d) = %d, want %d", k, n, got, want[i])
			}
		}
	}
	for _, test := range []struct{ k, s, want int }{
		{9, 1, 10}, {10, 1, 11}, {11, 1, 12}, {11, 2, 12}, {12, 2, 13}, {13, 2, 14}, {18, 2, 19},
		{18, 1, 19}, {19, 2, 20},
		{19, 3, 10}, {21, 3, 11}, {19, 4, 7}, {30, 3, 16}, {90, 5, 23},
	} {
		if got := ClaimCap(test.k, test.s, 1); got != test.want {
			t.Errorf("ClaimCap(%d, %d, 1) = %d, want %d", test.k, test.s, got, test.want)
		}
	}
}

func TestWhatIsOutOfRangeIsTakenAsTheNearest(t *testing.T) {
	const big, small = math.MaxInt, math.MinInt
	for _, test := range []struct{ k, s, n, limit, target int }{
		{0, 0, 0, 1, 0}, {-5, 3, 1, 1, 0}, {small, small, small, 1, 0},
		{10, 0, 1, 11, 10}, {10, -1, 1, 11, 10}, {10, small, big, 11, 10}, // no node: as if one
		{10, 3, 0, 6, 4}, {10, 3, -7, 6, 4}, {10, 3, small, 6, 4}, // a tolerance below 1: 1
		{10, 3, 3, 11, 4}, {10, 3, big, 11, 4}, // more deaths than nodes: each may own all
		{big, 1, 1, big, big}, {big, 2, 1, big, big/2 + 1}, {big, big, 1, 2, 1},
		{big - 1, 1, 1, big, big - 1},
	} {
		if got := ClaimCap(test.k, test.s, test.n); got != test.limit {
			t.Errorf("ClaimCap(%d, %d, %d) = %d, want %d", test.k, test.s, test.n, got, test.limit)
		}
		if got := Target(test.k, test.s); got != test.target {
			t.Errorf("Target(%d, %d) = %d, want %d", test.k, test.s, got, test.target)
		}
	}
}

func TestWeightedCapAndTarget(t *testing.T) {
	for _, test := range []struct {
		k, weight, n  int
		weights       []int
		limit, target int
	}{
		// any two nodes are to suffice; the lightest two weigh 3: 1 + 40/3
		{40, 1, 1, []int{1, 2, 5}, 14, 5},
		{40, 2, 1, []int{5, 1, 2}, 27, 10}, // 1 + 80/3
		{40, 5, 1, []int{2, 5, 1}, 67, 25}, // 1 + 200/3
		// any one is to suffice
		{40, 1, 2, []int{1, 2, 5}, 41, 5},
		{41, 1, 1, []int{1, 2, 5}, 14, 6},             // ⌈41/8⌉
		{40, 3, 1, nil, 41, 40},                       // alone
		{40, 0, 1, []int{0, -1, math.MinInt}, 21, 14}, // as if 1, 1, 1
		// as if all MaxWeight
		{40, math.MaxInt, 1, []int{math.MaxInt, MaxWeight, MaxWeight}, 21, 14},
		{-1, 1, 1, []int{1, 1}, 1, 0},
	} {
		if got := WeightedCap(test.k, test.weight, test.n, test.weights); got != test.limit {
			t.Errorf("WeightedCap(%d, %d, %d, %v) = %d, want %d", test.k, test.weight, test.n,
				test.weights, got, test.limit)
		}
		if got := WeightedTarget(test.k, test.weight, test.weights); got != test.target {
			t.Errorf("WeightedTarget(%d, %d, %v) = %d, want %d", test.k, test.weight, test.weights,
				got, test.target)
		}
	}
	for _, test := range []struct {
		weight  int
		weights []int
	}{
		// about 2⁸³, 2⁶⁴ and 1.5 × 2⁶³
		{MaxWeight, []int{1, MaxWeight}}, {MaxWeight, []int{499_999, MaxWeight}}, {3, []int{2, 3}},
	} {
		if got := WeightedCap(math.MaxInt, test.weight, 1, test.weights); got != math.MaxInt {
			t.Errorf("a cap beyond all numbers is %d", got)
		}
	}
}

func TestEqualWeightsAreNoWeights(t *testing.T) { rapid.Check(t, equalWeightsAreNoWeights) }

func equalWeightsAreNoWeights(t *rapid.T) {
	k := rapid.OneOf(rapid.IntRange(-3, 100), rapid.Int()).Draw(t, "K")
	s, n := rapid.IntRange(1, 40).Draw(t, "S"), rapid.IntRange(-2, 45).Draw(t, "n")
	weight := rapid.OneOf(rapid.IntRange(1, 9), rapid.Int()).Draw(t, "weight")
	weights := slices.Repeat([]int{weight}, s)
	if got, want := WeightedCap(k, weight, n, weights), ClaimCap(k, s, n); got != want {
		t.Fatalf("WeightedCap = %d, ClaimCap = %d", got, want)
	}
	if got, want := WeightedTarget(k, weight, weights), Target(k, s); got != want {
		t.Fatalf("WeightedTarget = %d, Target = %d", got, want)
	}
}

// TestSurvivorsOfAnyNDeathsHaveRoomForAll is what caps are for, and the shares' law: they add up to
// all keys, each is its weight's part rounded up or down, and no target is above its cap.
func TestSurvivorsOfAnyNDeathsHaveRoomForAll(t *testing.T) { rapid.Check(t, survivorsHaveRoom) }

func FuzzSurvivorsOfAnyNDeathsHaveRoomForAll(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survivorsHaveRoom))
}

func survivorsHaveRoom(t *rapid.T) {
	k := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, math.MaxInt)).Draw(t, "K")
	n := rapid.IntRange(1, 8).Draw(t, "n")
	weights := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, MaxWeight)), 1,
		8).Draw(t, "weights")
	limits := make([]int, len(weights))
	for i, w := range weights {
		limits[i] = WeightedCap(k, w, n, weights)
		if target := WeightedTarget(k, w, weights); target > limits[i] {
			t.Fatalf("target %d above cap %d of weight %d", target, limits[i], w)
		}
	}
	slices.Sort(limits)
	room := 0
	for _, limit := range limits[:max(len(limits)-n, 1)] {
		room = plus(room, limit)
	}
	if room < k || room == k && k < math.MaxInt {
		t.Fatalf("caps %v leave room for %d of %d keys after %d deaths", limits, room, k, n)
	}
}

func BenchmarkClaimCap(b *testing.B) {
	for b.Loop() {
		ClaimCap(10_000, 10, 2)
	}
}

func BenchmarkTarget(b *testing.B) {
	for b.Loop() {
		Target(10_000, 10)
	}
}

func BenchmarkWeightedCap(b *testing.B) {
	weights := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	b.ReportAllocs()
	for b.Loop() {
		WeightedCap(10_000, 5, 2, weights)
	}
}
