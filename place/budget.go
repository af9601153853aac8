package place

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Budget is how many workers can die at the same moment, whichever they are, with every replica still placeable on those
// left, some of them perhaps after others have moved. Draining workers are not counted on. Zones and penalties, which never
// keep a replica waiting for good, are not looked at.
type Budget struct {
	Workers int      // so many can die for certain
	AtMost  int      // more cannot; the same number when all loads are equal, as it then is exact
	Weakest []string // the worker whose death takes most away first; the first Workers+1 are too many, or may be
	Short   int      // replicas that have no place, at the least, when the first AtMost+1 of them are dead
}

// Broken reports whether not even the workers that live have room for all.
func (b Budget) Broken() bool { return b.AtMost < 0 }

// FaultBudget computes the budget of a state.
//
// With equal loads l, let a worker have c = ⌊capacity / l⌋ places. All jobs can be placed exactly when for every m, the m
// jobs with the most replicas have together no more of them than Σ min(c, m) over the workers (Gale and Ryser 1957), and the
// greatest excess is the number of replicas without a place. Of all groups of d workers, the d with the most places take
// most away from that sum, for each m at once. So only one group of each size needs to be looked at.
//
// With unequal loads that is asked twice: with all loads as small as the smallest, for what cannot be, and as great as the
// greatest, for what can for certain. Besides, a replica of load l that has r − 1 others finds room if the load of all
// others is smaller than the sum of (capacity − l) over any but r − 1 workers: then they cannot all be too full. And with
// nobody dead there is a place for all if all have one now.
func FaultBudget(s State, p Policy) (Budget, error) {
	if err := check(s, p); err != nil {
		return Budget{}, err
	}
	now := newBoard(s, p)
	now.shed()
	d := demandOf(now)
	b := Budget{Weakest: d.names}
	b.AtMost = d.bears(func(left []Load) bool { return d.missing(left, d.least) == 0 && d.sum <= sum(left) })
	b.Workers = b.AtMost
	if d.least != d.most {
		b.Workers = d.bears(func(left []Load) bool { return d.missing(left, d.most) == 0 || d.roomy(left) })
		if !slices.ContainsFunc(now.home, func(w int32) bool { return w == none || now.sites[w].closed != "" }) {
			b.Workers = max(b.Workers, 0) // all are placed, so they can be
		}
	}
	if b.AtMost < len(d.room) {
		b.Short = max(d.missing(d.room[b.AtMost+1:], d.least), 1)
	}
	return b, nil
}

// demand is what is to be placed, and where.
type demand struct {
	replicas []int    // of each job, the most first
	least    Load     // the smallest load
	most     Load     // the greatest
	sum      Load     // of all replicas
	room     []Load   // of each open worker, for all jobs, the most first
	names    []string // of those workers
}

func demandOf(b *board) demand {
	d := demand{least: math.MaxInt64}
	for j := range b.jobs {
		n, load := int(b.first[j+1]-b.first[j]), b.jobs[j].Load
		d.replicas = append(d.replicas, n)
		d.least, d.most, d.sum = min(d.least, load), max(d.most, load), d.sum.plus(load.times(n))
	}
	slices.SortFunc(d.replicas, func(x, y int) int { return cmp.Compare(y, x) })
	var open []*site
	for w := range b.sites {
		if s := &b.sites[w]; s.closed == "" {
			open = append(open, s)
		}
	}
	room := func(s *site) Load { return max(s.Capacity-s.Used, 0) }
	slices.SortFunc(open, func(x, y *site) int {
		return cmp.Or(cmp.Compare(room(y), room(x)), cmp.Compare(y.load, x.load), strings.Compare(x.Name, y.Name))
	})
	for _, s := range open {
		d.room, d.names = append(d.room, room(s)), append(d.names, s.Name)
	}
	return d
}

// bears is the greatest number of workers without whom a test still passes, or -1. Fewer workers pass no test that more do
// not.
func (d demand) bears(passes func(left []Load) bool) int {
	low, high := -1, len(d.room) // low passes, or is -1; high is not known to
	if len(d.replicas) == 0 {
		return high
	}
	for high-low > 1 {
		if middle := (low + high) / 2; passes(d.room[middle:]) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// missing is how many replicas have no place if all have the same load.
func (d demand) missing(room []Load, load Load) int {
	jobs := len(d.replicas)
	places := make([]int, jobs+1) // how many workers have so many places
	for _, r := range room {
		n := jobs
		if load > 0 {
			n = int(min(r/load, Load(jobs)))
		}
		places[n]++
	}
	wide := len(room) - places[0] // workers with at least m places
	excess, worst := 0, 0
	for m := 1; m <= jobs; m++ {
		excess += d.replicas[m-1] - wide
		worst = max(worst, excess)
		wide -= places[m]
	}
	return worst
}

// roomy reports whether there is so much room that no replica can fail to find some.
func (d demand) roomy(room []Load) bool {
	others := d.replicas[0] - 1 // workers that have the job already: those with the most room, at the worst
	if others >= len(room) {
		return false
	}
	full := Load(0) // the least that makes the rest too full
	for _, r := range room[others:] {
		full = full.plus(max(r-d.most+1, 0))
	}
	return d.sum-d.most < full
}

func sum(loads []Load) (all Load) {
	for _, l := range loads {
		all = all.plus(l)
	}
	return all
}
