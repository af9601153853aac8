package balance

import (
	"cmp"
	"slices"
)

// Budget is how many nodes can die now. A key is ownable while some working node is below its cap.
type Budget struct {
	Tolerance int // what is promised: the smallest n of the working nodes
	AtOnce    int // this many working nodes, whichever they are, can die at the same moment
	InTurn    int // this many can die one after the other, each noticed before the next
	// working nodes, the one whose death hurts most first; the first AtOnce+1 are too many
	Worst []string
	Short int // keys that no cap has room for when the first AtOnce+1 have died
}

// Broken reports whether fewer nodes can die at once than is promised.
func (b Budget) Broken() bool { return b.AtOnce < b.Tolerance }

// FaultBudget computes the budget of the working nodes of a snapshot. To ask what a drain would do,
// ask with the node not working.
//
// At once means before the others notice: their caps N still count the dead, and every key stays
// ownable exactly when the caps of those left add up to K. Of all groups of d nodes the d largest
// caps take away most, so AtOnce is the greatest d < S for which the S − d smallest caps still do.
// With the same n and weight for all that is at least min(n, S − 1).
//
// In turn, caps are computed anew after each death, and each n is at least 1. Let r be the weight
// of the S − n lightest nodes: N = 1 + ⌊K × w / r⌋ > K × w / r. Any S − 1 nodes together weigh r or
// more, so their caps add up to more than K: each death leaves room for all keys, down to the last
// node. InTurn is S − 1.
//
// When AtOnce is exceeded nothing is lost: an orphan is claimed after three beats whatever the caps
// say, or sooner, as soon as the deaths are noticed. The death of a node with a larger cap hurts
// more; of equal ones, that of the one with more keys.
func FaultBudget(s Snapshot) Budget {
	c := seated(s)
	if len(c.seats) == 0 {
		return Budget{Short: c.keys}
	}
	slices.SortFunc(c.seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(b.limit, a.limit), cmp.Compare(b.owned, a.owned),
			cmp.Compare(a.Name, b.Name))
	})
	b := Budget{InTurn: len(c.seats) - 1, Tolerance: max(c.seats[0].Tolerance, 1)}
	for _, n := range c.seats {
		b.Worst = append(b.Worst, n.Name)
		b.Tolerance = min(b.Tolerance, max(n.Tolerance, 1))
	}
	room, left := 0, len(c.seats)
	for left == len(c.seats) || room < c.keys {
		b.Short = c.keys - room
		left--
		room = plus(room, c.seats[left].limit)
	}
	b.AtOnce = left
	return b
}
