package dispatch

import (
	"iter"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// Most tasks are plain: they are handed out once, soon done, and nothing is ever to be said of one
// that is not true of its neighbours, too. Of such a task memory keeps a cell in its span; the run
// of cells that are ready stands in the heap as one entry, and what one hold gets of a span is one
// parcel, with one deadline. As soon as a task is not plain, because it is tried again, has
// settings of its own, or is spoken of by itself (a beat, an action, a hint), it becomes an item,
// once and for all. So there is one quick way, submit, hand out, done; all others deal with items.

// cell is one task of a span that this node holds.
type cell struct {
	n     int32
	place place // of a plain task; odd where it has an item
	stage string
	// of a plain task; its first, which nothing has changed
	context store.Value

	// The hand-out of a plain task; meaningful while out or settling.
	parcel      *parcel
	seal, owner uint64 // of its token

	item *item
}

// isPlain tells whether a task that the store describes is plain, as a task of the span. One that
// is being edited is not: it is kept from going out by itself.
func (sp *span) isPlain(l *store.Loaded) bool {
	return l.Seq == 0 && l.Attempt == 0 && l.Base == 0 && l.Due == 0 && l.Running == nil &&
		l.ContextSeq < 0 && l.ContextBy == "" && l.MaxAttempts == 0 && l.Timeout == 0 &&
		l.Meta == "" && l.Expires == 0 && l.Woken == nil && !l.Unique &&
		l.HeadStart == sp.priority.Microseconds() &&
		!sp.guarded() &&
		sp.memory.edits[task.ID{Batch: sp.Batch, N: l.N}] == nil
}

// spot is where a task is: a cell of a span. The zero value is nowhere.
type spot struct {
	span *span
	cell *cell
}

func (s spot) id() task.ID { return task.ID{Batch: s.span.Batch, N: s.cell.n} }

// here tells whether the task is in memory.
func (s spot) here() bool { return s.cell != nil && s.place() != gone }

// forgotten tells whether nothing is known of the task any more.
func (s spot) forgotten() bool { return s.cell.item == nil && s.cell.place == gone }

// place is where the task is.
func (s spot) place() place {
	if s.cell.item != nil {
		return s.cell.item.place
	}
	return s.cell.place
}

// plain tells whether the task is plain, and in that place.
func (s spot) plain(in place) bool { return s.cell.item == nil && s.cell.place == in }

// due is since when a plain task may run.
func (sp *span) due() int64 { return sp.Rank + sp.priority.Microseconds() }

// token is that of a plain task's hand-out.
func (s spot) token() task.Token {
	return task.Token{
		Span: s.span.ID, SpanToken: s.span.Token, Seal: s.cell.seal, Owner: s.cell.owner,
	}
}

// item is the task as an item, which it is from then on.
func (s spot) item() *item {
	plain := s.cell.item == nil
	it := s.unqueued()
	if plain && it.place == ready {
		it.queue.ready.push(it)
	}
	return it
}

// unqueued is item for a caller that says where the task is: one that was ready and plain is in no
// heap.
func (s spot) unqueued() *item {
	sp, c := s.span, s.cell
	if c.item != nil {
		return c.item
	}
	it := sp.newItem(c.n, c.stage, c.context)
	it.place = c.place
	switch p := c.parcel; c.place {
	case ready:
		sp.queue.ready.leave(s)
	case out, settling:
		it.worker, it.incarnation, it.token = p.worker, p.incarnation, s.token()
		it.started, it.until, it.written = p.started, p.until, p.written
		if c.place == out {
			it.parcel = p
			p.worker.plain--
			p.worker.give(it)
		}
	}
	s.become(it)
	return it
}

// newItem makes an item of a task of the span that was never handed out.
func (sp *span) newItem(n int32, stage string, context store.Value) *item {
	return &item{
		id: task.ID{Batch: sp.Batch, N: n}, span: sp, queue: sp.queue, rank: sp.Rank,
		priority: sp.priority, stage: stage, context: context, contextSeq: -1,
		unchecked: sp.doubts(context),
	}
}

// doubts tells whether a context of one of the span's tasks is to be looked at before it goes out.
func (sp *span) doubts(context store.Value) bool { return sp.unchecked && len(context) > 0 }

// become gives a cell the item that its task is from then on.
func (s spot) become(it *item) {
	it.cell = s.cell
	s.cell.place, s.cell.item, s.cell.context, s.cell.parcel = odd, it, nil, nil
}

// parcel is what one hold got of one span: plain tasks that went out together. One alarm watches
// their deadline, also for those that have become items since.
type parcel struct {
	span        *span
	worker      *worker
	at          int // where it stands in worker.parcels
	incarnation string
	started     time.Time
	until       time.Time // hard limit
	written     bool      // the answer is on its way: beats that begin now must name its tasks
	lo, hi      int32     // the least and the greatest number of a task
	left        int       // tasks that are out
	timer       *tick.Timer
}

// cells are those of the parcel's tasks, and others between them.
func (p *parcel) cells() iter.Seq[spot] {
	from, _ := p.span.at(p.lo)
	to, _ := p.span.at(p.hi)
	to = min(to+1, len(p.span.cells)) // the rest of the span may have been given back
	return p.span.liveAmong(p.span.cells[min(from, to):to])
}

// out are the parcel's tasks that are out, by number.
func (p *parcel) out() (list []spot) {
	for s := range p.cells() {
		if s.cell.parcel == p && s.plain(out) ||
			s.cell.item != nil && s.cell.item.parcel == p && s.cell.item.place == out {
			list = append(list, s)
		}
	}
	return list
}

// plainOut are the plain tasks in the worker's hands, each with its parcel.
func (w *worker) plainOut() iter.Seq2[spot, *parcel] {
	return func(yield func(spot, *parcel) bool) {
		for _, p := range w.parcels {
			for s := range p.cells() {
				if s.plain(out) && s.cell.parcel == p && !yield(s, p) {
					return
				}
			}
		}
	}
}

// less notes that one of the parcel's tasks is no longer out, or is watched by an alarm of its own.
func (p *parcel) less() {
	if p.left--; p.left > 0 {
		return
	}
	w := p.worker
	last := len(w.parcels) - 1
	w.parcels[p.at] = w.parcels[last]
	w.parcels[p.at].at = p.at
	w.parcels[last] = nil
	w.parcels = w.parcels[:last]
	if p.timer != nil {
		w.memory.do.stopped = append(w.memory.do.stopped, p.timer)
		p.timer = nil
	}
}

// hand puts a plain task into a waiting worker's hands. The caller took it off the heap.
func (s spot) hand(wt *waiter, now time.Time) {
	sp, c, w := s.span, s.cell, wt.worker
	m, p := sp.memory, wt.parcel
	if p == nil || p.span != sp {
		limit := sp.queue.conf.Timeout
		p = &parcel{
			span: sp, worker: w, at: len(w.parcels), incarnation: w.incarnation, started: now,
			until: now.Add(limit), lo: c.n,
		}
		w.parcels = append(w.parcels, p)
		wt.parcel = p
		m.ask(alarm{what: deadline, parcel: p, wait: limit})
	}
	c.place, c.parcel = out, p
	p.lo, p.hi = min(p.lo, c.n), max(p.hi, c.n) // turns of keys take them in any order
	sealed := m.seals.Seal(s.token(), s.id(), w.name)
	c.seal, c.owner = sealed.Seal, sealed.Owner
	p.left++
	w.plain++
	sp.idle--
	sp.queue.handed++
	sp.queue.wanted = now
	wt.take(s)
}

// settle takes a plain task out of its worker's hands and on its way into the store. The worker's
// holds are to be put where they belong.
func (s spot) settle() {
	p := s.cell.parcel
	s.cell.place = settling
	p.worker.plain--
	p.less()
}

// forget drops a plain task that is settled.
func (s spot) forget() {
	s.cell.place, s.cell.context, s.cell.parcel = gone, nil, nil
	s.span.left--
	s.span.ended()
	if s.span.left == 0 {
		s.span.forget()
	}
}

// decideDone makes the step of a plain task that is done.
func (s spot) decideDone(r *reporting, c *checked, name string, now time.Time) {
	q, m := s.span.queue, s.span.memory
	r.spot = s
	r.row.ID, r.row.Queue, r.row.Token, r.row.Ready = c.ID, q.name, c.token, s.span.due()
	r.step(progress.Standing{Stage: s.cell.stage}, progress.LimitsOf(&q.conf, 0), stepOf{
		outcome: c.Outcome, contextSeq: -1, result: c.result, worker: name,
		started: m.clock.read(s.cell.parcel.started), priority: s.span.priority,
	}, m.clock.read(now))
}
