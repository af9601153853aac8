package place

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/balance"
)

// fill gives sites to the slots that have none: all jobs' first replicas, then the second ones, and
// so on. A slot that finds no room gets it by a chain of moves, or else from a job that has more
// replicas than its own would. It reports whether any got one.
func (b *board) fill() bool {
	if b.now == nil {
		b.now = newTree(b, true)
	}
	if b.waiting == 0 {
		return false
	}
	b.dead, b.queue = nil, b.line()
	found := false
	for level := range b.queue {
		slots := b.queue[level] // with the victims of earlier levels
		rest := slices.DeleteFunc(slots, b.seat)
		found = found || len(rest) < len(slots)
		victims := victims{b: b, level: int32(level)}
		for _, slot := range rest {
			if !b.shift(slot) {
				victims.yield(slot)
			}
			found = found || b.at[slot] != none
		}
	}
	return found
}

// line is the queue of the slots that have no site. Of those equally far back the larger loads come
// first; then first replicas by name, the others by a hash of it. In one and the same order all
// jobs that have their first replica on a worker would get their second on the same other one,
// which then could take over nothing of what the worker leaves behind.
func (b *board) line() [][]int32 {
	queue := b.levels(b.at)
	for level, slots := range queue {
		if level > 0 {
			b.shuffle(slots)
		}
		if !b.equal {
			slices.SortStableFunc(slots, func(x, y int32) int {
				b.step(1)
				return cmp.Compare(b.loadOf(y), b.loadOf(x))
			})
		}
	}
	return queue
}

// levels sorts the slots that have no site in a list by how many of their job come first: those
// that have one, and those before them.
func (b *board) levels(sites []int32) [][]int32 {
	deepest := int32(0)
	for j := range b.jobs {
		deepest = max(deepest, b.first[j+1]-b.first[j])
	}
	queue := make([][]int32, deepest)
	for j := range b.jobs {
		slots := sites[b.first[j]:b.first[j+1]]
		level := 0
		for _, w := range slots {
			if w != none {
				level++
			}
		}
		b.step(len(slots))
		for i, w := range slots {
			if w == none {
				queue[level] = append(queue[level], b.first[j]+int32(i))
				level++
			}
		}
	}
	return queue
}

// shuffle orders slots by a hash of their jobs' names.
func (b *board) shuffle(slots []int32) {
	type card struct {
		hash uint64
		slot int32
	}
	cards := make([]card, len(slots))
	for i, slot := range slots {
		b.step(1)
		cards[i] = card{balance.Rendezvous("", b.jobs[b.owner[slot]].Name), slot}
	}
	slices.SortFunc(cards, func(x, y card) int {
		b.step(1)
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
func (b *board) seat(slot int32) bool {
	b.mark(slot)
	w := b.pick(b.now, slot)
	if w == none {
		if b.later == nil {
			b.later = newTree(b, false)
		}
		w = b.pick(b.later, slot)
	}
	if w == none {
		return false
	}
	b.take(slot, w)
	return true
}

// pick is the first site for the marked slot, in a zone with as few other replicas of its job as
// there can be.
func (b *board) pick(t *tree, slot int32) int32 {
	load := b.loadOf(slot)
	from, to := b.siblings(slot)
	for sharing := range to - from {
		if w := t.first(load, sharing); w != none || !b.zoned || t.room[1] < load {
			return w
		}
	}
	return none
}

// shift looks for a chain of moves after which a slot has a site, and makes it the goal. It reports
// whether the slot is done with for now: there may be a chain, only not in this plan.
func (b *board) shift(slot int32) bool {
	switch {
	case b.moves == 0 || b.later == nil || b.later.room[1] < b.least:
		return false
	case b.moved >= b.moves:
		b.fate[slot] = Reason{Code: MoveLimit, Limit: b.moves}
		return true
	}
	c := b.chains()
	end := c.place(slot, true, &b.dead, func(w int32) bool {
		return b.sites[w].room(false) >= b.loadOf(c.via[w])
	})
	if end == none {
		return false
	}
	c.apply(end, func(u int32) Reason { return b.makesRoom(u, slot) })
	return true
}

// victims are slots of jobs that have at least two replicas more than those which are being placed.
type victims struct {
	b     *board
	level int32
	// candidates, by how many replicas their jobs had when they were put there; the last is the
	// next
	slots [][]int32
	found bool
	dead  dead
}

// yield gives a slot the room of a victim, which is then in want itself.
func (v *victims) yield(slot int32) {
	b := v.b
	if !v.found {
		v.find()
	}
	if len(v.slots) == 0 {
		return
	}
	b.mark(slot)
	if victim := v.next(b.loadOf(slot)); victim != none {
		w := b.at[victim]
		v.end(victim, slot)
		b.take(slot, w)
		return
	}
	if b.moves == 0 {
		return
	}
	c := b.chains()
	last := none
	end := c.place(slot, b.moved < b.moves, &v.dead, func(w int32) bool {
		b.step(len(b.on[w]))
		for _, u := range b.on[w] {
			if v.open(u) && b.sites[w].room(false)+b.loadOf(u) >= b.loadOf(c.via[w]) {
				last = u
				return true
			}
		}
		return false
	})
	if end != none {
		v.end(last, slot)
		c.apply(end, func(u int32) Reason { return b.makesRoom(u, slot) })
	}
}

// find lists the victims.
func (v *victims) find() {
	v.found = true
	v.b.step(len(v.b.at))
	for slot := range v.b.at {
		if v.open(int32(slot)) {
			v.put(int32(slot))
		}
	}
}

func (v *victims) put(slot int32) {
	have := int(v.have(slot))
	for len(v.slots) <= have {
		v.slots = append(v.slots, nil)
	}
	v.slots[have] = append(v.slots[have], slot)
}

// next is a victim whose site admits the marked slot and has room for its load then: of a job with
// the most replicas, and of those the last by name. Without one it is none.
func (v *victims) next(load Load) int32 {
	b := v.b
	for have, slots := range slices.Backward(v.slots) {
		for i, victim := range slices.Backward(slots) {
			b.step(1)
			if w := b.at[victim]; int(v.have(victim)) == have && w != none {
				if b.admits(w) && b.sites[w].room(false)+b.loadOf(victim) >= load {
					return victim
				}
				continue
			}
			b.step((len(v.slots[have]) - i) / 16)
			v.slots[have] = slices.Delete(v.slots[have], i, i+1)
			if v.open(victim) { // with fewer others than before
				v.put(victim)
			}
		}
	}
	return none
}

func (v *victims) have(slot int32) int32 { return v.b.have[v.b.owner[slot]] }

func (v *victims) open(slot int32) bool {
	return v.b.at[slot] != none && v.have(slot) >= v.level+2
}

// end takes a victim's site, and puts it in the queue again.
func (v *victims) end(victim, slot int32) {
	b := v.b
	j := b.owner[victim]
	if why := (Reason{Code: Yields, Load: b.jobs[j].Load,
		Job: b.jobs[b.owner[slot]].Name}); b.home[victim] == b.at[victim] {
		b.end(victim, why)
	} else {
		b.drop(victim)
	}
	b.queue[b.have[j]] = append(b.queue[b.have[j]], victim)
}

// makesRoom is why a slot moves in a chain that begins with another.
func (b *board) makesRoom(slot, first int32) Reason {
	return Reason{Code: MakesRoom, Load: b.loadOf(slot), Job: b.jobs[b.owner[first]].Name}
}
