package rota

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
)

// storePatience is how long a probe waits for what the store says of itself; then it is answered
// from what is known.
const storePatience = 100 * time.Millisecond

// newCheck makes what is known of the store besides its beats: its durability, when it is all
// right.
func newCheck(s backend) *observe.Value[string] {
	return observe.New(observe.Config[string]{Ask: func(ctx context.Context) (string, error) {
		if err := s.Check(ctx); err != nil {
			return "", err
		}
		return s.Durability(ctx)
	}})
}

// heard hands on what a beat brought from the store. Before there is a dispatcher nobody needs it.
func (n *Node) heard(asked, answered time.Time, beat store.Beat) {
	n.answered.Store(&answered)
	if step := n.steps.hear(asked, answered, beat.Now); step != 0 {
		n.stepped(step, beat.Now)
	}
	if n.tasks != nil {
		n.tasks.HearStore(asked, answered, beat)
		n.jobs.sessions.HearStore(beat.Leases)
	}
}

// ready says whether this node can do its work. It does not wait for a store that is silent: it
// answers from the last beat.
func (n *Node) ready(context.Context) api.Readiness {
	known, fresh := n.check.Get(storePatience)
	heard := known.At
	if heard.IsZero() { // it answered when this node joined
		heard = n.joined
	}
	if beat := n.answered.Load(); beat != nil && beat.After(heard) {
		heard = *beat
	}
	r := api.Readiness{
		Ready: true, Store: n.store.kind(), Durability: known.Value, Joined: n.rounds.Held() == nil,
		ClockOffset: n.clockOffset().Round(time.Millisecond),
		Age:         max(time.Since(heard), 0).Round(time.Millisecond),
	}
	reach := n.rounds.Reach()
	switch {
	case reach != nil:
		r.Ready, r.Detail = false, reach.Error()
	case known.Err != nil:
		r.Ready, r.Detail = false, known.Err.Error()
	case !r.Joined:
		r.Ready, r.Detail = false, "this node is no member of its cluster at this moment"
	case !fresh:
		r.Detail = fmt.Sprintf("the store has not answered for %v: this is what was known then",
			r.Age)
	case n.secluded():
		r.Detail = noAddress
	case n.rounds.State() == scheduler.Unreachable:
		r.Detail = fmt.Sprintf("the other nodes can't reach this one at %s", n.address())
	default:
		r.Detail = n.steps.recent()
	}
	return r
}

// clockOffset is how far this node's clock is ahead of the store's. A file has the clock of its
// machine: there the node's clock is the one that it had when it began, and that nobody has set
// since.
func (n *Node) clockOffset() time.Duration {
	if n.alone() {
		stepped, _ := n.steps.stepped()
		return -stepped
	}
	return n.tasks.ClockOffset()
}

// noAddress says what is wrong with a node that is secluded.
const noAddress = "the other nodes can't reach this one: it listens on every address of its machine and advertises none"

// secluded tells whether others could reach the node if they knew where.
func (n *Node) secluded() bool { return !n.alone() && n.listen != nil && n.address() == "" }
