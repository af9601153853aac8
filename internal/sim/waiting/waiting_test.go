package waiting

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
)

var (
	onlySeed = flag.Uint64("seed", 0, "play only this seed, and log what is committed")
	manySeed = flag.Int("seeds", 0, "play so many seeds instead of the usual number")
)

// playAll plays seeds 1 to n on all cores, until one shows a breach.
func playAll(n int, bug string) (failed uint64, breaches []string, counts map[string]int) {
	counts = map[string]int{}
	var mu sync.Mutex
	var lanes sync.WaitGroup
	for lane := range runtime.GOMAXPROCS(0) {
		lanes.Go(func() {
			for seed := uint64(lane + 1); seed <= uint64(n); seed += uint64(runtime.GOMAXPROCS(0)) {
				w := play(seed, bug, nil)
				mu.Lock()
				for what, times := range w.counts {
					counts[what] += times
				}
				if w.ledger.found() && (failed == 0 || seed < failed) {
					failed, breaches = seed, w.ledger.breaches
				}
				over := failed != 0
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	lanes.Wait()
	return failed, breaches, counts
}

func TestWhatWaitsIsWokenOnceWhateverHappens(t *testing.T) {
	if *onlySeed != 0 {
		w := play(*onlySeed, "", func(line string) { t.Log(line) })
		for _, b := range w.ledger.breaches {
			t.Error(b)
		}
		return
	}
	n := 3000
	if *manySeed != 0 {
		n = *manySeed
	}
	failed, breaches, counts := playAll(n, "")
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d × %s", counts[what], what)
	}
	if failed != 0 {
		t.Errorf("seed %s: %v", strconv.FormatUint(failed, 10), breaches)
	}
}
