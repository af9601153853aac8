package dispatch

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// reporting is one report on its way into the store.
type reporting struct {
	row      rows.Report
	decision task.Decision
	item     *item // what memory knows of the task, nil when another node (or nobody) holds it
	first    bool  // the report that took the item out of its worker's hands; a repeated one is not
	status   task.Status
}

// settlement is one caller's part of a gather of settlements.
type settlement struct {
	reports []reporting
	err     error
	done    chan struct{}
}

func (s *settlement) size() int { return len(s.reports) }

// Report records what a worker says became of its hand-outs; the answers are in the order of the reports, each for itself.
// An error means that none may count on being recorded: repeat the same call.
func (d *Dispatcher) Report(ctx context.Context, name string, reports []task.Report) ([]task.Answer, error) {
	if !task.ValidName(name) {
		return nil, &task.InvalidError{Fields: []task.FieldError{{Location: "body.worker", Message: fmt.Sprintf("%.40q %s", name, task.NameRule)}}}
	}
	if len(reports) > task.MaxReports {
		return nil, &task.InvalidError{Fields: []task.FieldError{{Location: "body.reports", Message: fmt.Sprintf("at most %d in one call", task.MaxReports)}}}
	}
	answers := make([]task.Answer, len(reports))
	ready, err := d.checkReports(ctx, reports, answers)
	if err != nil {
		return nil, err
	}
	s := &settlement{reports: make([]reporting, 0, len(ready)), done: make(chan struct{})}
	index := make([]int, 0, len(ready))
	foreign, err := d.decideAll(name, ready, s, &index)
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		if err := d.decideForeign(ctx, name, foreign, s, &index, answers); err != nil {
			return nil, err
		}
	}
	if len(s.reports) == 0 {
		return answers, nil
	}
	if !d.settles.add(s) {
		d.mu.Lock()
		d.unsettle(s.reports)
		d.mu.Unlock()
		return nil, rows.ErrBusy
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", rows.ErrUnknown, context.Cause(ctx))
	}
	if s.err != nil {
		return nil, s.err
	}
	for i := range s.reports {
		answers[index[i]].Status = s.reports[i].status
		if s.reports[i].status == task.Stale {
			answers[index[i]].Detail = "the hand-out is no longer yours"
		}
	}
	return answers, nil
}

// checked is a report that makes sense.
type checked struct {
	index   int
	token   task.Token
	context rows.Value
	result  rows.Value
	*task.Report
}

