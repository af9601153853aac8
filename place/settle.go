package place

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// settle puts what runs now into its slots, and stops what fits into none.
func (b *board) settle(current []Replica, index map[string]int32) {
	ordered := sorted(current, compareReplicas)
	j := 0
	for i := 0; i < len(ordered); {
		name := ordered[i].Job
		end := i + 1
		for end < len(ordered) && ordered[end].Job == name {
			end++
		}
		for j < len(b.jobs) && b.jobs[j].Name < name {
			j++
		}
		if j < len(b.jobs) && b.jobs[j].Name == name {
			b.settleJob(int32(j), ordered[i:end], index)
		} else {
			b.remove(ordered[i:end], index)
		}
		i = end
	}
}

// compareReplicas orders replicas by name, number and place. Of what is said twice, that comes
// first which is to be believed: that it goes, or else that it stays.
func compareReplicas(x, y *Replica) int {
	switch { // most differ in one of the first two
	case x.Job != y.Job:
		return strings.Compare(x.Job, y.Job)
	case x.Replica != y.Replica:
		return cmp.Compare(x.Replica, y.Replica)
	}
	return cmp.Or(
		strings.Compare(x.Worker, y.Worker),
		cmp.Compare(truth(y.Going), truth(x.Going)), cmp.Compare(truth(x.Moving), truth(y.Moving)),
		cmp.Compare(y.Load, x.Load),
	)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// repeats reports whether the i-th replica of a job has been said already.
func repeats(replicas []Replica, i int) bool {
	return i > 0 && replicas[i].Replica == replicas[i-1].Replica &&
		replicas[i].Worker == replicas[i-1].Worker
}

// remove stops the replicas of a job that is not listed.
func (b *board) remove(replicas []Replica, index map[string]int32) {
	for i := range replicas {
		r := &replicas[i]
		if repeats(replicas, i) {
			continue
		}
		if w, alive := index[r.Worker]; alive {
			b.sites[w].held = b.sites[w].held.plus(max(r.Load, 0))
		}
		if !r.Going {
			b.stops = append(b.stops, Stop{r.Job, r.Replica, r.Worker, Reason{Code: Removed}})
		}
	}
}

// settleJob settles the replicas of one job. First come those that go: whatever else is on their
// worker is one too many. Last come those that move: where another one is in their place, they go
// too.
func (b *board) settleJob(j int32, replicas []Replica, index map[string]int32) {
	moving := false
	for i := range replicas {
		r := &replicas[i]
		if r.Going && !repeats(replicas, i) {
			if w, alive := index[r.Worker]; alive {
				b.leave(j, w)
			}
		}
		moving = moving || r.Moving
	}
	for i := range replicas {
		if r := &replicas[i]; !r.Going && !r.Moving && !repeats(replicas, i) {
			b.keep(j, r, index)
		}
	}
	if !moving {
		return
	}
	for i := range replicas {
		if r := &replicas[i]; !r.Going && r.Moving && !repeats(replicas, i) {
			b.keep(j, r, index)
		}
	}
}

// leave counts a replica of a job that is there and will go.
func (b *board) leave(j, w int32) {
	b.sites[w].held = b.sites[w].held.plus(b.jobs[j].Load)
	b.bar(j, w, Ending)
}

// keep puts a replica into its slot if it is wanted where it is, and else stops it.
func (b *board) keep(j int32, r *Replica, index map[string]int32) {
	w, alive := index[r.Worker]
	load, slot := b.jobs[j].Load, b.first[j]+int32(r.Replica)
	why := Reason{Load: load}
	switch {
	case !alive:
		why.Code = Gone
	case r.Replica < 0 || r.Replica >= int(b.first[j+1]-b.first[j]):
		why.Code = Surplus
	case b.crowded(j, w) || b.home[slot] != none && !r.Moving:
		why.Code = Double
	case b.home[slot] != none:
		b.former[slot] = true
		b.leave(j, w)
		return
	case b.sites[w].load > math.MaxInt64/2: // no capacity is so great, and so all sums stay exact
		why.Code = Overloaded
	default:
		b.home[slot], b.at[slot] = w, w
		b.have[j]++
		b.waiting--
		b.sites[w].load += load
		b.sites[w].count++
		return
	}
	if alive {
		b.leave(j, w)
	}
	b.stops = append(b.stops, Stop{r.Job, r.Replica, r.Worker, why})
}

// crowded reports whether a replica of a job is on a site already, or one that is being ended.
func (b *board) crowded(j, w int32) bool {
	if slices.Contains(b.at[b.first[j]:b.first[j+1]], w) {
		return true
	}
	return len(b.bars) > 0 && slices.ContainsFunc(b.bars[j], func(bar bar) bool {
		return bar.site == w && bar.code == Ending
	})
}

// stopExcess stops what is above a worker's capacity or number: first replicas whose job has most
// others, of those the largest loads.
func (b *board) stopExcess() {
	for w := range b.sites {
		s := &b.sites[w]
		if !s.crammed() {
			continue
		}
		b.lists()
		slots := slices.Clone(b.on[w])
		slices.SortFunc(slots, func(x, y int32) int {
			return cmp.Or(cmp.Compare(b.have[b.owner[y]], b.have[b.owner[x]]),
				cmp.Compare(b.loadOf(y), b.loadOf(x)), cmp.Compare(y, x))
		})
		for _, slot := range slots {
			if !s.crammed() {
				break
			}
			if l := b.loadOf(slot); l > 0 || s.Most > 0 && int(s.count) > s.Most {
				b.end(slot, Reason{Code: Overloaded, Load: l})
			}
		}
	}
}
