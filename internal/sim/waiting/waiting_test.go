package waiting

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
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

// sometimes is what must happen in some world, or the play proves nothing about it.
var sometimes = []string{
	"a child of one that is over was cancelled",
	"a child was replayed",
	"a node was cut off",
	"a node was killed",
	"a report was repeated",
	"a report was stale",
	"a signal was before a time that was over",
	"a task that waits was cancelled",
	"a task that waits was edited",
	"a task was deleted",
	"a time that was over was before a signal",
	"a transaction was cut off",
	"an outcome spawned",
	"children were submitted",
	"children were to outlive their parent",
	"the first child that died woke its parent",
	"the last of several children woke their parent",
	"woken: after",
	"woken: children",
	"woken: signal",
	"woken: timeout",
}

func TestWhatWaitsIsWokenOnceWhateverHappens(t *testing.T) {
	if *onlySeed != 0 {
		w := play(*onlySeed, "", func(line string) { t.Log(line) })
		for _, b := range w.ledger.breaches {
			t.Error(b)
		}
		return
	}
	n := 2000
	switch {
	case *manySeed > 0:
		n = *manySeed
	case testing.Short():
		n = 300
	}
	failed, breaches, counts := playAll(n, "")
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d × %s", counts[what], what)
	}
	if failed != 0 {
		t.Errorf("seed %d: %s", failed, strings.Join(breaches, "; "))
		t.Errorf("see it again: go test ./internal/sim/waiting -run Whatever -seed %d -v", failed)
	}
	if n < 2000 {
		return // too few to show everything
	}
	for _, what := range sometimes {
		if counts[what] == 0 {
			t.Errorf("no seed shows that %s", what)
		}
	}
}

func TestTheSameSeedIsTheSamePlay(t *testing.T) {
	for seed := range uint64(5) {
		var plays [2][]string
		for i := range plays {
			play(seed, "", func(line string) { plays[i] = append(plays[i], line) })
		}
		if !slices.Equal(plays[0], plays[1]) {
			t.Errorf("seed %d: two plays differ", seed)
		}
	}
}

// planted are wrong programs: each leaves out one rule of docs/waiting.md, or has done in it what
// another way would do.
var planted = []string{
	"who waits leaves no mark",
	"who waits looks before it marks",
	"span and running row are marked by one statement",
	"children are fenced before they are written",
	"a repeated report spawns again",
	"children are spawned after the outcome",
	"a span of its own is not marked",
	"a task that spawns is not marked",
	"a wait is no news",
	"an end is counted in a transaction of its own",
	"a look deletes the news before it does what follows",
	"a look reads the wait before the news",
	"counts are read before they are locked",
	"who went on meanwhile is passed over",
	"a signal that was delivered is deleted",
	"a time that is over ends the wait wherever its task is",
	"a wake-up has neither lock nor place",
	"a look decides by the news that it took",
	"children of former runs count",
	"a wake-up leaves the wait",
	"a look does one piece",
	"what a task once waited for ends another wait",
	"a wait and its span are read by two statements",
	"tasks are locked one after the other",
	"who acts from outside locks nothing",
	"who cancels tells nobody",
	"an edit leaves the wait behind",
	"a replay does not wait for who begins to wait",
	"a replay is not counted",
	"a signal is no news",
	"retention asks nobody",
	"what waits is taken",
	"a running row does not take the mark along",
}

func TestPlantedBugsAreFound(t *testing.T) {
	if *onlySeed != 0 {
		t.Skip("one seed is played")
	}
	for _, bug := range planted {
		t.Run(bug, func(t *testing.T) {
			failed, breaches, _ := playAll(5000, bug)
			if failed == 0 {
				t.Fatal("no seed shows it")
			}
			t.Logf("seed %d: %s", failed, breaches[0])
		})
	}
}
