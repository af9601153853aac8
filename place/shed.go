package place

import (
	"cmp"
	"slices"
)

// shed moves slots away from a site whose worker is to have more of its capacity free, as far as
// the budget goes: few of them, and not more than is asked for where their loads allow.
func (v *vacating) shed(w int32) {
	s := &v.sites[w]
	if s.excess() <= 0 {
		return
	}
	for left := v.sheddable(w); len(left) > 0 && s.excess() > 0; {
		v.step(1)
		i := v.nextToShed(left, s.excess())
		d := drive{left[i], Shed}
		left = slices.Delete(left, i, i+1)
		switch {
		case v.at[d.slot] != w: // a chain has moved it already
		case v.moved-v.kept >= v.moves:
			v.stays = append(v.stays, d)
			v.fate[d.slot] = Reason{Code: MoveLimit, Limit: v.moves}
		case !v.evacuate(d):
			v.stays = append(v.stays, d)
		}
	}
}

// sheddable are the slots that run on a site and take something of its capacity, the smallest loads
// first, and of equals those of jobs that have most replicas last.
func (v *vacating) sheddable(w int32) []int32 {
	v.lists()
	slots := slices.DeleteFunc(slices.Clone(v.on[w]), func(slot int32) bool {
		return v.home[slot] != w || v.loadOf(slot) == 0
	})
	slices.SortFunc(slots, func(x, y int32) int {
		return cmp.Or(cmp.Compare(v.loadOf(x), v.loadOf(y)),
			cmp.Compare(v.have[v.owner[x]], v.have[v.owner[y]]), cmp.Compare(x, y))
	})
	return slots
}

// nextToShed is which of some slots, the smallest loads first, goes next: the smallest load with
// which all is done, or else the largest.
func (v *vacating) nextToShed(slots []int32, excess Load) int {
	i, _ := slices.BinarySearchFunc(slots, excess, func(slot int32, excess Load) int {
		return cmp.Compare(v.loadOf(slot), excess)
	})
	return min(i, len(slots)-1)
}

// keepExcess leaves of the slots that a site is to shed and cannot only as many as are too many.
func (v *vacating) keepExcess() {
	told := map[int32]Load{} // by site: of those that stay on the list
	v.stays = slices.DeleteFunc(v.stays, func(d drive) bool {
		if d.why != Shed {
			return false
		}
		w := v.home[d.slot]
		if told[w] >= v.sites[w].excess() {
			return true
		}
		told[w] += v.loadOf(d.slot)
		return false
	})
}
