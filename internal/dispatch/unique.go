package dispatch

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Of tasks with unique keys the store decides alone: who gets a key, what is replaced, and, as it
// is asked before each of their hand-outs (letBegin), what goes out. So what is in a node's memory
// of a task that was replaced never reaches a worker.

// uniqueOf is what a task wants that was submitted at a time.
func uniqueOf(t *task.Submission, at int64, order int32) *store.Unique {
	u := &store.Unique{
		Key: t.Unique.Key, Waiting: t.Unique.While == task.WhileWaiting, OnExisting: t.OnExisting,
		KeepDue: t.OnExisting == task.OnExistingReplace && t.Delay > 0, Order: order,
	}
	if t.Unique.For > 0 {
		u.Until = at + t.Unique.For.Microseconds()
	}
	return u
}

// callOf is the number of the i-th call of a gather, if the store may refuse it as a whole.
func callOf(tasks []task.Submission, i int) int32 {
	for k := range tasks {
		if tasks[k].OnExisting == task.OnExistingRefuse {
			return int32(i) + 1
		}
	}
	return 0
}

// refusalOf is why nothing of a call was inserted; nil: something was.
func refusalOf(got *store.Submitted, call int32) *store.Refusal {
	for i := range got.Refused {
		if call != 0 && got.Refused[i].Call == call {
			return &got.Refused[i]
		}
	}
	return nil
}

// refusedCall says that nothing was stored of the tasks with those ids, if it is so.
func refusedCall(got *store.Submitted, ids []task.ID) error {
	for i := range got.Refused {
		r := &got.Refused[i]
		for k, id := range ids {
			if id == r.ID {
				return fmt.Errorf("tasks[%d].unique: task %s has the key, nothing was submitted: %w",
					k, r.First, store.ErrConflict)
			}
		}
	}
	return nil
}

// hearReplaced takes in that tasks were replaced: what is here of them is read again, and where
// they are now may be sooner than anything else of their queues.
func (m *memory) hearReplaced(sub store.Submission, got store.Submitted, now time.Time) {
	if len(got.Existing) == 0 {
		return
	}
	replaced := map[task.ID]task.ID{}
	for _, e := range got.Existing {
		if e.Action == task.SubmittedReplaced || e.Action == task.SubmittedDebounced {
			replaced[e.ID] = e.First
		}
	}
	if len(replaced) == 0 {
		return
	}
	for i := range sub.Batches {
		b := &sub.Batches[i]
		some := false
		for k := range b.Tasks {
			first, ok := replaced[task.ID{Batch: b.ID, N: b.Tasks[k].N}]
			if !ok {
				continue
			}
			some = true
			if it := m.item(first); it != nil {
				m.reloadSoon(it)
			}
		}
		if some {
			m.queue(b.Queue).signAt(b.Rank, b.Due, got.Now, now)
		}
	}
}
