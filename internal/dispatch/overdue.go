package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// An attempt ends at its limit, whatever signs of life its worker gives. The node that holds the
// task has a timer for it (watchDeadline). Where no node has, because the span was given back or
// its holder died, the running row tells: one node, the one that does the chores, looks once a beat
// for rows whose limit has passed and settles them as timeouts. That is a report like any other: it
// carries the hand-out's token, and counts only while that is the right one.
//
// So no attempt is seen to run for more than two beats past its limit. A row whose span another
// node holds is left to that node's timer for one of the two. It is left to it for good if it
// started before this node knew the store's clock, or before that clock made a step: the timer
// measures by a clock without steps, and if its node is dead the span is free a lease later.

const (
	judgedAtOnce = 1000 // rows in one question and one settlement
	judgedPieces = 16   // questions in one round; what is left is for the next
)

// deadlines end what is past its time and in no node's memory: attempts past their limit, and tasks
// that were not begun in time.
type deadlines struct {
	*core
	settlements *settlements // record what is ended
	gates       *gates       // take over what counts against limits
}

// judgeEachBeat looks for overdue attempts, and for tasks that have expired, once a beat until ctx
// ends.
func (ds *deadlines) judgeEachBeat(ctx context.Context) {
	beat := time.NewTicker(ds.conf.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if err := ds.Judge(ctx); err != nil && ctx.Err() == nil &&
				!errors.Is(err, store.ErrOutOfReach) {
				ds.log.Error("judge overdue attempts", "error", err)
			}
			if err := ds.Expire(ctx); err != nil && ctx.Err() == nil &&
				!errors.Is(err, store.ErrOutOfReach) {
				ds.log.Error("let tasks expire", "error", err)
			}
		}
	}
}

// Judge settles attempts past their limit that no node's timer watches, at most judgedPieces ×
// judgedAtOnce of them.
func (ds *deadlines) Judge(ctx context.Context) error {
	ds.mu.Lock()
	pending := ds.mem.pending
	ds.mem.pending = false
	q := store.OverdueQuery{
		Steady: ds.mem.clock.steady, Late: ds.mem.clock.late, Limit: judgedAtOnce,
	}
	ds.release()
	if !pending && !ds.conf.Judges() {
		return nil
	}
	if err := ds.gates.takeRunning(ctx); err != nil {
		return err
	}
	for range judgedPieces {
		if err := ds.conf.Reach(); err != nil {
			return err
		}
		got, err := ds.store.Overdue(ctx, q)
		if err == nil && len(got.Rows) > 0 {
			err = ds.judgeRows(ctx, got)
		}
		if err != nil {
			ds.note(err)
			return err
		}
		if len(got.Rows) < q.Limit {
			break
		}
		q.After = got.Rows[len(got.Rows)-1]
	}
	return nil
}

// judgeRows settles those of the overdue hand-outs that are nobody else's to judge, and sweeps rows
// whose hand-outs are over.
func (ds *deadlines) judgeRows(ctx context.Context, due store.Overdue) error {
	ids := make([]task.ID, len(due.Rows))
	for i := range due.Rows {
		ids[i] = due.Rows[i].ID
	}
	stood, err := ds.store.Stand(ctx, ids)
	if err != nil {
		return fmt.Errorf("read where overdue tasks stand: %w", err)
	}
	ds.mu.Lock()
	s, litter := ds.mem.judged(due, stood, time.Now())
	ds.release()
	if len(litter.Watch) > 0 {
		if _, err := ds.store.Sync(ctx, litter); err != nil {
			return fmt.Errorf("sweep rows of %d hand-outs that are over: %w", len(litter.Watch),
				err)
		}
	}
	if len(s.reports) == 0 {
		return nil
	}
	if !ds.settlements.settle(s) {
		return nil // the next round tries again
	}
	ds.log.Info("judged attempts past their limit that no node watched", "attempts", len(s.reports))
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return nil // the settlement goes on
	}
}

// judged are the timeouts of overdue hand-outs that are nobody else's to judge, and the rows whose
// hand-outs are over.
func (m *memory) judged(
	due store.Overdue, stood []store.Stood, now time.Time,
) (s *settlement, litter store.SyncRequest) {
	s = newSettlement(len(due.Rows))
	litter.Holder = m.conf.Holder
	for i := range due.Rows {
		u, st := &due.Rows[i], &stood[i]
		switch {
		case m.has(u.ID): // this node's own timer watches it
		case st.Found && (st.Final || st.Seq != u.Seq):
			litter.Watch = append(litter.Watch, store.Watch{ID: u.ID, Seq: u.Seq})
		case !st.Found || m.leftToHolder(u, &st.Owner, due.Now):
		default:
			s.add().timeOut(m, u, st, now)
		}
	}
	return s, litter
}

// leftToHolder tells whether an overdue hand-out is the holder's to judge.
func (m *memory) leftToHolder(u *store.Running, owner *store.Span, storeNow int64) bool {
	switch {
	case owner.Holder == (store.Holder{}) || owner.Holder == m.conf.Holder:
		return false
	case u.Started < m.clock.steady:
		return true
	case storeNow-u.Until < m.conf.Beat.Microseconds():
		m.pending = true
		return true
	}
	return false
}

// timeOut makes the report of a hand-out that is past its limit.
func (r *reporting) timeOut(m *memory, u *store.Running, st *store.Stood, now time.Time) {
	r.row.ID, r.row.Queue = u.ID, st.Queue
	r.row.Token = m.seals.Seal(task.Token{Span: u.Span, SpanToken: u.Token, Seq: u.Seq}, u.ID,
		u.Worker)
	limit := time.Duration(u.Until-u.Started) * time.Microsecond
	conf, at := m.queue(st.Queue).conf, m.clock.read(now)
	r.step(st.Standing, progress.LimitsOf(&conf, int(st.MaxAttempts)), stepOf{
		outcome:    task.Outcome{Kind: task.KindTimeout, Error: overdueText(limit)},
		contextSeq: st.ContextSeq, worker: u.Worker, started: u.Started,
		priority: time.Duration(st.HeadStart) * time.Microsecond, linked: st.Owner.Linked,
	}, at)
	r.giveNotice(m, conf.FinalQueue, st.Context, st.Meta, at)
}

// overdueText says what was wrong with an attempt past its limit.
func overdueText(limit time.Duration) string {
	return fmt.Sprintf("longer than %v", limit.Round(time.Millisecond))
}
