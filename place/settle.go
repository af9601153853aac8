package place

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// settling is the first step: what runs now comes into its slots.
type settling struct {
	*board
	index map[string]int32 // of the sites, by name
}

// settle puts what runs now into its slots, and stops what fits into none.
func (s *settling) settle(current []Replica) {
	ordered := sorted(current, compareReplicas)
	j := 0
	for i := 0; i < len(ordered); {
		name := ordered[i].Job
		end := i + 1
		for end < len(ordered) && ordered[end].Job == name {
			end++
		}
		for j < len(s.jobs) && s.jobs[j].Name < name {
			j++
		}
		if j < len(s.jobs) && s.jobs[j].Name == name {
			s.settleJob(int32(j), ordered[i:end])
		} else {
			s.remove(ordered[i:end])
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
func (s *settling) remove(replicas []Replica) {
	for i := range replicas {
		r := &replicas[i]
		if repeats(replicas, i) {
			continue
		}
		if w, alive := s.index[r.Worker]; alive {
			s.sites[w].held = s.sites[w].held.plus(max(r.Load, 0))
		}
		if !r.Going {
			s.stops = append(s.stops, Stop{r.Job, r.Replica, r.Worker, Reason{Code: Removed}})
		}
	}
}

// settleJob settles the replicas of one job. First come those that go: whatever else is on their
// worker is one too many. Last come those that move: where another one is in their place, they go
// too.
func (s *settling) settleJob(j int32, replicas []Replica) {
	moving := false
	for i := range replicas {
		r := &replicas[i]
		if r.Going && !repeats(replicas, i) {
			if w, alive := s.index[r.Worker]; alive {
				s.leave(j, w)
			}
		}
		moving = moving || r.Moving
	}
	for i := range replicas {
		if r := &replicas[i]; !r.Going && !r.Moving && !repeats(replicas, i) {
			s.keep(j, r)
		}
	}
	if !moving {
		return
	}
	for i := range replicas {
		if r := &replicas[i]; !r.Going && r.Moving && !repeats(replicas, i) {
			s.keep(j, r)
		}
	}
}

// leave counts a replica of a job that is there and will go.
func (s *settling) leave(j, w int32) {
	s.sites[w].held = s.sites[w].held.plus(s.jobs[j].Load)
	s.bar(j, w, Ending)
}

// keep puts a replica into its slot if it is wanted where it is, and else stops it.
func (s *settling) keep(j int32, r *Replica) {
	w, alive := s.index[r.Worker]
	load, slot := s.jobs[j].Load, s.first[j]+int32(r.Replica)
	why := Reason{Load: load}
	switch {
	case !alive:
		why.Code = Gone
	case r.Replica < 0 || r.Replica >= int(s.first[j+1]-s.first[j]):
		why.Code = Surplus
	case s.crowded(j, w) || s.home[slot] != none && !r.Moving:
		why.Code = Double
	case s.home[slot] != none:
		s.former[slot] = true
		s.leave(j, w)
		return
	case s.sites[w].load > math.MaxInt64/2: // no capacity is so great, and so all sums stay exact
		why.Code = Overloaded
	default:
		s.home[slot], s.at[slot] = w, w
		s.have[j]++
		s.waiting--
		s.sites[w].load += load
		s.sites[w].count++
		return
	}
	if alive {
		s.leave(j, w)
	}
	s.stops = append(s.stops, Stop{r.Job, r.Replica, r.Worker, why})
}

// crowded reports whether a replica of a job is on a site already, or one that is being ended.
func (s *settling) crowded(j, w int32) bool {
	if slices.Contains(s.at[s.first[j]:s.first[j+1]], w) {
		return true
	}
	return len(s.bars) > 0 && slices.ContainsFunc(s.bars[j], func(bar bar) bool {
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
