package scheduler

import (
	"context"
	"time"

	"github.com/rotahq/rota/lease"
)

// Renewal is what came of one try to renew this node's membership.
type Renewal struct {
	// Left is how long the membership would have gone on when the answer came, had that not renewed
	// it; less than nothing: it had ended, and the node did nothing meanwhile that others must not
	// do as well.
	Left time.Duration
	Lost bool  // others had ended it
	Err  error // there was no answer, or not in time
}

// renewals keep this node a member: what it says of itself, and how that goes.
type renewals struct {
	*core
	shares *shares
	probes *probes

	outage outage
	joined time.Time // when this node first spoke of itself; owned by the round
}

// renew renews all that the node holds, and tells how that went.
func (r *renewals) renew(ctx context.Context, now time.Time) error {
	until := r.node.Until()
	err := r.keeper.Round(ctx, now)
	if ctx.Err() == nil { // else the node stops, which says nothing of the store
		r.conf.Renewed(Renewal{time.Until(until), r.node.Err() == lease.ErrLost, err})
	}
	return err
}

// Held says whether this node is a member for certain at this moment: nil; lease.ErrExpired while
// it can't know, as without the store; lease.ErrLost when others ended its membership. It may be
// asked at any time after Join.
func (r *renewals) Held() error { return r.node.Err() }

// Member is Held for whoever must know: where the clock alone can't tell, it asks the store.
func (r *renewals) Member(ctx context.Context) error {
	if err := r.node.Err(); err != lease.ErrExpired {
		return err
	}
	if err := r.renew(ctx, time.Now()); err != nil {
		return err
	}
	return r.node.Err()
}
