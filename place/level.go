package place

import (
	"cmp"
	"maps"
	"slices"
)

// drive is a slot that is to leave its home, and why.
type drive struct {
	slot int32
	why  Code
}

// vacate moves slots away from where they are not to be, the worst cases first, as far as the
// budget goes.
func (b *board) vacate() {
	drives := b.drives()
	zone := slices.IndexFunc(drives, func(d drive) bool { return d.why == ZoneShared })
	if zone < 0 {
		zone = len(drives)
	}
	for _, d := range drives[:zone] {
		switch {
		case b.at[d.slot] != b.home[d.slot]: // a chain has moved it already
		case b.moved-b.kept >= b.moves:
			b.stays = append(b.stays, d)
			b.fate[d.slot] = Reason{Code: MoveLimit, Limit: b.moves}
		case !b.evacuate(d):
			b.stays = append(b.stays, d)
		}
	}
	for w := range b.sites {
		b.shed(int32(w))
	}
	for _, d := range drives[zone:] {
		if b.at[d.slot] == b.home[d.slot] && b.moved < b.moves {
			b.spread(d.slot)
		}
	}
}

// evacuate moves a slot to the first site with room, or else to one that will have it when what is
// going is gone, or else by a chain. Room that is yet to be free is kept for it: what was made by
// an earlier plan's chain would else be taken for the sake of balance, and made again for ever.
func (b *board) evacuate(d drive) bool {
	why := Reason{Code: d.why, Load: b.loadOf(d.slot)}
	b.mark(d.slot)
	w := b.pick(b.now, d.slot)
	if w == none {
		if b.later == nil {
			b.later = newTree(b, false)
		}
		if w = b.pick(b.later, d.slot); w != none {
			b.kept++
		}
	}
	if w != none {
		b.cause[d.slot] = why
		b.take(d.slot, w)
		return true
	}
	c := b.chains()
	end := c.place(d.slot, true, &b.deadNow, func(w int32) bool {
		return b.now.free(w) >= b.loadOf(c.via[w])
	})
	c.apply(end, func(slot int32) Reason {
		if slot == d.slot {
			return why
		}
		return b.makesRoom(slot, d.slot)
	})
	return end != none
}

// spread moves a slot to a zone with fewer replicas of its job, if there is one with room.
func (b *board) spread(slot int32) {
	b.mark(slot)
	load := b.loadOf(slot)
	for sharing := range b.sharing(b.sites[b.home[slot]].zone) {
		if w := b.now.first(load, sharing); w != none {
			b.cause[slot] = Reason{Code: ZoneShared, Load: load}
			b.take(slot, w)
			return
		}
	}
}

