package tick

import (
	"math/bits"
	"time"
)

// A wheel is a hierarchical timing wheel (Varghese & Lauck 1987). Level 0 has a slot for each of
// the next 64 grains, level 1 for each of the next 64 × 64, and so on: a timer's level is the
// highest digit, in base 64, in which its deadline differs from the present. Two levels never hold
// timers of the same grain, and 11 levels hold every deadline there is. A bit for each slot that is
// not empty makes looking for the next one as cheap as turning.
//
// A slot has two lists. One takes what is filed; when the wheel reaches the slot they change
// places, and the other is looked through, timer by timer, while new ones are filed beside it. So a
// turn costs the same however many timers it reaches, and the lock can be lent to others in
// between.
//
// All of it is guarded by the clock's lock.
type wheel struct {
	grain   int64 // nanoseconds
	now     int64 // the instant of the last turn
	filed   int   // timers in all lists
	used    [levels]uint64
	reached [levels]uint64 // slots whose other list may hold timers that nobody has looked at yet
	side    [levels]uint64 // which list of each slot takes what is filed
	lists   [2 * levels * width]*Timer

	// By how much durations are short that were given while the clock should have looked and did
	// not, by the lowest bits of the instant from which they were counted. That instant is a
	// timer's deadline less its span.
	short map[uint32]time.Duration
}

// memory is how many stalls are remembered. At worst, when each look of a clock is late, that is
// the last half minute with the default beat.
const memory = 8192

const (
	digit  = 6 // bits
	width  = 1 << digit
	levels = 11 // × 6 bits ≥ 63
)

// turn moves the present to instant and reaches slots. All that was reached before must have been
// visited.
func (w *wheel) turn(instant int64) {
	from, to := uint64(w.now/w.grain), uint64(instant/w.grain)
	w.now = instant
	for level := range levels {
		shift := level * digit
		passed := ^uint64(0)
		if from>>shift>>digit == to>>shift>>digit {
			passed = 2<<(to>>shift%width) - 1
		}
		set := w.used[level] & passed
		w.used[level] &^= set
		w.side[level] ^= set
		w.reached[level] = set
		if from>>shift == to>>shift {
			return
		}
	}
}

// next is a timer in a slot that was reached, or nil when all have been visited.
func (w *wheel) next() *Timer {
	for level := range levels {
		for set := w.reached[level]; set != 0; set &= set - 1 {
			i := bits.TrailingZeros64(set)
			if t := w.lists[w.list(level, i)^1]; t != nil {
				return t
			}
			w.reached[level] &^= 1 << i
		}
	}
	return nil
}

// visit looks at a timer in a slot that was reached, and files it by the deadline that it has now.
// When it has come due the answer is the function to call, and how late it is.
func (w *wheel) visit(t *Timer) (f func(), late int64) {
	for {
		due := t.due.Load()
		if due > w.now {
			w.file(t)
			return nil, 0
		}
		if short := w.shortage(uint32(due), t.span.Load()); short > 0 {
			t.span.Store(0)
			t.due.CompareAndSwap(due, later(due, short))
			continue
		}
		then := int64(idle)
		if t.every > 0 {
			missed := (w.now - due) / int64(t.every)
			then = later(due+missed*int64(t.every), t.every)
		}
		if t.due.CompareAndSwap(due, then) { // otherwise it was moved this very moment
			if t.every > 0 {
				t.span.Store(0)
			}
			w.file(t)
			return t.f, w.now - due
		}
	}
}

// stalled remembers that durations counted from an instant are short.
func (w *wheel) stalled(from int64, short time.Duration) {
	if w.short == nil || len(w.short) == memory {
		w.short = make(map[uint32]time.Duration)
	}
	w.short[uint32(from)] = short
}

// shortage is by how much a duration is known to be short that has led to a deadline.
func (w *wheel) shortage(due, span uint32) time.Duration {
	if span == 0 || len(w.short) == 0 {
		return 0
	}
	return w.short[due-span]
}

// file puts t where its deadline belongs, or nowhere when it is idle.
func (w *wheel) file(t *Timer) {
	for {
		w.remove(t)
		due := t.due.Load()
		if due == idle {
			return
		}
		level, i, begin := w.place(due)
		w.insert(t, level, i)
		t.visit.Store(min(begin, due))
		if t.due.Load() >= t.visit.Load() {
			return // whoever moves the deadline from now on sees this visit
		}
	}
}

// place is the slot for a deadline, and the instant at which it begins.
func (w *wheel) place(due int64) (level, i int, begin int64) {
	now := uint64(w.now / w.grain)
	then := max(uint64(due/w.grain), now)
	level = max(bits.Len64(now^then)-1, 0) / digit
	shift := level * digit
	return level, int(then >> shift % width), int64(then>>shift<<shift) * w.grain
}

// first is the instant at which the next slot begins that is not empty. When all are it is not ok,
// and the last instant there is.
func (w *wheel) first() (instant int64, ok bool) {
	now := uint64(w.now / w.grain)
	for level, used := range w.used {
		if used != 0 {
			shift := level * digit
			begin := (now>>shift>>digit<<digit | uint64(bits.TrailingZeros64(used))) << shift
			return int64(begin) * w.grain, true
		}
	}
	return idle - 1, false
}

// list is the index of the list of a slot that takes what is filed. The other one's differs in the
// last bit.
func (w *wheel) list(level, i int) int {
	return 2*(level*width+i) + int(w.side[level]>>i&1)
}

func (w *wheel) insert(t *Timer, level, i int) {
	list := w.list(level, i)
	t.list, t.prev, t.next = int16(list), nil, w.lists[list]
	if t.next != nil {
		t.next.prev = t
	}
	w.lists[list] = t
	w.used[level] |= 1 << i
	w.filed++
}

// remove takes t out of its list, if it is in one.
func (w *wheel) remove(t *Timer) {
	list := int(t.list)
	if t.prev == nil && w.lists[list] != t {
		return
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else if w.lists[list] = t.next; t.next == nil {
		if level, i := list/2/width, list/2%width; list == w.list(level, i) {
			w.used[level] &^= 1 << i
		}
	}
	t.prev, t.next = nil, nil
	w.filed--
}
