package balance

import (
	"iter"
	"math"
)

// Ranking orders members by (load, least recently picked). The zero value is an empty ranking. It
// must not be copied once in use, nor used by two goroutines at once.
type Ranking[T any] struct {
	heap  []entry[T]
	picks uint64 // of all time, joining included; orders equal loads
}

// Member is one place in a ranking.
type Member[T any] struct {
	Value T

	load float64
	at   int // in the heap; meaningless once removed
}

// Load is the member's load: in the ranking, or at the time it left.
func (m *Member[T]) Load() float64 { return m.load }

// entry repeats what the order needs beside the pointer, so that comparing stays within the heap's
// own memory.
type entry[T any] struct {
	load   float64
	picked uint64
	member *Member[T]
}

func (a *entry[T]) before(b *entry[T]) bool {
	return a.load < b.load || a.load == b.load && a.picked < b.picked
}

// Len is the number of members.
func (r *Ranking[T]) Len() int { return len(r.heap) }

// Min is the member that the next Pick takes; nil when there is none.
func (r *Ranking[T]) Min() *Member[T] {
	if len(r.heap) == 0 {
		return nil
	}
	return r.heap[0].member
}

// Add enters value with a load, behind all members of that load. It panics when load is NaN.
func (r *Ranking[T]) Add(value T, load float64) *Member[T] {
	m := &Member[T]{Value: value}
	r.enter(m, load)
	return m
}

// Set changes the load of m, which keeps its turn among equals, and reports whether m is in the
// ranking; if not, nothing changes. It panics when load is NaN.
func (r *Ranking[T]) Set(m *Member[T], load float64) bool {
	if !r.has(m) {
		return false
	}
	e := r.heap[m.at]
	e.load, m.load = ordered(load), load
	r.place(m.at, e)
	return true
}

// Remove takes m out and reports whether it was in.
func (r *Ranking[T]) Remove(m *Member[T]) bool {
	if !r.has(m) {
		return false
	}
	end := len(r.heap) - 1
	last := r.heap[end]
	r.heap[end] = entry[T]{}
	r.heap = r.heap[:end]
	if last.member != m {
		r.place(m.at, last)
	}
	return true
}

// Pick takes the first member, adds to its load, and puts it behind its new equals. It returns nil
// when there is no member. It panics when add is NaN or infinite.
func (r *Ranking[T]) Pick(add float64) *Member[T] {
	if finite(add); len(r.heap) == 0 {
		return nil
	}
	e := r.heap[0]
	e.load += add
	r.picks++
	e.picked, e.member.load = r.picks, e.load
	r.place(0, e)
	return e.member
}

// PickN picks min(k, Len) distinct members, first to last, adds to the load of each, appends them
// to picked, and returns it. It panics when add is NaN or infinite. O(k log n).
func (r *Ranking[T]) PickN(picked []*Member[T], k int, add float64) []*Member[T] {
	finite(add)
	begin := len(picked)
	for range min(k, r.Len()) {
		m := r.heap[0].member
		r.Remove(m)
		picked = append(picked, m)
	}
	for _, m := range picked[begin:] {
		r.enter(m, m.load+add)
	}
	return picked
}

// enter puts m, which is in no ranking, behind its equals.
func (r *Ranking[T]) enter(m *Member[T], load float64) {
	m.load = ordered(load)
	r.picks++
	r.heap = append(r.heap, entry[T]{})
	r.place(len(r.heap)-1, entry[T]{load, r.picks, m})
}

func (r *Ranking[T]) has(m *Member[T]) bool {
	return m.at < len(r.heap) && r.heap[m.at].member == m
}

// place writes e into the free slot i, or where it must go to keep the order.
func (r *Ranking[T]) place(i int, e entry[T]) {
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&r.heap[up]) {
			break
		}
		r.write(i, r.heap[up])
		i = up
	}
	for n := len(r.heap); ; {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && r.heap[child+1].before(&r.heap[child]) {
			child++
		}
		if !r.heap[child].before(&e) {
			break
		}
		r.write(i, r.heap[child])
		i = child
	}
	r.write(i, e)
}

func (r *Ranking[T]) write(i int, e entry[T]) {
	r.heap[i] = e
	e.member.at = i
}

// ordered refuses the one float that compares with nothing: in the heap it would spoil the order of
// its neighbours without a sign, so it is stopped where it comes in.
func ordered(load float64) float64 {
	if math.IsNaN(load) {
		panic("balance: a load must not be NaN")
	}
	return load
}

// All walks over the members in no particular order. The ranking must not be changed meanwhile.
func (r *Ranking[T]) All() iter.Seq[*Member[T]] {
	return func(yield func(*Member[T]) bool) {
		for i := range r.heap {
			if !yield(r.heap[i].member) {
				return
			}
		}
	}
}

// finite refuses the additions that could make a load NaN.
func finite(add float64) {
	if math.IsNaN(add) || math.IsInf(add, 0) {
		panic("balance: what is added to a load must be finite")
	}
}
