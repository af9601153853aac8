package scheduler

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
)

func TestDrainedNodeTakesNothingNewAndIsBackWhenItIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(9)
		h.startAll("a", "b", "c")
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
		if told := h.told(); !slices.Equal(told, []string{NodeDraining + " c", NodeUndrained + " c"}) {
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
		h.startAll("a", "b", "c")
		time.Sleep(15 * time.Second)
		if err := h.nodes["a"].Drain(t.Context(), "c", "ada", false); err != nil {
			t.Fatal(err)
		}
		h.end(h.nodes["c"])
		h.start("c")
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
		h.startAll("a", "b", "c")
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
		if refused := drain("b", false); refused == nil || refused.Budget.AtOnce != 0 || refused.Node != "b" {
			t.Errorf("one alone bears none: %v", refused)
		}
		if refused := drain("b", false); refused == nil {
			t.Error("not refused the second time")
		}
		if refused := drain("b", true); refused != nil {
			t.Errorf("forced: %v", refused)
		}
		if refused := drain("a", false); refused == nil || refused.Reason != "it is the last node that works" {
			t.Errorf("the last one: %v", refused)
		}
		if refused := drain("b", false); refused != nil {
			t.Errorf("one that is drained already: %v", refused)
		}
		h.want("only a works", map[string]int{"a": 6, "b": 0, "c": 0})
		if err := a.Drain(t.Context(), "nobody", "ada", false); !errors.Is(err, rows.ErrNotFound) {
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
		h.startAll("a", "b")
		time.Sleep(15 * time.Second)
		for _, want := range []map[string]int{{"a": 0, "b": 1}, {"a": 1, "b": 0}} {
			if err := h.nodes["b"].GiveBack(t.Context(), "key", "k00001"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(70 * time.Second)
			h.want("asked for", want)
		}
		if err := h.nodes["b"].GiveBack(t.Context(), "key", "none"); !errors.Is(err, rows.ErrNotFound) {
			t.Errorf("a key that is not there: %v", err)
		}
		leases, err := h.store.LeasesOf(t.Context(), givePrefix)
		if err != nil || len(leases) != 0 {
			t.Errorf("%v is left; %v", leases, err)
		}
	})
}
