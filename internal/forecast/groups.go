package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rotahq/rota/place"
)

// GroupNeed is how many workers a group of jobs needs.
type GroupNeed struct {
	Group   string
	Workers int // that may run its jobs and do not drain
	Wanted  int
	// In is in how many minutes they are needed; 0 = now. Below 0 where Wanted is not more than
	// Workers.
	In  int
	Why string
}

// Horizon is how many minutes the demand of a group is looked ahead.
const Horizon = 60

// addMost is how many further workers are tried.
const addMost = 1 << 10

// Groups is what groups need that share workers, so that any keep workers can die at once with a
// place left for every replica: now, and while their demand grows as it did. Workers that are added
// are like those that the group has: as large as the middle one, and for the same groups.
func Groups(demands []place.Demand, growth map[string]Growth, keep int) []GroupNeed {
	needs := make([]GroupNeed, len(demands))
	budgets := place.SharedBudgets(demands)
	for i := range demands {
		d, b := &demands[i], &budgets[i]
		n := GroupNeed{Group: d.Group, Workers: len(d.Places), Wanted: len(d.Places), In: -1}
		switch {
		case len(d.Sizes) == 0:
			n.Wanted, n.Why = 0, "it has no jobs"
		case len(d.Places) == 0:
			n.Wanted, n.In = d.Sizes[0].Replicas+keep, 0
			n.Why = fmt.Sprintf("no worker serves it: it takes %d at least, since the replicas of a job run on different ones, to keep n = %d",
				n.Wanted, keep)
		case b.Workers < keep:
			n.short(demands, i, b, 0, keep)
		default:
			n.later(demands, i, b, growth, keep)
		}
		needs[i] = n
	}
	return needs
}

// SortGroups sorts by name.
func SortGroups(needs []GroupNeed) {
	slices.SortFunc(needs, func(a, b GroupNeed) int { return strings.Compare(a.Group, b.Group) })
}

// later looks ahead.
func (n *GroupNeed) later(
	demands []place.Demand, i int, now *place.Budget, growth map[string]Growth, keep int,
) {
	n.Why = bears(now)
	grows := slices.ContainsFunc(demands, func(d place.Demand) bool {
		return growth[d.Group].PerMinute > 0
	})
	if !grows {
		return
	}
	at := func(minutes int) ([]place.Demand, *place.Budget) {
		then := make([]place.Demand, len(demands))
		for k := range demands {
			then[k] = grown(demands[k], growth[demands[k].Group].factor(minutes))
		}
		return then, &place.SharedBudgets(then)[i]
	}
	enough, short := 0, Horizon
	then, b := at(short)
	if b.Workers >= keep {
		return
	}
	for short-enough > 1 {
		middle := (enough + short) / 2
		if t, c := at(middle); c.Workers >= keep {
			enough = middle
		} else {
			short, then, b = middle, t, c
		}
	}
	n.short(then, i, b, short, keep)
	if g := growth[n.Group]; g.PerMinute > 0 {
		n.Why = fmt.Sprintf("its demand grows by %s %% an hour; %s",
			number(100*60*g.PerMinute/g.Now), n.Why)
	}
}

// short says how many more workers it takes when n is not kept.
func (n *GroupNeed) short(demands []place.Demand, i int, b *place.Budget, in, keep int) {
	if !slices.Contains(b.Groups, n.Group) {
		n.Why = fmt.Sprintf("%s; what lacks room is %s, on workers that they share",
			bears(b), named(b.Groups))
		return
	}
	like := middlePlace(demands[i].Places)
	enough := func(more int) bool {
		return place.SharedBudgets(with(demands, like, more))[i].Workers >= keep
	}
	low, high := 0, 1
	for !enough(high) {
		if low, high = high, high*2; high > addMost {
			n.Why = fmt.Sprintf("%s; more workers like %s do not help: `rota group explain %s`",
				bears(b), like.Worker, n.Group)
			return
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	n.Wanted, n.In = n.Workers+high, in
	more := fmt.Sprintf("%d more like %s, with room for %v", high, like.Worker, like.Room)
	if in > 0 {
		n.Why = fmt.Sprintf("%s, within %s to keep n = %d", more, plural(int64(in), "minute"), keep)
	} else {
		n.Why = fmt.Sprintf("%s; %s, to keep n = %d", bears(b), more, keep)
	}
}

func bears(b *place.Budget) string {
	switch {
	case b.Broken():
		return "not even the workers that there are have room for all replicas"
	case b.Workers <= 0:
		return "no worker can be spared"
	case b.Workers == 1:
		return "any one worker can die with a place left for every replica"
	}
	return fmt.Sprintf("any %d workers can die at once with a place left for every replica",
		b.Workers)
}

// middlePlace is the worker whose room is the middle one.
func middlePlace(places []place.Place) place.Place {
	sorted := slices.Clone(places)
	slices.SortFunc(sorted, func(a, b place.Place) int {
		if a.Room != b.Room {
			return int(a.Room - b.Room)
		}
		return strings.Compare(a.Worker, b.Worker)
	})
	return sorted[len(sorted)/2]
}

// with is the demands when there are so many more workers like one.
func with(demands []place.Demand, like place.Place, more int) []place.Demand {
	list := slices.Clone(demands)
	for i := range list {
		serves := slices.ContainsFunc(list[i].Places, func(p place.Place) bool {
			return p.Worker == like.Worker
		})
		if !serves {
			continue
		}
		places := slices.Clone(list[i].Places)
		for k := range more { // no worker has a name with a line break
			places = append(places, place.Place{
				Worker: fmt.Sprintf("\n%d", k), Room: like.Room,
			})
		}
		list[i].Places = places
	}
	return list
}

// grown is a demand with more jobs like those that there are.
func grown(d place.Demand, factor float64) place.Demand {
	if factor <= 1 {
		return d
	}
	d.Placed = false
	d.Sizes = slices.Clone(d.Sizes)
	for i := range d.Sizes {
		z := &d.Sizes[i]
		jobs := int(math.Ceil(float64(z.Jobs) * factor))
		z.Load = place.Load(float64(z.Load) * float64(jobs) / float64(z.Jobs))
		z.Jobs = jobs
	}
	return d
}
