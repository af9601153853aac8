package place

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// small is a cluster of unit loads so small that all its states can be listed. A state says of each
// job on which workers it is, a bit per worker.
type small struct {
	capacities []int
	draining   int // bits
	jobs       int
	replicas   int
}

type masks []int

// each calls f with every state that keeps to the capacities; with ordered, only with one of those
// that differ by the jobs' names.
func (c small) each(ordered bool, allowed int, f func(masks)) {
	state := make(masks, c.jobs)
	free := slices.Clone(c.capacities)
	var next func(j int)
	next = func(j int) {
		if j == c.jobs {
			f(state)
			return
		}
		for m := range 1 << len(c.capacities) {
			if bits.OnesCount(uint(m)) > c.replicas || m&^allowed != 0 || ordered && j > 0 &&
				m < state[j-1] {
				continue
			}
			fits := true
			for w := range free {
				if m>>w&1 == 1 {
					free[w]--
					fits = fits && free[w] >= 0
				}
			}
			if fits {
				state[j] = m
				next(j + 1)
			}
			for w := range free {
				free[w] += m >> w & 1
			}
		}
	}
	next(0)
}

// worth compares states, smaller is better: by the jobs with a first replica, those with a second,
// and so on; then by the share of its worker's capacity that is in use once each replica is there,
// the greatest first.
func (c small) worth(m masks) []int {
	worth := make([]int, c.replicas)
	for _, m := range m {
		for level := range bits.OnesCount(uint(m)) {
			worth[level]--
		}
	}
	return append(worth, c.shares(m.count)...)
}

// count is how many replicas are on a worker.
func (m masks) count(w int) (n int) {
	for _, m := range m {
		n += m >> w & 1
	}
	return n
}

// shares are the parts of its worker's capacity that are in use once each replica is there, the
// greatest first.
func (c small) shares(count func(w int) int) (shares []int) {
	for w, capacity := range c.capacities {
		for k := range count(w) {
			shares = append(shares, (k+1)*2520/capacity) // whole for capacities up to 10
		}
	}
	slices.SortFunc(shares, func(x, y int) int { return cmp.Compare(y, x) })
	return shares
}

// best lists the states that are worth most.
func (c small) best() (best []masks) {
	var top []int
	c.each(false, (1<<len(c.capacities)-1)&^c.draining, func(m masks) {
		worth := c.worth(m)
		order := -1
		if top != nil {
			order = slices.Compare(worth, top)
		}
		if order < 0 {
			top, best = worth, nil
		}
		if order <= 0 {
			best = append(best, slices.Clone(m))
		}
	})
	return best
}

func (c small) state(m masks) State {
	var s State
	for w, capacity := range c.capacities {
		s.Workers = append(s.Workers, Worker{
			Name: fmt.Sprintf("w%d", w), Capacity: Load(capacity) * Unit,
			Draining: c.draining>>w&1 == 1,
		})
	}
	for j, m := range m {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprintf("j%d", j), Load: Unit, Replicas: c.replicas})
		n := 0
		for w := range c.capacities {
			if m>>w&1 == 1 {
				s.Current = append(s.Current, Replica{
					Job: s.Jobs[j].Name, Replica: n, Worker: s.Workers[w].Name,
				})
				n++
			}
		}
	}
	return s
}

func masksOf(s State) masks {
	m := make(masks, len(s.Jobs))
	for _, r := range s.Current {
		m[r.Job[1]-'0'] |= 1 << (r.Worker[1] - '0')
	}
	return m
}

// TestMovementIsTheLeastThereIs lists all states of all clusters of up to four workers, four jobs
// and three replicas, of unit loads, and from each lets plans be carried out until there are no
// more. What comes of it is always worth as much as can be, and there is no state of that worth,
// with as many replicas of each job, for which fewer would have been ended.
func TestMovementIsTheLeastThereIs(t *testing.T) {
	states := 0
	for workers := 1; workers <= 4; workers++ {
		if testing.Short() && workers > 3 {
			break
		}
		for jobs := 1; jobs <= 4; jobs++ {
			for replicas := 1; replicas <= 3; replicas++ {
				eachCapacities(workers, jobs, func(capacities []int) {
					for _, draining := range []int{0, 1} {
						states += leastFromAll(t, small{capacities, draining, jobs, replicas})
					}
				})
			}
		}
	}
	t.Log(states, "states")
}

