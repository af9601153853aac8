package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// settle takes an item out of its worker's hands and on its way into the store.
func (it *item) settle() {
	it.takeBack()
	it.stopAlarm()
	it.place = settling
}

// end settles a hand-out with an outcome that no worker reported: lost, timeout. Like every report
// it only counts if its token is still the right one.
func (it *item) end(kind task.Kind, why string, now time.Time) {
	if it.place != out || it.asked {
		return
	}
	w := it.worker
	it.settle()
	w.changed()
	s := newSettlement(1)
	r := s.add()
	r.first = true
	it.decide(r, task.Outcome{Kind: kind, Error: why}, nil, nil, w.name, now)
	it.queue.memory.do.found = append(it.queue.memory.do.found, s)
}

// item is that of the report's task; nil when this node does not hold it.
func (r *reporting) item() *item {
	if r.was == nil && r.spot.cell != nil {
		return r.spot.item()
	}
	return r.was
}

// plain tells whether the report's task was plain, and still is.
func (r *reporting) plain() bool {
	return r.was == nil && r.spot.cell != nil && r.spot.cell.item == nil
}

// settling tells whether the report's task is still on its way into the store.
func (r *reporting) settling() bool {
	switch {
	case r.spot.cell == nil:
		return false
	case r.plain():
		return r.spot.cell.place == settling
	}
	return r.item().place == settling
}

// current tells whether the report's task is still on its way into the store by that hand-out.
func (r *reporting) current() bool {
	return r.settling() && (r.plain() || r.item().token == r.row.Token)
}

// unsettle puts hand-outs back into their workers' hands whose settlement did not happen. A worker
// that is forgotten meanwhile is known again, so that its silence is noticed.
func (m *memory) unsettle(list []reporting, now time.Time) {
	for i := range list {
		if !list[i].first || !list[i].current() {
			continue
		}
		it := list[i].item()
		if it.worker == nil { // it was to expire, and does a little later
			it.span.idle++
			it.sleep(time.Second)
			it.span.ended()
			continue
		}
		if w := m.workers[it.worker.name]; w == nil {
			m.workers[it.worker.name] = it.worker
		} else {
			it.worker = w
		}
		it.place = out
		it.worker.give(it)
		it.worker.reorder()
		it.watchDeadline(max(it.until.Sub(now), time.Second))
	}
}

// flySettlements is one flight of the gather: write, answer, apply.
func (st *settlements) flySettlements(load []*settlement) {
	st.mu.Lock()
	set := store.Settlement{Reports: load[0].rows, Spent: st.mem.takeSpent(load)}
	st.release()
	if len(load) > 1 {
		set.Reports = st.reuse.gather(load)
	}
	var got store.Settled
	err := st.again(func() (err error) {
		got, err = st.store.Settle(st.ctx, set)
		return err
	})
	if err != nil {
		st.failSettlements(load, set.Spent, fmt.Errorf("settle: %w", err))
		return
	}
	st.mu.Lock()
	again := st.mem.apply(load, got, time.Now())
	st.release()
	st.reloads.reload(again)
	if len(load) > 1 {
		st.reuse.gathered(set.Reports)
	}
	for _, s := range load {
		close(s.done)
	}
}

func (st *settlements) failSettlements(load []*settlement, spent []store.Taking, err error) {
	st.mu.Lock()
	st.mem.notSettled(load, spent, time.Now())
	st.release()
	for _, s := range load {
		s.err = err
		close(s.done)
	}
}

// notSettled notes that a flight failed: nothing of it counts, and its spans are still to be
// deleted, except those that were dropped meanwhile: somebody else has them, and their tasks go on.
func (m *memory) notSettled(load []*settlement, spent []store.Taking, now time.Time) {
	dropped := map[int64]bool{}
	for _, s := range load {
		for i := range s.reports {
			if sp := s.reports[i].spot.span; sp != nil && sp.left > 0 && !m.holds(sp) {
				dropped[sp.ID] = true
			}
		}
	}
	for _, x := range spent {
		if sp := m.spans[x.Span]; sp != nil {
			sp.deleted = false
		} else if !dropped[x.Span] {
			m.deleteLater(x)
		}
	}
	for _, s := range load {
		m.unsettle(s.reports, now)
	}
}

// takeSpent lists the spans to delete with a flight: those that are spent already, and those that
// this flight ends if all its reports are recorded, which the store checks. What a transaction has
// recorded is not known here: it may be that the task goes on.
func (hs *holdings) takeSpent(load []*settlement) []store.Taking {
	spent := hs.spent
	hs.spent = nil
	leaves := func(r *reporting) bool {
		return r.first && !r.committed && r.settling() &&
			(r.decision.Final != "" || r.decision.Moved)
	}
	for _, s := range load {
		for i := range s.reports {
			if r := &s.reports[i]; leaves(r) {
				sp := r.spot.span
				if sp.leaving++; sp.leaving == sp.left {
					sp.deleted = true
					spent = append(spent, sp.Taking())
				}
			}
		}
	}
	for _, s := range load {
		for i := range s.reports {
			if sp := s.reports[i].spot.span; sp != nil {
				sp.leaving = 0
			}
		}
	}
	return spent
}

