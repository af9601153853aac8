package sim

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	onlySeed = flag.Uint64("seed", 0, "run only this seed of a simulation, and log its trace")
	manySeed = flag.Int("seeds", 0,
		"run so many seeds of each simulation instead of the usual number")
)

func TestNothingIsLostNorDoneTwiceWhateverFails(t *testing.T) {
	counts := simulateAll(t, safety, 600)
	if *onlySeed != 0 || *manySeed != 0 || testing.Short() {
		return // too few to show everything
	}
	for _, what := range sometimes {
		if counts[what] == 0 {
			t.Errorf("no seed shows that %s", what)
		}
	}
}

func TestHealthyCoreFinishesWhateverElseIsBrokenForGood(t *testing.T) {
	simulateAll(t, liveness, 200)
}

func TestWhatRunsSurvivesTheDeathOfItsNode(t *testing.T) { simulateAll(t, calm, 200) }

func TestWhatNobodyWatchesOverIsJudged(t *testing.T) { simulateAll(t, forsaken, 60) }

// sometimes is what must happen in some world, or the simulation proves nothing about it.
var sometimes = []string{
	"a dead node's span was taken over",
	"a hint was heard",
	"free tasks were shared out to other nodes",
	"a node was drained",
	"a span was given back",
	"the rest of a span was given back",
	"a worker was drained",
	"told of: node_unreachable",
	"told of: node_reachable",
	"told of: budget_broken",
	"a final notice was done",
	"a task waited for others",
	"others ended a wait",
	"a task was cancelled since another one did not end as it should",
	"a hand-out was given back unrun",
	"a key led to the first task",
	"a key went to another owner",
	"a machine was paused",
	"a node learned that its membership had ended",
	"a node was killed",
	"a process was started beside one that was only stopped",
	"the lease of a dead process was not waited for",
	"a node was stopped in order",
	"a node was taken for dead and lived",
	"a partition, both ways false",
	"a partition, both ways true",
	"a poisonous span was taken",
	"a queue was paused",
	"a refused report spared its span",
	"a repeated report was answered as the first time",
	"a report was settled through another node",
	"a round gave back a span whose answer was lost",
	"a running row kept a task from being handed out again",
	"a stale report was refused",
	"a task expired",
	"a task expired whose young hand-out died with its node",
	"a task with a limit was begun in time",
	"a limit was edited",
	"a limit held a hand-out back",
	"a limit was set while a task ran",
	"a hand-out was held back while a key was paused",
	"a report held the key of its task",
	"a hand-out that was to begin was none",
	"a task of a queue with limits was handed out",
	"what a dead node had handed out was taken for its limit",
	"what nobody held was taken to expire",
	"who waited for a task heard that it expired",
	"a task moved into a span of its own",
	"a task waited for a signal",
	"an outcome submitted children",
	"children were added to what ran",
	"children of what was over were refused",
	"a repeated report was answered its children of before",
	"a task waited for its children",
	"children ended a wait",
	"the first child that died ended a wait",
	"a child fell with its parent",
	"a signal ended a wait",
	"a wait was over without a signal",
	"a signal was sent before its task waited",
	"a task was edited while it waited, and woken",
	"a beat's look ended a wait",
	"what fits was taken with tasks of several keys",
	"a transaction came too late",
	"a transaction committed an outcome",
	"a transaction committed and its handler did not learn of it",
	"what no transaction had committed was tried again",
	"a worker was killed",
	"a worker was stopped in order",
	"cancelled",
	"lost: its worker fell silent",
	"lost: its worker started again",
	"lost: missing from two beats of its worker",
	"moved",
	"poison killed a node",
	"replayed",
	"the answer of a call that had worked was lost",
	"the store did it and did not say so",
	"the store failed before it did anything",
	"the store hung",
	"the store's clock jumped",
	"timeout",
	"told: no beat was answered for too long",
	"told: the attempt's time is over",
	"told: the hand-out is no longer this worker's",
	"told: the task was cancelled",
	"told: the worker is stopping",
}

// simulateAll runs the seeds that failed once, then those from 1 on, on all cores, and adds up what
// happened sometimes.
func simulateAll(t *testing.T, m mode, n int) map[string]int {
	seeds := kept(t, m)
	switch {
	case *onlySeed != 0:
		n, seeds = 0, []uint64{*onlySeed}
	case *manySeed > 0:
		n = *manySeed
	case testing.Short(): // no seed decides which goroutines meet
		n, seeds = n/30, nil
	}
	for seed := range uint64(n) {
		seeds = append(seeds, seed+1)
	}
	var mu sync.Mutex
	sum := map[string]int{}
	lanes := runtime.GOMAXPROCS(0)
	t.Run("seeds", func(t *testing.T) {
		for lane := range min(lanes, len(seeds)) {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				for i := lane; i < len(seeds) && !t.Failed(); i += lanes {
					r := simulate(t, m, seeds[i], bug{}, *onlySeed != 0)
					for _, line := range r.lines {
						t.Log(line)
					}
					if len(r.breaches) > 0 {
						fail(t, m, seeds[i], r)
					}
					mu.Lock()
					for what, times := range r.counts {
						sum[what] += times
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%6d × %s", sum[what], what)
	}
	return sum
}

// tail is how many lines of a trace are kept.
const tail = 300

// fail says what went wrong and how to see it again, and keeps the seed.
func fail(t *testing.T, m mode, seed uint64, r result) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	for _, b := range r.breaches {
		t.Errorf("seed %d: %s", seed, b)
	}
	t.Errorf("see it again: go test ./internal/sim -run %s -seed %d -v", test, seed)
	if *onlySeed != 0 {
		return
	}
	lines := simulate(t, m, seed, bug{}, true).lines
	text := strings.Join(r.breaches, "\n") + "\n\n" +
		strings.Join(lines[max(0, len(lines)-tail):], "\n") + "\n"
	dir := filepath.Join("testdata", m.name)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strconv.FormatUint(seed, 10)), []byte(text), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// kept are the seeds that failed once: each is a file in testdata that says how.
func kept(t *testing.T, m mode) (seeds []uint64) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join("testdata", m.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		seed, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

func TestTheSameSeedLeavesTheSameTrace(t *testing.T) {
	seeds := uint64(max(*manySeed, 5))
	if testing.Short() {
		seeds = 1
	}
	for _, m := range []mode{safety, liveness, calm} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				a, b := simulate(t, m, seed, bug{}, true), simulate(t, m, seed, bug{}, true)
				if a.hash == b.hash {
					continue
				}
				for i := range min(len(a.lines), len(b.lines)) {
					if a.lines[i] != b.lines[i] {
						t.Fatalf("seed %d, line %d:\n%s\n%s", seed, i, a.lines[i], b.lines[i])
					}
				}
				t.Fatalf("seed %d: %d and %d lines", seed, len(a.lines), len(b.lines))
			}
		})
	}
}
