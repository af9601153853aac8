package place

import (
	"cmp"
	"slices"
)

// shed moves slots away from a site whose worker is to have more of its capacity free, as far as
// the budget goes: few of them, and not more than is asked for where their loads allow.
func (b *board) shed(w int32) {
	s := &b.sites[w]
	if s.excess() <= 0 {
		return
	}
	for left := b.sheddable(w); len(left) > 0 && s.excess() > 0; {
		b.step(1)
		i := b.nextToShed(left, s.excess())
		d := drive{left[i], Shed}
		left = slices.Delete(left, i, i+1)
		switch {
		case b.at[d.slot] != w: // a chain has moved it already
		case b.moved-b.kept >= b.moves:
			b.stays = append(b.stays, d)
			b.fate[d.slot] = Reason{Code: MoveLimit, Limit: b.moves}
		case !b.evacuate(d):
			b.stays = append(b.stays, d)
		}
	}
}

// sheddable are the slots that run on a site and take something of its capacity, the smallest loads
// first, and of equals those of jobs that have most replicas last.
func (b *board) sheddable(w int32) []int32 {
	b.lists()
	slots := slices.DeleteFunc(slices.Clone(b.on[w]), func(slot int32) bool {
		return b.home[slot] != w || b.loadOf(slot) == 0
	})
	slices.SortFunc(slots, func(x, y int32) int {
		return cmp.Or(cmp.Compare(b.loadOf(x), b.loadOf(y)),
			cmp.Compare(b.have[b.owner[x]], b.have[b.owner[y]]), cmp.Compare(x, y))
	})
	return slots
}

// nextToShed is which of some slots, the smallest loads first, goes next: the smallest load with
// which all is done, or else the largest.
func (b *board) nextToShed(slots []int32, excess Load) int {
	i, _ := slices.BinarySearchFunc(slots, excess, func(slot int32, excess Load) int {
		return cmp.Compare(b.loadOf(slot), excess)
	})
	return min(i, len(slots)-1)
}

// keepExcess leaves of the slots that a site is to shed and cannot only as many as are too many.
func (b *board) keepExcess() {
	told := map[int32]Load{} // by site: of those that stay on the list
	b.stays = slices.DeleteFunc(b.stays, func(d drive) bool {
		if d.why != Shed {
			return false
		}
		w := b.home[d.slot]
		if told[w] >= b.sites[w].excess() {
			return true
		}
		told[w] += b.loadOf(d.slot)
		return false
	})
}
