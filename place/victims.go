package place

import "slices"

// victims are slots of jobs that have at least two replicas more than those which are being placed.
type victims struct {
	f     *filling
	level int32
	// candidates, by how many replicas their jobs had when they were put there; the last is the
	// next
	slots [][]int32
	found bool
	dead  dead
}

// yield gives a slot the room of a victim, which is then in want itself.
func (v *victims) yield(slot int32) {
	f := v.f
	if !v.found {
		v.find()
	}
	if len(v.slots) == 0 {
		return
	}
	f.mark(slot)
	if victim := v.next(f.loadOf(slot)); victim != none {
		w := f.at[victim]
		v.end(victim, slot)
		f.take(slot, w)
		return
	}
	if f.moves == 0 {
		return
	}
	c := f.chains()
	last := none
	end := c.place(slot, f.moved < f.moves, &v.dead, func(w int32) bool {
		f.step(len(f.on[w]))
		for _, u := range f.on[w] {
			if v.open(u) && f.sites[w].room(false)+f.loadOf(u) >= f.loadOf(c.via[w]) {
				last = u
				return true
			}
		}
		return false
	})
	if end != none {
		v.end(last, slot)
		c.apply(end, func(u int32) Reason { return f.makesRoom(u, slot) })
	}
}

// find lists the victims.
func (v *victims) find() {
	v.found = true
	v.f.step(len(v.f.at))
	for slot := range v.f.at {
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
	f := v.f
	for have, slots := range slices.Backward(v.slots) {
		for i, victim := range slices.Backward(slots) {
			f.step(1)
			if w := f.at[victim]; int(v.have(victim)) == have && w != none {
				if f.admits(w) && f.sites[w].room(false)+f.loadOf(victim) >= load {
					return victim
				}
				continue
			}
			f.step((len(v.slots[have]) - i) / 16)
			v.slots[have] = slices.Delete(v.slots[have], i, i+1)
			if v.open(victim) { // with fewer others than before
				v.put(victim)
			}
		}
	}
	return none
}

func (v *victims) have(slot int32) int32 { return v.f.have[v.f.owner[slot]] }

func (v *victims) open(slot int32) bool {
	return v.f.at[slot] != none && v.have(slot) >= v.level+2
}

// end takes a victim's site, and puts it in the queue again.
func (v *victims) end(victim, slot int32) {
	f := v.f
	j := f.owner[victim]
	if why := (Reason{Code: Yields, Load: f.jobs[j].Load,
		Job: f.jobs[f.owner[slot]].Name}); f.home[victim] == f.at[victim] {
		f.end(victim, why)
	} else {
		f.drop(victim)
	}
	f.queue[f.have[j]] = append(f.queue[f.have[j]], victim)
}
