package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// settlements bring into the store what became of hand-outs: what workers report, and what this
// node finds by itself. They delete the spans of which nothing is left, too.
type settlements struct {
	*core
	settles gather[settlement]
	reuse   reuse

	submissions *submissions // check the children that outcomes submit
	queueCalls  *queueCalls  // hear of keys that reports pause
	reloads     *reloads     // read what the store did not record
}

func newSettlements(
	c *core, submissions *submissions, queueCalls *queueCalls, reloads *reloads,
) *settlements {
	st := &settlements{
		core: c, submissions: submissions, queueCalls: queueCalls, reloads: reloads,
	}
	st.settles = gather[settlement]{
		flights: c.conf.Flights, patience: lateFlight, company: c.conf.Company,
		limit: c.conf.Gather, room: c.conf.Room,
		wait: c.afterYou, fly: st.flySettlements, size: (*settlement).size,
	}
	return st
}

// settle lets a settlement that no worker asked for take part in the next flight, unless there are
// too many.
func (st *settlements) settle(s *settlement) bool { return st.settles.add(s) }

// Report records what a worker says became of its hand-outs; the answers are in the order of the
// reports, each for itself. An error means that none may count on being recorded: repeat the same
// call.
func (st *settlements) Report(
	ctx context.Context, name string, reports []task.Report,
) ([]task.Answer, error) {
	if name = names.Canonical(name); !limits.ValidName(name) {
		return nil, &task.InvalidError{
			Fields: []task.FieldError{
				{Location: "body.worker", Message: fmt.Sprintf("%.40q %s", name, limits.NameRule)},
			},
		}
	}
	if len(reports) > limits.MaxReports {
		return nil, &task.InvalidError{
			Fields: []task.FieldError{
				{Location: "body.reports",
					Message: fmt.Sprintf("at most %d in one call", limits.MaxReports)},
			},
		}
	}
	if err := checkBroods(reports); err != nil {
		return nil, err
	}
	answers := make([]task.Answer, len(reports))
	ready, err := st.checkReports(ctx, reports, answers)
	if err != nil {
		return nil, err
	}
	s := st.reuse.settlement(len(ready))
	index := make([]int, 0, len(ready))
	st.mu.Lock()
	if st.mem.closed {
		st.release()
		return nil, ErrClosed
	}
	foreign := s.decideHeld(st.mem, name, ready, &index, time.Now())
	st.release()
	if len(foreign) > 0 {
		if err := st.decideForeign(ctx, name, foreign, s, &index, answers); err != nil {
			st.mu.Lock()
			st.mem.unsettle(s.reports, time.Now())
			st.release()
			return nil, err
		}
	}
	if len(s.reports) == 0 {
		return answers, nil
	}
	if !st.settles.add(s) {
		st.mu.Lock()
		st.mem.unsettle(s.reports, time.Now())
		st.release()
		return nil, store.ErrBusy
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
	}
	if s.err != nil {
		return nil, s.err
	}
	for i := range s.reports {
		s.reports[i].answer(&answers[index[i]])
		if s.spawned != nil {
			answers[index[i]].Spawned = s.spawned[i]
		}
	}
	st.queueCalls.hearHolds(ctx, s)
	st.reuse.done(s)
	return answers, nil
}

// answer says what became of a report.
func (r *reporting) answer(a *task.Answer) {
	a.Status = r.status
	switch {
	case r.committed && r.status == task.Recorded:
		a.Status, a.Detail = task.Stale, "its transaction has not committed: the task is tried again"
	case r.status == task.Stale:
		a.Detail = "the hand-out is no longer yours"
	}
}

// checked is a report that makes sense.
type checked struct {
	index   int
	token   task.Token
	judged  bool       // seal is known; where memory knows the very token nobody needs it
	seal    seal.Worth // what the token's seal is worth
	context store.Value
	result  store.Value
	brood   *brood // nil = no children come with it
	*task.Report
}

// checkReports sorts out the invalid reports and keeps large contexts and results.
func (st *settlements) checkReports(
	ctx context.Context, reports []task.Report, answers []task.Answer,
) ([]checked, error) {
	list := make([]checked, 0, len(reports))
	for i := range reports {
		r := &reports[i]
		answers[i].ID = r.ID
		token, err := task.ParseToken(r.Token)
		reason := limits.CheckReport(r)
		switch {
		case err != nil:
			reason = "token: not one that rota gave out"
		case reason == "" &&
			(len(r.Context) > store.InlineLimit || len(r.Result) > store.InlineLimit):
			reason = st.checkSize(r)
		}
		if reason != "" {
			answers[i].Status, answers[i].Detail = task.Invalid, reason
			continue
		}
		c := checked{index: i, token: token, Report: r}
		if r.Committed {
			c.Report = &task.Report{ID: r.ID, Token: r.Token, Outcome: uncommitted, Committed: true}
			r = c.Report
		}
		if len(r.Context) > store.InlineLimit || len(r.Result) > store.InlineLimit ||
			len(r.Spawn) > 0 {
			if c.checkSeal(st.mem.seals) == seal.Forged { // nothing of it will be kept
				list = append(list, c)
				continue
			}
		}
		if c.context, err = st.keep(ctx, r.Context); err != nil {
			return nil, fmt.Errorf("keep context of report %d: %w", i, err)
		}
		if c.result, err = st.keep(ctx, r.Result); err != nil {
			return nil, fmt.Errorf("keep result of report %d: %w", i, err)
		}
		if c.brood, reason, err = st.submissions.broodOf(ctx, r); err != nil {
			return nil, fmt.Errorf("keep children of report %d: %w", i, err)
		}
		if reason != "" {
			answers[i].Status, answers[i].Detail = task.Invalid, reason
			continue
		}
		list = append(list, c)
	}
	return list, nil
}

// checkSeal finds out what a report's seal is worth, once.
func (c *checked) checkSeal(seals *seal.Sealer) seal.Worth {
	if !c.judged {
		c.judged, c.seal = true, seals.Check(c.token, c.ID)
	}
	return c.seal
}

// isOf tells whether a report is of the hand-out that an item is in: by the very token, or by
// one that an earlier version sealed.
func (it *item) isOf(c *checked, name string) bool {
	switch {
	case it == nil || it.place != out && it.place != settling || it.worker == nil ||
		it.seq != c.token.Seq ||
		keyOf(it.id, it.token) != keyOf(c.ID, c.token):
		return false
	case it.token == c.token:
		return true
	}
	return c.checkSeal(it.queue.memory.seals) == seal.Old &&
		it.queue.memory.byOldSeal(name, it.worker.name, it.queue.memory.clock.read(it.started))
}

// checkSize holds a report's context and result against the queue's limit.
func (st *settlements) checkSize(r *task.Report) string {
	st.mu.Lock()
	limit := st.mem.contextLimit(r.ID)
	st.release()
	if n := int64(len(r.Context)); n > limit {
		return fmt.Sprintf("context: %d bytes are more than the %d that the queue allows", n, limit)
	}
	if n := int64(len(r.Result)); n > limit {
		return fmt.Sprintf("result: %d bytes are more than the %d that the queue allows", n, limit)
	}
	return ""
}

// contextLimit is how large the contexts of a task may be, as far as memory knows.
func (hs *holdings) contextLimit(id task.ID) int64 {
	if s := hs.find(id); s.cell != nil {
		return s.span.queue.conf.ContextLimit
	}
	return limits.DefaultContextLimit
}

// uncommitted is what becomes of a hand-out whose transaction, as its worker says, has recorded its
// outcome, when the store does not know of it.
var uncommitted = task.Retry(errors.New("the transaction of its outcome has not committed"))
