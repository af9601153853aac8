package place

import (
	"math"
	"slices"
)

// chain looks for chains of moves: a slot goes to a site, from which another slot goes to a second
// site, and so on to a site that needs nothing moved. It finds one that moves the fewest replicas
// away from where they run; slots that run nowhere, or move already, cost nothing. Each site is
// looked at once, whatever slot comes to it first: with equal loads, where it makes no difference
// which does, there is a chain exactly if one is found.
type chain struct {
	b    *board
	via  []int32 // of a site that was reached: the slot that would come to it, or none
	from []int32 // and the site it would come from, or none
	left []int32 // sites not reached yet
	dead dead    // sites not worth reaching
}

// dead are the loads that are known to come to a site in vain, the smallest of each site; nothing
// is known where loads are not equal. What is dead stays so: a chain made since does not touch dead
// sites, or else it would have shown that they are not. With unequal loads a site is no proof for
// another slot: what it leads to may have been reached by a load that was too great.
type dead []Load

func (d dead) at(w int32, l Load) bool { return d != nil && l >= d[w] }

// chains is ready to search.
func (b *board) chains() *chain {
	b.lists()
	c := &b.chain
	if c.b == nil {
		*c = chain{
			b: b, via: make([]int32, len(b.sites)), from: make([]int32, len(b.sites)),
			left: make([]int32, 0, len(b.sites)),
		}
	}
	c.left, c.dead = c.left[:0], nil
	for w := range b.sites {
		c.via[w], c.from[w] = none, none
		if s := &b.sites[w]; s.closed == "" && s.excess() <= 0 {
			c.left = append(c.left, int32(w))
		}
	}
	return c
}

// place looks for a chain that begins with a slot and ends at an accepted site, which it returns,
// or none. If it may not spend, the chain moves only what runs nowhere or moves already.
func (c *chain) place(slot int32, spend bool, d *dead, accept func(w int32) bool) int32 {
	b := c.b
	c.dead = *d
	end := c.search(c.reach(nil, slot, none), spend, func(w, t int32) bool {
		return b.sites[w].room(false)+b.loadOf(t) >= b.loadOf(c.via[w])
	}, accept)
	if end != none || !spend || !b.equal {
		return end
	}
	if *d == nil {
		*d = slices.Repeat(dead{math.MaxInt64}, len(b.sites))
	}
	for w, t := range c.via {
		if t != none {
			(*d)[w] = min((*d)[w], b.loadOf(t))
		}
	}
	return none
}

// level looks for a chain from one of some sites, of slots of equal loads, to an accepted site,
// which it returns, or none.
func (c *chain) level(sites []int32, spend bool, accept func(w int32) bool) int32 {
	c.left = slices.DeleteFunc(c.left, func(v int32) bool { return slices.Contains(sites, v) })
	return c.search(sites, spend, func(int32, int32) bool { return true }, accept)
}

// search goes from layer to layer: a layer is what can be reached at the same cost. A slot may go
// from a reached site where makes says that this is room enough for what comes.
func (c *chain) search(
	layer []int32, spend bool, makes func(w, slot int32) bool, accept func(w int32) bool,
) int32 {
	for len(layer) > 0 {
		for i := 0; i < len(layer); i++ { // which grows
			if w := layer[i]; c.b.sites[w].fresh > 0 {
				layer = c.expand(layer, w, true, makes)
			}
		}
		if end := c.first(layer, accept); end != none || !spend {
			return end
		}
		var next []int32
		for _, w := range layer {
			next = c.expand(next, w, false, makes)
		}
		layer = next
	}
	return none
}

// first is the accepted site of a layer that stands before the others.
func (c *chain) first(layer []int32, accept func(w int32) bool) int32 {
	first := none
	for _, w := range layer {
		if (first == none || c.b.before(w, first)) && accept(w) {
			first = w
		}
	}
	return first
}

// expand adds to a list the sites that slots can go to from a site, either those that cost nothing
// or the others.
func (c *chain) expand(to []int32, w int32, free bool, makes func(w, slot int32) bool) []int32 {
	for _, slot := range c.b.on[w] {
		if len(c.left) == 0 {
			break
		}
		if (c.b.home[slot] != w) == free && makes(w, slot) {
			to = c.reach(to, slot, w)
		}
	}
	return to
}

// reach adds to a list the sites not reached yet that admit a slot, which comes from a site.
func (c *chain) reach(to []int32, slot, from int32) []int32 {
	b := c.b
	load := b.loadOf(slot)
	b.mark(slot)
	b.step(len(c.left))
	rest := c.left[:0]
	for _, w := range c.left {
		if !b.admits(w) || c.dead.at(w, load) {
			rest = append(rest, w)
			continue
		}
		c.via[w], c.from[w] = slot, from
		to = append(to, w)
	}
	c.left = rest
	return to
}

// apply makes the chain to a site the goal, and says of each slot why it moves.
func (c *chain) apply(end int32, why func(slot int32) Reason) {
	for w := end; w != none && c.via[w] != none; {
		slot, from := c.via[w], c.from[w]
		c.b.cause[slot] = why(slot)
		c.b.take(slot, w)
		w = from
	}
}
