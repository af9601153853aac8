package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Fire implements [contract.Schedules].
func (m *Model) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Fired{}, err
	}
	defer m.mu.Unlock()
	stands := map[int64]bool{}
	for _, b := range f.Batches {
		if old := m.batches[b.ID]; old != nil {
			if old.Origin != b.Origin {
				return store.Fired{},
					fmt.Errorf("batch %d stands from %q: %w", b.ID, old.Origin, store.ErrConflict)
			}
			stands[b.ID] = true
		}
	}
	answer := store.Fired{Now: now, Parts: make([]store.FiredPart, len(f.Parts))}
	wanted := map[task.ID]bool{}
	running := map[string]int32{}
	for _, row := range m.sched.fires {
		if o := m.openFire(row); row.Open() && row.Outcome == task.FireFired && o.Found &&
			!o.Final {
			running[row.Schedule]++
		}
	}
	for i := range f.Parts {
		answer.Parts[i] = m.sched.firePart(&f.Parts[i], f.Node, stands,
			running[f.Parts[i].Schedule], now)
		for _, row := range answer.Parts[i].Fires {
			wanted[row.Task] = true
		}
	}
	m.submitWanted(&f, wanted, now)
	for _, e := range f.Ends {
		m.sched.end(e)
	}
	return answer, nil
}

// followed tells whether another schedule follows one.
func (t *scheduleTables) followed(name string) bool {
	for _, s := range t.schedules {
		if s.follows(name) {
			return true
		}
	}
	return false
}

// firePart does a part as a whole, or refuses it. stands are the batches that were there before,
// running the schedule's tasks that were not final.
func (t *scheduleTables) firePart(
	p *store.FirePart, node string, stands map[int64]bool, running int32, now int64,
) (done store.FiredPart) {
	s := t.schedules[p.Schedule]
	aside := p.Next == 0 && p.Then == 0
	switch {
	case s == nil:
		return store.FiredPart{Refused: store.FireGone}
	case s.Version != p.Version || !aside && s.Next != p.Next,
		p.Tail != 0 && p.Tail != t.tail(p.Schedule):
		return store.FiredPart{Refused: store.FireMoved}
	}
	written := map[store.FireKey]*store.Fire{}
	early := func(f store.Fire) bool { return f.At > now || f.Through > now }
	if slices.ContainsFunc(p.Fires, early) {
		return store.FiredPart{Refused: store.FireEarly}
	}
	for _, f := range p.Fires {
		f.Schedule, f.Node, f.Time = p.Schedule, node, now
		f.Watch = f.Watch || t.followed(p.Schedule) && f.HasTask()
		f.Ended, f.Seq, f.Tries = 0, -1, 0
		if f.At == 0 {
			if old := t.rowOf(p.Schedule, f.Task); old != nil {
				done.Left = append(done.Left, old.At)
				continue
			}
			f.At = t.now(p.Schedule, now, written)
		}
		if f.Run.Schedule == "" {
			f.Run = store.FireKey{Schedule: f.Schedule, At: f.At}
		}
		f.Parents = slices.Clone(f.Parents)
		f.Through = max(f.Through, f.At)
		f.Count = max(f.Count, 1)
		k := store.FireKey{Schedule: p.Schedule, At: f.At}
		if old := t.fires[k]; written[k] != nil || old != nil &&
			(!p.Over || old.Outcome == task.FireFired) {
			done.Left = append(done.Left, f.At)
			continue
		}
		if stands[f.Task.Batch] {
			return store.FiredPart{Refused: store.FireMoved}
		}
		written[k] = &f
		done.Fires = append(done.Fires, f)
	}
	if fired := done.Fired(); p.Most > 0 && fired > 0 && running+fired > p.Most {
		return store.FiredPart{Refused: store.FireMoved}
	}
	if !aside {
		s.Next = p.Then
	}
	maps.Copy(t.fires, written)
	return done
}

// tail is the newest due time of a schedule that has a row with parents; -1 = none has.
func (t *scheduleTables) tail(schedule string) int64 {
	tail := int64(-1)
	for k, f := range t.fires {
		if k.Schedule == schedule && len(f.Parents) > 0 {
			tail = max(tail, k.At)
		}
	}
	return tail
}

// rowOf is the row that a task has already; nil = none.
func (t *scheduleTables) rowOf(schedule string, id task.ID) *store.Fire {
	for k, f := range t.fires {
		if k.Schedule == schedule && f.Task == id && id != (task.ID{}) {
			return f
		}
	}
	return nil
}

// now is the due time of a fire that was asked for now: the next microsecond that has no row and is
// no whole millisecond, as those are that schedules may be due at.
func (t *scheduleTables) now(
	schedule string, now int64, written map[store.FireKey]*store.Fire,
) int64 {
	for at := now; ; at++ {
		k := store.FireKey{Schedule: schedule, At: at}
		if at%1000 != 0 && t.fires[k] == nil && written[k] == nil {
			return at
		}
	}
}

