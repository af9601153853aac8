package place

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ExampleSharedBudgets() {
	workers := []Worker{{Name: "a", Capacity: 6 * Unit}, {Name: "b", Capacity: 6 * Unit}}
	var demands []Demand
	for _, group := range []string{"feeds", "prices"} {
		s := State{Workers: workers}
		for job := range 4 {
			s.Jobs = append(s.Jobs, Job{Name: fmt.Sprint(job), Load: Unit})
		}
		d, err := DemandOf(group, s, Policy{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(group, "alone:", SharedBudgets([]Demand{d})[0].Workers)
		demands = append(demands, d)
	}
	b := SharedBudgets(demands)[0]
	fmt.Printf("together: %d, and without %v %d replicas of %v have no place\n", b.Workers,
		b.Breaking(), b.Short, b.Groups)
	for i := range demands { // once a has died
		demands[i] = demands[i].Without(map[string]bool{"a": true})
	}
	fmt.Println("then there is no room for all:", SharedBudgets(demands)[0].Broken())
	// Output:
	// feeds alone: 1
	// prices alone: 1
	// together: 0, and without [a] 2 replicas of [feeds prices] have no place
	// then there is no room for all: true
}

// tenant is a job, and the workers that may run it, by number.
type tenant struct {
	Job
	workers []int
}

// drawTenants draws groups on common workers, each of which may use some of them.
func drawTenants(t *rapid.T, loads []Load) (demands []Demand, jobs [][]tenant, rooms []Load) {
	capacities := []Load{0, Unit, 2 * Unit, 2500, 4 * Unit}
	for range rapid.IntRange(0, 5).Draw(t, "workers") {
		rooms = append(rooms, rapid.SampledFrom(capacities).Draw(t, "room"))
	}
	for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
		var s State
		var serves []int
		for w, room := range rooms {
			if room > 0 && rapid.IntRange(0, 3).Draw(t, "serves") > 0 {
				serves = append(serves, w)
				s.Workers = append(s.Workers, Worker{Name: workerName(w), Capacity: room})
			}
		}
		var own []tenant
		for j := range rapid.IntRange(0, 3).Draw(t, "jobs") {
			job := Job{
				Name: fmt.Sprint(j), Load: rapid.SampledFrom(loads).Draw(t, "load"),
				Replicas: rapid.IntRange(1, 2).Draw(t, "replicas"),
			}
			s.Jobs = append(s.Jobs, job)
			own = append(own, tenant{job, serves})
		}
		d, err := DemandOf(fmt.Sprint("g", g), s, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		demands = append(demands, d)
		jobs = append(jobs, own)
	}
	return demands, jobs, rooms
}

func workerName(w int) string { return string(rune('a' + w)) }

// unplaced is how many replicas have no place in the best of all ways to place them.
func unplaced(jobs []tenant, rooms []Load, dead int) int {
	if len(jobs) == 0 {
		return 0
	}
	least := 1 << 30
	j := jobs[0]
	for on := range 1 << len(j.workers) {
		n := bits.OnesCount(uint(on))
		if n > j.Replicas {
			continue
		}
		left, fits := slices.Clone(rooms), true
		for i, w := range j.workers {
			if on>>i&1 == 1 {
				left[w] -= j.Load
				fits = fits && left[w] >= 0 && dead>>w&1 == 0
			}
		}
		if fits {
			least = min(least, j.Replicas-n+unplaced(jobs[1:], left, dead))
		}
	}
	return least
}

// TestSharedBudgetsAreExact asks every set of workers, and for each every way to place all jobs of
// the groups that share them.
func TestSharedBudgetsAreExact(t *testing.T) { rapid.Check(t, sharedBudgetsAreExact) }

func FuzzSharedBudgetsAreExact(f *testing.F) { f.Fuzz(rapid.MakeFuzz(sharedBudgetsAreExact)) }

func sharedBudgetsAreExact(t *rapid.T) {
	loads := rapid.SampledFrom([][]Load{
		{Unit}, {Unit}, {2 * Unit}, {0}, {Unit, 2 * Unit}, {0, Unit, 1500, 3 * Unit},
	}).Draw(t, "loads")
	demands, jobs, rooms := drawTenants(t, loads)
	budgets := SharedBudgets(demands)
	for _, members := range components(demands) {
		var together []tenant
		open, groups := 0, []string{}
		for _, m := range members {
			together = append(together, jobs[m]...)
			groups = append(groups, demands[m].Group)
			for _, p := range demands[m].Places {
				open |= 1 << (p.Worker[0] - 'a')
			}
		}
		bears := bits.OnesCount(uint(open))
		for dead := range 1 << len(rooms) {
			if dead&^open == 0 && unplaced(together, rooms, dead) > 0 {
				bears = min(bears, bits.OnesCount(uint(dead))-1)
			}
		}
		b := budgets[members[0]]
		for _, m := range members {
			if diff := cmp.Diff(b, budgets[m]); diff != "" {
				t.Fatalf("groups %v have different budgets: %s", groups, diff)
			}
		}
		equal := len(loads) == 1
		if equal && (b.Workers != bears || b.AtMost != bears) || b.Workers > bears ||
			b.AtMost < bears {
			t.Fatalf("groups %v: %d can die, not %d to %d", groups, bears, b.Workers, b.AtMost)
		}
		if len(together) == 0 {
			if len(b.Breaking()) != bears || b.Short != 0 || b.Groups != nil {
				t.Fatalf("without jobs: %+v", b)
			}
			continue
		}
		dead := 0
		for _, name := range b.Breaking() {
			dead |= 1 << (name[0] - 'a')
		}
		n := unplaced(together, rooms, dead)
		if bits.OnesCount(uint(dead)) != b.AtMost+1 || equal && n != b.Short || n < b.Short ||
			b.Short < 1 {
			t.Fatalf("groups %v: without %v %d replicas have no place, not %d", groups,
				b.Breaking(), n, b.Short)
		}
		for _, g := range b.Groups {
			if !slices.Contains(groups, g) {
				t.Fatalf("group %q is none of %v", g, groups)
			}
		}
	}
}

// TestTooManySetsOfJobsLeaveTrueBounds holds what is said when not every set of jobs can be looked
// at against what is known when it is.
func TestTooManySetsOfJobsLeaveTrueBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands, _, _ := drawTenants(t, []Load{Unit})
		for _, members := range components(demands) {
			var together []*Demand
			for _, m := range members {
				together = append(together, &demands[m])
			}
			exact := newSharing(together).budget(maxWork)
			some := newSharing(together).budget(0)
			if some.Workers > exact.Workers || some.AtMost < exact.AtMost {
				t.Fatalf("%d to %d is not within %d to %d", exact.Workers, exact.AtMost,
					some.Workers, some.AtMost)
			}
		}
	})
}

