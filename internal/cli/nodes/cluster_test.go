package nodes

import (
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/view"
)

func TestBudgetIsToldInWords(t *testing.T) {
	for _, c := range []struct {
		cluster              view.Cluster
		keys, budget, doomed string
	}{
		{view.Cluster{Tolerance: 1}, "K = 0", "no node works", ""},
		{view.Cluster{Working: 1, Tolerance: 1, Budget: view.Budget{Weakest: []string{"a"}}},
			"K = 0", "no node can die: it is the only one that works; n promises 1",
			"the death of a would hurt most"},
		{view.Cluster{Keys: 1200, Unowned: 3, Working: 2,
			Budget: view.Budget{Weakest: []string{"b"}}},
			"K = 1,200, 3 looked after by nobody just now",
			"no node can die without keys left over", "the death of b would hurt most"},
		{view.Cluster{Keys: 7, Working: 3, Tolerance: 1,
			Budget: view.Budget{Nodes: 1, Weakest: []string{"b", "a"}}},
			"K = 7, each looked after by a node",
			"any 1 node can die at once, with every key still ownable",
			"the deaths of b and a would hurt most: all of them at once are one too many"},
		{view.Cluster{Keys: 7, Working: 5, Tolerance: 3,
			Budget: view.Budget{Nodes: 2, Weakest: []string{"a", "b", "c"}}},
			"K = 7, each looked after by a node",
			"any 2 nodes can die at once, with every key still ownable; n promises 3",
			"the deaths of a, b and c would hurt most: all of them at once are one too many"},
	} {
		if keys, budget, doomed := ansi.Strip(keysText(c.cluster)),
			ansi.Strip(budgetText(c.cluster)),
			weakestText(c.cluster.Budget.Weakest); keys != c.keys || budget != c.budget ||
			doomed != c.doomed {
			t.Errorf("%+v:\n%s\n%s\n%s\nwant\n%s\n%s\n%s", c.cluster, keys, budget, doomed, c.keys,
				c.budget, c.doomed)
		}
	}
}

func TestChoreThatNobodyDidYetNamesNobody(t *testing.T) {
	for chore, want := range map[view.Chore]string{
		{Name: "beat"}:            "beat: not done yet",
		{Name: "beat", Node: "n"}: "beat: done by n last",
	} {
		if got := choreText(chore); got != want {
			t.Errorf("%+v: %q, want %q", chore, got, want)
		}
	}
}
