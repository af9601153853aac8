package dispatch

import (
	"math"
	"time"

	"github.com/rotahq/rota/task"
)

// slots is how many tasks the waiter may still be given.
func (wt *waiter) slots() int { return min(wt.limit-len(wt.items), wt.room()) }

// room is how many more tasks the waiter's worker may hold.
func (wt *waiter) room() int {
	if wt.worker.draining {
		return 0
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
func (d *Dispatcher) match(q *queue, now time.Time) {
	d.handOut(q, now)
	d.takeSoon(q, now)
	d.giveSoon(q, now)
}

// handOut hands ready tasks of q to waiting workers, each to the one with the most free capacity.
func (d *Dispatcher) handOut(q *queue, now time.Time) {
	for !q.conf.Paused && !d.shut() {
		first := q.waiting.Min()
		if first == nil || first.Value.slots() < 1 || q.ready.first() == nil || d.mustTake(q) {
			break
		}
		d.hand(q.ready.drop(), first.Value, now)
	}
	d.dismissServed()
}

// matchWaiter gives a new waiter what its queues have ready, smallest rank first.
func (d *Dispatcher) matchWaiter(wt *waiter, now time.Time) {
	for !d.shut() && wt.slots() >= 1 {
		var best *entry
		for _, m := range wt.members {
			if m.queue.conf.Paused || d.mustTake(m.queue) {
				continue
			}
			if e := m.queue.ready.first(); e != nil && (best == nil || e.before(best)) {
				best = e
			}
		}
		if best == nil {
			break
		}
		d.hand(best.item.queue.ready.drop(), wt, now)
	}
	queues := wt.members
	d.dismissServed()
	for _, m := range queues {
		d.takeSoon(m.queue, now)
	}
}

// dismissServed takes everybody who got something out of the waiting lines: they answer with what
// is there.
func (d *Dispatcher) dismissServed() {
	for _, wt := range d.do.holds {
		wt.leave()
	}
}

// hand puts a task into a waiting worker's hands. The caller took it off the heap.
func (d *Dispatcher) hand(it *item, wt *waiter, now time.Time) {
	w := wt.worker
	it.place, it.worker, it.incarnation = out, w, w.incarnation
	it.token = task.Token{Span: it.span.ID, SpanToken: it.span.Token, Seq: it.seq}.Sealed(d.seals,
		it.id, w.name)
	it.started, it.written, it.missed, it.row = now, false, 0, false
	it.span.idle--
	limit := it.queue.conf.Timeout
	if it.timeout > 0 {
		limit = time.Duration(it.timeout) * time.Microsecond
	}
	it.until = now.Add(limit)
	d.watchDeadline(it, limit)
	w.give(it)
	it.queue.handed++
	it.queue.wanted = now
	if len(wt.items) == 0 {
		d.do.holds = append(d.do.holds, wt)
	}
	wt.items = append(wt.items, it)
	w.reorder()
}

// give puts an item into the worker's hands.
func (w *worker) give(it *item) {
	it.at = len(w.out)
	w.out = append(w.out, it)
}

// takeBack takes an item out of its worker's hands, if it is there.
func (d *Dispatcher) takeBack(it *item) {
	w := it.worker
	if w == nil || it.at >= len(w.out) || w.out[it.at] != it {
		return
	}
	last := len(w.out) - 1
	w.out[it.at] = w.out[last]
	w.out[it.at].at = it.at
	w.out[last] = nil
	w.out = w.out[:last]
	w.reorder()
}

// watchDeadline ends the hand-out at its hard limit, whatever signs of life its worker gives.
func (d *Dispatcher) watchDeadline(it *item, limit time.Duration) {
	d.do.alarms = append(d.do.alarms, alarm{what: deadline, item: it, token: it.token, wait: limit})
}
