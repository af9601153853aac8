package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// childTables say whose children tasks are. How they stand the model counts from their steps
// whenever somebody asks; only of those that are deleted it keeps how they had ended.
type childTables struct {
	parents map[int64]parentage // by batch
	gone    map[store.Address]task.Children
	falls   map[string]fall // children to be cancelled, by their order among others
}

// parentage is whose children the tasks of a batch are: since which replay, and by the outcome at
// which seq; -1 = they were added before.
type parentage struct {
	of       task.ID
	run, seq int32
	orphan   bool
}

// fall is what is to be cancelled below a task: its children behind one.
type fall struct {
	below, after task.ID
	tree         bool
}

// order of falls among others.
func (f fall) order() string {
	kind := "f"
	if f.tree {
		kind = "ft"
	}
	return fmt.Sprintf("%s %s %s", kind, f.below, f.after)
}

// run is the seq behind the newest replay of a task.
func (f *fact) run() (run int32) {
	for seq, s := range f.steps {
		if s.Kind == task.KindReplayed {
			run = max(run, seq+1)
		}
	}
	return run
}

// ended is the final state that a task came to, "" if to none. The removal of one that had ended
// changes nothing.
func (m *Model) ended(f *fact) task.State {
	seq, s := f.newest()
	if s.Kind == task.KindRemoved {
		before := fact{Task: f.Task, batch: f.batch, steps: maps.Clone(f.steps)}
		delete(before.steps, seq)
		if state := m.ended(&before); state != "" {
			return state
		}
		return task.Cancelled
	}
	if s.Base != store.Final {
		return ""
	}
	return m.state(f, nil, 0)
}

func countEnded(c *task.Children, state task.State) {
	switch state {
	case task.Done:
		c.Done++
	case task.Dead:
		c.Dead++
	case task.Cancelled:
		c.Cancelled++
	case task.Expired:
		c.Expired++
	}
}

// children counts those that a task has submitted in a run.
func (m *Model) children(a store.Address) task.Children {
	c := m.family.gone[a]
	for id, f := range m.tasks {
		if p := m.family.parents[id.Batch]; p.of == a.Task && p.run == a.Run {
			c.Total++
			countEnded(&c, m.ended(f))
		}
	}
	return c
}

// enough tells whether a wait for children is over, and how they stand.
func (m *Model) enough(w *waiting) (task.Children, bool) {
	c := m.children(w.Address)
	return c, c.Done+c.Dead+c.Cancelled+c.Expired == c.Total || w.First && c.Dead+c.Expired > 0
}

// bear makes batches those of children of a task: of its outcome at seq, -1 = of none.
func (m *Model) bear(parent *fact, seq int32, batches []store.Batch) {
	for _, b := range batches {
		m.family.parents[b.ID] = parentage{parent.id(), parent.run(), seq, b.Orphan}
	}
}

// spawn submits the children of a report.
func (m *Model) spawn(f *fact, r *store.Report, now int64) {
	answer := store.Submitted{Now: now}
	for _, b := range r.Spawn {
		if _, ok := m.queues[b.Queue]; !ok {
			m.queues[b.Queue] = limits.DefaultQueue(b.Queue)
		}
		m.addBatch(b, store.Holder{}, false, nil, &answer)
	}
	m.depend(store.Submission{Batches: r.Spawn}, answer)
	m.bear(f, r.Token.Seq, r.Spawn)
	for _, b := range r.Spawn {
		m.batches[b.ID].answer = cloneSubmitted(answer)
	}
}

