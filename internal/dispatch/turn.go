package dispatch

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// To explain a task so much is searched for what comes before it, and so many of the store's newest
// steps are looked through for how long its stage takes.
const (
	aheadSearch = 2000
	turnSteps   = 2000
)

// Turn is where a task stands among the others of its queue. Who holds it, and what comes before
// it, is told by what is committed. store.ErrNotFound.
func (vs *views) Turn(ctx context.Context, id task.ID) (t store.Turn, err error) {
	defer func() { vs.note(err) }()
	t.Now = time.Now().Add(-vs.ClockOffset()).UnixMicro()
	stood, err := vs.store.Stand(ctx, []task.ID{id})
	if err != nil {
		return t, err
	}
	if !stood[0].Found {
		return t, store.ErrNotFound
	}
	if stood[0].Final {
		return t, nil
	}
	t.Holder = stood[0].Owner.Holder
	if t.Ahead, err = vs.store.Ahead(ctx, id, aheadSearch); err != nil {
		return t, err
	}
	times, err := vs.store.RunTimes(ctx, stood[0].Queue, turnSteps)
	t.Usual = meanOf(times, stood[0].Stage)
	return t, err
}

// meanOf is how long the runs of a stage took, on average; 0 = there was none.
func meanOf(times []store.RunTime, stage string) int64 {
	var sum, n int64
	for _, t := range times {
		if t.Stage == stage {
			sum += t.Took
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return max(sum/n, 1)
}
