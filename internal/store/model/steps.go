package model

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Settle implements [contract.Steps].
func (m *Model) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Settled{}, err
	}
	defer m.mu.Unlock()
	answer := store.Settled{Now: now}
	var kept []int64 // spans of which something turned out not to be known
	for i, r := range s.Reports {
		v := m.record(r, now)
		answer.Verdicts = append(answer.Verdicts, v)
		if len(r.Spawn) > 0 && (v == task.Recorded || v == task.Repeated) {
			answer.Spawned = append(answer.Spawned, store.Spawned{
				Report: i, IDs: m.spawned(&r),
			})
		}
		if v != task.Recorded && v != task.Repeated {
			kept = append(kept, r.Token.Span)
		}
	}
	for _, spent := range s.Spent {
		if sp := m.spans[spent.Span]; sp != nil && sp.Token == spent.Token &&
			!slices.Contains(kept, spent.Span) {
			delete(m.spans, spent.Span)
		}
	}
	for i, v := range answer.Verdicts {
		if a := s.Reports[i].Await; v == task.Recorded && a != nil && !a.Address.Children() {
			answer.Look = append(answer.Look, a.Address)
		}
	}
	for i, v := range answer.Verdicts {
		id := s.Reports[i].ID
		if v != task.Recorded || m.ended(m.tasks[id]) == "" {
			continue
		}
		if open, _ := m.openOn(id); len(open) > 0 {
			answer.Look = append(answer.Look, store.EndOf(id))
		}
	}
	answer.Look = sortedAddresses(append(answer.Look, m.ripe()...))
	return answer, nil
}

// record writes down one report, if it has the right to.
func (m *Model) record(r store.Report, now int64) task.Status {
	f := m.tasks[r.ID]
	if f == nil {
		return task.Unknown
	}
	if old, ok := f.steps[r.Token.Seq]; ok {
		if old.token == r.Token.SpanToken && store.Repeats(r.Step.Hash, old.Hash) {
			return task.Repeated
		}
		return task.Stale
	}
	if newest, _ := f.newest(); !m.good(r.ID, r.Token) || r.Step.Kind == task.KindExpired &&
		(m.limit(f) == 0 || newest+1 != r.Token.Seq) {
		return task.Stale
	}
	m.addStep(f, r.Token.Seq, r.Token.SpanToken, r.Step)
	m.happenedStep(&r)
	if b := r.Notice; b != nil {
		if _, ok := m.queues[b.Queue]; !ok {
			m.queues[b.Queue] = limits.DefaultQueue(b.Queue)
		}
		m.addBatch(*b, store.Holder{}, false, nil, &store.Submitted{Now: now})
	}
	if r.Move != nil {
		m.moveOut(f, r.Token.Seq, r.Queue, *r.Move)
	}
	if len(r.Spawn) > 0 {
		m.spawn(f, &r, now)
	}
	if a := r.Await; a != nil {
		if a.Address.Children() {
			w := *a
			w.Address.Run, a = f.run(), &w
		}
		m.await(r.ID, r.Token.Seq, *a, now)
	}
	m.holdKey(f, r.HoldKey, now)
	if state := m.ended(f); state != "" && state != task.Done {
		m.letFall(r.ID, false)
	}
	return task.Recorded
}

// good tells whether a token is the right one: that of the running row at its seq, else that of its
// span.
func (m *Model) good(id task.ID, t task.Token) bool {
	if u, ok := m.running[hand{id, t.Seq}]; ok {
		return u.Span == t.Span && u.Token == t.SpanToken
	}
	sp := m.spans[t.Span]
	return sp != nil && sp.Batch == id.Batch && sp.Lo <= id.N && id.N <= sp.Hi &&
		sp.Token == t.SpanToken
}

// addStep inserts a step; the hand-out at its seq is over.
func (m *Model) addStep(f *fact, seq int32, token int64, s store.Step) {
	s.Context, s.Result = bytes.Clone(s.Context), bytes.Clone(s.Result)
	f.steps[seq] = recorded{s, token}
	delete(m.running, hand{f.id(), seq})
}

// moveOut makes the span of its own into which the step at seq moves a task.
func (m *Model) moveOut(f *fact, seq int32, queue string, to store.Move) {
	m.addSpan(store.Span{
		Batch: f.batch.ID, Lo: f.N, Hi: f.N, Seq0: seq + 1, Queue: queue, Rank: to.Rank,
		Due: to.Due, Linked: to.Linked,
	})
}

// Sync implements [contract.Steps].
func (m *Model) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Synced{}, err
	}
	defer m.mu.Unlock()
	answer := store.Synced{Now: now, LeaseGone: !m.lives(r.Holder, now)}
	if answer.LeaseGone {
		return answer, nil
	}
	m.writeDown(r.Holder, r.Insert)
	for _, i := range r.Insert {
		if _, ok := m.running[hand{i.ID, i.Seq}]; !ok {
			answer.Missing = append(answer.Missing, i.ID)
		}
	}
	for _, w := range r.Watch {
		if f := m.tasks[w.ID]; f != nil {
			if _, ok := f.steps[w.Seq]; ok {
				answer.Settled = append(answer.Settled, w.ID)
			}
		}
	}
	return answer, nil
}

