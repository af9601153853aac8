package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

func TestDrainedNodeTakesNothingNewAndIsBackWhenItIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(9)
		h.start("a", "b", "c")
		time.Sleep(90 * time.Second)
		h.told()
		h.mu.Lock()
		h.work = 4 * time.Second // what owners are at, they finish
		h.mu.Unlock()
		if err := h.nodes["a"].Drain(t.Context(), "c", "ada", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		if h.nodes["c"].Working() {
			t.Error("a beat later it still takes work")
		}
		if got := h.nodes["b"].Cluster().state("c"); got != Draining || h.owned()["c"] != 3 {
			t.Errorf("it is %s and owns %d keys, before they are done", got, h.owned()["c"])
		}
		time.Sleep(8 * time.Second)
		if got := h.nodes["b"].Cluster().state("c"); got != Drained || h.owned()["c"] != 0 {
			t.Errorf("it is %s and owns %d keys", got, h.owned()["c"])
		}
		if err := h.nodes["b"].Undrain(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		h.want("wanted again", map[string]int{"a": 3, "b": 3, "c": 3})
		if told := h.told(); !slices.Equal(told,
			[]string{NodeDraining + " c", NodeUndrained + " c"}) {
			t.Errorf("told %q", told)
		}
		if err := h.nodes["b"].Undrain(t.Context(), "c"); err != nil {
			t.Errorf("undrained twice: %v", err)
		}
	})
}

func TestDrainStandsAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(9)
		h.start("a", "b", "c")
		time.Sleep(15 * time.Second)
		if err := h.nodes["a"].Drain(t.Context(), "c", "ada", false); err != nil {
			t.Fatal(err)
		}
		h.end(h.nodes["c"])
		h.startOne("c")
		time.Sleep(time.Minute)
		if got := h.owned(); got["c"] != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestDrainIsRefusedWhenItBreaksTheBudgetUnlessForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(6)
		h.start("a", "b", "c")
		time.Sleep(15 * time.Second)
		a := h.nodes["a"]
		drain := func(name string, force bool) *RefusedError {
			t.Helper()
			err := a.Drain(t.Context(), name, "ada", force)
			var refused *RefusedError
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			return refused
		}
		if refused := drain("c", false); refused != nil {
			t.Errorf("two can bear one death: %v", refused)
		}
		if refused := drain("b", false); refused == nil || refused.Budget.AtOnce != 0 ||
			refused.Node != "b" {
			t.Errorf("one alone bears none: %v", refused)
		}
		if refused := drain("b", false); refused == nil {
			t.Error("not refused the second time")
		}
		if refused := drain("b", true); refused != nil {
			t.Errorf("forced: %v", refused)
		}
		if refused := drain("a", false); refused == nil ||
			refused.Reason != "it is the last node that works" {
			t.Errorf("the last one: %v", refused)
		}
		if refused := drain("b", false); refused != nil {
			t.Errorf("one that is drained already: %v", refused)
		}
		h.want("only a works", map[string]int{"a": 6, "b": 0, "c": 0})
		if err := a.Drain(t.Context(), "nobody", "ada", false); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a node that isn't there: %v", err)
		}
		told := h.told()
		if !slices.Contains(told, BudgetBroken) {
			t.Errorf("nothing of the budget in %q", told)
		}
	})
}

func TestKeyThatIsAskedForGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(1)
		h.start("a", "b")
		time.Sleep(15 * time.Second)
		for _, want := range []map[string]int{{"a": 0, "b": 1}, {"a": 1, "b": 0}} {
			if err := h.nodes["b"].GiveBack(t.Context(), "key", "k00001"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(70 * time.Second)
			h.want("asked for", want)
		}
		if err := h.nodes["b"].GiveBack(t.Context(), "key", "none"); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("a key that is not there: %v", err)
		}
		leases, err := h.store.LeasesOf(t.Context(), givePrefix)
		if err != nil || len(leases) != 0 {
			t.Errorf("%v is left; %v", leases, err)
		}
	})
}

func TestDrainsInOneBeatAreDecidedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(6)
		h.start("a", "b", "c")
		time.Sleep(15 * time.Second)
		var mu sync.Mutex
		var refused []string
		var group sync.WaitGroup
		for _, n := range h.nodes {
			n.door.Slow("", 20*time.Millisecond)
		}
		for _, name := range []string{"a", "b", "c"} {
			for _, at := range []string{"a", "b"} { // people at two nodes
				group.Go(func() {
					err := h.nodes[at].Drain(t.Context(), name, "ada", false)
					mu.Lock()
					defer mu.Unlock()
					if r := (*RefusedError)(nil); errors.As(err, &r) {
						refused = append(refused, name)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		if len(refused) != 4 {
			t.Errorf("refused %q, where one of three can be spared", refused)
		}
		time.Sleep(5 * time.Second)
		if c := h.nodes["a"].Cluster(); c.Working != 2 || c.Budget.Broken() {
			t.Errorf("%d nodes work, budget %+v", c.Working, c.Budget)
		}
		if leases, err := h.store.LeasesOf(t.Context(), "chore/drain"); err != nil ||
			len(leases) != 0 {
			t.Errorf("%v is left; %v", leases, err)
		}
	})
}

func TestClusterWithoutANodeThatWorksKeepsItsPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.startOne("a", func(c *Config) { c.Tolerance = 2 })
		time.Sleep(15 * time.Second)
		if err := h.nodes["a"].Drain(t.Context(), "a", "ada", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if b := h.nodes["a"].Cluster().Budget; b.Tolerance != 2 || !b.Broken() {
			t.Errorf("%+v", b)
		}
	})
}

