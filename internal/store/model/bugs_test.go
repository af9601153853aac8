package model

import "slices"

// bug is a wrong program that the suite must find.
type bug struct {
	name  string
	claim string // one that must fail
	plant func(p *planted)
}

// bugs lists them. Their verbs are called one at a time.
func bugs() []bug {
	return slices.Concat(confBugs(), eventBugs(), groupBugs(), assignBugs(), seatBugs(),
		scheduleBugs(), fireBugs(), expiryBugs(), beginBugs(), keyBugs(), keyRuleBugs(),
		orderBugs(), waitBugs(),
		childBugs(), dependBugs(),
		editedMetaBugs(), uniqueBugs(), contextBugs(), settleBugs(), spanBugs(),
		submitBugs(), actBugs(), viewBugs(), leaseBugs())
}
