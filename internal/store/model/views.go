package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// maxSteps is how many steps the view of one task shows.
const maxSteps = 1000

// Task implements [contract.Views].
func (m *Model) Task(ctx context.Context, id task.ID) (task.View, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return task.View{}, err
	}
	defer m.mu.Unlock()
	f := m.tasks[id]
	if f == nil || f.removed() {
		return task.View{}, fmt.Errorf("task %s: %w", id, store.ErrNotFound)
	}
	v := m.view(f, nil, now)
	_, s := f.newest()
	if w := m.awaits(f); w != nil {
		v.Awaits = &task.Awaits{
			Signal: w.Address.Name, First: w.First, Key: w.Address.Key, Until: instant(w.Until),
			Else: w.Else,
		}
	}
	if w := m.awaits(f); w != nil && w.Address == (store.Address{}) {
		v.Awaits = &task.Awaits{Others: true}
	}
	v.After = m.seen(f)
	v.Parent = m.family.parents[id.Batch].of
	if c := m.children(store.ChildrenOf(id, f.run())); c.Total > 0 {
		v.Children = &c
	}
	if v.Context, err = m.resolve(f.context(s.ContextSeq)); err != nil {
		return task.View{}, err
	}
	if s.Kind != task.KindWoken { // that tells what woke it
		if v.Result, err = m.resolve(s.Result); err != nil {
			return task.View{}, err
		}
	}
	seqs := f.seqs()
	for _, seq := range seqs[max(0, len(seqs)-maxSteps):] {
		s := f.steps[seq]
		v.Steps = append(v.Steps, task.Step{
			Seq: seq, Kind: s.Kind, Stage: s.Ran, Worker: s.Worker, Started: instant(s.Started),
			Finished: instant(s.Finished), Error: s.Error,
		})
		if s.Override != nil { // its error is that of the attempt before
			last := &v.Steps[len(v.Steps)-1]
			last.Error, last.Changed = "", s.Override.Changed.String()
		}
	}
	return v, nil
}

// Contexts implements [contract.Views]. It looks at all steps, however many there are.
func (m *Model) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, 0, err
	}
	defer m.mu.Unlock()
	f := m.tasks[q.ID]
	if f == nil || f.removed() {
		return nil, 0, fmt.Errorf("contexts of task %s: %w", q.ID, store.ErrNotFound)
	}
	size, stage, stood := 0, "", int32(-2)
	for _, seq := range append([]int32{-1}, f.seqs()...) {
		s := recorded{Step: store.Step{
			Stage: f.Stage, ContextSeq: -1, Finished: f.batch.Created,
		}}
		if seq >= 0 {
			s = f.steps[seq]
		}
		changed := s.Stage != stage || s.ContextSeq != stood
		stage, stood = s.Stage, s.ContextSeq
		if !changed || seq+1 < q.From {
			continue
		}
		text, err := m.resolve(f.context(s.ContextSeq))
		if err != nil {
			return nil, 0, err
		}
		size += len(text)
		if len(page) == q.Limit || len(page) > 0 && size > q.Bytes {
			return page, seq + 1, nil
		}
		page = append(page, task.StageContext{
			Seq: seq, Stage: s.Stage, Outcome: s.Kind, By: s.Worker, Time: instant(s.Finished),
			Context: text,
		})
	}
	return page, 0, nil
}

// view is a task without its context, result and steps.
func (m *Model) view(f *fact, live map[task.ID]store.Live, now int64) task.View {
	seq, s := f.newest()
	v := task.View{
		ID: f.id(), Queue: f.batch.Queue, State: m.state(f, live, now), Stage: s.Stage,
		Attempt: int(s.Attempt), Worker: f.lastWorker(),
		Priority: time.Duration(f.override().HeadStart) * time.Microsecond,
		Due:      instant(f.batch.Due), Created: instant(f.batch.Created),
		Key: f.Key, GroupKey: f.override().GroupKey, Meta: f.meta().Strings(), Error: s.Error,
	}
	if v.State != task.Running {
		v.Expires = instant(m.limit(f))
	}
	if !v.State.Final() {
		v.Attempt++
		v.Due = instant(m.due(f))
	}
	if sp := m.owner(f); sp != nil && v.State != task.Blocked {
		v.Priority = time.Duration(sp.Due-sp.Rank) * time.Microsecond
	}
	if r, ok := m.running[hand{f.id(), seq + 1}]; ok {
		v.Worker, v.Started = r.Worker, instant(r.Started)
	} else if l, ok := live[f.id()]; ok && v.State == task.Running {
		v.Worker, v.Attempt, v.Started = l.Worker, int(l.Attempt), instant(l.Started)
	}
	return v
}

