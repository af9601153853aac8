package place

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Budget is how many workers can die at the same moment, whichever they are, with every replica
// still placeable on those left, some of them perhaps after others have moved. Draining workers are
// not counted on. Zones and penalties, which never keep a replica waiting for good, are not looked
// at.
type Budget struct {
	// Workers is how many can die for certain, and AtMost more than how many cannot; -1 = not even
	// those that live have room for all. Workers <= AtMost; the two are equal when all loads are.
	Workers int
	AtMost  int
	// Weakest are the workers, the one whose death takes most away first: without the first
	// AtMost+1 of them some replica has no place, so these are a smallest set that breaks the
	// promise, as far as AtMost is exact.
	Weakest []string
	// Groups are the groups whose replicas lack room without the first AtMost+1 of Weakest, by
	// name.
	Groups []string
	// Short is how many replicas have no place then, at the least.
	Short int
}

// Broken reports whether not even the workers that live have room for all.
func (b Budget) Broken() bool { return b.AtMost < 0 }

// Breaking are the workers whose deaths together are certain to leave a replica without a place;
// none where nothing has to run.
func (b Budget) Breaking() []string { return b.Weakest[:min(b.AtMost+1, len(b.Weakest))] }

// FaultBudget computes the budget of a state. Where other groups run on the same workers,
// [SharedBudgets] computes it for all of them.
func FaultBudget(s State, p Policy) (Budget, error) {
	d, err := DemandOf("", s, p)
	if err != nil {
		return Budget{}, err
	}
	b := SharedBudgets([]Demand{d})[0]
	b.Groups = nil
	return b, nil
}

// Demand is what a group of jobs asks of its workers, which other groups may use, too.
type Demand struct {
	Group  string
	Places []Place // the workers that may run its jobs, by name
	Sizes  []Size  // its jobs by their replicas, the most first; no two have equal Replicas
	Placed bool    // each replica runs on one of Places now
}

// Place is a worker that may run a group's jobs.
type Place struct {
	Worker string
	Room   Load // for the jobs of all groups that are asked about together
	Load   Load // of the group's replicas that are there now
}

// Size is how many of a group's jobs have so many replicas each.
type Size struct {
	Replicas    int
	Jobs        int
	Load        Load // of one replica of each of these jobs, added up
	Least, Most Load // of one replica
	Grain       Load // the greatest common divisor of their loads; 0 = all are 0
}

// DemandOf is what a state asks for. The room of a worker is what is not in its Used, so that must
// not contain what the groups use for which demands are compared. The error is a *InputError.
func DemandOf(group string, s State, p Policy) (Demand, error) {
	if err := check(s, p); err != nil {
		return Demand{}, err
	}
	d := Demand{Group: group}
	at := make(map[string]int, len(s.Workers)) // by name: where in d.Places
	for i := range s.Workers {
		w := &s.Workers[i]
		if w.Capacity > w.Shed && !w.Draining && p.selects(w.Labels) {
			room := max(w.Capacity-w.Shed-w.Used, 0)
			d.Places = append(d.Places, Place{Worker: w.Name, Room: room})
		}
	}
	slices.SortFunc(d.Places, func(x, y Place) int { return strings.Compare(x.Worker, y.Worker) })
	for i := range d.Places {
		at[d.Places[i].Worker] = i
	}
	d.Placed = placed(s, p, d.Places, at)
	bySize := map[int]Size{}
	for i := range s.Jobs {
		n, load := replicasOf(&s.Jobs[i], p), s.Jobs[i].Load
		z, seen := bySize[n]
		if !seen {
			z = Size{Replicas: n, Least: math.MaxInt64}
		}
		z.Jobs++
		z.Load = z.Load.plus(load)
		z.Least, z.Most = min(z.Least, load), max(z.Most, load)
		z.Grain = divisor(z.Grain, load)
		bySize[n] = z
	}
	for _, z := range bySize {
		d.Sizes = append(d.Sizes, z)
	}
	slices.SortFunc(d.Sizes, func(x, y Size) int { return cmp.Compare(y.Replicas, x.Replicas) })
	return d, nil
}

func replicasOf(j *Job, p Policy) int { return cmp.Or(j.Replicas, p.Replicas, 1) }

