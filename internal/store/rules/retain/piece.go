// Package retain decides how much retention deletes at a time. It is pure, and the same for every
// store.
package retain

import "time"

// Piece is how many rows one transaction deletes. Others wait for such a transaction, or beside
// it, so it is to take about as long as its goal: the pieces grow while that goes quickly, and
// shrink when it does not, which is so when others keep the store busy.
type Piece struct{ size int }

// Size is the size of the next piece, within the limits.
func (p *Piece) Size(least, most int) int {
	p.size = min(max(p.size, least), most)
	return p.size
}

// Took learns from a piece of n rows. The next is at most twice as large, and at least a quarter.
func (p *Piece) Took(n int, took, goal time.Duration) {
	if n == 0 {
		return
	}
	fits := int(int64(n) * int64(goal) / max(int64(took), 1))
	if fits > p.size && n < p.size {
		// it was short for want of rows: that says little of larger ones
		return
	}
	p.size = min(max(fits, p.size/4), 2*p.size)
}

// hurry is the lag from which on there is little rest.
const hurry = 15 * time.Second

// Rest is how long to rest after a call that took so long, when retention is late by lag: three
// times as long while it is not late, and less the later it is, down to a quarter: then it deletes
// about as fast as the store allows.
func Rest(took, lag time.Duration) time.Duration {
	late := float64(min(max(lag, 0), hurry)) / float64(hurry)
	return took*3 - time.Duration(late*2.75*float64(took))
}
