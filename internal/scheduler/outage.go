package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// outage is the time in which this node does not reach the store: from a renewal that found no way
// to it, or no answer within a third of a lease, to the next that was answered. A store that is
// slow is none.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero = there is none
	cause error
}

// note takes in how a renewal ended that began at a time. The log hears of the beginning and of the
// end.
func (o *outage) note(err error, at time.Time, log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch out := outOfReach(err); {
	case out && o.since.IsZero():
		o.since, o.cause = at, err
		log.Error("the store is out of reach: calls are refused until it answers", "error", err)
	case err == nil && !o.since.IsZero():
		log.Info("the store answers again", "after",
			time.Since(o.since).Round(time.Millisecond).String())
		o.since, o.cause = time.Time{}, nil
	}
}

func outOfReach(err error) bool {
	return errors.Is(err, store.ErrOutOfReach) || errors.Is(err, context.DeadlineExceeded)
}

// Reach says why this node can do nothing in the store just now, as store.ErrOutOfReach: it does
// not reach it, or is no member any more. nil = it can. It asks nobody, so that calls can be
// refused at once that would otherwise wait for an answer in vain.
func (r *renewals) Reach() error {
	r.outage.mu.Lock()
	cause := r.outage.cause
	r.outage.mu.Unlock()
	if cause == nil && r.node.Err() == lease.ErrLost {
		cause = ErrOusted
	}
	if cause == nil {
		return nil
	}
	// what became of the renewal says nothing of the caller's call
	return fmt.Errorf("%w: %v", store.ErrOutOfReach, cause)
}
