package walk

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// walkAsks are the unique keys that tasks want.
var walkAsks = []store.Unique{
	{OnExisting: task.OnExistingKeep}, {OnExisting: task.OnExistingReplace, Waiting: true},
	{OnExisting: task.OnExistingDebounce}, {OnExisting: task.OnExistingReplace, KeepDue: true},
	{OnExisting: task.OnExistingRefuse, Waiting: true}, {OnExisting: task.OnExistingReplace},
}

// wantUnique lets some tasks want unique keys, without a draw: seeds stay what they are.
func (w *walk) wantUnique(b *store.Batch, t *store.Task, i int64) {
	k := (w.ranks*3 + i) % 13
	if t.Key != "" || k >= int64(len(walkAsks)) {
		return
	}
	u := walkAsks[k]
	u.Key = fmt.Sprintf("u%d", (w.ranks+i)%3)
	switch w.ranks % 4 {
	case 0:
		u.Until = b.Due + 20e6 + 1
	case 2: // a step or two later: the very microsecond
		u.Until = w.clock.Micros() + w.ranks%8*2
	}
	t.Unique = &u
}

// orderUnique lets the tasks of a submission ask one after the other, those of a batch that may be
// refused together.
func (w *walk) orderUnique(s *store.Submission) {
	order := int32(0)
	for i := range s.Batches {
		b := &s.Batches[len(s.Batches)-1-i]
		for k := range b.Tasks {
			if u := b.Tasks[k].Unique; u != nil {
				u.Order = order
				order++
				if u.OnExisting == task.OnExistingRefuse {
					b.Call = int32(i) + 1
				}
			}
		}
	}
}

// refuses tells whether a call was refused.
func refuses(got store.Submitted, call int32) bool {
	return slices.ContainsFunc(got.Refused, func(r store.Refusal) bool { return r.Call == call })
}

// replaced learns what was made of tasks by those that wanted their unique keys: the last holds.
func (w *walk) replaced(s store.Submission, got store.Submitted) {
	firsts := map[task.ID]task.ID{}
	for _, e := range got.Existing {
		if e.Action == task.SubmittedReplaced || e.Action == task.SubmittedDebounced {
			firsts[e.ID] = e.First
		}
	}
	type one struct {
		id task.ID
		t  *store.Task
	}
	var list []one
	for i := range s.Batches {
		for k := range s.Batches[i].Tasks {
			t := &s.Batches[i].Tasks[k]
			if first, ok := firsts[task.ID{Batch: s.Batches[i].ID, N: t.N}]; ok {
				list = append(list, one{first, t})
			}
		}
	}
	slices.SortFunc(list, func(a, b one) int {
		return cmp.Compare(a.t.Unique.Order, b.t.Unique.Order)
	})
	last := map[task.ID]*store.Task{}
	for _, r := range list {
		last[r.id] = r.t
	}
	for id, t := range last {
		text, err := w.Value(w.ctx, t.Context)
		if err != nil {
			w.breach("I8: context of %s: %v", w.id(id), err)
		}
		w.texts[id], w.metas[id] = string(text), t.Meta
		w.stages[id] = nil // nobody has begun it: it is as if this had been submitted
		w.came(id, t.Stage)
	}
}
