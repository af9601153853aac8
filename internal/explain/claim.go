package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotahq/rota/view"
)

// OfClaim says why nobody looks after a key, or why it is not where somebody wants it. nodes are
// all that are known.
func OfClaim(c view.Claim, nodes []view.Node) view.Explanation {
	e := view.Explanation{State: "owned", Reasons: []view.Reason{}}
	if c.Owner == "" {
		e.State = "unowned"
		e.Reasons = list(nobodyMay(nodes))
	} else if owner := nodeNamed(nodes, c.Owner); owner == nil || away(owner.State) {
		e.Reasons = append(e.Reasons, view.Reason{Kind: view.ReasonUnheard,
			Text: fmt.Sprintf("Nothing is heard of node %s, which owns it; another takes the key when "+
				"that node's right has ended.", c.Owner),
			Until: c.Until, Change: "rota node ls"})
	}
	if c.Assigned != nil && c.Assigned.Node != c.Owner {
		e.Reasons = append(e.Reasons, notThere(c, nodes))
	}
	return e
}

// nobodyMay says why no node takes a key.
func nobodyMay(nodes []view.Node) view.Reason {
	var working, full []string
	for i := range nodes {
		n := &nodes[i]
		if n.State != view.NodeWorking {
			continue
		}
		working = append(working, n.Name)
		if n.Claims.Owned >= n.Claims.Cap {
			full = append(full, fmt.Sprintf("%s owns %d", n.Name, n.Claims.Owned))
		}
	}
	switch {
	case len(working) == 0:
		return view.Reason{Kind: view.ReasonUnowned,
			Text:   "No node works: keys are looked after by nodes that do.",
			Change: "rota node undrain NAME, or one more node"}
	case len(full) == len(working):
		return view.Reason{Kind: view.ReasonRefused,
			Text: fmt.Sprintf("Each node that works owns as many keys as it may: %s. What nobody takes "+
				"for three beats is taken all the same.", strings.Join(full, ", ")),
			Change: "one more node, or a smaller --tolerance"}
	}
	return view.Reason{Kind: view.ReasonUnowned,
		Text: "Nobody looks after it just now; one of the nodes that work takes it with one of its " +
			"next beats.",
		Change: "rota claim rescan"}
}

// notThere says why a key is not with the node that somebody gave it to.
func notThere(c view.Claim, nodes []view.Node) view.Reason {
	r := view.Reason{Kind: view.ReasonRefused, Until: c.Assigned.Until,
		Change: "rota claim assign " + shellWord(c.Key) + " NODE"}
	switch n := nodeNamed(nodes, c.Assigned.Node); {
	case n == nil:
		r.Text = fmt.Sprintf("%s gave it to node %s, which is not known.", c.Assigned.By,
			c.Assigned.Node)
	case n.State != view.NodeWorking:
		r.Text = fmt.Sprintf("%s gave it to node %s, which is %s: others have the key meanwhile.",
			c.Assigned.By, n.Name, n.State)
	default:
		r.Kind, r.Change = view.ReasonBehind, ""
		r.Text = fmt.Sprintf("%s gave it to node %s, which takes it when its owner has finished what it "+
			"is at.", c.Assigned.By, n.Name)
	}
	return r
}

func nodeNamed(nodes []view.Node, name string) *view.Node {
	i := slices.IndexFunc(nodes, func(n view.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

// away tells whether a node is not heard.
func away(s view.NodeState) bool {
	return s == view.NodeOffline || s == view.NodeUnreachable
}
