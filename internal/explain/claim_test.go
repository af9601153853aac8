package explain_test

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/view"
)

func node(name string, state view.NodeState, owned, limit int) view.Node {
	return view.Node{Name: name, State: state, Claims: view.NodeClaims{Owned: owned, Cap: limit}}
}

func TestClaimsAreExplained(t *testing.T) {
	until := view.Time{Time: now.Add(time.Hour)}
	given := func(owner, to string) view.Claim {
		return view.Claim{Key: "group/g", Owner: owner,
			Assigned: &view.Assigned{Node: to, By: "ann", Until: until}}
	}
	two := []view.Node{node("a", view.NodeWorking, 3, 5), node("b", view.NodeWorking, 5, 5)}
	for name, c := range map[string]struct {
		claim view.Claim
		nodes []view.Node
		want  string
	}{
		"it is looked after": {view.Claim{Key: "group/g", Owner: "a"}, two, "owned"},
		"somebody will take it": {view.Claim{Key: "group/g"}, two, `unowned
unowned: Nobody looks after it just now; one of the nodes that work takes it with one of its next beats. [rota claim rescan]`},
		"all own as many as they may": {view.Claim{Key: "group/g"}, two[1:], `unowned
refused: Each node that works owns as many keys as it may: b owns 5. What nobody takes for three beats is taken all the same. [one more node, or a smaller --tolerance]`},
		"nobody works": {view.Claim{Key: "group/g"},
			[]view.Node{node("a", view.NodeDrained, 0, 5)}, `unowned
unowned: No node works: keys are looked after by nodes that do. [rota node undrain NAME, or one more node]`},
		"its owner is not heard": {view.Claim{Key: "group/g", Owner: "a", Until: until},
			[]view.Node{node("a", view.NodeOffline, 1, 5), two[1]}, `owned
unheard: Nothing is heard of node a, which owns it; another takes the key when that node's right has ended. Until in 1h0m0s. [rota node ls]`},
		"it is where somebody wants it": {given("a", "a"), two, "owned"},
		"its owner finishes first": {given("b", "a"), two, `owned
behind: ann gave it to node a, which takes it when its owner has finished what it is at. Until in 1h0m0s.`},
		"its node drains": {given("b", "a"),
			[]view.Node{node("a", view.NodeDraining, 3, 5), two[1]}, `owned
refused: ann gave it to node a, which is draining: others have the key meanwhile. Until in 1h0m0s. [rota claim assign group/g NODE]`},
		"a key that a shell would read": {func() view.Claim {
			c := given("b", "c")
			c.Key = "it's; rm -rf $HOME"
			return c
		}(), two, `owned
refused: ann gave it to node c, which is not known. Until in 1h0m0s. [rota claim assign 'it'\''s; rm -rf $HOME' NODE]`},
		"its node is gone": {given("b", "c"), two, `owned
refused: ann gave it to node c, which is not known. Until in 1h0m0s. [rota claim assign group/g NODE]`},
	} {
		if got := written(explain.OfClaim(c.claim, c.nodes)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