// submitWanted submits the tasks of rows that were written, in the batches that were planned for
// all.
func (m *Model) submitWanted(f *store.Firing, wanted map[task.ID]bool, now int64) {
	for _, b := range f.Batches {
		b.Tasks = slices.DeleteFunc(slices.Clone(b.Tasks), func(t store.Task) bool {
			return !wanted[task.ID{Batch: b.ID, N: t.N}]
		})
		b.Spans = slices.DeleteFunc(slices.Clone(b.Spans), func(s store.NewSpan) bool {
			return !slices.ContainsFunc(b.Tasks, func(t store.Task) bool {
				return s.Lo <= t.N && t.N <= s.Hi
			})
		})
		if len(b.Tasks) == 0 {
			continue
		}
		if _, ok := m.queues[b.Queue]; !ok && slices.Contains(f.NewQueues, b.Queue) {
			m.queues[b.Queue] = limits.DefaultQueue(b.Queue)
		}
		answer := store.Submitted{Now: now}
		m.addBatch(b, store.Holder{}, false, nil, &answer)
		m.batches[b.ID].answer = answer
	}
}

// end writes down what became of a fire's task.
func (t *scheduleTables) end(e store.FireEnd) {
	if t.ends(e) {
		f := t.fires[store.FireKey{Schedule: e.Schedule, At: e.At}]
		f.Ended, f.Seq = e.Ended, e.Seq
	}
}

// ends tells whether an end is one of a fire that is open, by who saw it as it is.
func (t *scheduleTables) ends(e store.FireEnd) bool {
	f := t.fires[store.FireKey{Schedule: e.Schedule, At: e.At}]
	return f != nil && f.Watch && f.Outcome != task.FireQueued && f.Ended == 0 &&
		f.Task == e.Task && e.Seq >= f.Seq
}

// endAll writes down what became of fires, of all or, with store.ErrConflict, of none. Those of one
// call are of different fires.
func (t *scheduleTables) endAll(list []store.FireEnd) error {
	for _, e := range list {
		if !t.ends(e) {
			return fmt.Errorf("the fire of %q at %d has ended: %w", e.Schedule, e.At,
				store.ErrConflict)
		}
	}
	for _, e := range list {
		t.end(e)
	}
	return nil
}

// RunFires implements [contract.Schedules].
func (m *Model) RunFires(
	ctx context.Context, run store.FireKey, limit int,
) (list []store.Fire, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, f := range m.sched.fires {
		if f.Run == run {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b store.Fire) int {
		return cmp.Or(cmp.Compare(a.Schedule, b.Schedule), cmp.Compare(a.At, b.At))
	})
	return list[:min(limit, len(list))], nil
}

// reopen opens the fires whose task was let begin again, by the step at seq.
func (t *scheduleTables) reopen(id task.ID, seq int32) {
	for _, f := range t.fires {
		if f.Watch && f.Task == id {
			f.Ended, f.Seq = 0, seq
			f.Tries++
		}
	}
}

// Fires implements [contract.Schedules].
func (m *Model) Fires(ctx context.Context, q store.FireQuery) (list []store.Fire, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for k, f := range m.sched.fires {
		behind := q.After == 0 || q.Newest && f.At < q.After || !q.Newest && f.At > q.After
		if k.Schedule == q.Schedule && behind && f.Through >= q.From &&
			(q.To == 0 || f.At < q.To) &&
			(len(q.Outcomes) == 0 || slices.Contains(q.Outcomes, f.Outcome)) {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b store.Fire) int { return cmp.Compare(a.At, b.At) })
	if q.Newest {
		slices.Reverse(list)
	}
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	return list, nil
}

// OpenFires implements [contract.Schedules].
func (m *Model) OpenFires(
	ctx context.Context, q store.OpenQuery,
) (list []store.OpenFire, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	order := func(a, b store.FireKey) int {
		return cmp.Or(cmp.Compare(a.Schedule, b.Schedule), cmp.Compare(a.At, b.At))
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.sched.fires), order) {
		f := m.sched.fires[k]
		if f.Open() && order(k, q.After) > 0 &&
			(len(q.Schedules) == 0 || slices.Contains(q.Schedules, k.Schedule)) &&
			(q.Limit == 0 || len(list) < q.Limit) {
			list = append(list, m.openFire(f))
		}
	}
	return list, nil
}

// openFire says how the task of a fire stands.
func (m *Model) openFire(row *store.Fire) store.OpenFire {
	o := store.OpenFire{Fire: *row, Step: -1}
	f := m.tasks[row.Task]
	if f == nil || f.removed() {
		return o
	}
	seq, s := f.newest()
	o.Found, o.Kind, o.Step, o.Final = true, s.Kind, seq, seq >= 0 && s.Base == store.Final
	o.Finished, o.Error, o.Worker = s.Finished, s.Error, s.Worker
	return o
}
