package place

import (
	"cmp"
	"slices"
)

// census counts the sites by what keeps a slot off them. What does not depend on the job is counted
// once.
type census struct {
	b       *board
	counted bool
	lacking int
	closed  int
	open    int
	crowded int              // of those
	full    map[Load][]int32 // open sites with less room than a load, the most first
}

func (c *census) count() {
	if c.counted {
		return
	}
	c.counted, c.full = true, map[Load][]int32{}
	for w := range c.b.sites {
		switch s := &c.b.sites[w]; {
		case s.lacks:
			c.lacking++
		case s.closed != "":
			c.closed++
		default:
			c.open++
			if s.crowded() {
				c.crowded++
			}
		}
	}
}

// short lists the open sites with less room than a load.
func (c *census) short(load Load) []int32 {
	if full, known := c.full[load]; known {
		return full
	}
	var full []int32
	room := func(w int32) Load { return c.b.sites[w].room(false) }
	for w := range c.b.sites {
		if c.b.sites[w].closed == "" && room(int32(w)) < load {
			full = append(full, int32(w))
		}
	}
	slices.SortFunc(full, func(v, w int32) int {
		return cmp.Or(cmp.Compare(room(w), room(v)), cmp.Compare(v, w))
	})
	c.full[load] = full
	return full
}

// take is the reason why a slot finds no site, without a code if there is one that would take it.
func (c *census) take(slot int32) Reason {
	c.count()
	b := c.b
	load := b.loadOf(slot)
	full := c.short(load)
	b.step(len(full) / 16) // most find a place among the first
	r := Reason{
		Load: load, Workers: len(b.sites), Lacking: c.lacking, Closed: c.closed, Crowded: c.crowded,
		Full: len(full) - c.crowded,
	}
	b.mark(slot)
	for _, w := range b.own(slot) {
		if b.sites[w].closed != "" {
			continue
		}
		if slices.Contains(b.bars[b.owner[slot]], bar{w, Avoided}) {
			r.Failed++
		} else {
			r.Same++
		}
		switch {
		case b.sites[w].crowded():
			r.Crowded--
		case b.sites[w].room(false) < load:
			r.Full--
		}
	}
	for _, w := range full {
		if b.seen[w] != b.stamp && !b.sites[w].crowded() {
			r.Room = max(b.sites[w].room(false), 0)
			break
		}
	}
	switch {
	case r.Workers == 0:
		r.Code = NoWorkers
	case r.Lacking == r.Workers:
		r.Code = Unmatched
	case c.open == 0:
		r.Code = Unopen
	case r.Same+r.Failed+r.Crowded+r.Full < c.open:
	case r.Crowded+r.Full > 0:
		r.Code = NoCapacity
	case r.Failed > 0:
		r.Code = Avoided
	default:
		r.Code = TooFew
	}
	return r
}

// own are the sites where a slot may not be because of its own job, each once.
func (b *board) own(slot int32) []int32 {
	var own []int32
	add := func(w int32) {
		b.step(1 + len(own)/16)
		if w != none && !slices.Contains(own, w) {
			own = append(own, w)
		}
	}
	from, to := b.siblings(slot)
	for u := from; u < to; u++ {
		if add(b.at[u]); u != slot {
			add(b.home[u])
		}
	}
	for _, bar := range b.bars[b.owner[slot]] {
		add(bar.site)
	}
	return own
}
