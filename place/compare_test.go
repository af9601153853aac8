package place

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// trace is what happens to a cluster: workers join, or die, by their number.
type trace struct {
	name       string
	capacities []int // of all workers there ever are
	first      int   // of them are there at the start
	events     []int // n+1: worker n joins; -n-1: it dies
}

const (
	comparedJobs     = 10_000
	comparedReplicas = 2
)

// traces are the same for all. Luck is a fixed sequence.
func traces() []trace {
	equal := slices.Repeat([]int{1000}, 60)
	unequal := slices.Clone(equal)
	for i := range unequal {
		unequal[i] = []int{500, 1000, 2000}[i%3]
	}
	var growth, restart []int
	for i := 20; i < 60; i++ {
		growth = append(growth, i+1)
	}
	for i := range 50 {
		restart = append(restart, -i-1, i+1)
	}
	return []trace{
		{"deaths and joins", equal, 50, accidents(60, 50)},
		{"one dies and comes back, each in turn", equal, 50, restart},
		{"growth from 20 to 60", equal, 20, growth},
		{"deaths and joins, capacities 1 : 2 : 4", unequal, 50, accidents(60, 50)},
	}
}

// accidents lets workers die and others join or come back, at random.
func accidents(all, alive int) (events []int) {
	there := make([]bool, all)
	for i := range alive {
		there[i] = true
	}
	luck := uint64(1)
	for len(events) < 60 {
		luck = luck*6364136223846793005 + 1442695040888963407
		n := int(luck >> 33 % uint64(all))
		if there[n] && alive < 40 {
			continue
		}
		if there[n] {
			events, alive = append(events, -n-1), alive-1
		} else {
			events, alive = append(events, n+1), alive+1
		}
		there[n] = !there[n]
	}
	return events
}

// BenchmarkCompare lets this package and two others answer the same traces of joins and deaths. It
// reports, besides the time of an answer,
//
//	moves/event   replicas that left a worker which lives
//	spread        at the worst, how much more than its even part a worker has, beyond one that has least, in percent of the part
//	clashes       at the worst, jobs whose two replicas are on one worker
//	waiting       at the worst, replicas that are nowhere
//
// docs/placement.md has the table.
func BenchmarkCompare(b *testing.B) {
	for _, trace := range traces() {
		for _, r := range []struct {
			name string
			rival
		}{
			{"place", planner{Policy{New: -1, Moves: 1 << 20}}},
			{"sticky", sticky{}},
			{"bounded 1.25", boundedLoads{1.25}},
			{"bounded 1.05", boundedLoads{1.05}},
		} {
			b.Run(trace.name+"/"+r.name, func(b *testing.B) {
				for b.Loop() {
					trace.run(r.rival).report(b)
				}
			})
		}
	}
}

// outcome is what a trace came to.
type outcome struct {
	events  int
	moves   int
	spread  float64
	clashes int
	waiting int
	took    time.Duration
}

func (o outcome) report(b *testing.B) {
	b.ReportMetric(float64(o.moves)/float64(o.events), "moves/event")
	b.ReportMetric(o.spread, "spread")
	b.ReportMetric(float64(o.clashes), "clashes")
	b.ReportMetric(float64(o.waiting), "waiting")
	b.ReportMetric(float64(o.took.Microseconds())/float64(o.events)/1000, "ms/event")
	b.ReportMetric(0, "ns/op") // which is of the whole trace
}

func (tr trace) run(r rival) outcome {
	seats := make([]seat, len(tr.capacities))
	for i, c := range tr.capacities {
		seats[i] = seat{fmt.Sprintf("worker-%03d", i), c, i < tr.first}
	}
	at, _ := r.assign(slices.Repeat(assignment{-1}, comparedJobs*comparedReplicas),
		comparedReplicas, seats)
	o := outcome{events: len(tr.events)}
	for _, e := range tr.events {
		before := slices.Clone(at)
		if e > 0 {
			seats[e-1].alive = true
		} else {
			seats[-e-1].alive = false
			for i, s := range before {
				if s == -e-1 {
					before[i] = -1
				}
			}
		}
		var took time.Duration
		at, took = r.assign(before, comparedReplicas, seats)
		o.took += took
		o.count(before, at, seats)
	}
	return o
}

// count adds what one event came to. A replica that changes places with another of its job has not
// moved.
func (o *outcome) count(before, after assignment, seats []seat) {
	load, whole := make([]float64, len(seats)), 0
	clashes, waiting := 0, 0
	for i := 0; i < len(after); i += comparedReplicas {
		was, is := before[i:i+comparedReplicas], after[i:i+comparedReplicas]
		for _, s := range was {
			if s >= 0 && !slices.Contains(is, s) {
				o.moves++
			}
		}
		for _, s := range is {
			if s < 0 {
				waiting++
			} else {
				load[s]++
			}
		}
		if is[0] >= 0 && is[0] == is[1] {
			clashes++
		}
	}
	for _, s := range seats {
		if s.alive {
			whole += s.capacity
		}
	}
	least, most := 1e9, 0.0
	for i, s := range seats {
		if s.alive {
			part := float64(len(after)) * float64(s.capacity) / float64(whole)
			least, most = min(least, load[i]/part), max(most, load[i]/part)
		}
	}
	o.spread = max(o.spread, 100*(most-least))
	o.clashes, o.waiting = max(o.clashes, clashes), max(o.waiting, waiting)
}
