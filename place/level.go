package place

import (
	"cmp"
	"maps"
	"slices"
)

// levelling is the step that makes the shares of the sites' capacities that are in use more even.
type levelling struct{ *board }

// level moves slots from sites with a great share of their capacity in use to sites where the share
// is smaller even with the slot, until there is no such move or the budget is spent.
func (l *levelling) level() {
	if l.least == 0 {
		return // nothing has a load
	}
	for again := true; again; again = l.recall() {
		for l.relieveOne(false) || l.moved < l.moves && l.relieveOne(true) {
			// what costs nothing comes first, again after each move
		}
	}
}

// recall takes back a move that need not be: the slot goes home, if need be by a chain of others
// that costs nothing, and all is as even as before. One move can make another needless.
func (l *levelling) recall() bool {
	if l.moved == 0 || !l.equal || l.zoned {
		return false
	}
	l.lists()
	for _, slot := range slices.Sorted(maps.Keys(l.cause)) {
		home := l.home[slot]
		if home == none || l.at[slot] == none || l.at[slot] == home || l.sites[home].closed != "" {
			continue
		}
		from, to := l.siblings(slot)
		for u := from; u < to; u++ {
			// any other replica of the job that is to go somewhere is as good there
			if l.at[u] == none || l.at[u] == l.home[u] {
				continue
			}
			if l.swap(slot, u); l.goHome(slot, home) {
				return true
			}
			l.swap(slot, u)
		}
	}
	return false
}

// swap lets two slots of a job, neither of them at home, change places.
func (l *levelling) swap(t, u int32) {
	v, w := l.at[t], l.at[u]
	if t == u {
		return
	}
	l.on[v][slices.Index(l.on[v], t)], l.on[w][slices.Index(l.on[w], u)] = u, t
	l.at[t], l.at[u] = w, v
	l.order[t], l.order[u] = l.order[u], l.order[t]
}

// goHome takes a slot home if that needs no other move and leaves all as even as it is.
func (l *levelling) goHome(slot, home int32) bool {
	x, h := &l.sites[l.at[slot]], &l.sites[home]
	if h.fresh == 0 &&
		compareShares(h.taken().plus(l.least), h.Capacity, x.taken(), x.Capacity) > 0 {
		return false // too full, and nothing there could go on at no cost
	}
	if l.mark(slot); !l.admits(home) {
		return false
	}
	c := l.chains()
	c.left = slices.DeleteFunc(c.left, func(v int32) bool { return v == home })
	c.via[home] = slot
	end := c.search([]int32{home}, false, func(int32, int32) bool {
		return true
	}, func(v int32) bool {
		y := &l.sites[v]
		room := l.now.free(v)
		if v == home { // where it is still
			room = y.room(false)
		}
		return x == y || room >= l.least &&
			compareShares(y.taken().plus(l.least), y.Capacity, x.taken(), x.Capacity) <= 0
	})
	if end == none {
		return false
	}
	c.apply(end, func(t int32) Reason { return l.cause[t] })
	return true
}

// relieveOne moves something away from the fullest site it can.
func (l *levelling) relieveOne(spend bool) bool {
	stuck := make([]bool, len(l.sites))
	for {
		w := l.fullest(func(w int32) bool { return !stuck[w] && (spend || l.sites[w].fresh > 0) })
		if w == none || !l.uneven(w) {
			return false
		}
		if l.relieve(w, spend, stuck) {
			return true
		}
	}
}

// fullest is the site with the greatest share in use among some, or none.
func (l *levelling) fullest(among func(w int32) bool) int32 {
	fullest := none
	l.step(len(l.sites))
	for w := range l.sites {
		s := &l.sites[w]
		if s.closed != "" || s.load == 0 || !among(int32(w)) {
			continue
		}
		if fullest == none || l.compare(int32(w), fullest) > 0 {
			fullest = int32(w)
		}
	}
	return fullest
}

