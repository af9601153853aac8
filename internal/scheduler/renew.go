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

// renew renews all that the node holds, and tells how that went.
func (s *Scheduler) renew(ctx context.Context, now time.Time) error {
	until := s.node.Until()
	err := s.keeper.Round(ctx, now)
	if ctx.Err() == nil { // else the node stops, which says nothing of the store
		s.conf.Renewed(Renewal{time.Until(until), s.node.Err() == lease.ErrLost, err})
	}
	return err
}
