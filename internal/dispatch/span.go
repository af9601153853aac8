package dispatch

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// span is a span that this node holds.
type span struct {
	store.Span
	memory *memory // that it is in
	queue  *queue
	// the tasks that memory has of it, by number; it is made with the span, and cells move only as
	// items: see endBefore
	cells []cell
	// keys are the group keys of the cells' tasks, of a span that is not sorted; nil = they are not
	// known, or the span is sorted
	keys   []string
	parent task.ID // whose children the tasks are; zero = nobody's
	// head start of the tasks over those of their due time
	priority time.Duration
	// the contexts came out of the store, where an earlier version may have put what is no JSON
	unchecked bool

	left    int  // tasks that are neither final nor moved
	idle    int  // of those, the ones that are not out or settling
	leaving int  // of those, the ones that the flight being planned ends
	deleted bool // deleted with the flight under way
	giving  bool // being given back: nothing more of it goes out
	under   int  // of those, the ones that are ready, out or settling
	// this node gave it back, and nobody else had it since: whoever runs its tasks had only this
	// node to speak to
	returned bool
	behind   bool    // a task of its key that is not in it comes first: it is to be given back
	parked   []*item // of a poisonous span: those that wait until nothing is under way
}

// sighting is a span as this node last saw it: one that a round found held by it, or that it gave
// back.
type sighting struct {
	token int64
	at    time.Time
}

// at says where in cells a task is, by its number.
func (sp *span) at(n int32) (i int, found bool) {
	if len(sp.cells) == int(sp.Hi-sp.Lo)+1 {
		return int(n - sp.Lo), sp.Lo <= n && n <= sp.Hi
	}
	return slices.BinarySearchFunc(sp.cells, n, func(c cell, n int32) int {
		return cmp.Compare(c.n, n)
	})
}

// cell is that of a task by its number; nil when there is none.
func (sp *span) cell(n int32) *cell {
	if i, found := sp.at(n); found {
		return &sp.cells[i]
	}
	return nil
}

// live are the span's tasks that are in memory, by number.
func (sp *span) live() iter.Seq[spot] { return sp.liveAmong(sp.cells) }

// liveAmong are those of some of its cells.
func (sp *span) liveAmong(cells []cell) iter.Seq[spot] {
	return func(yield func(spot) bool) {
		for i := range cells {
			if s := (spot{sp, &cells[i]}); s.place() != gone && !yield(s) {
				return
			}
		}
	}
}

// guarded tells whether hand-outs of the span must be written down before they are answered: a
// holder died with it.
func (sp *span) guarded() bool { return sp.Deaths >= 1 }

// poisonous tells whether the span's tasks go out one at a time: it has been around too many
// deaths.
func (sp *span) poisonous() bool { return sp.Deaths >= 3 }

// index finds the tasks in memory by their ids. A task may be in several of the spans that are
// here, as one that moved into a span of its own, and is live in one at most.
type index struct {
	lone map[task.ID]*span // spans of one task
	wide map[int64][]*span // the others, by batch, in the order of their first numbers
	last *span             // where the last one was found: the next is mostly its neighbour
}

func newIndex() index {
	return index{lone: map[task.ID]*span{}, wide: map[int64][]*span{}}
}

// holdings are the spans that this node holds, and those that are spent and still to be deleted.
// Each held span is in spans and in index, until it is forgotten (forget), dropped (drop), or
// narrowed to what begins before its rest (endBefore).
type holdings struct {
	spans    map[int64]*span
	index    index
	spent    []store.Taking // spans to delete with the next settlement
	blocking blocking       // spent spans to delete at once
}

// holds tells whether a span is held: it was neither forgotten nor dropped.
func (hs *holdings) holds(sp *span) bool { return hs.spans[sp.ID] == sp }

// letGo takes a span out, which is held.
func (hs *holdings) letGo(sp *span) {
	delete(hs.spans, sp.ID)
	hs.index.remove(sp)
}

// deleteLater has the next settlement delete spent spans.
func (hs *holdings) deleteLater(spent ...store.Taking) { hs.spent = append(hs.spent, spent...) }

// find is where a task is; its cell is nil when it is not here.
func (x *index) find(id task.ID) spot {
	if sp := x.last; sp != nil && sp.Batch == id.Batch {
		if s := (spot{sp, sp.cell(id.N)}); s.here() {
			return s
		}
	}
	if sp := x.lone[id]; sp != nil {
		if s := (spot{sp, sp.cell(id.N)}); s.here() {
			return s
		}
	}
	spans := x.wide[id.Batch]
	for i := x.after(spans, id.N) - 1; i >= 0; i-- {
		if s := (spot{spans[i], spans[i].cell(id.N)}); s.here() {
			x.last = spans[i]
			return s
		}
	}
	return spot{}
}

// after is how many of the spans begin at a number or before it.
func (x *index) after(spans []*span, n int32) int {
	i, _ := slices.BinarySearchFunc(spans, n, func(sp *span, n int32) int {
		if sp.Lo <= n {
			return -1
		}
		return 1
	})
	return i
}

// knows tells whether anything of a batch may be here.
func (x *index) knows(batch int64) bool { return len(x.lone) > 0 || len(x.wide[batch]) > 0 }

func (x *index) add(sp *span) {
	if sp.Lo == sp.Hi {
		x.lone[task.ID{Batch: sp.Batch, N: sp.Lo}] = sp
		return
	}
	spans := x.wide[sp.Batch]
	x.wide[sp.Batch] = slices.Insert(spans, x.after(spans, sp.Lo), sp)
}

func (x *index) remove(sp *span) {
	if x.last == sp {
		x.last = nil
	}
	if id := (task.ID{Batch: sp.Batch, N: sp.Lo}); sp.Lo == sp.Hi {
		if x.lone[id] == sp {
			delete(x.lone, id)
		}
		return
	}
	spans := x.wide[sp.Batch]
	i := slices.Index(spans, sp)
	switch {
	case i < 0:
	case len(spans) == 1:
		delete(x.wide, sp.Batch)
	default:
		x.wide[sp.Batch] = slices.Delete(spans, i, i+1)
	}
}

// find is where a task is in memory; its cell is nil when it is not there.
func (hs *holdings) find(id task.ID) spot { return hs.index.find(id) }

// has tells whether a task is in memory.
func (hs *holdings) has(id task.ID) bool { return hs.find(id).cell != nil }

// item is a task in memory as an item, nil when it is not there.
func (hs *holdings) item(id task.ID) *item {
	if s := hs.find(id); s.cell != nil {
		return s.item()
	}
	return nil
}

// held counts the tasks in memory.
func (hs *holdings) held() (n int) {
	for _, sp := range hs.spans {
		n += sp.left
	}
	return n
}

func (hs *holdings) sortedSpans() []*span {
	list := make([]*span, 0, len(hs.spans))
	for _, sp := range hs.spans {
		list = append(list, sp)
	}
	slices.SortFunc(list, func(a, b *span) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
