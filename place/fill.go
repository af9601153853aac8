package place

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/balance"
)

// filling is the step that gives sites to the slots that have none.
type filling struct {
	*board
	// queue are slots without a site, by how many others of their job come first.
	queue [][]int32
	dead  dead // of chains to a site that will have room
}

// fill gives sites to the slots that have none: all jobs' first replicas, then the second ones, and
// so on. A slot that finds no room gets it by a chain of moves, or else from a job that has more
// replicas than its own would. It reports whether any got one.
func (f *filling) fill() bool {
	if f.now == nil {
		f.now = newTree(f.board, true)
	}
	if f.waiting == 0 {
		return false
	}
	f.dead, f.queue = nil, f.line()
	found := false
	for level := range f.queue {
		slots := f.queue[level] // with the victims of earlier levels
		rest := slices.DeleteFunc(slots, f.seat)
		found = found || len(rest) < len(slots)
		victims := victims{f: f, level: int32(level)}
		for _, slot := range rest {
			if !f.shift(slot) {
				victims.yield(slot)
			}
			found = found || f.at[slot] != none
		}
	}
	return found
}

// line is the queue of the slots that have no site. Of those equally far back the larger loads come
// first; then first replicas by name, the others by a hash of it. In one and the same order all
// jobs that have their first replica on a worker would get their second on the same other one,
// which then could take over nothing of what the worker leaves behind.
func (f *filling) line() [][]int32 {
	queue := f.levels(f.at)
	for level, slots := range queue {
		if level > 0 {
			f.shuffle(slots)
		}
		if !f.equal {
			slices.SortStableFunc(slots, func(x, y int32) int {
				f.step(1)
				return cmp.Compare(f.loadOf(y), f.loadOf(x))
			})
		}
	}
	return queue
}

// shuffle orders slots by a hash of their jobs' names.
func (f *filling) shuffle(slots []int32) {
	type card struct {
		hash uint64
		slot int32
	}
	cards := make([]card, len(slots))
	for i, slot := range slots {
		f.step(1)
		cards[i] = card{balance.Rendezvous("", f.jobs[f.owner[slot]].Name), slot}
	}
	slices.SortFunc(cards, func(x, y card) int {
		f.step(1)
		if x.hash != y.hash { // as good as always
			return cmp.Compare(x.hash, y.hash)
		}
		return cmp.Compare(x.slot, y.slot)
	})
	for i, c := range cards {
		slots[i] = c.slot
	}
}

// seat gives a slot the first site that admits it and has room: now, or else when what is going is
// gone and in a next plan.
func (f *filling) seat(slot int32) bool {
	f.mark(slot)
	w := f.pick(f.now, slot)
	if w == none {
		if f.later == nil {
			f.later = newTree(f.board, false)
		}
		w = f.pick(f.later, slot)
	}
	if w == none {
		return false
	}
	f.take(slot, w)
	return true
}

// shift looks for a chain of moves after which a slot has a site, and makes it the goal. It reports
// whether the slot is done with for now: there may be a chain, only not in this plan.
func (f *filling) shift(slot int32) bool {
	switch {
	case f.moves == 0 || f.later == nil || f.later.room[1] < f.least:
		return false
	case f.moved >= f.moves:
		f.fate[slot] = Reason{Code: MoveLimit, Limit: f.moves}
		return true
	}
	c := f.chains()
	end := c.place(slot, true, &f.dead, func(w int32) bool {
		return f.sites[w].room(false) >= f.loadOf(c.via[w])
	})
	if end == none {
		return false
	}
	c.apply(end, func(u int32) Reason { return f.makesRoom(u, slot) })
	return true
}
