package model

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// uniquely is the task that got a unique key last.
type uniquely struct {
	id      task.ID
	waiting bool
	until   int64
}

// asking is a task of a submission that wants a unique key.
type asking struct {
	batch store.Batch
	task  store.Task
	id    task.ID
}

// unique is what becomes of the tasks of a submission that want unique keys.
type unique struct {
	existing map[task.ID]store.Existing
	refused  map[int32]store.Refusal
	edits    []store.Action
}

// askUnique lets the tasks of a submission ask for their keys, one after the other.
func (m *Model) askUnique(s store.Submission, now int64) unique {
	u := unique{existing: map[task.ID]store.Existing{}, refused: map[int32]store.Refusal{}}
	var list []asking
	for _, b := range s.Batches {
		for _, t := range b.Tasks {
			if t.Unique != nil {
				list = append(list, asking{b, t, task.ID{Batch: b.ID, N: t.N}})
			}
		}
	}
	slices.SortFunc(list, func(a, b asking) int {
		return cmp.Compare(a.task.Unique.Order, b.task.Unique.Order)
	})
	asked := map[task.ID]bool{} // these are tasks by the time that others ask
	for i, a := range list {
		if _, over := u.refused[a.batch.Call]; over {
			continue
		}
		if call := a.batch.Call; call != 0 && (i == 0 || list[i-1].batch.Call != call) {
			// would any of them be refused?
			trial := maps.Clone(m.uniques)
			for _, b := range list[i:] {
				if b.batch.Call != call {
					break
				}
				k := key{b.batch.Queue, b.task.Unique.Key}
				id, _, taken := m.uniqueOwner(trial, k, asked, now)
				if taken && b.task.Unique.OnExisting == task.OnExistingRefuse {
					u.refused[call] = store.Refusal{Call: call, ID: b.id, First: id}
					break
				}
				if !taken {
					trial[k] = b.row()
					asked[b.id] = true
				}
			}
			if _, refused := u.refused[call]; refused {
				continue
			}
		}
		m.askOne(&u, a, asked, now)
	}
	return u
}

func (a *asking) row() uniquely {
	return uniquely{a.id, a.task.Unique.Waiting, a.task.Unique.Until}
}

func (m *Model) askOne(u *unique, a asking, asked map[task.ID]bool, now int64) {
	k := key{a.batch.Queue, a.task.Unique.Key}
	first, waits, taken := m.uniqueOwner(m.uniques, k, asked, now)
	if !taken {
		m.uniques[k] = a.row()
		asked[a.id] = true
		return
	}
	e := store.Existing{ID: a.id, First: first, Action: task.SubmittedKept}
	how := a.task.Unique.OnExisting
	if waits && (how == task.OnExistingReplace || how == task.OnExistingDebounce) {
		e.Action = task.SubmittedReplaced
		if how == task.OnExistingDebounce {
			e.Action = task.SubmittedDebounced
		}
		text := store.Value(bytes.Clone(a.task.Context))
		edit := store.Edit{Stage: &a.task.Stage, Context: &text, Meta: &a.task.Meta,
			Priority: new(a.batch.Due - a.batch.Rank)}
		if !a.task.Unique.KeepDue {
			edit.Due = &a.batch.Due
		}
		at := slices.IndexFunc(u.edits, func(x store.Action) bool { return x.ID == first })
		if at < 0 {
			at = len(u.edits)
			u.edits = append(u.edits, store.Action{ID: first, Kind: task.KindEdited,
				By: "submission", Fenced: true, Edit: &store.Edit{}})
		}
		if edit.Due == nil {
			edit.Due = u.edits[at].Edit.Due
		}
		u.edits[at].Edit = &edit
	}
	u.existing[a.id] = e
}

// uniqueOwner is the task that has a unique key; waits: nobody was handed it yet.
func (m *Model) uniqueOwner(
	rows map[key]uniquely, k key, asked map[task.ID]bool, now int64,
) (id task.ID, waits, taken bool) {
	row, ok := rows[k]
	if !ok {
		return id, false, false
	}
	if asked[row.id] {
		return row.id, true, true
	}
	f := m.tasks[row.id]
	if f == nil || row.until != 0 && row.until <= now || m.state(f, nil, now).Final() {
		return id, false, false
	}
	waits = !f.begun() && m.state(f, nil, now) != task.Running
	return row.id, waits, waits || !row.waiting
}

// hasUnique tells whether a task got a unique key, and no other one since.
func (m *Model) hasUnique(id task.ID) bool {
	for _, u := range m.uniques {
		if u.id == id {
			return true
		}
	}
	return false
}

// dropUnique forgets the unique key of a task that is deleted.
func (m *Model) dropUnique(id task.ID) {
	maps.DeleteFunc(m.uniques, func(_ key, u uniquely) bool { return u.id == id })
}
