package dispatch

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// decideHeld decides the reports of tasks that this node holds, and returns the others.
func (s *settlement) decideHeld(
	m *memory, name string, list []checked, index *[]int, now time.Time,
) (foreign []checked) {
	if w := m.workers[name]; w != nil {
		w.touch(now)
	}
	var worker *worker
	for i := range list {
		c := &list[i]
		at := m.find(c.ID)
		if at.cell != nil && at.plain(out) && c.ends(at) {
			s.bytes += len(c.result) + c.brood.size()
			worker = at.cell.parcel.worker
			at.settle()
			r := s.add()
			r.first = true
			at.decideDone(r, c, name, now)
			r.spawn(m, c.brood, r.row.Step.Finished)
			*index = append(*index, c.index)
			continue
		}
		var it *item
		if at.cell != nil {
			it = at.item()
		}
		if !it.isOf(c, name) {
			foreign = append(foreign, *c)
			continue
		}
		s.bytes += len(c.context) + len(c.result) + c.brood.size()
		first := it.place == out
		if first {
			if it.queue.gate.limited {
				it.worker.haste.note(now.Sub(it.started), now)
			}
			it.settle()
		}
		r := s.add()
		r.first = first
		it.decide(r, c.Outcome, c.context, c.result, name, now)
		r.spawn(m, c.brood, r.row.Step.Finished)
		r.ofTransaction(c)
		*index = append(*index, c.index)
		worker = it.worker
	}
	if worker != nil {
		worker.reorder()
		worker.match(now)
	}
	return foreign
}

// ends tells whether a report is of the hand-out that a plain task is in, and nothing is to be said
// of it but that the task is done.
func (c *checked) ends(s spot) bool {
	return c.Outcome.Kind == task.KindDone && c.context == nil && c.token == s.token()
}

// byOldSeal tells whether a worker may report a hand-out by a token that an earlier version sealed:
// only what that version handed out, and only to this worker. Such a seal can be guessed, and says
// nothing of whom it was made for.
func (m *memory) byOldSeal(name, worker string, started int64) bool {
	return name == worker && started < m.seals.Since
}

// decide makes the step of an outcome for a task in memory.
func (it *item) decide(
	r *reporting, o task.Outcome, context, result store.Value, worker string,
	now time.Time,
) {
	r.spot, r.was = spot{it.span, it.cell}, it
	r.row.ID, r.row.Queue, r.row.Token = it.id, it.queue.name, it.token
	r.row.Ready = it.due()
	at := it.queue.memory.clock.read(now)
	r.step(it.standing(), progress.LimitsOf(&it.queue.conf, int(it.maxAttempts)), stepOf{
		outcome: o, context: context, contextSeq: it.contextSeq, result: result, worker: worker,
		started: it.startedAt(), priority: it.priority, linked: it.span.Linked,
	}, at)
	r.giveNotice(it.queue.memory, it.queue.conf.FinalQueue, it.context, it.meta, at)
}

// ofTransaction marks the step of a report that says that a transaction has recorded the outcome.
func (r *reporting) ofTransaction(c *checked) {
	if r.committed = c.Committed; r.committed {
		r.row.Step.Hash = store.UncommittedHash
	}
}

// stepOf is what a step is made of besides the task's standing.
type stepOf struct {
	outcome         task.Outcome
	context, result store.Value
	contextSeq      int32
	worker          string
	started         int64 // 0 = not known
	priority        time.Duration
	linked          store.Links // of the task's span
}

