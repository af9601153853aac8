package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// maxSteps is how many steps the view of one task shows.
const maxSteps = 1000

// Task implements [Views].
func (m *Model) Task(ctx context.Context, id task.ID) (task.View, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return task.View{}, err
	}
	defer m.mu.Unlock()
	f := m.tasks[id]
	if f == nil || f.removed() {
		return task.View{}, fmt.Errorf("task %s: %w", id, rows.ErrNotFound)
	}
	v := m.view(f, nil, now)
	_, s := f.newest()
	if v.Context, err = m.resolve(f.context(s.ContextSeq)); err != nil {
		return task.View{}, err
	}
	if v.Result, err = m.resolve(s.Result); err != nil {
		return task.View{}, err
	}
	seqs := slices.Sorted(maps.Keys(f.steps))
	for _, seq := range seqs[max(0, len(seqs)-maxSteps):] {
		s := f.steps[seq]
		v.Steps = append(v.Steps, task.Step{
			Seq: seq, Kind: s.Kind, Stage: s.Ran, Worker: s.Worker, Started: instant(s.Started), Finished: instant(s.Finished), Error: s.Error,
		})
	}
	return v, nil
}

// view is a task without its context, result and steps.
func (m *Model) view(f *fact, live map[task.ID]rows.Live, now int64) task.View {
	seq, s := f.newest()
	v := task.View{
		ID: f.id(), Queue: f.batch.Queue, State: m.state(f, live, now), Stage: s.Stage, Attempt: int(s.Attempt), Worker: f.lastWorker(),
		Priority: time.Duration(f.batch.Due-f.batch.Rank) * time.Microsecond, Due: instant(f.batch.Due), Created: instant(f.batch.Created),
		Key: f.Key, GroupKey: f.GroupKey,
	}
	if !v.State.Final() {
		v.Attempt++
		v.Due = instant(m.due(f))
	}
	if sp := m.owner(f); sp != nil {
		v.Priority = time.Duration(sp.Due-sp.Rank) * time.Microsecond
	}
	if r, ok := m.running[hand{f.id(), seq + 1}]; ok {
		v.Worker = r.Worker
	} else if l, ok := live[f.id()]; ok && v.State == task.Running {
		v.Worker, v.Attempt = l.Worker, int(l.Attempt)
	}
	return v
}