// apply changes memory by what was recorded. It answers what is to be read again, because the store
// did not record it.
func (m *memory) apply(
	load []*settlement, got store.Settled, now time.Time,
) (again []*item) {
	var touched []*queue
	m.noteVerdicts(load, got.Verdicts)
	if len(got.Spawned) > 0 {
		noteSpawned(load, got.Spawned)
	}
	for _, a := range got.Look {
		m.waits.changedAt(a)
	}
	touch := func(q *queue) {
		if q != nil && !slices.Contains(touched, q) {
			touched = append(touched, q)
		}
	}
	for _, s := range load {
		for i := range s.reports {
			r := &s.reports[i]
			switch {
			case r.status == task.Recorded:
				over := r.decision.Final != "" || r.committed
				touch(m.placeFree(r.row.Queue, r.spot, over, now))
				m.hearSpawned(r.row, got.Now, now, touch)
				touch(r.apply(m, got.Now, now))
			case r.current():
				again = append(again, r.item())
			}
		}
	}
	for _, q := range touched {
		q.match(now)
	}
	return again
}

// noteVerdicts writes each report's verdict down. The store keeps a span, spent or not, of which a
// report was refused, be it a late one of an earlier hand-out: such a span is still to be deleted.
// It must be known of all reports before the first is applied, because that forgets spans.
func (hs *holdings) noteVerdicts(load []*settlement, verdicts []task.Status) {
	for _, s := range load {
		for i := range s.reports {
			r := &s.reports[i]
			r.status, verdicts = verdicts[0], verdicts[1:]
			if r.status == task.Recorded || r.status == task.Repeated {
				continue
			}
			if sp := hs.spans[r.row.Token.Span]; sp != nil {
				sp.deleted = false
			}
		}
	}
}

// apply brings memory to where a recorded step brought the task. It answers the queue that
// may have something to hand out since, if one has.
func (r *reporting) apply(m *memory, storeNow int64, now time.Time) *queue {
	if r.decision.Final != "" {
		m.watchers.tell(r.row.ID, &m.do)
	}
	if b := r.row.Notice; b != nil {
		m.queue(b.Queue).signAt(b.Rank, b.Due, storeNow, now)
	}
	if r.decision.Moved && !r.decision.Parked { // of what waits the store tells where to look
		m.queue(r.row.Queue).signAt(r.row.Move.Rank, r.row.Move.Due, storeNow, now)
	}
	if r.plain() {
		if r.settling() {
			r.spot.forget()
		}
		return nil
	}
	it := r.item()
	if it == nil {
		if held := m.item(r.row.ID); held != nil && held.seq == r.row.Token.Seq {
			// its token outlived a change of holder
			m.reloadSoon(held)
		} else if r.decision.Final == "" && !r.decision.Moved {
			m.queue(r.row.Queue).signAt(unknownRank, r.row.Step.Due, storeNow, now)
		}
		return nil
	}
	if it.place != settling || it.seq != r.row.Token.Seq {
		return nil
	}
	if r.decision.Final != "" || r.decision.Moved {
		it.forget()
		if it.span.poisonous() { // a neighbour may have become ready
			return it.queue
		}
		return nil
	}
	it.stage, it.attempt, it.seq, it.expires = r.decision.Stage, r.decision.Attempt, it.seq+1, 0
	if r.row.Step.Context != nil {
		it.context, it.unchecked, it.contextBy = r.row.Step.Context, false, r.row.Step.Worker
	}
	it.contextSeq = r.row.Step.ContextSeq
	if r.row.Step.Kind == task.KindNext {
		it.woken = nil
	}
	if r.row.Step.Due > 0 {
		it.rank = progress.RankAfter(r.row.Step.Due, it.priority, it.attempt)
	}
	it.span.idle++
	if r.decision.Delay > 0 {
		it.sleep(r.decision.Delay)
		it.span.ended()
		return it.queue
	}
	it.span.under--
	it.enqueue()
	return it.queue
}

// deleteSpent deletes spent spans that no settlement carried along since the last round.
func (st *settlements) deleteSpent(ctx context.Context) error {
	st.mu.Lock()
	spent := st.mem.takeSpent(nil)
	st.release()
	if len(spent) == 0 {
		return nil
	}
	if _, err := st.store.Settle(ctx, store.Settlement{Spent: spent}); err != nil {
		st.mu.Lock()
		st.mem.deleteLater(spent...)
		st.release()
		return fmt.Errorf("delete spent spans: %w", err)
	}
	return nil
}
