package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/limits"
)

// What a worker holds beyond its room waits for it, and counts against the limits of its key all
// the same. So tasks of keys of which few may run are held ahead only by workers that are quick,
// and not more than half of what a key may have: the other half is there for whoever has room.

const (
	// quickWithin is how long a worker has the tasks in hand, on average, that is quick: less than
	// the time in which a place that is free is to be used.
	quickWithin = 50 * time.Millisecond
	// quickFor is how long it passes for quick after its last outcome.
	quickFor = time.Second
)

// haste is how long a worker had tasks of queues with limits in hand lately.
type haste struct {
	mean  time.Duration // of the last ones, each of which counts less than the next
	ended time.Time     // when the last one ended; zero = none has
}

// note takes in that a task has ended that was in hand for so long.
func (h *haste) note(took time.Duration, now time.Time) {
	if h.ended.IsZero() {
		h.mean = took
	}
	h.mean += (took - h.mean) / 16
	h.ended = now
}

func (h *haste) quick(now time.Time) bool {
	return h.mean < quickWithin && now.Sub(h.ended) < quickFor
}

// fewOfKey is how many tasks of each key of the queue may run, if that is few; else 0.
func (q *queue) fewOfKey() int {
	if n := q.conf.PerKey.MaxRunning; n < limits.MaxHold {
		return n
	}
	return 0
}

// slotsOf is how many tasks of a queue the waiter may still be given.
func (wt *waiter) slotsOf(q *queue, now time.Time) int {
	ahead := !q.gate.near() && (q.fewOfKey() == 0 || wt.worker.haste.quick(now))
	if !ahead && wt.worker.room() < 1 {
		return 0
	}
	return wt.slots()
}

// mayHold tells whether the waiter may be given the queue's first task, which there must be, if it
// has slots.
func (wt *waiter) mayHold(q *queue) bool {
	most, ls := q.fewOfKey(), q.ready.lanes
	if most == 0 || ls == nil || wt.worker.room() >= 1 {
		return true
	}
	l := ls.open.list[0]
	return !ls.limits(l.key) || min(l.room, most-ls.out[l.key])-1 >= (most+1)/2
}

// isOut counts the task among those of its key that workers have in hands here, or no longer.
func (it *item) isOut(n int) {
	ls, key := it.queue.ready.lanes, it.key()
	if ls == nil || !ls.limits(key) {
		return
	}
	if ls.out[key] += n; ls.out[key] <= 0 { // less if it went by no keys at first
		delete(ls.out, key)
	}
}