// compare compares the shares in use of two sites.
func (l *levelling) compare(v, w int32) int {
	x, y := &l.sites[v], &l.sites[w]
	return compareShares(x.taken(), x.Capacity, y.taken(), y.Capacity)
}

// uneven reports whether any site with room could better have the smallest load.
func (l *levelling) uneven(w int32) bool {
	l.step(len(l.sites))
	for v := range l.sites {
		if l.now.free(int32(v)) >= l.least && l.better(w, int32(v), l.least) {
			return true
		}
	}
	return false
}

// relieve moves something away from a site for balance, or marks it as stuck.
func (l *levelling) relieve(w int32, spend bool, stuck []bool) bool {
	if l.equal && !l.zoned {
		return l.relieveByChain(w, spend, stuck)
	}
	slot, v := l.bestMove(w, spend)
	if slot == none {
		stuck[w] = true
		return false
	}
	l.cause[slot] = l.balance(slot, w, v)
	l.take(slot, v)
	return true
}

// relieveByChain moves one replica's load along a chain, which with equal loads changes nothing at
// the sites between its ends. When there is no chain, there is none from the sites it could have
// led over either: they have smaller shares.
func (l *levelling) relieveByChain(w int32, spend bool, stuck []bool) bool {
	c := l.chains()
	full := []int32{w}
	for v := range l.sites {
		if v := int32(v); v != w && !stuck[v] && l.sites[v].closed == "" &&
			(spend || l.sites[v].fresh > 0) && l.compare(v, w) == 0 {
			full = append(full, v)
		}
	}
	end := c.level(full, spend, func(v int32) bool {
		return l.now.free(v) >= l.least && l.better(w, v, l.least)
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
	c.apply(end, func(slot int32) Reason { return l.balance(slot, w, end) })
	return true
}

func (l *levelling) balance(slot, w, v int32) Reason {
	return Reason{Code: Balance, Load: l.loadOf(slot), FromShare: l.share(w), ToShare: l.share(v)}
}

// bestMove is the slot of a site, and the other site, that leave the greater of their two shares
// smallest; first of all one that costs nothing.
func (l *levelling) bestMove(w int32, spend bool) (slot, to int32) {
	l.lists()
	var targets []int32
	for v := range l.sites {
		if l.now.free(int32(v)) >= l.least && l.better(w, int32(v), l.least) {
			targets = append(targets, int32(v))
		}
	}
	slot, to = none, none
	for _, u := range l.on[w] {
		load, free := l.loadOf(u), l.home[u] != w
		if load == 0 || !free && !spend || slot != none && !free && l.home[slot] != w {
			continue
		}
		l.mark(u)
		sharing := l.sharing(l.sites[w].zone)
		l.step(len(targets))
		for _, v := range targets {
			if l.now.free(v) < load || !l.admits(v) || !l.better(w, v, load) ||
				l.sharing(l.sites[v].zone) > sharing {
				continue
			}
			if slot == none || free && l.home[slot] == w || l.evener(w, u, v, slot, to) {
				slot, to = u, v
			}
		}
	}
	return slot, to
}

// evener compares two moves away from a site.
func (l *levelling) evener(w, slot1, to1, slot2, to2 int32) bool {
	taken1, capacity1 := l.greater(w, slot1, to1)
	taken2, capacity2 := l.greater(w, slot2, to2)
	return cmp.Or(compareShares(taken1, capacity1, taken2, capacity2), cmp.Compare(slot1, slot2),
		cmp.Compare(to1, to2)) < 0
}

// greater is the greater of the shares of two sites after a move.
func (l *levelling) greater(w, slot, v int32) (taken, capacity Load) {
	x, y, load := &l.sites[w], &l.sites[v], l.loadOf(slot)
	if left, got := x.taken()-load,
		y.taken()+load; compareShares(left, x.Capacity, got, y.Capacity) < 0 {
		return got, y.Capacity
	} else {
		return left, x.Capacity
	}
}
