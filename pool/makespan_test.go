package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mixedLoads are n loads from 1 to 1,000 by a Pareto distribution of shape 1: many light ones, and
// a few that weigh as much as all others.
func mixedLoads(n int, luck *rand.Rand) []float64 {
	loads := make([]float64, n)
	for i := range loads {
		loads[i] = 1 / (1 - luck.Float64()*(1-1.0/1000))
	}
	return loads
}

// makespan is when the last of functions that come all at once has ended, on a real pool in a time
// that is not.
func makespan(t *testing.T, c Config, loads []float64) (span float64) {
	synctest.Test(t, func(t *testing.T) {
		p := newLanes(t, c)
		begin := time.Now()
		var calls sync.WaitGroup
		for _, load := range loads {
			calls.Go(func() {
				p.Run(t.Context(), load, func(context.Context, Lane) error {
					time.Sleep(time.Duration(load * float64(time.Second)))
					return nil
				})
			})
		}
		calls.Wait()
		span = time.Since(begin).Seconds()
	})
	return span
}

// dealt is the makespan of loads that go to lanes by choose, each lane doing its own one after the
// other.
func dealt(loads []float64, lanes int, choose func(i int, busy []float64) int) float64 {
	busy := make([]float64, lanes)
	for i, load := range loads {
		busy[choose(i, busy)] += load
	}
	return slices.Max(busy)
}

// greedyBound is the makespan of the heaviest first, each to the lane with least, all known
// beforehand (LPT, Graham 1969).
func greedyBound(loads []float64, lanes int) float64 {
	loads = slices.Clone(loads)
	slices.SortFunc(loads, func(a, b float64) int { return int(b*1e6) - int(a*1e6) })
	return dealt(loads, lanes, func(_ int, busy []float64) int {
		return slices.Index(busy, slices.Min(busy))
	})
}

func TestTheHeaviestFirstEndAMixtureSoonest(t *testing.T) {
	const lanes = 8
	for seed := range uint64(5) {
		luck := rand.New(rand.NewPCG(seed, 0))
		loads := mixedLoads(500, luck)
		bound := greedyBound(loads, lanes)
		got := makespan(t, Config{Runners: lanes, HeadStart: time.Hour}, loads)
		if got > 1.05*bound {
			t.Errorf("seed %d: %.0f s, with all known beforehand %.0f s", seed, got, bound)
		}
		for name, other := range map[string]float64{
			"round robin": dealt(loads, lanes, func(i int, _ []float64) int { return i % lanes }),
			"random": dealt(loads, lanes, func(int, []float64) int {
				return luck.IntN(lanes)
			}),
			"two choices": dealt(loads, lanes, func(_ int, busy []float64) int {
				a, b := luck.IntN(lanes), luck.IntN(lanes)
				if busy[b] < busy[a] {
					return b
				}
				return a
			}),
		} {
			if got >= other {
				t.Errorf("seed %d: %.0f s, by %s %.0f s", seed, got, name, other)
			}
		}
	}
}
