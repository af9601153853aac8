package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/progress"
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

// reporting is what memory thinks of one report on its way into the store.
type reporting struct {
	row      *store.Report // in its settlement
	decision progress.Decision
	spot     spot  // where the task is; nowhere when another node (or nobody) holds it
	was      *item // what memory knew of the task; nil when it was plain, too
	first    bool  // the report that took the item out of its worker's hands; a repeated one is not
	status   task.Status
	// it says that a transaction has recorded the outcome: what is decided is for when none has
	committed bool
}

// settlement is one caller's part of a gather of settlements.
type settlement struct {
	rows    []store.Report    // never moved: the reports point into it
	reports []reporting       // of the rows, in the same order
	bytes   int               // of the contexts and results that travel in the rows
	spawned map[int][]task.ID // children of reports, by their places; nil = there are none
	err     error
	done    chan struct{}
}

func newSettlement(size int) *settlement {
	return &settlement{
		rows: make([]store.Report, 0, size), reports: make([]reporting, 0, size),
		done: make(chan struct{}),
	}
}

// reuse is memory of settlements that were recorded, to be used again: there are hundreds a second,
// and each is large for a moment. What a write that failed may still look at never comes here.
type reuse struct {
	settlements sync.Pool // of *settlement
	rows        sync.Pool // of *[]store.Report
}

// settlement is an empty one for so many reports.
func (u *reuse) settlement(size int) *settlement {
	s, _ := u.settlements.Get().(*settlement)
	if s == nil || cap(s.rows) < size {
		return newSettlement(size)
	}
	s.done = make(chan struct{})
	return s
}

// done takes back a settlement that was recorded and answered.
func (u *reuse) done(s *settlement) {
	clear(s.rows)
	clear(s.reports)
	*s = settlement{rows: s.rows[:0], reports: s.reports[:0]}
	u.settlements.Put(s)
}

// gather puts the rows of several settlements together.
func (u *reuse) gather(load []*settlement) []store.Report {
	n := 0
	for _, s := range load {
		n += len(s.rows)
	}
	var all []store.Report
	if p, _ := u.rows.Get().(*[]store.Report); p != nil && cap(*p) >= n {
		all = *p
	} else {
		all = make([]store.Report, 0, n)
	}
	for _, s := range load {
		all = append(all, s.rows...)
	}
	return all
}

// gathered takes back rows that were recorded.
func (u *reuse) gathered(rows []store.Report) {
	clear(rows)
	rows = rows[:0]
	u.rows.Put(&rows)
}

// add makes room for one more report, within the size that was asked for.
func (s *settlement) add() *reporting {
	s.rows = append(s.rows, store.Report{})
	s.reports = append(s.reports, reporting{row: &s.rows[len(s.rows)-1]})
	return &s.reports[len(s.reports)-1]
}

// size is the weight in the gather, as a submission's.
func (s *settlement) size() int { return len(s.reports) + s.bytes>>10 }

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
	r.row.ID, r.row.Queue, r.row.Token = it.id, it.queue.conf.Name, it.token
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

// uncommitted is what becomes of a hand-out whose transaction, as its worker says, has recorded its
// outcome, when the store does not know of it.
var uncommitted = task.Retry(errors.New("the transaction of its outcome has not committed"))

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