// lastWorker is the worker of the newest step that was not asked for.
func (f *fact) lastWorker() string {
	for _, seq := range slices.Backward(f.seqs()) {
		if s := f.steps[seq]; s.Kind < task.KindCancelled || s.Started > 0 {
			return s.Worker
		}
	}
	return ""
}

func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Tasks implements [contract.Views].
func (m *Model) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, task.ID{}, err
	}
	defer m.mu.Unlock()
	all := m.sortedTasks()
	slices.Reverse(all)
	for _, t := range all {
		if after != (task.ID{}) && t.id().Compare(after) >= 0 || t.removed() {
			continue
		}
		v := m.view(t, f.Live, now)
		if !selects(f, v, t.batch.Created) {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		page = append(page, v)
	}
	return page, task.ID{}, nil
}

func selects(f store.Filter, v task.View, created int64) bool {
	for name, text := range f.Meta.Strings() {
		if got, has := v.Meta[name]; !has || got != text {
			return false
		}
	}
	return (f.Reach == nil || f.Reach(v.Queue)) &&
		(f.Queue == "" || f.Queue == v.Queue) && (f.State == "" || f.State == v.State) &&
		(f.Stage == "" || f.Stage == v.Stage) &&
		(f.Worker == "" || f.Worker == v.Worker) && (f.Key == "" || f.Key == v.Key) &&
		(f.Since == 0 || created >= f.Since) && (f.Until == 0 || created < f.Until) &&
		(f.Error == nil || v.Error != "" && f.Error.MatchString(v.Error))
}

// Counts implements [contract.Views].
func (m *Model) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if len(queues) == 0 {
		queues = slices.Sorted(maps.Keys(m.queues))
	}
	list := make([]store.QueueCounts, len(queues))
	for i, name := range queues {
		list[i].Queue = name
		for _, f := range m.tasks {
			if f.batch.Queue == name && !f.removed() {
				m.count(&list[i], f, now)
			}
		}
	}
	return list, nil
}

func (m *Model) count(q *store.QueueCounts, f *fact, now int64) {
	switch m.state(f, nil, now) {
	case task.Blocked:
		q.Counts.Blocked++
	case task.Waiting:
		q.Counts.Waiting++
	case task.Running:
		q.Counts.Running++
	case task.Done:
		q.Counts.Done++
	case task.Dead:
		q.Counts.Dead++
	case task.Cancelled:
		q.Counts.Cancelled++
	case task.Expired:
		q.Counts.Expired++
	case task.Ready:
		q.Counts.Ready++
		if due := m.due(f); q.OldestReady == 0 || due < q.OldestReady {
			q.OldestReady = due
		}
	}
}

// Ahead implements [contract.Views]. It sees all, whatever the limit.
func (m *Model) Ahead(ctx context.Context, id task.ID, limit int) (a store.Ahead, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return a, err
	}
	defer m.mu.Unlock()
	f := m.tasks[id]
	if f == nil || m.owner(f) == nil || m.awaits(f) != nil {
		return a, nil
	}
	rank := m.rank(f)
	for _, other := range m.tasks {
		if other.batch.Queue != f.batch.Queue || m.owner(other) == nil ||
			m.state(other, nil, now) != task.Ready {
			continue
		}
		if r := m.rank(other); r < rank || r == rank && other.id().Compare(id) < 0 {
			a.Tasks++
		}
	}
	return a, nil
}

// rank is where a task that is not final stands in its queue: where its newest step put it or, if
// its span was made after that step or it has none, where its span is.
func (m *Model) rank(f *fact) int64 {
	seq, s := f.newest()
	sp := m.owner(f)
	switch {
	case s.Due == 0 || sp.Seq0 > seq:
		return sp.Rank
	case s.Attempt > 0:
		return s.Due
	}
	return s.Due - f.override().HeadStart
}

// RunTimes implements [contract.Views].
func (m *Model) RunTimes(
	ctx context.Context, queue string, limit int,
) (list []store.RunTime, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, f := range slices.Backward(m.sortedTasks()) {
		for _, seq := range slices.Backward(f.seqs()) {
			if limit--; limit < 0 {
				return list, nil
			}
			s := f.steps[seq]
			if f.batch.Queue == queue && (s.Kind == task.KindDone || s.Kind == task.KindNext) &&
				s.Started > 0 {
				list = append(list, store.RunTime{Stage: s.Ran, Took: s.Finished - s.Started})
			}
		}
	}
	return list, nil
}