// spawned are the ids of a report's children as the first time: of those that were left out because
// of their keys the one that had it then, zero of those that were deleted.
func (m *Model) spawned(r *store.Report) (ids []task.ID) {
	var numbers []int32
	for _, b := range r.Spawn {
		for _, t := range b.Tasks {
			numbers = append(numbers, t.N)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		var id task.ID
		for batch, p := range m.family.parents {
			if p.of != r.ID || p.seq != r.Token.Seq || m.batches[batch] == nil {
				continue
			}
			at := task.ID{Batch: batch, N: n}
			if m.tasks[at] != nil {
				id = at
			}
			for _, e := range m.batches[batch].answer.Existing {
				if e.ID == at {
					id = e.First
				}
			}
		}
		ids = append(ids, id)
	}
	return ids
}

// letFall notes that children of a task are to be cancelled, if it has any.
func (m *Model) letFall(id task.ID, tree bool) {
	for _, p := range m.family.parents {
		if p.of == id {
			f := fall{below: id, tree: tree}
			m.family.falls[f.order()] = f
		}
	}
}

// childrenOf lists the children of a task, oldest first.
func (m *Model) childrenOf(id, after task.ID) (list []*fact) {
	for _, f := range m.sortedTasks() {
		if m.family.parents[f.batch.ID].of == id && f.id().Compare(after) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// fall looks at children that are to be cancelled: at most limit of them, below one task after the
// other.
func (m *Model) fall(now int64, limit int, l *store.Looked) {
	limit = min(limit, 1000)
	for _, order := range slices.SortedFunc(maps.Keys(m.family.falls), strings.Compare) {
		if limit == 0 {
			break
		}
		f := m.family.falls[order]
		delete(m.family.falls, order)
		parent := m.tasks[f.below]
		for _, child := range m.childrenOf(f.below, f.after) {
			if limit == 0 {
				break
			}
			if parent != nil && m.ended(parent) == "" &&
				m.family.parents[child.batch.ID].run == parent.run() {
				continue // it began anew, and these are of its present run
			}
			limit--
			f.after = child.id()
			m.fallOne(f, child, now, l)
		}
		if limit == 0 {
			m.family.falls[f.order()] = f
		}
	}
	l.More = l.More || len(m.family.falls) > 0
}

func (m *Model) fallOne(f fall, child *fact, now int64, l *store.Looked) {
	state := m.state(child, nil, now)
	free := state != task.Running && !child.begun() && !m.family.parents[child.batch.ID].orphan
	switch {
	case !state.Final() && (f.tree || free):
		a := store.Action{
			ID: child.id(), Kind: task.KindCancelled, Tree: f.tree,
			Error: fmt.Sprintf("parent %s ended before this began", f.below),
		}
		if f.tree {
			a.Error = fmt.Sprintf("cancelled with all below %s", f.below)
		}
		m.act(a, now)
		l.Cancelled = append(l.Cancelled, child.id())
	case state.Final() && f.tree:
		m.letFall(child.id(), true)
	}
}

// waitedFor tells whether a task has to stay because its parent goes on.
func (m *Model) waitedFor(f *fact) bool {
	p := m.family.parents[f.batch.ID]
	parent := m.tasks[p.of]
	if parent == nil {
		return false
	}
	_, s := parent.newest()
	return s.Base != store.Final && parent.run() == p.run
}

// forgetChild keeps how a deleted task had ended, for its parent.
func (m *Model) forgetChild(f *fact) {
	id := f.id()
	state := m.ended(f)
	if state == "" {
		state = task.Cancelled
		m.letFall(id, false)
	}
	if p, ok := m.family.parents[id.Batch]; ok && m.tasks[p.of] != nil {
		a := store.ChildrenOf(p.of, p.run)
		c := m.family.gone[a]
		c.Total++
		countEnded(&c, state)
		m.family.gone[a] = c
	}
	maps.DeleteFunc(m.family.gone, func(a store.Address, _ task.Children) bool {
		return a.Task == id
	})
}

// Children implements [contract.Views].
func (m *Model) Children(
	ctx context.Context, q store.ChildrenQuery,
) (page []task.View, next task.ID, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, task.ID{}, err
	}
	defer m.mu.Unlock()
	if f := m.tasks[q.Parent]; f == nil || f.removed() {
		return nil, task.ID{}, fmt.Errorf("task %s: %w", q.Parent, store.ErrNotFound)
	}
	at := q.After
	for _, f := range m.childrenOf(q.Parent, q.After) {
		if len(page) == q.Limit {
			return page, at, nil
		}
		at = f.id()
		v := m.view(f, q.Live, now)
		if f.removed() || q.State != "" && v.State != q.State {
			continue
		}
		_, s := f.newest()
		if s.Kind != task.KindWoken {
			if v.Result, err = m.resolve(s.Result); err != nil {
				return nil, task.ID{}, err
			}
		}
		page = append(page, v)
	}
	return page, task.ID{}, nil
}
