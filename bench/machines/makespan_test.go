package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/pool"
)

var docs = flag.String("docs", "",
	"`folder` of the documentation whose plot and table of makespans to write")

const (
	lanes    = 8
	mixtures = 5
)

// TestMakespan lets mixtures of light and heavy functions, which all come at once, run on real
// pools in the time of a bubble: so the figures are exact. The other ways deal the functions out to
// lanes as they come. All are held against the heaviest first, each to the lane that has least, all
// known beforehand (LPT, Graham 1969).
func TestMakespan(t *testing.T) {
	f := &figure{
		pkg: "pool", name: "pool-makespan",
		title: "Light and heavy functions come at once to 8 lanes: when the last one ends",
		unit:  "× the offline greedy bound",
		how: fmt.Sprintf("Medians of %d mixtures, in the time of a bubble and so the same on every machine; "+
			"`cd bench && go test ./machines -run Makespan -docs ../../docs`.", mixtures),
	}
	for _, n := range []int{500, 2000, 8000} {
		r := &row{what: thousands(n) + " functions"}
		for _, name := range []string{"pool, heaviest first", "pool, first come", "two choices",
			"round robin", "random"} {
			r.contenders = append(r.contenders, &contender{name: name})
		}
		for seed := range uint64(mixtures) {
			luck := rand.New(rand.NewPCG(seed, uint64(n)))
			loads := mixedLoads(n, luck)
			bound := greedyBound(loads)
			for i, span := range []float64{
				makespan(t, pool.Config{Runners: lanes, HeadStart: time.Hour}, loads),
				makespan(t, pool.Config{Runners: lanes}, loads),
				dealt(loads, func(_ int, busy []float64) int {
					a, b := luck.IntN(lanes), luck.IntN(lanes)
					if busy[b] < busy[a] {
						return b
					}
					return a
				}),
				dealt(loads, func(i int, _ []float64) int { return i % lanes }),
				dealt(loads, func(int, []float64) int { return luck.IntN(lanes) }),
			} {
				r.contenders[i].values = append(r.contenders[i].values, span/bound)
			}
		}
		best := r.contenders[0].values
		if slices.Max(best) > 1.05 {
			t.Errorf("%d functions, heaviest first: %.3f × the bound", n, slices.Max(best))
		}
		for _, other := range r.contenders[1:] {
			if median(other.values) < median(best) {
				t.Errorf("%d functions: %s has %.3f × the bound, heaviest first %.3f", n,
					other.name, median(other.values), median(best))
			}
		}
		f.rows = append(f.rows, r)
	}
	t.Logf("%s\n\n%s", f.title, f.table())
	if *docs != "" {
		if err := f.publish(*docs); err != nil {
			t.Error(err)
		}
	}
}

// mixedLoads are n loads from 1 to 1,000 by a Pareto distribution of shape 1: many light ones, and
// a few that weigh as much as all others.
func mixedLoads(n int, luck *rand.Rand) []float64 {
	loads := make([]float64, n)
	for i := range loads {
		loads[i] = 1 / (1 - luck.Float64()*(1-1.0/1000))
	}
	return loads
}

// makespan is when the last function has ended on a real pool, in seconds; each sleeps for its
// load.
func makespan(t *testing.T, c pool.Config, loads []float64) (span float64) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pool.Lanes(c)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		begin := time.Now()
		var calls sync.WaitGroup
		for _, load := range loads {
			calls.Go(func() {
				err := p.Run(t.Context(), load, func(context.Context, pool.Lane) error {
					time.Sleep(time.Duration(load * float64(time.Second)))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it has come before the next
		}
		calls.Wait()
		span = time.Since(begin).Seconds()
	})
	return span
}

// dealt is the makespan of loads that go to lanes by choose, each lane doing its own one after the
// other.
func dealt(loads []float64, choose func(i int, busy []float64) int) float64 {
	busy := make([]float64, lanes)
	for i, load := range loads {
		busy[choose(i, busy)] += load
	}
	return slices.Max(busy)
}

// greedyBound is what is reached when all is known beforehand: the heaviest first, each to the lane
// that has least.
func greedyBound(loads []float64) float64 {
	loads = slices.Clone(loads)
	slices.Sort(loads)
	slices.Reverse(loads)
	return dealt(loads, func(_ int, busy []float64) int {
		return slices.Index(busy, slices.Min(busy))
	})
}