// eachCapacities calls f with all capacities from 1 to most, the smallest first.
func eachCapacities(workers, most int, f func([]int)) {
	capacities := make([]int, workers)
	var next func(w, least int)
	next = func(w, least int) {
		if w == workers {
			f(capacities)
			return
		}
		for c := least; c <= most; c++ {
			capacities[w] = c
			next(w+1, c)
		}
	}
	next(0, 1)
}

// leastFromAll checks all states of a cluster and says how many they are. One that cannot empty its
// draining workers is left out: what has no other place stays there.
func leastFromAll(t *testing.T, c small) (states int) {
	best := c.best()
	if c.draining != 0 && c.pending(best[0]) {
		return 0
	}
	c.each(true, 1<<len(c.capacities)-1, func(m masks) {
		states++
		if len(c.capacities) < 4 {
			if _, slowly := carryOut(
				t, c.state(m), Policy{Moves: 1, New: 1},
			); !slices.Equal(c.worth(masksOf(slowly)), c.worth(best[0])) {
				t.Fatalf("%v: from %v by single moves to %v, and %v is worth more", c, m,
					masksOf(slowly), best[0])
			}
		}
		ended, rest := carryOut(t, c.state(m), Policy{Moves: 1000, New: -1})
		have, least := masksOf(rest), math.MaxInt
		if !slices.Equal(c.worth(have), c.worth(best[0])) {
			t.Fatalf("%v: from %v to %v, and %v is worth more", c, m, have, best[0])
		}
		for _, b := range best {
			if c.sameCounts(b, have) {
				least = min(least, c.ended(m, b))
			}
		}
		if ended != least {
			t.Fatalf("%v: from %v to %v: %d replicas were ended, %d had to be", c, m, have, ended,
				least)
		}
	})
	return states
}

// pending reports whether some job has less than its replicas.
func (c small) pending(m masks) bool {
	return slices.ContainsFunc(m, func(m int) bool { return bits.OnesCount(uint(m)) < c.replicas })
}

// sameCounts reports whether two states have each job on as many workers.
func (c small) sameCounts(m, n masks) bool {
	return slices.EqualFunc(m, n, func(x, y int) bool {
		return bits.OnesCount(uint(x)) == bits.OnesCount(uint(y))
	})
}

// ended is how many replicas must end on the way from one state to another.
func (c small) ended(m, n masks) (ended int) {
	for j := range m {
		ended += bits.OnesCount(uint(m[j] &^ n[j]))
	}
	return ended
}

// carryOut lets plans be carried out until there is an empty one, and says how many replicas were
// ended.
func carryOut(t rapid.TB, s State, p Policy) (ended int, final State) {
	for range 100 {
		plan, err := Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Empty() {
			return ended, s
		}
		if limit := cmp.Or(p.Moves, DefaultMoves); len(plan.Move) > limit {
			t.Fatalf("%d moves, with a limit of %d", len(plan.Move), limit)
		}
		ended += len(plan.Stop) + len(plan.Move)
		s = applied(s, plan)
	}
	t.Fatalf("no end to the plans: %v", s)
	return 0, s
}

// applied is the state after a plan: what it starts runs, what it stops is gone.
func applied(s State, p Plan) State {
	type at struct {
		job     string
		replica int
		worker  string
	}
	ends := map[at]bool{}
	for _, x := range p.Stop {
		ends[at{x.Job, x.Replica, x.Worker}] = true
	}
	for _, x := range p.Move {
		ends[at{x.Job, x.Replica, x.From}] = true
	}
	s.Current = slices.DeleteFunc(slices.Clone(s.Current), func(r Replica) bool {
		return r.Going || r.Moving || ends[at{r.Job, r.Replica, r.Worker}]
	})
	for _, x := range p.Start {
		s.Current = append(s.Current, Replica{Job: x.Job, Replica: x.Replica, Worker: x.Worker})
	}
	for _, x := range p.Move {
		s.Current = append(s.Current, Replica{Job: x.Job, Replica: x.Replica, Worker: x.To})
	}
	return s
}
