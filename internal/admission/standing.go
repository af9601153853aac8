package admission

import "math"

// Full tells whether as many tasks run as may.
func (g *Gate) Full() bool { return g.Limits.Running > 0 && g.Running >= g.Limits.Running }

// Next is when the rate lets the nth task from now on begin, if each before it begins as soon as
// it may. It is now where no rate holds that one back. A bucket that is full when a task comes
// wastes part of a microsecond, so that the nth may come up to n microseconds later.
func (g *Gate) Next(n, now int64) int64 {
	r := &g.Limits.Rate
	if !r.limits() {
		return now
	}
	b := g.Bucket
	n = min(n, math.MaxInt64/2/r.price()) // what comes behind that has no time worth telling
	missing := n*r.price() - b.look(r, now)
	if missing <= 0 {
		return now
	}
	return b.At + (missing+r.Count-1)/r.Count
}
