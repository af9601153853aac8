package balance

import (
	"cmp"
	"slices"
)

// crew is the working nodes of a snapshot, sorted by name, with what each owns and may own.
type crew struct {
	seats   []seat
	at      map[string]int // seat of a name
	keys    int            // K
	unowned int            // keys without an owner
	spare   int            // how many seats may still take one above their share rounded down
}

type seat struct {
	Node
	hash  uint64
	owned int  // X
	limit int  // N
	goal  int  // T
	share int  // the whole number of keys it is to own in the end; the shares and spare add up to K
	round bool // its share was rounded down, so that it may take one of the spare
}

// seated counts what each working node owns, and gives each its share. Shares rounded down leave
// some keys over, fewer than were rounded: nodes that own more than their share keep one each, by
// name, and the rest is spare.
func seated(s Snapshot) crew {
	c := crew{at: make(map[string]int, len(s.Nodes)), keys: len(s.Keys)}
	for _, n := range s.Nodes {
		if n.Working {
			c.seats = append(c.seats, seat{Node: n, hash: hashed(n.Name)})
		}
	}
	slices.SortFunc(c.seats, func(a, b seat) int { return cmp.Compare(a.Name, b.Name) })
	c.seats = slices.CompactFunc(c.seats, func(a, b seat) bool { return a.Name == b.Name })
	weights := make([]int, len(c.seats))
	for i, n := range c.seats {
		weights[i], c.at[n.Name] = n.Weight, i
	}
	for _, k := range s.Keys {
		if k.Owner == "" {
			c.unowned++
		} else if i, ok := c.at[k.Owner]; ok {
			c.seats[i].owned++
		}
	}
	all := weigh(weights)
	c.spare = c.keys
	for i := range c.seats {
		n := &c.seats[i]
		n.limit, n.goal = all.limit(c.keys, n.Weight, n.Tolerance), all.target(c.keys, n.Weight)
		n.share, n.round = all.share(c.keys, n.Weight)
		c.spare -= n.share
	}
	for i := range c.seats {
		if n := &c.seats[i]; n.owned > n.share {
			c.widen(n)
		}
	}
	return c
}

// widen gives n one of the spare keys, if there is one and its share was rounded down.
func (c *crew) widen(n *seat) {
	if n.round && c.spare > 0 {
		n.share++
		n.round = false
		c.spare--
	}
}

// candidate is a key that may be claimed or given back.
type candidate struct {
	*Key
	hash   uint64 // of its name
	height uint64 // for this node
	seat   int    // of the node that an unowned key is meant for
	pinned bool   // a person gave it to that node
	reason Reason // why it is not claimed
}

// pinned tells whether a person gave a key to a node that works.
func (c *crew) pinned(k *Key) bool {
	_, works := c.at[k.Pinned]
	return k.Pinned != "" && works
}

// place finds for each unowned key, by name, the node it is meant for: the one that a person gave
// it to, or else the highest in the key's order that is below its share. Shares and spare add up to
// all keys, so there always is one: what a node has above its share leaves room elsewhere.
func (c *crew) place(keys []Key) []candidate {
	free := make([]candidate, 0, c.unowned)
	for i := range keys {
		if keys[i].Owner == "" {
			free = append(free, candidate{Key: &keys[i], hash: fnv(keys[i].Name)})
		}
	}
	slices.SortFunc(free, func(a, b candidate) int { return cmp.Compare(a.Name, b.Name) })
	given := make([]int, len(c.seats))
	for i := range free {
		if free[i].pinned = c.pinned(free[i].Key); !free[i].pinned {
			continue
		}
		free[i].seat = c.at[free[i].Pinned]
		if n := &c.seats[free[i].seat]; n.owned+given[free[i].seat] >= n.share {
			c.widen(n)
		}
		given[free[i].seat]++
	}
	for i := range free {
		if free[i].pinned {
			continue
		}
		best, top := -1, uint64(0)
		for j := range c.seats {
			n := &c.seats[j]
			if n.owned+given[j] >= n.share && !(n.round && c.spare > 0) {
				continue
			}
			if h := height(n.hash, free[i].hash); best < 0 || h > top {
				best, top = j, h
			}
		}
		free[i].seat = best
		if n := &c.seats[best]; n.owned+given[best] >= n.share {
			c.widen(n)
		}
		given[best]++
	}
	return free
}

// order sorts keys by what is meant for the node at that seat, then by the node's own order.
func (c *crew) order(keys []*candidate, at int) {
	for _, k := range keys {
		k.height = height(c.seats[at].hash, k.hash)
	}
	slices.SortFunc(keys, func(a, b *candidate) int {
		switch {
		case a.seat != b.seat && a.seat == at:
			return -1
		case a.seat != b.seat && b.seat == at:
			return 1
		case a.height != b.height:
			return cmp.Compare(b.height, a.height)
		default:
			return cmp.Compare(a.Name, b.Name)
		}
	})
}
