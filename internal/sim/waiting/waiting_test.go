package waiting

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

var (
	onlySeed = flag.Uint64("seed", 0, "play only this seed, and log what is committed")
	manySeed = flag.Int("seeds", 0, "play so many seeds instead of the usual number")
	onlyBug  = flag.String("bug", "", "play with this planted bug")
)

// playAll plays n seeds on all cores, until one shows a breach.
func playAll(
	from uint64, n int, bug string,
) (failed uint64, breaches []string, counts map[string]int) {
	counts = map[string]int{}
	var mu sync.Mutex
	var lanes sync.WaitGroup
	all := runtime.GOMAXPROCS(0)
	for lane := range all {
		lanes.Go(func() {
			for i := lane; i < n; i += all {
				seed := from + uint64(i)
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
		w := play(*onlySeed, *onlyBug, func(line string) { t.Log(line) })
		for _, b := range w.ledger.breaches {
			t.Error(b)
		}
		return
	}
	n := 1000
	switch {
	case *manySeed > 0:
		n = *manySeed
	case testing.Short():
		n = 60
	}
	failed, breaches, counts := playAll(1, n, *onlyBug)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d × %s", counts[what], what)
	}
	if failed != 0 {
		t.Errorf("seed %d: %s", failed, strings.Join(breaches, "; "))
		t.Errorf("see it again: go test ./internal/sim/waiting -run Whatever -seed %d -v", failed)
	}
	if n < 1000 {
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
var planted = []struct {
	bug  string
	from uint64 // the seeds from here on must find it; what it needs is rare
}{
	{"who waits leaves no mark", 1},
	{"who waits looks before it marks", 1},
	{"span and running row are marked by one statement", 1},
	{"children are fenced before they are written", 1},
	{"a repeated report spawns again", 1},
	{"children are spawned after the outcome", 1},
	{"a span of its own is not marked", 1},
	{"a task that spawns is not marked", 1},
	{"a wait leaves no change", 1},
	{"an end is counted in a transaction of its own", 1},
	{"a look deletes the changes before it does what follows", 1},
	{"a look reads the wait before the changes", 1},
	{"counts are read before they are locked", 1},
	{"who went on meanwhile is passed over", 250},
	{"a signal that was delivered is deleted", 1},
	{"a time that is over ends the wait wherever its task is", 1},
	{"a wake-up has neither lock nor place", 1},
	{"a look decides by the changes that it has added up", 1},
	{"children of former runs count", 1},
	{"a wake-up leaves the wait", 1},
	{"a look does one piece", 1},
	{"what a task once waited for ends another wait", 1400},
	{"a wait and its span are read by two statements", 350},
	{"tasks are locked one after the other", 1400},
	{"links are copied as they were before the lock", 1},
	{"who acts from outside locks nothing", 1},
	{"who cancels tells nobody", 1},
	{"an edit leaves the wait behind", 1},
	{"a replay does not wait for who begins to wait", 250},
	{"a replay is not counted", 1},
	{"a signal leaves no change", 1},
	{"retention asks nobody", 1},
	{"what waits is taken", 1},
	{"a running row does not take the mark along", 1},
}

func TestPlantedBugsAreFound(t *testing.T) {
	if *onlySeed != 0 {
		t.Skip("one seed is played")
	}
	story.Whole(t)
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) {
			failed, breaches, _ := playAll(p.from, 2000, p.bug)
			if failed == 0 {
				t.Fatal("no seed shows it")
			}
			t.Logf("seed %d: %s", failed, breaches[0])
		})
	}
}
