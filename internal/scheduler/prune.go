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

// pruner deletes what is kept no longer, when this node has the chores.
type pruner struct {
	*core

	turns chan time.Time // when the turn ends; size 1
	// when nothing was left to prune; nil = something is. It keeps what the monotonic clock read: a
	// machine's clock that is put back must not stop pruning.
	done atomic.Pointer[time.Time]
}

// pruneAgain is after how many beats one looks again when nothing was left to prune.
const pruneAgain = 10

// mayPrune gives the pruner a turn to the end of the beat, unless it has just found nothing.
func (p *pruner) mayPrune(v *view) {
	done := p.done.Load()
	if !p.conf.Alone && done != nil && v.at.Sub(*done) < pruneAgain*p.conf.Beat {
		return
	}
	select {
	case p.turns <- v.at.Add(p.conf.Beat):
	default: // the last turn has not begun
	}
}

// pruneBeside takes the turns until ctx ends.
func (p *pruner) pruneBeside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case end := <-p.turns:
			if err := p.Prune(ctx, end); err != nil && ctx.Err() == nil && !outOfReach(err) {
				p.conf.Log.Error("prune", "error", err)
			}
		}
	}
}

// Prune deletes what retention no longer keeps, a piece at a time, and rests in between: the less
// the further it is behind. It is over when nothing is left, and with its turn.
func (p *pruner) Prune(ctx context.Context, end time.Time) error {
	for {
		began := time.Now()
		if err := p.pruneOnce(ctx); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		now, left := time.Now(), p.conf.Chores.Retention()
		if !left.Behind {
			p.done.Store(&now)
			return nil
		}
		p.done.Store(nil)
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

func (p *pruner) pruneOnce(ctx context.Context) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	_, err := p.conf.Chores.Prune(ctx, p.conf.Prune)
	return err
}