func TestSharedBudgetsOfSmallClusters(t *testing.T) {
	one := func(replicas int, loads ...Load) (z Size) {
		z = Size{
			Replicas: replicas, Jobs: len(loads), Least: slices.Min(loads), Most: slices.Max(loads),
		}
		for _, l := range loads {
			z.Load, z.Grain = z.Load+l, divisor(z.Grain, l)
		}
		return z
	}
	places := func(rooms ...Load) (list []Place) {
		for w, room := range rooms {
			list = append(list, Place{Worker: workerName(w), Room: room})
		}
		return list
	}
	for _, test := range []struct {
		name    string
		demands []Demand
		want    Budget
	}{
		{"a replica that is alone too large for all workers but one",
			[]Demand{
				{Group: "g", Places: places(9*Unit, Unit, Unit), Sizes: []Size{one(2, 1500, 100)}},
			},
			Budget{-1, 0, []string{"a", "b", "c"}, []string{"g"}, 1}},
		{"loads count as often as there are replicas",
			[]Demand{
				{Group: "g", Places: places(3*Unit, 3*Unit), Sizes: []Size{one(2, 3*Unit, Unit)}},
			},
			Budget{-1, -1, []string{"a", "b"}, []string{"g"}, 1}},
		{"the room that one group sees less of is the room that there is",
			[]Demand{
				{Group: "g", Places: places(2 * Unit), Sizes: []Size{one(1, Unit)}},
				{Group: "h", Places: places(Unit), Sizes: []Size{one(1, Unit)}},
			},
			Budget{-1, -1, []string{"a"}, []string{"g", "h"}, 1}},
		{"the worker that two groups share hurts most, though others have more room",
			[]Demand{
				{Group: "g", Places: places(2*Unit, 9*Unit)[:1], Sizes: []Size{one(1, Unit)}},
				{Group: "h", Places: places(2*Unit, 9*Unit), Sizes: []Size{one(1, Unit)}},
			},
			Budget{0, 0, []string{"a", "b"}, []string{"g"}, 1}},
	} {
		if diff := cmp.Diff(test.want, SharedBudgets(test.demands)[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestDemandWithoutWorkers(t *testing.T) {
	d := Demand{Placed: true, Places: []Place{{"a", Unit, Unit}, {"b", Unit, 0}, {"c", Unit, Unit}}}
	idle := d.Without(map[string]bool{"b": true})
	if !idle.Placed || len(idle.Places) != 2 {
		t.Errorf("without a worker that runs nothing: %+v", idle)
	}
	busy := d.Without(map[string]bool{"c": true})
	if busy.Placed || len(busy.Places) != 2 || len(d.Places) != 3 {
		t.Errorf("without a worker that runs something: %+v, of %+v", busy, d)
	}
}

// BenchmarkSharedBudgets has groups of 1,000 jobs, each on its own half of 2,000 workers: as many
// different sets of workers as there are groups.
func BenchmarkSharedBudgets(b *testing.B) {
	for _, groups := range []int{1, 6, 1000} {
		var demands []Demand
		for g := range groups {
			d := Demand{
				Group: fmt.Sprint(g), Sizes: []Size{{2, 1000, 1000 * Unit, Unit, Unit, Unit}},
			}
			for w := range 2000 {
				if groups == 1 || w>>(g%10)&1 == g&1 {
					name := fmt.Sprintf("w%04d", w)
					d.Places = append(d.Places, Place{name, Load(50+w%7) * Unit, Unit})
				}
			}
			demands = append(demands, d)
		}
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			for b.Loop() {
				SharedBudgets(demands)
			}
		})
	}
}

// TestBudgetOfGroupsAboveRoomTogetherIsNotPlaced: two groups fit on a worker one by one, not
// together.
func TestBudgetOfGroupsAboveRoomTogetherIsNotPlaced(t *testing.T) {
	workers := []Worker{{Name: "v", Capacity: 4 * Unit}, {Name: "w", Capacity: 4 * Unit}}
	var demands []Demand
	for group, s := range map[string]State{
		"g": {
			Workers: workers,
			Jobs:    []Job{{Name: "a", Load: 3 * Unit}, {Name: "b", Load: 3 * Unit}},
			Current: []Replica{{Job: "a", Worker: "v"}, {Job: "b", Worker: "w"}},
		},
		"h": {
			Workers: workers,
			Jobs:    []Job{{Name: "c", Load: 2 * Unit}},
			Current: []Replica{{Job: "c", Worker: "v"}},
		},
	} {
		d, err := DemandOf(group, s, Policy{})
		if err != nil || !d.Placed {
			t.Fatalf("%+v, %v", d, err)
		}
		demands = append(demands, d)
	}
	for _, b := range SharedBudgets(demands) {
		if b.Workers != -1 {
			t.Errorf("%+v: no two of the three fit on one worker", b)
		}
	}
}
