package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/store/rules/retain"
)

// Pruning goes on beside the beats: deleting takes as long as the store takes, and no renewal may
// wait for that. A beat whose chores are this node's gives it a turn that ends with the beat.

// pruning is what the beats and the pruner share.
type pruning struct {
	turns chan time.Time // when the turn ends; size 1
	// when nothing was left to prune, in microseconds since 1970; 0 = something is
	done atomic.Int64
}

// pruneAgain is after how many beats one looks again when nothing was left to prune.
const pruneAgain = 10

// mayPrune gives the pruner a turn to the end of the beat, unless it has just found nothing.
func (s *Scheduler) mayPrune(v *view) {
	if !s.conf.Alone && v.at.Sub(time.UnixMicro(s.prune.done.Load())) < pruneAgain*s.conf.Beat {
		return
	}
	select {
	case s.prune.turns <- v.at.Add(s.conf.Beat):
	default: // the last turn has not begun
	}
}

// pruneBeside takes the turns until ctx ends.
func (s *Scheduler) pruneBeside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case end := <-s.prune.turns:
			if err := s.Prune(ctx, end); err != nil && ctx.Err() == nil && !outOfReach(err) {
				s.conf.Log.Error("prune", "error", err)
			}
		}
	}
}

// Prune deletes what retention no longer keeps, a piece at a time, and rests in between: the less
// the further it is behind. It is over when nothing is left, and with its turn.
func (s *Scheduler) Prune(ctx context.Context, end time.Time) error {
	for {
		began := time.Now()
		if err := s.pruneOnce(ctx); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		now, left := time.Now(), s.conf.Chores.Retention()
		if !left.Behind {
			s.prune.done.Store(now.UnixMicro())
			return nil
		}
		s.prune.done.Store(0)
		rest := retain.Rest(now.Sub(began), left.Lag)
		if now.Add(rest).After(end) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
	}
}

func (s *Scheduler) pruneOnce(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.conf.Chores.Prune(ctx, s.conf.Prune)
	return err
}