// step makes the row that records an outcome at a time of the store's. The decision is the task
// package's; this only writes it down.
func (r *reporting) step(st progress.Standing, l progress.Limits, s stepOf, at int64) {
	dec := progress.Decide(r.row.ID, st, s.outcome, l)
	r.decision = dec
	r.row.HoldKey = s.outcome.HoldKey
	r.row.Step = store.Step{
		Kind: s.outcome.Kind, Ran: st.Stage, Stage: dec.Stage, Context: s.context,
		ContextSeq: s.contextSeq, Result: s.result, Attempt: dec.Attempt,
		Base: st.Base, Worker: s.worker, Started: s.started, Finished: at,
		Error: cutText(s.outcome.Error), Hash: store.ReportHash(s.outcome),
	}
	row := &r.row.Step
	if s.context != nil {
		row.ContextSeq = st.Seq
	}
	switch {
	case dec.Final != "":
		row.Base = store.Final
	case dec.Parked:
		row.Base = st.Seq + 1
		r.row.Move, r.row.Await = store.Parked(), awaitOf(r.row.ID, s.outcome.Await, at)
	case dec.Moved:
		row.Base = st.Seq + 1
		row.Due = at + dec.Delay.Microseconds()
		r.row.Move = &store.Move{
			Rank: progress.RankAfter(row.Due, s.priority, dec.Attempt), Due: row.Due,
		}
		if s.outcome.Kind != task.KindNext { // the stage goes on that was woken
			r.row.Move.Linked = s.linked & store.LinkWoken
		}
	case s.outcome.Kind != task.KindRelease: // given back unrun: it keeps its place
		row.Due = at + dec.Delay.Microseconds()
	}
}

// cutText cuts an error's text, not inside a character.
func cutText(s string) string {
	if len(s) <= limits.MaxError {
		return s
	}
	end := limits.MaxError
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// decideForeign decides the reports of tasks that this node does not hold, from what the store says
// of them. Where the store has moved on, the report goes in all the same: the store tells a
// repeated one from a stale one.
func (st *settlements) decideForeign(
	ctx context.Context, name string, list []checked, s *settlement, index *[]int,
	answers []task.Answer,
) error {
	ids := make([]task.ID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	stood, err := st.store.Stand(ctx, ids)
	if err != nil {
		st.note(err)
		return fmt.Errorf("read where tasks stand: %w", err)
	}
	for i := range list {
		list[i].checkSeal(st.mem.seals) // before the lock is taken
	}
	st.mu.Lock()
	defer st.release()
	s.decideStood(st.mem, name, list, stood, index, answers, time.Now())
	return nil
}

// decideStood decides reports by where the store says that their tasks stand.
func (s *settlement) decideStood(
	m *memory, name string, list []checked, stood []store.Stood, index *[]int,
	answers []task.Answer, now time.Time,
) {
	for i := range list {
		c, st := &list[i], &stood[i]
		if !st.Found {
			answers[c.index].Status, answers[c.index].Detail = task.Unknown, "no such task"
			continue
		}
		if c.seal == seal.Forged || c.token.Seq > st.Seq || c.token.Seq == st.Seq && st.Final {
			// no such hand-out was ever made
			answers[c.index].Status = task.Stale
			answers[c.index].Detail = "the hand-out is no longer yours"
			continue
		}
		if c.seal == seal.Old && c.token.Seq == st.Seq &&
			(st.Running == nil || !m.byOldSeal(name, st.Running.Worker, st.Running.Started)) {
			answers[c.index].Status = task.Stale
			answers[c.index].Detail = "the hand-out is no longer yours"
			continue
		}
		st.Standing.Seq = c.token.Seq
		conf := m.queue(st.Queue).conf
		started := int64(0)
		if st.Running != nil {
			started = st.Running.Started
		}
		r, at := s.add(), m.clock.read(now)
		r.row.ID, r.row.Queue, r.row.Token = c.ID, st.Queue, c.token
		r.step(st.Standing, progress.LimitsOf(&conf, int(st.MaxAttempts)), stepOf{
			outcome: c.Outcome, context: c.context, contextSeq: st.ContextSeq, result: c.result,
			worker: name, started: started,
			priority: time.Duration(st.HeadStart) * time.Microsecond, linked: st.Owner.Linked,
		}, at)
		r.giveNotice(m, conf.FinalQueue, st.Context, st.Meta, at)
		r.spawn(m, c.brood, at)
		s.bytes += c.brood.size()
		r.ofTransaction(c)
		*index = append(*index, c.index)
	}
}
