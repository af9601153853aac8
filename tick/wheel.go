package tick

import "math/bits"

// A wheel is a hierarchical timing wheel (Varghese & Lauck 1987). Level 0 has a slot for each of the next 64
// grains, level 1 for each of the next 64 × 64, and so on: a timer's level is the highest digit, in base 64,
// in which its deadline differs from the present. Two levels never hold timers of the same grain, and
// 11 levels hold every deadline there is. A bit for each slot that is not empty makes looking for the next
// one as cheap as turning.
//
// All of it is guarded by the clock's lock.
type wheel struct {
	grain int64 // nanoseconds
	now   int64 // the instant of the last turn
	used  [levels]uint64
	slots [1 + levels*width]*Timer // slot 0 holds what the last turn picked up and nobody has looked at yet
}

const (
	digit  = 6 // bits
	width  = 1 << digit
	levels = 11 // × 6 bits ≥ 63
)

// turn moves the present to instant and picks up the slots that it reaches.
func (w *wheel) turn(instant int64) {
	from, to := uint64(w.now/w.grain), uint64(instant/w.grain)
	w.now = instant
	for level := range levels {
		shift := level * digit
		reached := ^uint64(0)
		if from>>shift>>digit == to>>shift>>digit {
			reached = 2<<(to>>shift%width) - 1
		}
		for set := w.used[level] & reached; set != 0; set &= set - 1 {
			slot := 1 + level*width + bits.TrailingZeros64(set)
			for t := w.slots[slot]; t != nil; t = w.slots[slot] {
				w.remove(t)
				w.insert(t, 0)
			}
		}
		if from>>shift == to>>shift {
			return
		}
	}
}

// due files the timers that were picked up, until it finds one that has come due, and returns its function.
// At the end it returns nil.
func (w *wheel) due() func() {
	for t := w.slots[0]; t != nil; t = w.slots[0] {
		due := t.due.Load()
		if due > w.now {
			w.file(t)
			continue
		}
		then := int64(idle)
		if t.every > 0 {
			missed := (w.now - due) / int64(t.every)
			then = later(due+missed*int64(t.every), t.every)
		}
		if !t.due.CompareAndSwap(due, then) {
			continue // moved this very moment: look again
		}
		w.file(t)
		return t.f
	}
	return nil
}

// file puts t where its deadline belongs, or nowhere when it is idle.
func (w *wheel) file(t *Timer) {
	for {
		w.remove(t)
		due := t.due.Load()
		if due == idle {
			return
		}
		slot, begin := w.place(due)
		w.insert(t, slot)
		t.visit.Store(min(begin, due))
		if t.due.Load() >= t.visit.Load() {
			return // whoever moves the deadline from now on sees this visit
		}
	}
}

// place is the slot for a deadline, and the instant at which it will be reached.
func (w *wheel) place(due int64) (slot int, begin int64) {
	now := uint64(w.now / w.grain)
	then := max(uint64(due/w.grain), now)
	level := max(bits.Len64(now^then)-1, 0) / digit
	shift := level * digit
	return 1 + level*width + int(then>>shift%width), int64(then>>shift<<shift) * w.grain
}

// first is the instant at which the next slot will be reached. When all are empty it is not ok, and the
// last instant there is.
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

func (w *wheel) insert(t *Timer, slot int) {
	t.slot, t.prev, t.next = int16(slot), nil, w.slots[slot]
	if t.next != nil {
		t.next.prev = t
	}
	w.slots[slot] = t
	if slot > 0 {
		w.used[(slot-1)/width] |= 1 << ((slot - 1) % width)
	}
}

// remove takes t out of its list, if it is in one.
func (w *wheel) remove(t *Timer) {
	slot := int(t.slot)
	if w.slots[slot] != t && t.prev == nil {
		return
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else if w.slots[slot] = t.next; t.next == nil && slot > 0 {
		w.used[(slot-1)/width] &^= 1 << ((slot - 1) % width)
	}
	t.prev, t.next = nil, nil
}