// drives lists the slots that are to leave their homes.
func (b *board) drives() []drive {
	avoided := false
	for _, bars := range b.bars {
		avoided = avoided || slices.ContainsFunc(bars, func(bar bar) bool {
			return bar.code == Avoided
		})
	}
	closed := slices.ContainsFunc(b.sites, func(s site) bool {
		return s.closed != "" && s.count > 0
	})
	if !avoided && !closed && !b.zoned {
		return nil
	}
	var list []drive
	for slot, w := range b.home {
		b.step(1)
		if w == none || b.at[slot] != w {
			continue
		}
		if why := b.drivenBy(int32(slot), w); why != "" {
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
func (b *board) drivenBy(slot, w int32) Code {
	if slices.Contains(b.bars[b.owner[slot]], bar{w, Avoided}) {
		return Penalised
	}
	if closed := b.sites[w].closed; closed != "" {
		return closed
	}
	if b.zoned {
		if b.mark(slot); b.sharing(b.sites[w].zone) > 0 {
			return ZoneShared
		}
	}
	return ""
}

// level moves slots from sites with a great share of their capacity in use to sites where the share
// is smaller even with the slot, until there is no such move or the budget is spent.
func (b *board) level() {
	if b.least == 0 {
		return // nothing has a load
	}
	for again := true; again; again = b.recall() {
		for b.relieveOne(false) || b.moved < b.moves && b.relieveOne(true) {
			// what costs nothing comes first, again after each move
		}
	}
}

// recall takes back a move that need not be: the slot goes home, if need be by a chain of others
// that costs nothing, and all is as even as before. One move can make another needless.
func (b *board) recall() bool {
	if b.moved == 0 || !b.equal || b.zoned {
		return false
	}
	b.lists()
	for _, slot := range slices.Sorted(maps.Keys(b.cause)) {
		home := b.home[slot]
		if home == none || b.at[slot] == none || b.at[slot] == home || b.sites[home].closed != "" {
			continue
		}
		from, to := b.siblings(slot)
		for u := from; u < to; u++ {
			// any other replica of the job that is to go somewhere is as good there
			if b.at[u] == none || b.at[u] == b.home[u] {
				continue
			}
			if b.swap(slot, u); b.goHome(slot, home) {
				return true
			}
			b.swap(slot, u)
		}
	}
	return false
}

// swap lets two slots of a job, neither of them at home, change places.
func (b *board) swap(t, u int32) {
	v, w := b.at[t], b.at[u]
	if t == u {
		return
	}
	b.on[v][slices.Index(b.on[v], t)], b.on[w][slices.Index(b.on[w], u)] = u, t
	b.at[t], b.at[u] = w, v
}

// goHome takes a slot home if that needs no other move and leaves all as even as it is.
func (b *board) goHome(slot, home int32) bool {
	x, h := &b.sites[b.at[slot]], &b.sites[home]
	if h.fresh == 0 &&
		compareShares(h.taken().plus(b.least), h.Capacity, x.taken(), x.Capacity) > 0 {
		return false // too full, and nothing there could go on at no cost
	}
	if b.mark(slot); !b.admits(home) {
		return false
	}
	c := b.chains()
	c.left = slices.DeleteFunc(c.left, func(v int32) bool { return v == home })
	c.via[home] = slot
	end := c.search([]int32{home}, false, func(int32, int32) bool {
		return true
	}, func(v int32) bool {
		y := &b.sites[v]
		room := b.now.free(v)
		if v == home { // where it is still
			room = y.room(false)
		}
		return x == y || room >= b.least &&
			compareShares(y.taken().plus(b.least), y.Capacity, x.taken(), x.Capacity) <= 0
	})
	if end == none {
		return false
	}
	c.apply(end, func(t int32) Reason { return b.cause[t] })
	return true
}

// relieveOne moves something away from the fullest site it can.
func (b *board) relieveOne(spend bool) bool {
	stuck := make([]bool, len(b.sites))
	for {
		w := b.fullest(func(w int32) bool { return !stuck[w] && (spend || b.sites[w].fresh > 0) })
		if w == none || !b.uneven(w) {
			return false
		}
		if b.relieve(w, spend, stuck) {
			return true
		}
	}
}

// fullest is the site with the greatest share in use among some, or none.
func (b *board) fullest(among func(w int32) bool) int32 {
	fullest := none
	b.step(len(b.sites))
	for w := range b.sites {
		s := &b.sites[w]
		if s.closed != "" || s.load == 0 || !among(int32(w)) {
			continue
		}
		if fullest == none || b.compare(int32(w), fullest) > 0 {
			fullest = int32(w)
		}
	}
	return fullest
}

// compare compares the shares in use of two sites.
func (b *board) compare(v, w int32) int {
	x, y := &b.sites[v], &b.sites[w]
	return compareShares(x.taken(), x.Capacity, y.taken(), y.Capacity)
}

// uneven reports whether any site with room could better have the smallest load.
func (b *board) uneven(w int32) bool {
	b.step(len(b.sites))
	for v := range b.sites {
		if b.now.free(int32(v)) >= b.least && b.better(w, int32(v), b.least) {
			return true
		}
	}
	return false
}

// better reports whether a load on site w would be better on site v: the share in use there would
// be smaller than it is here now.
func (b *board) better(w, v int32, load Load) bool {
	x, y := &b.sites[w], &b.sites[v]
	return v != w && compareShares(y.taken().plus(load), y.Capacity, x.taken(), x.Capacity) < 0
}

// relieve moves something away from a site for balance, or marks it as stuck.
func (b *board) relieve(w int32, spend bool, stuck []bool) bool {
	if b.equal && !b.zoned {
		return b.relieveByChain(w, spend, stuck)
	}
	slot, v := b.bestMove(w, spend)
	if slot == none {
		stuck[w] = true
		return false
	}
	b.cause[slot] = b.balance(slot, w, v)
	b.take(slot, v)
	return true
}

// relieveByChain moves one replica's load along a chain, which with equal loads changes nothing at
// the sites between its ends. When there is no chain, there is none from the sites it could have
// led over either: they have smaller shares.
func (b *board) relieveByChain(w int32, spend bool, stuck []bool) bool {
	c := b.chains()
	full := []int32{w}
	for v := range b.sites {
		if v := int32(v); v != w && !stuck[v] && b.sites[v].closed == "" &&
			(spend || b.sites[v].fresh > 0) && b.compare(v, w) == 0 {
			full = append(full, v)
		}
	}
	end := c.level(full, spend, func(v int32) bool {
		return b.now.free(v) >= b.least && b.better(w, v, b.least)
	})
	if end == none {
		for _, v := range full {
			stuck[v] = true
		}
		for v, slot := range c.via {
			stuck[v] = stuck[v] || slot != none
		}
		return false
	}
	c.apply(end, func(slot int32) Reason { return b.balance(slot, w, end) })
	return true
}

func (b *board) balance(slot, w, v int32) Reason {
	return Reason{Code: Balance, Load: b.loadOf(slot), FromShare: b.share(w), ToShare: b.share(v)}
}

// share is the part of a site's capacity that is in use, for people to read.
func (b *board) share(w int32) float64 {
	s := &b.sites[w]
	return float64(s.taken()) / float64(max(s.Capacity, 1))
}

// bestMove is the slot of a site, and the other site, that leave the greater of their two shares
// smallest; first of all one that costs nothing.
func (b *board) bestMove(w int32, spend bool) (slot, to int32) {
	b.lists()
	var targets []int32
	for v := range b.sites {
		if b.now.free(int32(v)) >= b.least && b.better(w, int32(v), b.least) {
			targets = append(targets, int32(v))
		}
	}
	slot, to = none, none
	for _, u := range b.on[w] {
		load, free := b.loadOf(u), b.home[u] != w
		if load == 0 || !free && !spend || slot != none && !free && b.home[slot] != w {
			continue
		}
		b.mark(u)
		sharing := b.sharing(b.sites[w].zone)
		b.step(len(targets))
		for _, v := range targets {
			if b.now.free(v) < load || !b.admits(v) || !b.better(w, v, load) ||
				b.sharing(b.sites[v].zone) > sharing {
				continue
			}
			if slot == none || free && b.home[slot] == w || b.evener(w, u, v, slot, to) {
				slot, to = u, v
			}
		}
	}
	return slot, to
}

// evener compares two moves away from a site.
func (b *board) evener(w, slot1, to1, slot2, to2 int32) bool {
	taken1, capacity1 := b.greater(w, slot1, to1)
	taken2, capacity2 := b.greater(w, slot2, to2)
	return cmp.Or(compareShares(taken1, capacity1, taken2, capacity2), cmp.Compare(slot1, slot2),
		cmp.Compare(to1, to2)) < 0
}

// greater is the greater of the shares of two sites after a move.
func (b *board) greater(w, slot, v int32) (taken, capacity Load) {
	x, y, load := &b.sites[w], &b.sites[v], b.loadOf(slot)
	if left, got := x.taken()-load,
		y.taken()+load; compareShares(left, x.Capacity, got, y.Capacity) < 0 {
		return got, y.Capacity
	} else {
		return left, x.Capacity
	}
}
