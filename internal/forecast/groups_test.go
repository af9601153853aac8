package forecast

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rotahq/rota/place"
)

// demandFor is what jobs of a group ask of workers that have room for so many units each.
func demandFor(group string, jobs, replicas int, rooms ...int) place.Demand {
	s := place.State{}
	for i := range jobs {
		s.Jobs = append(s.Jobs, place.Job{Name: fmt.Sprint("j", i), Load: place.Unit})
	}
	for i, room := range rooms {
		s.Workers = append(s.Workers, place.Worker{
			Name: fmt.Sprint("w", i), Capacity: place.Load(room) * place.Unit,
		})
	}
	d, err := place.DemandOf(group, s, place.Policy{Replicas: replicas})
	if err != nil {
		panic(err)
	}
	return d
}

func TestWhatGroupsNeedAndWhy(t *testing.T) {
	large := demandFor("g", 1, 1, 1, 1)
	large.Sizes[0].Load, large.Sizes[0].Least, large.Sizes[0].Most = 5000, 5000, 5000
	grows := map[string]Growth{"g": {Now: 60, PerMinute: 0.2}}
	for name, c := range map[string]struct {
		demand place.Demand
		growth map[string]Growth
		keep   int
		wanted int
		in     int
		why    string
	}{
		"no jobs": {demandFor("g", 0, 1, 10, 10), nil, 1, 0, -1, "it has no jobs"},
		"no workers": {demandFor("g", 5, 3), nil, 1, 4, 0,
			"no worker serves it: it takes 4 at least, since the replicas of a job run on different ones, to keep n = 1"},
		"enough": {demandFor("g", 20, 1, 10, 10, 10), nil, 1, 3, -1,
			"any one worker can die with a place left for every replica"},
		"one short": {demandFor("g", 30, 1, 10, 10, 10), nil, 1, 4, 0,
			"no worker can be spared; 1 more like w1, with room for 10, to keep n = 1"},
		"two short": {demandFor("g", 35, 1, 10, 10, 10), nil, 1, 5, 0,
			"not even the workers that there are have room for all replicas; 2 more like w1, with room for 10, to keep n = 1"},
		"n is 2": {demandFor("g", 20, 1, 10, 10, 10), nil, 2, 4, 0,
			"any one worker can die with a place left for every replica; 1 more like w1, with room for 10, to keep n = 2"},
		"the replicas of a job need workers of their own": {demandFor("g", 1, 2, 10, 10), nil, 1, 3, 0,
			"no worker can be spared; 1 more like w1, with room for 10, to keep n = 1"},
		"soon": {demandFor("g", 60, 1, 22, 22, 22, 22), grows, 1, 5, 31,
			"its demand grows by 20 % an hour; 1 more like w2, with room for 22, within 31 minutes to keep n = 1"},
		"in more than an hour": {demandFor("g", 60, 1, 30, 30, 30, 30), grows, 1, 4, -1,
			"any 2 workers can die at once with a place left for every replica"},
		"larger jobs than workers": {large, nil, 1, 2, -1,
			"not even the workers that there are have room for all replicas; more workers like w1 do not help: `rota group explain g`"},
	} {
		n := Groups([]place.Demand{c.demand}, c.growth, c.keep)[0]
		if n.Wanted != c.wanted || n.In != c.in || n.Why != c.why ||
			n.Workers != len(c.demand.Places) {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// Only the group that lacks room is told to get workers, not its neighbour.
func TestAGroupIsNotShortOfWhatItsNeighbourLacks(t *testing.T) {
	a, b := demandFor("a", 5, 1, 10, 10, 10), demandFor("b", 4, 2, 10, 10)
	needs := Groups([]place.Demand{a, b}, nil, 1)
	if needs[1].Wanted != 3 || needs[0].Wanted != 3 || needs[0].In >= 0 ||
		!strings.Contains(needs[0].Why, "what lacks room is b") {
		t.Errorf("%+v", needs)
	}
}

// What is wanted keeps n, and one worker less does not: by the very planner that `rota simulate`
// plays.
func TestGroupsWantTheLeastThatKeepsN(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	checked := 0
	for range 300 {
		rooms := make([]int, 1+r.IntN(6))
		for i := range rooms {
			rooms[i] = 3 + r.IntN(8)
		}
		jobs, replicas, keep := 1+r.IntN(30), 1+r.IntN(2), 1+r.IntN(2)
		n := Groups([]place.Demand{demandFor("g", jobs, replicas, rooms...)}, nil, keep)[0]
		if n.Wanted <= n.Workers {
			continue
		}
		checked++
		like := middlePlace(demandFor("g", jobs, replicas, rooms...).Places).Room
		after := func(more int) int {
			with := append([]int{}, rooms...)
			for range more {
				with = append(with, int(like/place.Unit))
			}
			s := place.State{}
			for i := range jobs {
				s.Jobs = append(s.Jobs, place.Job{Name: fmt.Sprint("j", i), Load: place.Unit})
			}
			for i, room := range with {
				s.Workers = append(s.Workers, place.Worker{
					Name: fmt.Sprint("w", i), Capacity: place.Load(room) * place.Unit,
				})
			}
			b, err := place.FaultBudget(s, place.Policy{Replicas: replicas})
			if err != nil {
				t.Fatal(err)
			}
			return b.Workers
		}
		more := n.Wanted - n.Workers
		if after(more) < keep || after(more-1) >= keep {
			t.Fatalf("%d jobs of %d replicas on %v, n = %d: %+v keeps %d, one less %d", jobs,
				replicas, rooms, keep, n, after(more), after(more-1))
		}
	}
	if checked < 100 {
		t.Errorf("only %d were short", checked)
	}
}

func TestATrendIsToldOnlyWhereItIsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for name, c := range map[string]struct {
		minutes     int
		jobs        func(minute int) int
		least, most float64 // jobs a minute
	}{
		"a line":           {60, func(m int) int { return 100 + 2*m }, 1.99, 2.01},
		"a line with dust": {60, func(m int) int { return 100 + 2*m + r.IntN(20) }, 1.7, 2.3},
		"too short":        {15, func(m int) int { return 100 + 2*m }, 0, 0},
		"it shrinks":       {60, func(m int) int { return 400 - 2*m }, 0, 0},
		"it stands":        {60, func(int) int { return 100 }, 0, 0},
		"chance":           {60, func(int) int { return 100 + r.IntN(30) }, 0, 0},
		"a jump long ago":  {200, func(m int) int { return 100 + 100*min(m/100, 1) }, 0, 0},
	} {
		trend := NewTrend()
		for m := range c.minutes {
			d := demandFor("g", c.jobs(m), 1)
			trend.Saw(base+int64(m), []place.Demand{d})
			trend.Saw(base+int64(m), []place.Demand{d}) // it looks several times a minute
		}
		got := trend.Growths(base + int64(c.minutes) - 1)["g"]
		if got.PerMinute < c.least || got.PerMinute > c.most {
			t.Errorf("%s: %+v", name, got)
		}
		if c.least > 0 && (got.Now < 210 || got.Now > 235) {
			t.Errorf("%s: now %v", name, got.Now)
		}
	}
	trend := NewTrend()
	trend.Saw(base, []place.Demand{demandFor("g", 1, 1)})
	trend.Saw(base+1, nil)
	if len(trend.by) != 0 {
		t.Error("a group that is gone is remembered")
	}
}
