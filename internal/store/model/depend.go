package model

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// depends is what one task waits for, or has waited for. A look of the model looks at all tasks
// that are over, so it needs no changes to tell it where.
type depends struct {
	store.Dependency
	state task.State // in which that one ended, as a look has seen it; "" = open
	seq   int32      // of the step with which it ended; -1 = it was gone
}

// fits tells whether it ended as it should.
func (d *depends) fits() bool { return d.state == task.Done || d.state != "" && d.Ended }

// depend makes the tasks of a submission wait that are to, and says which tasks somebody has to
// look at, as they stood before.
func (m *Model) depend(s store.Submission, answer store.Submitted) (look []store.Address) {
	existing := map[task.ID]task.ID{}
	for _, e := range answer.Existing {
		existing[e.ID] = e.First
	}
	for _, b := range s.Batches {
		if m.batches[b.ID] == nil { // its call was refused
			continue
		}
		for _, t := range b.Tasks {
			id := task.ID{Batch: b.ID, N: t.N}
			if _, exists := existing[id]; exists || len(t.After) == 0 {
				continue
			}
			for _, d := range t.After {
				if first, exists := existing[d.On]; exists {
					d.On = first
				}
				m.after[id] = append(m.after[id], &depends{Dependency: d})
				if !slices.ContainsFunc(s.Batches, func(o store.Batch) bool {
					return o.ID == d.On.Batch
				}) {
					look = append(look, store.EndOf(d.On))
				}
			}
			m.waiting.waits[id] = &waiting{since: answer.Now}
		}
	}
	return sortedAddresses(look)
}

// sortedAddresses has each address once, by its text.
func sortedAddresses(list []store.Address) []store.Address {
	slices.SortFunc(list, func(a, b store.Address) int {
		return cmp.Compare(a.String(), b.String())
	})
	return slices.Compact(list)
}

// endOf is how a task has ended for those that wait for it; over = it has.
func (m *Model) endOf(id task.ID) (state task.State, seq int32, over bool) {
	f := m.tasks[id]
	if f == nil || f.removed() {
		return task.Cancelled, -1, true
	}
	seq, _ = f.newest()
	state = m.ended(f)
	return state, seq, state != ""
}

// openOn are the dependencies on a task that are open, by who waits.
func (m *Model) openOn(id task.ID) (list []*depends, who []task.ID) {
	for w := range m.after {
		who = append(who, w)
	}
	slices.SortFunc(who, task.ID.Compare)
	all := who
	who = nil
	for _, w := range all {
		for _, d := range m.after[w] {
			if d.On == id && d.state == "" {
				list = append(list, d)
				who = append(who, w)
			}
		}
	}
	return list, who
}

// ends are the addresses of tasks that are over while somebody still waits for them.
func (m *Model) ends() (list []store.Address) {
	for _, after := range m.after {
		for _, d := range after {
			if _, _, over := m.endOf(d.On); d.state == "" && over {
				list = append(list, store.EndOf(d.On))
			}
		}
	}
	return sortedAddresses(list)
}

// lookAtEnds looks at dependencies on tasks that are over, those at some addresses, and then at
// those on what was cancelled because of it.
func (m *Model) lookAtEnds(list []store.Address, now int64, limit int, l *store.Looked) {
	left := min(limit, 1000)
	for range store.ChainAtOnce {
		known := len(l.Cancelled)
		left = m.lookAtThese(list, left, now, l)
		list = nil
		for _, id := range l.Cancelled[known:] {
			if open, _ := m.openOn(id); len(open) > 0 {
				list = append(list, store.EndOf(id))
			}
		}
	}
	l.More = l.More || len(list) > 0
}

func (m *Model) lookAtThese(list []store.Address, left int, now int64, l *store.Looked) int {
	for _, a := range sortedAddresses(slices.Clone(list)) {
		state, seq, over := m.endOf(a.Task)
		open, who := m.openOn(a.Task)
		if !over || !a.End {
			continue
		}
		for i, d := range open {
			if left == 0 {
				l.More = true
				return 0
			}
			left--
			d.state, d.seq = state, seq
			m.endedFor(who[i], d, now, l)
		}
	}
	return left
}

// endedFor cancels or wakes who waited for a task, if it is time.
func (m *Model) endedFor(who task.ID, d *depends, now int64, l *store.Looked) {
	f := m.tasks[who]
	if w := m.awaits(f); w == nil || w.Address != (store.Address{}) {
		return
	}
	if !d.fits() {
		name := d.Ref
		if name == "" {
			name = d.On.String()
		}
		m.act(store.Action{
			ID: who, Kind: task.KindCancelled, Error: "after " + name + ": " + string(d.state),
		}, now)
		l.Cancelled = append(l.Cancelled, who)
		return
	}
	if !m.opens(who) {
		m.wake(who, store.Woken{Others: true}, now, l)
	}
}

// opens tells whether a task has dependencies that are open.
func (m *Model) opens(who task.ID) bool {
	return slices.ContainsFunc(m.after[who], func(d *depends) bool { return d.state == "" })
}

// waitAgain lets a task that is replayed wait for those that did not end as they should, behind the
// step at seq; false: there are none.
func (m *Model) waitAgain(f *fact, seq int32, now int64) bool {
	for _, d := range m.after[f.id()] {
		if !d.fits() {
			d.state, d.seq = "", 0
		}
	}
	if !m.opens(f.id()) {
		return false
	}
	m.waiting.waits[f.id()] = &waiting{seq: seq + 1, since: now}
	return true
}

// prior is what a task has waited for.
func (m *Model) prior(f *fact) (list []store.Prior) {
	left := store.PriorLimit
	for _, d := range m.after[f.id()] {
		if d.state == "" {
			continue
		}
		p := store.Prior{Dependency: d.Dependency, State: d.state, LeftOut: true}
		if on := m.tasks[d.On]; on != nil && d.seq >= 0 {
			s := on.steps[d.seq]
			text, result := on.context(s.ContextSeq), s.Result
			if size := len(text) + len(result); size <= left {
				left -= size
				p.Context, p.Result, p.LeftOut = slices.Clone(text), slices.Clone(result), false
			}
		}
		list = append(list, p)
	}
	return list
}

// seen is what a task waits for, or has, as people see it.
func (m *Model) seen(f *fact) (list []task.Prior) {
	for _, d := range m.after[f.id()] {
		p := task.Prior{ID: d.On, Ref: d.Ref, If: task.IfDone, State: d.state}
		if d.Ended {
			p.If = task.IfEnded
		}
		list = append(list, p)
	}
	return list
}

// neededBy tells whether somebody who is not over waits for a task, or has.
func (m *Model) neededBy(id task.ID) bool {
	for who, after := range m.after {
		if f := m.tasks[who]; f != nil && m.ended(f) == "" {
			for _, d := range after {
				if d.On == id {
					return true
				}
			}
		}
	}
	return false
}