// Overdue implements [contract.Steps].
func (m *Model) Overdue(ctx context.Context, q store.OverdueQuery) (store.Overdue, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Overdue{}, err
	}
	defer m.mu.Unlock()
	var list []store.Running
	for _, r := range m.running {
		late := q.Late
		if r.Started >= q.Steady {
			late = 0
		}
		if r.Until+late <= now && compareUntil(r, q.After) > 0 {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, compareUntil)
	list = list[:min(max(q.Limit, 0), len(list))]
	if len(list) == 0 {
		return store.Overdue{}, nil
	}
	return store.Overdue{Now: now, Rows: list}, nil
}

// compareUntil orders running rows by the limits of their attempts.
func compareUntil(a, b store.Running) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), a.ID.Compare(b.ID), cmp.Compare(a.Seq, b.Seq))
}

// Act implements [contract.Steps].
func (m *Model) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	acted := make([]store.Acted, len(actions))
	for i, a := range actions {
		acted[i] = m.act(a, now)
	}
	return acted, nil
}

func (m *Model) act(a store.Action, now int64) store.Acted {
	f := m.tasks[a.ID]
	if f != nil && f.marked(a.Mark) {
		return store.Acted{
			ID: a.ID, Queue: f.batch.Queue, Found: true, Changed: true, Was: m.state(f, nil, now),
		}
	}
	if f == nil || f.removed() {
		return store.Acted{ID: a.ID}
	}
	acted := store.Acted{ID: a.ID, Queue: f.batch.Queue, Found: true, Was: m.state(f, nil, now)}
	last, s := f.newest()
	seq := last + 1
	step, to := m.decide(f, &a, seq, now, &acted)
	if !acted.Changed {
		return acted
	}
	old := m.owner(f)
	m.addStep(f, seq, unasked, step)
	ends := (a.Kind == task.KindCancelled || a.Kind == task.KindRemoved) && !acted.Was.Final()
	if ends || a.Tree {
		m.letFall(a.ID, a.Tree)
	}
	if a.Kind == task.KindCancelled {
		m.happened(now, history.Series{Queue: f.batch.Queue, Stage: s.Stage},
			func(h *history.Record) { h.Cancelled++ })
	}
	if a.Kind == task.KindReplayed {
		m.sched.reopen(a.ID, seq)
	}
	if w := m.waiting.waits[a.ID]; w != nil && a.Kind == task.KindEdited {
		w.seq, to = seq+1, *store.Parked()
	} else if w != nil {
		delete(m.waiting.waits, a.ID)
	}
	if a.Kind == task.KindReplayed && m.waitAgain(f, seq, now) {
		to = *store.Parked()
	}
	if step.Base != store.Final {
		if old != nil {
			to.Linked = old.Linked
		}
		m.moveOut(f, seq, f.batch.Queue, to)
	}
	if old != nil && old.Lo == old.Hi && old.Holder == (store.Holder{}) {
		delete(m.spans, old.ID)
	}
	return acted
}

// decide says in acted whether an action changes a task, or which node holds it. step is what the
// action records at seq, and to is where the task goes unless that is final.
func (m *Model) decide(
	f *fact, a *store.Action, seq int32, now int64, acted *store.Acted,
) (step store.Step, to store.Move) {
	_, s := f.newest()
	step = store.Step{
		Kind: a.Kind, Stage: s.Stage, ContextSeq: s.ContextSeq, Attempt: s.Attempt,
		Base:   store.Final,
		Worker: cmp.Or(a.Worker, a.By), Started: a.Started, Finished: now, Error: a.Error,
		Hash: a.Mark,
	}
	to = store.Move{Rank: a.Rank, Due: a.Due}
	switch a.Kind {
	case task.KindCancelled:
		acted.Changed = !acted.Was.Final()
	case task.KindRemoved:
		acted.Changed = acted.Was != task.Running
	case task.KindMoved:
		acted.Changed = acted.Was == task.Waiting || acted.Was == task.Ready
		step.Base, step.Due = seq+1, a.Due
	case task.KindEdited:
		if acted.Was != task.Blocked && acted.Was != task.Waiting && acted.Was != task.Ready {
			break
		}
		if h := m.owner(f).Holder; h != (store.Holder{}) && h != a.Holder && !a.Fenced {
			acted.Held = h.Node
			break
		}
		if acted.Was == task.Blocked && a.Edit.StartWithin != nil {
			break
		}
		acted.Changed = true
		to = m.editTask(f, &step, seq, *a.Edit)
	case task.KindReplayed:
		acted.Changed = acted.Was.Final() && f.begin(&step, acted.Was, a.Replay)
		step.Base, step.Due, step.Attempt = seq+1, a.Due, 0
	}
	if a.When != "" && a.When != acted.Was {
		acted.Changed = false
	}
	return step, to
}

