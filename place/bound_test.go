package place

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomSmall draws a cluster of five workers with unequal capacities and a state of it, which may
// lack replicas.
func randomSmall(r *rand.Rand) (c small, m masks) {
	c = small{capacities: make([]int, 5), jobs: 3 + r.IntN(4), replicas: 1 + r.IntN(3)}
	free := make([]int, 5)
	for w := range c.capacities {
		c.capacities[w] = 1 + r.IntN(6)
		free[w] = c.capacities[w]
	}
	m = make(masks, c.jobs)
	for j := range m {
		for range r.IntN(c.replicas + 1) {
			if w := r.IntN(5); free[w] > 0 && m[j]>>w&1 == 0 {
				m[j] |= 1 << w
				free[w]--
			}
		}
	}
	return c, m
}

// least is how many replicas must end on the way from a state to any in which the jobs are on as
// many workers as in another state, and the shares in use are the same. It goes from job to job,
// and keeps for all that the workers may have by then how much stands as it did.
func (c small) least(from, like masks) int {
	const none = -1
	kept := slices.Repeat([]int{none}, 1<<(3*len(c.capacities)))
	kept[0] = 0
	all := 0
	for j, mask := range like {
		all += bits.OnesCount(uint(from[j]))
		next := slices.Repeat([]int{none}, len(kept))
		for key, k := range kept {
			if k == none {
				continue
			}
			for m := range 1 << len(c.capacities) {
				if bits.OnesCount(uint(m)) != bits.OnesCount(uint(mask)) {
					continue
				}
				to, fits := key, true
				for w, capacity := range c.capacities {
					if m>>w&1 == 1 {
						fits = fits && key>>(3*w)&7 < capacity
						to += 1 << (3 * w)
					}
				}
				if fits {
					next[to] = max(next[to], k+bits.OnesCount(uint(m&from[j])))
				}
			}
		}
		kept = next
	}
	most := 0
	want := c.shares(like.count)
	for key, k := range kept {
		if k != none && slices.Equal(c.shares(func(w int) int {
			return key >> (3 * w) & 7
		}), want) {
			most = max(most, k)
		}
	}
	return all - most
}

// oneMore are those of the first 20,000 seeds from whose states one replica more is moved than need
// be. From none are two.
var oneMore = []uint64{4308, 4717, 5161, 5381, 6589, 10339, 10553, 12408}

func TestLargerClustersRarelyMoveOneMoreThanNeeded(t *testing.T) {
	seeds := slices.Clone(oneMore)
	for seed := range uint64(600) {
		seeds = append(seeds, seed)
	}
	for i, seed := range seeds {
		c, m := randomSmall(rand.New(rand.NewPCG(seed, 5)))
		ended, rest := carryOut(t, c.state(m), Policy{Moves: 1000, New: -1})
		want := c.least(m, masksOf(rest))
		if i < len(oneMore) {
			want++
		}
		if ended != want {
			t.Errorf("seed %d: %v from %v to %v: %d replicas were ended, want %d", seed, c, m,
				masksOf(rest), ended, want)
		}
	}
}