func TestKeysThatOnlySomeNodesClaimCountForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		var mine []string
		for i := range 60 {
			mine = append(mine, fmt.Sprint("m", i))
		}
		h.kinds = func(name string) []Kind {
			if name == "obs" {
				return nil
			}
			return []Kind{{Name: "mine", Keys: func(context.Context) ([]string, error) {
				return mine, nil
			}, Look: func(ctx context.Context, _ Claim) { <-ctx.Done() }}}
		}
		h.start("p", "q", "r", "obs")
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"p", "obs"} {
			c := h.nodes[name].Cluster()
			if c.Keys != 60 || c.Working != 4 || c.Budget.AtOnce != 1 ||
				slices.Contains(c.Budget.Worst, "obs") {
				t.Errorf("%s sees %d keys, %d nodes that work, budget %+v", name, c.Keys, c.Working,
					c.Budget)
			}
			for _, m := range c.Nodes {
				if want := map[bool]int{false: 20}[m.Name == "obs"]; m.Target != want ||
					m.Owned != want || m.Cap < want || m.Name == "obs" && m.Cap > 1 {
					// of no keys a node may own one, by the formula
					t.Errorf("%s sees that %s owns %d of %d, at most %d; want %d", name, m.Name,
						m.Owned, m.Target, m.Cap, want)
				}
			}
		}
		if err := h.nodes["obs"].Drain(t.Context(), "p", "ada", false); err != nil {
			t.Errorf("two are left that claim them: %v", err)
		}
		var refused *RefusedError
		if err := h.nodes["obs"].Drain(t.Context(), "q", "ada", false); !errors.As(err, &refused) ||
			refused.Budget.AtOnce != 0 {
			t.Errorf("only one would be left: %v", err)
		}
		if err := h.nodes["obs"].GiveBack(t.Context(), "mine", "m7"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"p", "q", "r"} {
			h.end(h.nodes[name])
		}
		time.Sleep(15 * time.Second)
		if c := h.nodes["obs"].Cluster(); c.Keys != 0 {
			t.Errorf("nobody claims them any more, and %d keys are shown", c.Keys)
		}
	})
}

func TestNodeThatHoldsTasksIsNotDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		var held, running atomic.Int64
		held.Store(3)
		running.Store(1)
		h.start("a", "b")
		h.startOne("c", func(c *Config) {
			c.Holds = func() int { return int(held.Load()) }
			c.Busy = func() balance.Busyness {
				return balance.Busyness{
					Executors: balance.Part{Used: float64(running.Load()), Max: 8},
				}
			}
		})
		time.Sleep(15 * time.Second)
		if err := h.nodes["a"].Drain(t.Context(), "c", "ada", false); err != nil {
			t.Fatal(err)
		}
		for _, left := range []*atomic.Int64{&held, &running} {
			time.Sleep(5 * time.Second)
			if got := h.nodes["a"].Cluster().state("c"); got != Draining {
				t.Errorf("it is %s, holds %d tasks and runs %d", got, held.Load(), running.Load())
			}
			left.Store(0)
		}
		time.Sleep(5 * time.Second)
		if got := h.nodes["a"].Cluster().state("c"); got != Drained {
			t.Errorf("it holds nothing, and is %s", got)
		}
	})
}

// A node that stops while it is drained is stopping, whatever becomes of the drain: it gives its
// keys back when their owners are done, and no owner begins anew.
func TestNodeThatStopsTakesNoKeyUpAgainThoughItIsUndrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		finish := map[string]time.Duration{
			"quick": 2500 * time.Millisecond, "slow": 8 * time.Second,
		}
		told := make(chan struct{}, 9)
		var begun atomic.Int32 // at c
		h.kinds = func(node string) []Kind {
			if node != "c" {
				return nil
			}
			return []Kind{{
				Name: "own",
				Keys: func(context.Context) ([]string, error) {
					return []string{"quick", "slow"}, nil
				},
				Look: func(ctx context.Context, c Claim) {
					begun.Add(1)
					<-ctx.Done()
					told <- struct{}{}
					select {
					case <-time.After(finish[c.Key]):
					case <-c.Held().Done():
					}
				},
			}}
		}
		h.start("a", "b", "c")
		time.Sleep(15 * time.Second)
		if n := begun.Load(); n != 2 {
			t.Fatalf("%d owners have begun", n)
		}
		if err := h.nodes["a"].Drain(t.Context(), "c", "ada", true); err != nil {
			t.Fatal(err)
		}
		<-told
		time.Sleep(2200 * time.Millisecond) // one of them is done before the next beat
		c := h.nodes["c"]
		c.stop()
		if err := h.nodes["a"].Undrain(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		h.end(c)
		if n := begun.Load(); n != 2 {
			t.Errorf("owners began %d times", n)
		}
	})
}
