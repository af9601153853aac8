package balance

import (
	"math"
	"math/bits"
	"slices"
)

// MaxWeight is the greatest weight of a node; more counts as this much.
const MaxWeight = 1_000_000

// ClaimCap is how many of k keys one of s working nodes may own at most, so that any n of them can
// die and the others still have room for every key: 1 + k / max(s−n, 1), in integers.
//
// Any s−n of the caps add up to more than k: (s−n) × (1 + ⌊k/(s−n)⌋) > k. What is out of range is
// taken as the nearest value within: k ≥ 0, s ≥ 0, n ≥ 1; a result beyond the greatest int is the
// greatest int.
func ClaimCap(k, s, n int) int {
	return plus(max(k, 0)/max(max(s, 0)-max(n, 1), 1), 1)
}

// Target is one of s equal nodes' share of k keys, rounded up: ⌈k/s⌉. Out of range as in
// [ClaimCap], with s ≥ 1.
func Target(k, s int) int {
	k, s = max(k, 0), max(s, 1)
	target := k / s
	if k%s > 0 {
		target++
	}
	return target
}

// WeightedCap is [ClaimCap] for a node of the given weight among working nodes of these weights
// (its own among them): 1 + k × weight / r, in integers, where r is what is left of all weights
// when the n heaviest nodes die, and at least the lightest. Equal weights cancel out, and it is
// ClaimCap(k, len(weights), n). A weight below 1 counts as 1, above [MaxWeight] as that.
func WeightedCap(k, weight, n int, weights []int) int {
	return weigh(weights).limit(k, weight, n)
}

// WeightedTarget is [Target] for a node of the given weight: ⌈k × weight / (sum of weights)⌉.
func WeightedTarget(k, weight int, weights []int) int {
	return weigh(weights).target(k, weight)
}

// scale is the working nodes' weights added up: scale[i] is the weight of the i+1 lightest.
type scale []uint64

func weigh(weights []int) scale {
	s := make(scale, len(weights))
	for i, w := range weights {
		s[i] = bounded(w)
	}
	slices.Sort(s)
	for i := 1; i < len(s); i++ {
		s[i] += s[i-1]
	}
	return s
}

func (s scale) limit(k, weight, n int) int {
	if len(s) == 0 {
		return plus(max(k, 0), 1)
	}
	left := max(len(s)-max(n, 1), 1)
	share, _ := mulDiv(k, bounded(weight), s[left-1])
	return plus(share, 1)
}

func (s scale) target(k, weight int) int {
	share, rest := s.share(k, weight)
	if rest {
		return plus(share, 1)
	}
	return share
}

// share is k × weight / (all weights), rounded down, and whether that cut something off.
func (s scale) share(k, weight int) (share int, rest bool) {
	if len(s) == 0 {
		return max(k, 0), false
	}
	return mulDiv(k, bounded(weight), s[len(s)-1])
}

func bounded(weight int) uint64 { return uint64(min(max(weight, 1), MaxWeight)) }

// mulDiv is k × weight / all, rounded down, and whether that cut something off. Beyond the greatest
// int it is the greatest int.
func mulDiv(k int, weight, all uint64) (share int, rest bool) {
	high, low := bits.Mul64(uint64(max(k, 0)), weight)
	if high >= all {
		return math.MaxInt, false
	}
	quotient, remainder := bits.Div64(high, low, all)
	if quotient > math.MaxInt {
		return math.MaxInt, false
	}
	return int(quotient), remainder > 0
}

// plus adds two numbers that are not negative, up to the greatest int.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