// placed reports whether each replica runs on a worker of its own that may run it, and none of them
// has more than its room. It adds up what the workers have.
func placed(s State, p Policy, places []Place, at map[string]int) bool {
	jobs := make(map[string]*Job, len(s.Jobs))
	missing := 0
	for i := range s.Jobs {
		jobs[s.Jobs[i].Name] = &s.Jobs[i]
		missing += replicasOf(&s.Jobs[i], p)
	}
	type spot struct{ job, worker string }
	type replica struct {
		job string
		n   int
	}
	taken, runs := map[spot]bool{}, map[replica]bool{}
	for i := range s.Current {
		r := &s.Current[i]
		j, w := jobs[r.Job], 0
		open := !r.Going && j != nil && r.Replica >= 0 && r.Replica < replicasOf(j, p)
		if open {
			w, open = at[r.Worker]
		}
		if !open || taken[spot{r.Job, r.Worker}] || runs[replica{r.Job, r.Replica}] {
			continue
		}
		taken[spot{r.Job, r.Worker}], runs[replica{r.Job, r.Replica}] = true, true
		places[w].Load = places[w].Load.plus(j.Load)
		missing--
	}
	return missing == 0 && !slices.ContainsFunc(places, func(p Place) bool {
		return p.Load > p.Room
	})
}

// Without is the demand when workers have died or drain.
func (d Demand) Without(workers map[string]bool) Demand {
	places := make([]Place, 0, len(d.Places))
	for _, p := range d.Places {
		if workers[p.Worker] {
			d.Placed = d.Placed && p.Load == 0
			continue
		}
		places = append(places, p)
	}
	d.Places = places
	return d
}

// SharedBudgets computes the budget of each demand. Groups that share workers, be it by way of
// others, have one budget together: so many workers can die with a place left for every replica of
// all of them. A group without jobs has one of its own.
//
// With equal loads l, let a worker have c = ⌊room / l⌋ places. By the theorem of max flow and min
// cut, all replicas can be placed exactly when every set J of jobs asks for no more replicas than
// Σ min(c, n) over the workers, n being how many jobs of J the worker may run; and the greatest
// excess is the number of replicas without a place. (For a single group that is the condition of
// Gale and Ryser, 1957.) Of all sets of d workers, those with the greatest min(c, n) take most away
// from that sum, so for each J only one set of deaths of each size needs to be looked at.
//
// Nor need every J. Let jobs be of one class when the same workers may run them and they have
// equally many replicas. The excess depends only on how many jobs of each class are in J, and it is
// a convex function of these numbers: what is asked for grows by a constant with each job, and the
// sum, also without its d greatest terms, is concave. So it is greatest at a corner: each class
// wholly in J or not at all. Of two classes that the same workers may run, the one with more
// replicas comes first. With E sets of workers and K classes for each that leaves (K+1)^E sets J:
// two for a single group whose jobs have equally many replicas, whatever their number. When they
// are too many (maxWork), some of them still tell what cannot be, and a fixed division of every
// worker's room among the sets tells what can.
//
// With unequal loads the same is asked three times: with all loads of J as small as the smallest,
// and with loads for replicas (a worker takes at most min(room, load of one replica of each job of
// J that it may run)), for what cannot be; and with all as great as the greatest, for what can for
// certain. Besides, a replica of load l that has r − 1 others finds room if the load of all others
// that may stand in its way is smaller than the sum of (room − l) over any of its workers but r −
// 1: then they cannot all be too full. And with nobody dead there is a place for all if all have
// one now.
func SharedBudgets(demands []Demand) []Budget {
	budgets := make([]Budget, len(demands))
	for _, members := range components(demands) {
		together := make([]*Demand, len(members))
		for i, m := range members {
			together[i] = &demands[m]
		}
		b := newSharing(together).budget(maxWork)
		for _, m := range members {
			budgets[m] = b
			budgets[m].Weakest = slices.Clone(b.Weakest)
			budgets[m].Groups = slices.Clone(b.Groups)
		}
	}
	return budgets
}

// components divides demands into those that share workers, be it by way of others.
func components(demands []Demand) [][]int {
	parent := make([]int, len(demands))
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	first := map[string]int{} // by worker: a demand that may use it
	for i := range demands {
		parent[i] = i
		if len(demands[i].Sizes) == 0 {
			continue
		}
		for _, p := range demands[i].Places {
			if other, seen := first[p.Worker]; seen {
				parent[find(i)] = find(other)
			} else {
				first[p.Worker] = i
			}
		}
	}
	at := map[int]int{} // by root: where in list
	var list [][]int
	for i := range demands {
		root := find(i)
		if _, seen := at[root]; !seen {
			at[root] = len(list)
			list = append(list, nil)
		}
		list[at[root]] = append(list[at[root]], i)
	}
	return list
}
