package place

import (
	"cmp"
	"math/bits"
)

// compareShares compares the fractions taken/capacity of two sites. No capacity is a greater share
// than any.
func compareShares(taken1, capacity1, taken2, capacity2 Load) int {
	if capacity1 == capacity2 {
		return cmp.Compare(taken1, taken2)
	}
	high1, low1 := bits.Mul64(uint64(taken1), uint64(capacity2))
	high2, low2 := bits.Mul64(uint64(taken2), uint64(capacity1))
	return cmp.Or(cmp.Compare(high1, high2), cmp.Compare(low1, low2))
}

// tree finds the site that stands first among those with room. It is a tournament: a node knows the
// first site and the greatest room below it. Sites are in order of zones, so that a node whose
// sites are all of one zone can be left out at once.
type tree struct {
	b      *board
	now    bool // of the room that is free now, of sites that may get more in this plan
	leaves int  // a power of two; leaf i is node leaves+i
	best   []int32
	room   []Load
	zone   []int32 // the zone of all sites below, or none
}

func newTree(b *board, now bool) *tree {
	t := &tree{b: b, now: now, leaves: 1}
	for t.leaves < len(b.sites) {
		t.leaves *= 2
	}
	t.best = make([]int32, 2*t.leaves)
	t.room = make([]Load, 2*t.leaves)
	t.zone = make([]int32, 2*t.leaves)
	for i := range t.leaves {
		t.leaf(int32(i))
	}
	for n := t.leaves - 1; n > 0; n-- {
		t.join(n)
		if t.zone[n] = t.zone[2*n]; t.zone[2*n+1] != t.zone[n] {
			t.zone[n] = none
		}
	}
	return t
}

func (t *tree) leaf(w int32) {
	n, sites := t.leaves+int(w), t.b.sites
	if int(w) < len(sites) {
		t.zone[n] = sites[w].zone
		t.look(w)
		return
	}
	t.best[n], t.room[n], t.zone[n] = none, -1, none // beyond the last
	if len(sites) > 0 {
		t.zone[n] = sites[len(sites)-1].zone
	}
}

// look fills in the room of a site. One that takes nothing at all is not in the running.
func (t *tree) look(w int32) {
	n := t.leaves + int(w)
	t.best[n], t.room[n] = none, t.free(w)
	if t.room[n] >= 0 {
		t.best[n] = w
	}
}

// free is the room of a site.
func (t *tree) free(w int32) Load {
	s := &t.b.sites[w]
	if t.now && int(s.fresh) >= t.b.fresh {
		return -1
	}
	return s.room(t.now)
}

func (t *tree) join(n int) {
	left, right := 2*n, 2*n+1
	t.best[n] = t.best[left]
	if t.best[n] == none || t.best[right] != none && t.b.before(t.best[right], t.best[n]) {
		t.best[n] = t.best[right]
	}
	t.room[n] = max(t.room[left], t.room[right])
}

// update makes good what changed at a site.
func (t *tree) update(w int32) {
	t.look(w)
	for n := (t.leaves + int(w)) / 2; n > 0; n /= 2 {
		t.join(n)
	}
}

// first is the first site with room for a load that admits the marked slot and whose zone has at
// most so many other replicas of its job, or none.
func (t *tree) first(load Load, sharing int32) int32 { return t.search(1, load, sharing, none) }

// search looks below a node for a site that stands before the one found so far.
func (t *tree) search(n int, load Load, sharing, found int32) int32 {
	w := t.best[n]
	switch {
	case w == none || t.room[n] < load || t.b.sharing(t.zone[n]) > sharing:
		return found
	case found != none && !t.b.before(w, found):
		return found
	case t.free(w) >= load && t.b.admits(w) && t.b.sharing(t.b.sites[w].zone) <= sharing:
		return w
	case n >= t.leaves:
		return found
	}
	left, right := 2*n, 2*n+1
	if t.best[left] == w {
		return t.search(right, load, sharing, t.search(left, load, sharing, found))
	}
	return t.search(left, load, sharing, t.search(right, load, sharing, found))
}