// lastWorker is the worker of the newest step that was not asked for.
func (f *fact) lastWorker() string {
	for _, seq := range slices.Backward(slices.Sorted(maps.Keys(f.steps))) {
		if s := f.steps[seq]; s.Kind < task.KindCancelled {
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

// Tasks implements [Views].
func (m *Model) Tasks(ctx context.Context, f rows.Filter, after task.ID, limit int) (page []task.View, next task.ID, err error) {
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

func selects(f rows.Filter, v task.View, created int64) bool {
	return (f.Queue == "" || f.Queue == v.Queue) && (f.State == "" || f.State == v.State) && (f.Stage == "" || f.Stage == v.Stage) &&
		(f.Worker == "" || f.Worker == v.Worker) && (f.Key == "" || f.Key == v.Key) &&
		(f.Since == 0 || created >= f.Since) && (f.Until == 0 || created < f.Until)
}

// Counts implements [Views].
func (m *Model) Counts(ctx context.Context, queues ...string) ([]rows.QueueCounts, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if len(queues) == 0 {
		queues = slices.Sorted(maps.Keys(m.queues))
	}
	list := make([]rows.QueueCounts, len(queues))
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

func (m *Model) count(q *rows.QueueCounts, f *fact, now int64) {
	switch m.state(f, nil, now) {
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
	case task.Ready:
		q.Counts.Ready++
		if due := m.due(f); q.OldestReady == 0 || due < q.OldestReady {
			q.OldestReady = due
		}
	}
}

// PutQueue implements [Queues].
func (m *Model) PutQueue(ctx context.Context, q task.Queue) (created bool, err error) {
	if _, err := m.begin(ctx); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	_, old := m.queues[q.Name]
	m.queues[q.Name] = q
	return !old, nil
}

// Queues implements [Queues].
func (m *Model) Queues(ctx context.Context) ([]task.Queue, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []task.Queue
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		list = append(list, m.queues[name])
	}
	return list, nil
}

// DeleteQueue implements [Queues].
func (m *Model) DeleteQueue(ctx context.Context, name string, force bool) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, ok := m.queues[name]; !ok {
		return fmt.Errorf("queue %q: %w", name, rows.ErrNotFound)
	}
	for _, f := range m.tasks {
		if f.batch.Queue == name && !m.state(f, nil, now).Final() && !force {
			return fmt.Errorf("queue %q has unfinished tasks: %w", name, rows.ErrConflict)
		}
	}
	for _, f := range m.tasks {
		if f.batch.Queue == name {
			m.drop(f)
		}
	}
	maps.DeleteFunc(m.spans, func(_ int64, sp *rows.Span) bool { return sp.Queue == name })
	maps.DeleteFunc(m.batches, func(_ int64, b *batch) bool { return b.Queue == name })
	maps.DeleteFunc(m.keys, func(k key, _ keyed) bool { return k.queue == name })
	delete(m.queues, name)
	return nil
}

// drop forgets a task and all that belongs to it alone.
func (m *Model) drop(f *fact) {
	id := f.id()
	delete(m.tasks, id)
	delete(m.logs, id)
	maps.DeleteFunc(m.running, func(h hand, _ rows.Running) bool { return h.id == id })
	values := []rows.Value{f.Context}
	for _, s := range f.steps {
		values = append(values, s.Context, s.Result)
	}
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			delete(m.blobs, name)
		}
	}
}

// Prune implements [Upkeep].
func (m *Model) Prune(ctx context.Context, limit int) (pruned int, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for _, f := range m.sortedTasks() {
		if pruned < limit && m.outlived(f, now) {
			m.drop(f)
			pruned++
		}
	}
	for k, v := range m.keys {
		if pruned < limit && v.until <= now {
			delete(m.keys, k)
			pruned++
		}
	}
	return pruned, nil
}

// outlived tells whether retention no longer keeps a task.
func (m *Model) outlived(f *fact, now int64) bool {
	state := m.state(f, nil, now)
	if !state.Final() {
		return false
	}
	q, ok := m.queues[f.batch.Queue]
	if !ok {
		q = task.DefaultQueue(f.batch.Queue)
	}
	keep := q.Retention
	if state == task.Dead && !f.removed() {
		keep = q.DeadKept
	}
	_, s := f.newest()
	return s.Finished+keep.Microseconds() <= now
}

// Check implements [Upkeep]: a model is never full nor broken.
func (m *Model) Check(ctx context.Context) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

// Keep implements [Texts].
func (m *Model) Keep(ctx context.Context, v []byte) (rows.Value, error) {
	if len(v) <= rows.InlineLimit {
		return bytes.Clone(v), nil
	}
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	name := fmt.Sprintf("blob-%d", m.number())
	m.blobs[name] = bytes.Clone(v)
	return rows.Ref(name), nil
}

// Value implements [Texts].
func (m *Model) Value(ctx context.Context, v rows.Value) ([]byte, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.resolve(v)
}

func (m *Model) resolve(v rows.Value) ([]byte, error) {
	name, ok := v.Blob()
	if !ok {
		return bytes.Clone(v), nil
	}
	text, ok := m.blobs[name]
	if !ok {
		return nil, fmt.Errorf("blob %q: %w", name, rows.ErrNotFound)
	}
	return bytes.Clone(text), nil
}

// taskLog is the log of one task: its first lines, and its newest ones, which begin at position from.
type taskLog struct {
	head, tail []task.LogLine
	from       int64
}

// logLimit is how many bytes of text a task's log keeps: the first half, and the newest half.
const logLimit = 1 << 20

// AppendLog implements [Texts].
func (m *Model) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if f := m.tasks[id]; f == nil || f.removed() {
		return fmt.Errorf("task %s: %w", id, rows.ErrNotFound)
	}
	l := m.logs[id]
	if l == nil {
		l = &taskLog{}
		m.logs[id] = l
	}
	for _, line := range lines {
		if len(l.tail) == 0 && size(append(l.head, line)) <= logLimit/2 {
			l.head = append(l.head, line)
			l.from++
			continue
		}
		l.tail = append(l.tail, line)
		for size(l.tail) > logLimit/2 {
			l.tail = l.tail[1:]
			l.from++
		}
	}
	return nil
}

func size(lines []task.LogLine) (n int) {
	for _, l := range lines {
		n += len(l.Stream) + len(l.Text)
	}
	return n
}

// Log implements [Texts].
func (m *Model) Log(ctx context.Context, id task.ID, from int64, limit int) (rows.LogPage, error) {
	if _, err := m.begin(ctx); err != nil {
		return rows.LogPage{}, err
	}
	defer m.mu.Unlock()
	if f := m.tasks[id]; f == nil || f.removed() {
		return rows.LogPage{}, fmt.Errorf("task %s: %w", id, rows.ErrNotFound)
	}
	page := rows.LogPage{Next: from}
	l := m.logs[id]
	if l == nil {
		return page, nil
	}
	at := func(pos int64, line task.LogLine) {
		if pos >= from && len(page.Lines) < limit {
			page.Lines = append(page.Lines, line)
			page.Next = pos + 1
		}
	}
	for i, line := range l.head {
		at(int64(i), line)
	}
	for i, line := range l.tail {
		at(l.from+int64(i), line)
	}
	return page, nil
}
