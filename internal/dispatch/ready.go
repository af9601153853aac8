package dispatch

import (
	"iter"
	"slices"

	"github.com/rotahq/rota/task"
)

// readyTasks is what is ready of a queue, in the order in which it is to go out. Each span's tasks
// stand in one heap of it: the queue's; or where the queue goes by group keys, that of their key's
// lane, or of what is apart.
type readyTasks struct {
	heap  heap   // of a queue that does not go by group keys; else nothing
	lanes *lanes // of one that does; nil = it does not
}

// count is how many tasks there are; items that left count until they are skipped.
func (r *readyTasks) count() int {
	if r.lanes != nil {
		return r.lanes.sum.count + r.lanes.apart.count
	}
	return r.heap.count
}

// bytes is how much their contexts weigh.
func (r *readyTasks) bytes() int64 {
	if r.lanes != nil {
		return r.lanes.sum.bytes + r.lanes.apart.bytes
	}
	return r.heap.bytes
}

// usable is how many of them may go out now, as far as is known of their keys.
func (r *readyTasks) usable() int {
	if r.lanes != nil {
		return r.lanes.sum.usable
	}
	return r.heap.count
}

// first is the entry whose first task is next; nil when there is none, or none may go out.
func (r *readyTasks) first() *entry {
	if r.lanes != nil {
		return r.lanes.first()
	}
	return r.heap.first()
}

// pop takes out the task that is next, which there must be: it is handed out.
func (r *readyTasks) pop() spot {
	if r.lanes != nil {
		return r.lanes.pop()
	}
	return r.heap.pop()
}

// push makes an item ready.
func (r *readyTasks) push(it *item) {
	if r.lanes != nil {
		r.lanes.push(it)
		return
	}
	r.heap.push(it, false)
}

// pushRun makes the plain ones of a span's tasks ready, which are all not yet handed out.
func (r *readyTasks) pushRun(sp *span) {
	if r.lanes != nil {
		r.lanes.pushRun(sp)
		return
	}
	r.heap.pushRun(sp)
}

// leave notes that a plain task is no longer ready.
func (r *readyTasks) leave(s spot) {
	if r.lanes != nil {
		r.lanes.leave(s)
		return
	}
	r.heap.leave(s.cell)
}

// turn is the one that the key took whose task went out last; 0 = there are none.
func (r *readyTasks) turn() int64 {
	if r.lanes != nil {
		return r.lanes.last
	}
	return 0
}

// giveBack gives the key of an item that was not handed out after all its turn back.
func (r *readyTasks) giveBack(it *item) {
	if r.lanes != nil {
		r.lanes.giveBack(it.key(), it.turn)
	}
}

// hasRoom tells whether the limits of a task's key let it begin, as far as is known.
func (r *readyTasks) hasRoom(s spot) bool {
	if r.lanes == nil || !r.lanes.limits(s.key()) {
		return true
	}
	l := r.lanes.by[s.key()]
	return l != nil && l.room > 0
}

// tidy ends what is kept of nothing.
func (r *readyTasks) tidy() {
	if r.lanes != nil {
		r.lanes.tidy()
	}
}

// heaps are all heaps of it, each with its lane if it has one.
func (r *readyTasks) heaps() iter.Seq2[*heap, *lane] {
	return func(yield func(*heap, *lane) bool) {
		if r.lanes == nil {
			yield(&r.heap, nil)
			return
		}
		for _, list := range [][]*lane{r.lanes.open.list, r.lanes.shut.list} {
			for _, l := range list {
				if !yield(&l.heap, l) {
					return
				}
			}
		}
		yield(&r.lanes.apart, nil)
	}
}

// arrange puts what is ready where a configuration of the queue wants it.
func (r *readyTasks) arrange(m *memory, conf *task.Queue) {
	var all []entry
	for h := range r.heaps() {
		for i := range h.entries {
			if e := &h.entries[i]; !e.void() {
				all = append(all, *e)
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	old := r.lanes
	if r.heap, r.lanes = (heap{}), nil; conf.ByKeys() {
		r.lanes = newLanes(m, conf)
		if old != nil {
			r.lanes.asked, r.lanes.weights, r.lanes.out = old.asked, old.weights, old.out
		}
	}
	for i := range all {
		all[i].front = r.lanes.puts(all[i].item)
		if r.lanes != nil {
			r.lanes.take(all[i])
		} else {
			r.heap.take(all[i])
		}
	}
}