// editTask makes a step the one of an edit, and says where the task stands in its queue then.
func (m *Model) editTask(f *fact, step *store.Step, seq int32, e store.Edit) store.Move {
	_, s := f.newest()
	o := f.override()
	o.Changed, o.Over = e.Changes(), store.NotReplaced
	rank := m.rank(f)
	step.Base, step.Due, step.Error = seq+1, m.due(f), s.Error
	o.Expires = f.expires()
	if e.Due != nil {
		if o.Expires != 0 {
			o.Expires += *e.Due - f.counted()
		}
		step.Due = *e.Due
		if rank = step.Due; step.Attempt == 0 {
			rank -= o.HeadStart
		}
	}
	if e.StartWithin != nil {
		if o.Expires = 0; *e.StartWithin > 0 && !f.begun() {
			o.Expires = step.Due + *e.StartWithin
		}
	}
	if e.Priority != nil {
		o.HeadStart = *e.Priority
		rank = step.Due - o.HeadStart
	}
	if e.GroupKey != nil {
		o.GroupKey = *e.GroupKey
		m.dropOwner(f.id())
	}
	if e.MaxAttempts != nil {
		o.MaxAttempts = *e.MaxAttempts
	}
	if e.Meta != nil {
		o.Meta = e.Meta
	}
	if e.Stage != nil {
		step.Stage = *e.Stage
	}
	if e.Context != nil {
		o.Over = step.ContextSeq
		step.Context, step.ContextSeq = *e.Context, seq
	}
	step.Override = &o
	return store.Move{Rank: rank, Due: step.Due}
}

// override is what holds of a task in place of what was submitted: what its newest edit said, or
// what was submitted after all.
func (f *fact) override() store.Override {
	for _, seq := range slices.Backward(f.seqs()) {
		if o := f.steps[seq].Override; o != nil {
			return *o
		}
	}
	return store.Override{
		HeadStart: f.batch.Due - f.batch.Rank, GroupKey: f.GroupKey, MaxAttempts: f.MaxAttempts,
	}
}

// meta is what a task carries.
func (f *fact) meta() store.Meta {
	if edited := f.override().Meta; edited != nil {
		return *edited
	}
	return f.Meta
}

// begin makes a step the one that lets the task begin where a replay says; false: it never was
// there.
func (f *fact) begin(step *store.Step, was task.State, r store.Replay) bool {
	switch {
	case r == store.Replay{} && was != task.Done:
		return true
	case r == store.Replay{}, r.Whole, *r.Stage == f.Stage:
		step.Stage, step.ContextSeq = f.Stage, -1
		f.corrected(step)
		return true
	}
	for _, seq := range f.seqs() {
		if s := f.steps[seq]; s.Stage == *r.Stage {
			step.Stage, step.ContextSeq = s.Stage, s.ContextSeq
			f.corrected(step)
			return true
		}
	}
	return false
}

// corrected lets a replay begin with the context as edits in its stage have left it.
func (f *fact) corrected(step *store.Step) {
	for _, seq := range f.seqs() {
		s := f.steps[seq]
		if s.Override == nil || s.Override.Over != step.ContextSeq {
			continue
		}
		if s.Stage == step.Stage || s.Override.Changed&store.ChangedStage != 0 {
			step.Stage, step.ContextSeq = s.Stage, seq
		}
	}
}

// marked tells whether an action with a mark was done.
func (f *fact) marked(mark int64) bool {
	for _, s := range f.steps {
		if mark != 0 && s.token == unasked && s.Hash == mark {
			return true
		}
	}
	return false
}

// removed tells whether only a tombstone is left of the task.
func (f *fact) removed() bool {
	_, s := f.newest()
	return s.Kind == task.KindRemoved
}

// Stand implements [contract.Steps].
func (m *Model) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	list := make([]store.Stood, len(ids))
	for i, id := range ids {
		list[i].ID = id
		f := m.tasks[id]
		if f == nil {
			continue
		}
		_, s := f.newest()
		list[i].Found = true
		list[i].Queue = f.batch.Queue
		list[i].Final = s.Base == store.Final
		list[i].Kind = s.Kind
		list[i].Loaded = m.loaded(f)
		if sp := m.owner(f); sp != nil {
			list[i].Owner = *sp
		}
	}
	return list, nil
}

// state is where a task stands, by what is committed and by the hand-outs that only a node's memory
// knows.
func (m *Model) state(f *fact, live map[task.ID]store.Live, now int64) task.State {
	seq, s := f.newest()
	if s.Base == store.Final {
		switch s.Kind {
		case task.KindDone:
			return task.Done
		case task.KindCancelled:
			return task.Cancelled
		case task.KindExpired:
			return task.Expired
		}
		return task.Dead
	}
	_, written := m.running[hand{f.id(), seq + 1}]
	_, known := live[f.id()]
	switch {
	case written || known:
		return task.Running
	case m.awaits(f) != nil:
		return task.Blocked
	case m.due(f) > now:
		return task.Waiting
	}
	return task.Ready
}

// due is when a task that is not final may run: when both its span and its newest step let it.
func (m *Model) due(f *fact) int64 {
	_, s := f.newest()
	due := max(s.Due, 0)
	if sp := m.owner(f); sp != nil && m.awaits(f) == nil {
		due = max(due, sp.Due)
	}
	return due
}
