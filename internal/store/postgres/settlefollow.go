package postgres

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// consequences are what follows from recorded reports.
type consequences struct {
	list  []query // but for what is submitted,
	spawn spawning
	last  []query // and what comes behind that
}

// consequences are what follows from the recorded reports, and the spans that are spent. With
// running, their running rows go.
func (d *settlement) consequences(
	ctx context.Context, t *tx, spent []store.Taking, running bool,
) (follow consequences, err error) {
	counts := newStats()
	var hands keyColumns
	var blobs blobColumns
	var moves []moved
	var waits waitColumns
	var ends endings
	var falls fallColumns
	var held holds
	var over, told ended // tasks: by this settlement, and, perhaps, by transactions of workers
	for _, i := range d.order {
		r := &d.reports[i]
		if d.verdicts[i] == task.Repeated && r.Step.Hash == store.UncommittedHash {
			told = append(told, r.ID)
		}
		if d.verdicts[i] != task.Recorded {
			continue
		}
		counts.Of(r.Queue).Settled(&r.Step)
		counts.history.Settled(r.Queue, r.Ready, &r.Step)
		blobs.add(r.ID, r.Step.Context, r.Step.Result)
		if running {
			hands.add(r.ID, r.Token.Seq)
		}
		follow.spawn.add(r, i, d.runs[i])
		if r.Move != nil {
			moves = append(moves, moved{r.ID, r.Token.Seq, r.Queue, *r.Move})
		}
		if r.Await != nil {
			w := rules.WaitOf(r, d.runs[i], 0)
			waits.add(&w)
			d.changed = append(d.changed, w.Address)
		}
		if r.HoldKey > 0 {
			held.add(r.Queue, r.ID, r.HoldKey)
		}
		if r.Step.Base == store.Final {
			over = append(over, r.ID)
			state := r.Step.Kind.Leaves()
			if store.MayBeChildren(r.ID.Batch) {
				rules.CountEnd(ends.of(r.ID.Batch), state, 1)
			}
			if rules.Falls(state) {
				if !running { // one may have come since, and children under it
					hands.add(r.ID, r.Token.Seq)
				}
				falls.add(rules.Fall{Parent: r.ID})
			}
		}
	}
	follow.list = slices.Concat(counts.queries(), blobs.queries(), waits.queries(d.clock()))
	if len(hands.batch) > 0 {
		follow.list = append(follow.list, tell(deleteRunning, hands.batch, hands.n, hands.seq))
	}
	if len(spent) > 0 {
		ids, tokens := takingColumns(spent)
		follow.list = append(follow.list, tell(deleteSpans, ids, tokens))
	}
	changed := func(address string) { d.changed = append(d.changed, address) }
	follow.last = slices.Concat(ends.queries(changed), falls.queries(),
		over.queries(changed), told.awaited(changed), held.queries(d.clock()))
	out, err := t.movesOut(ctx, moves)
	follow.list = append(follow.list, out...)
	return follow, err
}
