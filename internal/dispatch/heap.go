package dispatch

import "github.com/rotahq/rota/task"

// heap keeps what is ready by rank, then id. A binary heap (Williams 1964) of items and of runs of
// plain tasks; what left is skipped when it comes to the top. The keys stand in the heap itself, so
// that sifting does not chase pointers.
type heap struct {
	entries []entry
	count   int   // of the tasks; items that left count until they are skipped
	bytes   int64 // of their contexts, and of what came before them
}

// entry is an item, or a run of a span's plain tasks.
type entry struct {
	rank  int64
	id    task.ID // of the first task
	span  *span
	round uint32 // the round after which it was ready
	front bool   // it goes before all others of its heap

	item  *item  // nil = a run
	gen   uint32 // of the item, when it came in; an entry of an earlier one is void
	bytes int    // its weight then

	from, to int32 // the run's cells; those that are not ready any more left
}

// void tells whether all of it left since.
func (e *entry) void() bool {
	if e.item != nil {
		return e.item.place != ready || e.item.gen != e.gen
	}
	e.to = min(e.to, int32(len(e.span.cells))-1) // the rest of the span may have been given back
	for e.from <= e.to && e.span.cells[e.from].place != ready {
		e.from++
	}
	return e.from > e.to
}

// above tells whether e comes before b in a heap that both are in.
func (e *entry) above(b *entry) bool {
	if e.front != b.front {
		return e.front
	}
	return e.before(b)
}

func (e *entry) before(b *entry) bool {
	if e.rank != b.rank {
		return e.rank < b.rank
	}
	if e.id.Batch != b.id.Batch {
		return e.id.Batch < b.id.Batch
	}
	return e.id.N < b.id.N
}

// push makes an item ready; front = it goes before all others.
func (h *heap) push(it *item, front bool) {
	it.place = ready
	it.gen++
	h.count++
	weight := it.weight()
	h.bytes += int64(weight)
	h.add(entry{
		rank: it.rank, id: it.id, span: it.span, round: it.queue.memory.turns, item: it,
		gen: it.gen, bytes: weight, front: front,
	})
}

// runOf is the run of a span's plain tasks, which are all not yet handed out.
func runOf(sp *span) entry {
	return entry{rank: sp.Rank, span: sp, round: sp.memory.turns, to: int32(len(sp.cells)) - 1}
}

// pushRun makes the plain ones of a span's tasks ready.
func (h *heap) pushRun(sp *span) {
	if e := runOf(sp); !e.void() {
		h.take(e)
	}
}

// take takes over an entry that is not void: of another heap, or a part of one.
func (h *heap) take(e entry) {
	if e.item != nil {
		h.count++
		h.bytes += int64(e.bytes)
	} else {
		e.id = task.ID{Batch: e.span.Batch, N: e.span.cells[e.from].n}
		h.countRun(&e)
	}
	h.add(e)
}

// countRun counts a run that comes in.
func (h *heap) countRun(e *entry) {
	for i := e.from; i <= e.to; i++ {
		if c := &e.span.cells[i]; c.place == ready {
			h.count++
			h.bytes += int64(len(c.context))
		}
	}
}

// leave notes that a plain task is no longer ready.
func (h *heap) leave(c *cell) {
	h.count--
	h.bytes -= int64(len(c.context))
}

func (h *heap) add(e entry) {
	h.entries = append(h.entries, e)
	i := len(h.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.above(&h.entries[up]) {
			break
		}
		h.entries[i] = h.entries[up]
		i = up
	}
	h.entries[i] = e
}

// first is the entry whose first task is of least rank, nil when nothing is ready.
func (h *heap) first() *entry {
	for len(h.entries) > 0 {
		e := &h.entries[0]
		if e.void() {
			h.drop()
			continue
		}
		if e.item != nil {
			return e
		}
		if n := e.span.cells[e.from].n; n != e.id.N { // tasks in front of it left
			e.id.N = n
			h.sink(*e)
			continue
		}
		return e
	}
	return nil
}

// pop takes the first ready task out, which there must be.
func (h *heap) pop() spot {
	e := h.first()
	if e.item != nil {
		it := e.item
		h.drop()
		return spot{it.span, it.cell}
	}
	c := &e.span.cells[e.from]
	e.from++
	h.leave(c)
	return spot{e.span, c}
}

// drop removes the first entry.
func (h *heap) drop() {
	if e := &h.entries[0]; e.item != nil {
		h.count--
		h.bytes -= int64(e.bytes)
	}
	n := len(h.entries) - 1
	last := h.entries[n]
	h.entries[n] = entry{}
	if h.entries = h.entries[:n]; n > 0 {
		h.sink(last)
	}
}

// sink puts an entry where it belongs, in place of the first.
func (h *heap) sink(e entry) {
	i, n := 0, len(h.entries)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.entries[child+1].above(&h.entries[child]) {
			child++
		}
		if !h.entries[child].above(&e) {
			break
		}
		h.entries[i] = h.entries[child]
		i = child
	}
	h.entries[i] = e
}
