package rota

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/scheduler"
)

// ready says whether this node can do its work.
func (n *Node) ready(ctx context.Context) api.Readiness {
	r := api.Readiness{Ready: true, Store: n.store.kind(), Joined: n.rounds.Held() == nil, ClockOffset: n.tasks.ClockOffset().Round(time.Millisecond)}
	err := n.store.Check(ctx)
	if err == nil {
		r.Durability, err = n.store.Durability(ctx)
	}
	switch {
	case err != nil:
		r.Ready, r.Detail = false, err.Error()
	case !r.Joined:
		r.Ready, r.Detail = false, "this node is no member of its cluster at this moment"
	case n.secluded():
		r.Detail = noAddress
	case n.rounds.State() == scheduler.Unreachable:
		r.Detail = fmt.Sprintf("the other nodes can't reach this one at %s", n.address())
	}
	return r
}

// noAddress says what is wrong with a node that is secluded.
const noAddress = "the other nodes can't reach this one: it listens on every address of its machine and advertises none"

// secluded tells whether others could reach the node if they knew where.
func (n *Node) secluded() bool { return !n.alone() && n.listen != nil && n.address() == "" }
