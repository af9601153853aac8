package place

import (
	"cmp"
	"slices"
)

// drive is a slot that is to leave its home, and why.
type drive struct {
	slot int32
	why  Code
}

// vacating is the step that moves slots away from where they are not to be.
type vacating struct {
	*board
	kept    int  // of the slots that move, those whose room is yet to be free
	deadNow dead // of chains to a site that has room now
}

// vacate moves slots away from where they are not to be, the worst cases first, as far as the
// budget goes.
func (v *vacating) vacate() {
	drives := v.drives()
	zone := slices.IndexFunc(drives, func(d drive) bool { return d.why == ZoneShared })
	if zone < 0 {
		zone = len(drives)
	}
	for _, d := range drives[:zone] {
		switch {
		case v.at[d.slot] != v.home[d.slot]: // a chain has moved it already
		case v.moved-v.kept >= v.moves:
			v.stays = append(v.stays, d)
			v.fate[d.slot] = Reason{Code: MoveLimit, Limit: v.moves}
		case !v.evacuate(d):
			v.stays = append(v.stays, d)
		}
	}
	for w := range v.sites {
		v.shed(int32(w))
	}
	for _, d := range drives[zone:] {
		if v.at[d.slot] == v.home[d.slot] && v.moved < v.moves {
			v.spread(d.slot)
		}
	}
}

// evacuate moves a slot to the first site with room, or else to one that will have it when what is
// going is gone, or else by a chain. Room that is yet to be free is kept for it: what was made by
// an earlier plan's chain would else be taken for the sake of balance, and made again for ever.
func (v *vacating) evacuate(d drive) bool {
	why := Reason{Code: d.why, Load: v.loadOf(d.slot)}
	v.mark(d.slot)
	w := v.pick(v.now, d.slot)
	if w == none {
		if v.later == nil {
			v.later = newTree(v.board, false)
		}
		if w = v.pick(v.later, d.slot); w != none {
			v.kept++
		}
	}
	if w != none {
		v.cause[d.slot] = why
		v.take(d.slot, w)
		return true
	}
	c := v.chains()
	end := c.place(d.slot, true, &v.deadNow, func(w int32) bool {
		return v.now.free(w) >= v.loadOf(c.via[w])
	})
	c.apply(end, func(slot int32) Reason {
		if slot == d.slot {
			return why
		}
		return v.makesRoom(slot, d.slot)
	})
	return end != none
}

// spread moves a slot to a zone with fewer replicas of its job, if there is one with room.
func (v *vacating) spread(slot int32) {
	v.mark(slot)
	load := v.loadOf(slot)
	for sharing := range v.sharing(v.sites[v.home[slot]].zone) {
		if w := v.now.first(load, sharing); w != none {
			v.cause[slot] = Reason{Code: ZoneShared, Load: load}
			v.take(slot, w)
			return
		}
	}
}

// drives lists the slots that are to leave their homes.
func (v *vacating) drives() []drive {
	avoided := false
	for _, bars := range v.bars {
		avoided = avoided || slices.ContainsFunc(bars, func(bar bar) bool {
			return bar.code == Avoided
		})
	}
	closed := slices.ContainsFunc(v.sites, func(s site) bool {
		return s.closed != "" && s.count > 0
	})
	if !avoided && !closed && !v.zoned {
		return nil
	}
	var list []drive
	for slot, w := range v.home {
		v.step(1)
		if w == none || v.at[slot] != w {
			continue
		}
		if why := v.drivenBy(int32(slot), w); why != "" {
			list = append(list, drive{int32(slot), why})
		}
	}
	rank := []Code{Penalised, Unselected, Drained, ZoneShared}
	slices.SortStableFunc(list, func(x, y drive) int {
		return cmp.Compare(slices.Index(rank, x.why), slices.Index(rank, y.why))
	})
	return list
}

// drivenBy is why a slot is to leave its home, or empty.
func (v *vacating) drivenBy(slot, w int32) Code {
	if slices.Contains(v.bars[v.owner[slot]], bar{w, Avoided}) {
		return Penalised
	}
	if closed := v.sites[w].closed; closed != "" {
		return closed
	}
	if v.zoned {
		if v.mark(slot); v.sharing(v.sites[w].zone) > 0 {
			return ZoneShared
		}
	}
	return ""
}