// checkReports sorts out the invalid reports and keeps large contexts and results.
func (d *Dispatcher) checkReports(ctx context.Context, reports []task.Report, answers []task.Answer) ([]checked, error) {
	list := make([]checked, 0, len(reports))
	for i := range reports {
		r := &reports[i]
		answers[i].ID = r.ID
		token, err := task.ParseToken(r.Token)
		reason := r.Check()
		switch {
		case err != nil:
			reason = "token: not one that rota gave out"
		case reason == "" && (len(r.Context) > rows.InlineLimit || len(r.Result) > rows.InlineLimit):
			reason = d.checkSize(r)
		}
		if reason != "" {
			answers[i].Status, answers[i].Detail = task.Invalid, reason
			continue
		}
		c := checked{index: i, token: token, Report: r}
		if c.context, err = d.keep(ctx, r.Context); err != nil {
			return nil, fmt.Errorf("keep context of report %d: %w", i, err)
		}
		if c.result, err = d.keep(ctx, r.Result); err != nil {
			return nil, fmt.Errorf("keep result of report %d: %w", i, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// checkSize holds a report's context and result against the queue's limit.
func (d *Dispatcher) checkSize(r *task.Report) string {
	limit := int64(task.DefaultContextLimit)
	d.mu.Lock()
	if it := d.items[r.ID]; it != nil {
		limit = it.queue.conf.ContextLimit
	}
	d.mu.Unlock()
	if n := int64(len(r.Context)); n > limit {
		return fmt.Sprintf("context: %d bytes are more than the %d that the queue allows", n, limit)
	}
	if n := int64(len(r.Result)); n > limit {
		return fmt.Sprintf("result: %d bytes are more than the %d that the queue allows", n, limit)
	}
	return ""
}

// decideAll decides the reports of tasks that this node holds, and returns the others.
func (d *Dispatcher) decideAll(name string, list []checked, s *settlement, index *[]int) (foreign []checked, err error) {
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if d.closed {
		return nil, ErrClosed
	}
	if w := d.workers[name]; w != nil {
		w.touch(now)
	}
	var worker *worker
	for i := range list {
		c := &list[i]
		it := d.items[c.ID]
		if it == nil || (it.place != out && it.place != settling) || it.token.Span != c.token.Span || it.token.SpanToken != c.token.SpanToken || it.seq != c.token.Seq {
			foreign = append(foreign, *c)
			continue
		}
		first := it.place == out
		if first {
			d.settle(it)
		}
		r := d.decide(it, c.Outcome, c.context, c.result, name, now)
		r.first = first
		s.reports = append(s.reports, r)
		*index = append(*index, c.index)
		worker = it.worker
	}
	if worker != nil {
		d.matchWorker(worker, now, &a)
	}
	return foreign, nil
}

// settle takes an item out of its worker's hands and on its way into the store.
func (d *Dispatcher) settle(it *item) {
	d.takeBack(it)
	it.timer.Stop()
	it.place = settling
}

// decide makes the step of an outcome for a task in memory.
func (d *Dispatcher) decide(it *item, o task.Outcome, context, result rows.Value, worker string, now time.Time) reporting {
	return d.step(it.id, it.standing(), it.queue.conf.Limits(int(it.maxAttempts)), it.queue.conf.Name, stepOf{
		outcome: o, context: context, contextSeq: it.contextSeq, result: result, worker: worker, started: it.started, priority: it.priority,
		token: it.token, item: it,
	}, now)
}

// stepOf is what a step is made of besides the task's standing.
type stepOf struct {
	outcome         task.Outcome
	context, result rows.Value
	contextSeq      int32
	worker          string
	started         time.Time
	priority        time.Duration
	token           task.Token
	item            *item
}

// step makes the row that records an outcome. The decision is the task package's; this only writes it down.
func (d *Dispatcher) step(id task.ID, st task.Standing, l task.Limits, queue string, s stepOf, now time.Time) reporting {
	dec := task.Decide(id, st, s.outcome, l)
	at := micros(now)
	row := rows.Step{
		Kind: s.outcome.Kind, Ran: st.Stage, Stage: dec.Stage, Context: s.context, ContextSeq: s.contextSeq, Result: s.result, Attempt: dec.Attempt,
		Base: st.Base, Worker: s.worker, Finished: at, Error: cutText(s.outcome.Error), Hash: rows.ReportHash(s.outcome),
	}
	if !s.started.IsZero() {
		row.Started = micros(s.started)
	}
	if s.context != nil {
		row.ContextSeq = st.Seq
	}
	r := reporting{decision: dec, item: s.item}
	switch {
	case dec.Final != "":
		row.Base = rows.Final
	case dec.Moved:
		row.Base = st.Seq + 1
		row.Due = at + dec.Delay.Microseconds()
		r.row.Move = &rows.Move{Rank: task.Rank(row.Due, s.priority), Due: row.Due}
	case s.outcome.Kind != task.KindRelease: // given back unrun: it keeps its place
		row.Due = at + dec.Delay.Microseconds()
	}
	r.row.ID, r.row.Queue, r.row.Token, r.row.Step = id, queue, s.token, row
	return r
}

// cutText cuts an error's text, not inside a character.
func cutText(s string) string {
	if len(s) <= task.MaxError {
		return s
	}
	end := task.MaxError
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// decideForeign decides the reports of tasks that this node does not hold, from what the store says of them. Where the store
// has moved on, the report goes in all the same: the store tells a repeated one from a stale one.
func (d *Dispatcher) decideForeign(ctx context.Context, name string, list []checked, s *settlement, index *[]int, answers []task.Answer) error {
	ids := make([]task.ID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	stood, err := d.store.Stand(ctx, ids)
	if err != nil {
		d.note(err)
		return fmt.Errorf("read where tasks stand: %w", err)
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		c, st := &list[i], &stood[i]
		if !st.Found {
			answers[c.index].Status, answers[c.index].Detail = task.Unknown, "no such task"
			continue
		}
		if c.token.Seq > st.Seq || c.token.Seq == st.Seq && st.Final { // no such hand-out was ever made
			answers[c.index].Status, answers[c.index].Detail = task.Stale, "the hand-out is no longer yours"
			continue
		}
		st.Standing.Seq = c.token.Seq
		conf := d.queue(st.Queue).conf
		var started time.Time
		if st.Running != nil {
			started = time.UnixMicro(st.Running.Started)
		}
		s.reports = append(s.reports, d.step(c.ID, st.Standing, conf.Limits(int(st.MaxAttempts)), st.Queue, stepOf{
			outcome: c.Outcome, context: c.context, contextSeq: st.ContextSeq, result: c.result, worker: name, started: started,
			priority: time.Duration(st.Owner.Due-st.Owner.Rank) * time.Microsecond, token: c.token,
		}, now))
		*index = append(*index, c.index)
	}
	return nil
}

// find settles a hand-out with an outcome that no worker reported: lost, timeout. Like every report it only counts if its
// token is still the right one. The lock is held.
func (d *Dispatcher) find(it *item, kind task.Kind, why string) {
	if it.place != out {
		return
	}
	w := it.worker
	d.settle(it)
	w.changed()
	r := d.decide(it, task.Outcome{Kind: kind, Error: why}, nil, nil, w.name, time.Now())
	r.first = true
	s := &settlement{reports: []reporting{r}, done: make(chan struct{})}
	if d.closed || !d.settles.add(s) {
		d.unsettle(s.reports)
	}
}

// unsettle puts hand-outs back into their workers' hands whose settlement did not happen.
func (d *Dispatcher) unsettle(list []reporting) {
	for i := range list {
		it := list[i].item
		if it == nil || it.place != settling || it.token != list[i].row.Token {
			continue
		}
		it.place = out
		it.worker.out[it.id] = it
		it.worker.reorder()
		d.watchDeadline(it, max(time.Until(it.until), time.Second))
	}
}

// flySettlements is one flight of the gather: write, answer, apply.
func (d *Dispatcher) flySettlements(load []*settlement) {
	set := rows.Settlement{}
	n := 0
	for _, s := range load {
		n += len(s.reports)
	}
	set.Reports = make([]rows.Report, 0, n)
	for _, s := range load {
		for i := range s.reports {
			set.Reports = append(set.Reports, s.reports[i].row)
		}
	}
	set.Spent = d.takeSpent(load)
	var got rows.Settled
	err := d.again(func() (err error) {
		got, err = d.store.Settle(d.ctx, set)
		return err
	})
	if err != nil {
		d.failSettlements(load, set.Spent, fmt.Errorf("settle: %w", err))
		return
	}
	d.apply(load, got)
	for _, s := range load {
		close(s.done)
	}
}

func (d *Dispatcher) failSettlements(load []*settlement, spent []int64, err error) {
	d.mu.Lock()
	for _, id := range spent {
		if sp := d.spans[id]; sp != nil {
			sp.deleted = false
		} else {
			d.spent = append(d.spent, id)
		}
	}
	for _, s := range load {
		d.unsettle(s.reports)
		s.err = err
	}
	d.mu.Unlock()
	for _, s := range load {
		close(s.done)
	}
}

// takeSpent lists the spans to delete with a flight: those that are spent already, and those that this flight ends if all its
// reports are recorded, which the store checks.
func (d *Dispatcher) takeSpent(load []*settlement) []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	spent := d.spent
	d.spent = nil
	leaves := func(r *reporting) bool {
		return r.first && r.item.place == settling && (r.decision.Final != "" || r.decision.Moved)
	}
	for _, s := range load {
		for i := range s.reports {
			if r := &s.reports[i]; leaves(r) {
				sp := r.item.span
				if sp.leaving++; sp.leaving == sp.left {
					sp.deleted = true
					spent = append(spent, sp.ID)
				}
			}
		}
	}
	for _, s := range load {
		for i := range s.reports {
			if r := &s.reports[i]; r.item != nil {
				r.item.span.leaving = 0
			}
		}
	}
	return spent
}

// apply changes memory by what was recorded.
func (d *Dispatcher) apply(load []*settlement, got rows.Settled) {
	now := time.Now()
	var a answers
	var again []*item
	touched := map[*queue]bool{}
	d.mu.Lock()
	k := 0
	for _, s := range load {
		for i := range s.reports {
			r := &s.reports[i]
			r.status = got.Verdicts[k]
			k++
			if r.item != nil && r.status != task.Recorded && r.status != task.Repeated {
				r.item.span.deleted = false
			}
			switch {
			case r.status == task.Recorded:
				d.applyRecorded(r, touched, got.Now, now)
			case r.item != nil && r.item.place == settling && r.item.token == r.row.Token:
				again = append(again, r.item)
			}
		}
	}
	for q, yes := range touched {
		if yes {
			d.match(q, now, &a)
		}
	}
	d.mu.Unlock()
	a.send()
	if len(again) > 0 {
		d.reload(again)
	}
}

// applyRecorded brings memory to where a recorded step brought the task.
func (d *Dispatcher) applyRecorded(r *reporting, touched map[*queue]bool, storeNow int64, now time.Time) {
	if r.decision.Final != "" {
		d.tellWatchers(r.row.ID)
	}
	if r.decision.Moved {
		d.sign(d.queue(r.row.Queue), r.row.Move.Due, storeNow, now)
	}
	it := r.item
	if it == nil {
		if held := d.items[r.row.ID]; held != nil && held.seq == r.row.Token.Seq { // its token outlived a change of holder
			d.reloadSoon(held)
		} else if r.decision.Final == "" && !r.decision.Moved {
			d.sign(d.queue(r.row.Queue), r.row.Step.Due, storeNow, now)
		}
		return
	}
	if it.place != settling || it.seq != r.row.Token.Seq {
		return
	}
	if r.decision.Final != "" || r.decision.Moved {
		d.forget(it)
		touched[it.queue] = touched[it.queue] || it.span.poisonous() // a neighbour may have become ready
		return
	}
	it.stage, it.attempt, it.seq = r.decision.Stage, r.decision.Attempt, it.seq+1
	if r.row.Step.Context != nil {
		it.context = r.row.Step.Context
	}
	it.contextSeq = r.row.Step.ContextSeq
	if r.row.Step.Due > 0 {
		it.rank = task.Rank(r.row.Step.Due, it.priority)
	}
	it.span.idle++
	if r.decision.Delay > 0 {
		d.sleep(it, r.decision.Delay)
		d.ended(it.span)
		touched[it.queue] = true
		return
	}
	it.span.under--
	d.enqueue(it)
	touched[it.queue] = true
}
