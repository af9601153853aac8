package dispatch

import (
	"math"
	"time"

	"github.com/rotahq/rota/task"
)

// slots is how many tasks the waiter may still be given.
func (wt *waiter) slots() int { return min(wt.limit-len(wt.given), wt.room()) }

// room is how many more tasks the waiter's worker may hold.
func (wt *waiter) room() int {
	if wt.worker.draining() {
		return 0
	}
	if wt.worker.given.Shed > 0 {
		return wt.worker.room() // it would run what it has ahead in what it is to give up
	}
	return wt.worker.room() + wt.ahead
}

// load orders waiters: the one whose worker has the most free capacity first, behind them those
// that would only hold tasks ahead, those that can take nothing last.
func (wt *waiter) load() float64 {
	switch {
	case wt.slots() < 1:
		return math.MaxFloat64
	case !wt.worker.measured: // its capacity is unknown: it is as free as it says
		return -float64(wt.slots())
	}
	return -float64(wt.worker.room())
}

// match hands ready tasks of q to waiting workers, and takes more.
func (q *queue) match(now time.Time) {
	q.handOut(now)
	q.takeSoon(now)
	q.giveSoon(now)
}

// handOut hands ready tasks of q to waiting workers, each to the one with the most free capacity.
func (q *queue) handOut(now time.Time) {
	for !q.conf.Paused && !q.memory.shut() && !q.gate.shut() {
		first, next := q.waiting.Min(), q.ready.first()
		if first == nil || first.Value.slotsOf(q, now) < 1 || next == nil || q.mustTake() ||
			!first.Value.mayHold(q) {
			break
		}
		if q.memory.expiring.expireFirst(next, now) {
			continue
		}
		q.ready.pop().handTo(first.Value, now)
	}
	q.memory.dismissServed()
}

// match gives a waiter what its queues have ready, smallest rank first.
func (wt *waiter) match(now time.Time) {
	m := wt.worker.memory
	for !m.shut() && wt.slots() >= 1 {
		var best *entry
		for _, in := range wt.members {
			q := in.queue
			if q.conf.Paused || q.mustTake() || q.gate.shut() ||
				wt.slotsOf(q, now) < 1 {
				continue
			}
			e := in.queue.ready.first()
			if e != nil && wt.mayHold(q) && (best == nil || e.before(best)) {
				best = e
			}
		}
		if best == nil {
			break
		}
		if m.expiring.expireFirst(best, now) {
			continue
		}
		best.span.queue.ready.pop().handTo(wt, now)
	}
	queues := wt.members
	m.dismissServed()
	for _, in := range queues {
		in.queue.takeSoon(now)
	}
}

// dismissServed takes everybody who got something out of the waiting lines: they answer with what
// is there.
func (m *memory) dismissServed() {
	for _, wt := range m.do.holds {
		wt.leave()
	}
}

// hand puts an item into a waiting worker's hands. The caller took it off the heap.
func (it *item) hand(wt *waiter, now time.Time) {
	m, w := it.queue.memory, wt.worker
	m.expiring.remove(it)
	it.place, it.worker, it.incarnation = out, w, w.incarnation
	token := task.Token{Span: it.span.ID, SpanToken: it.span.Token, Seq: it.seq}
	it.token = m.seals.Seal(token, it.id, w.name)
	it.started, it.written, it.missed, it.row = now, false, 0, false
	it.asked = it.queue.gate.limited || it.unique
	it.turn = it.queue.ready.turn()
	it.span.idle--
	limit := it.queue.conf.Timeout
	if it.timeout > 0 {
		limit = time.Duration(it.timeout) * time.Microsecond
	}
	it.until = now.Add(limit)
	it.watchDeadline(limit)
	w.give(it)
	it.queue.handed++
	it.queue.gate.handed()
	it.queue.wanted = now
	wt.take(spot{it.span, it.cell})
}

// handTo puts a task into a waiting worker's hands. The caller took it off the heap.
func (s spot) handTo(wt *waiter, now time.Time) {
	it := s.cell.item
	if it == nil && s.span.queue.gate.limited { // what may be refused is spoken of by itself
		it = s.span.newItem(s.cell.n, s.cell.stage, s.cell.context)
		s.become(it)
	}
	if it != nil {
		it.hand(wt, now)
		return
	}
	s.hand(wt, now)
}

// take notes that a waiter was given a task.
func (wt *waiter) take(s spot) {
	if len(wt.given) == 0 {
		do := &wt.worker.memory.do
		do.holds = append(do.holds, wt)
	}
	wt.given = append(wt.given, s)
	wt.worker.reorder()
}

// give puts an item into the worker's hands.
func (w *worker) give(it *item) {
	it.at = len(w.out)
	w.out = append(w.out, it)
	it.isOut(1)
}

// takeBack takes an item out of its worker's hands, if it is there.
func (it *item) takeBack() {
	w := it.worker
	if w == nil || it.at >= len(w.out) || w.out[it.at] != it {
		return
	}
	last := len(w.out) - 1
	w.out[it.at] = w.out[last]
	w.out[it.at].at = it.at
	w.out[last] = nil
	w.out = w.out[:last]
	it.isOut(-1)
	w.reorder()
}

// watchDeadline ends the hand-out at its hard limit, whatever signs of life its worker gives.
func (it *item) watchDeadline(limit time.Duration) {
	it.queue.memory.ask(alarm{what: deadline, item: it, token: it.token, wait: limit})
}
