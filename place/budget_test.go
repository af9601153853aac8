package place

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ExampleFaultBudget() {
	s := State{Jobs: []Job{{Name: "feed", Load: Unit}, {Name: "ticker", Load: Unit}}}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Workers = append(s.Workers, Worker{Name: name, Capacity: 2 * Unit})
	}
	b, err := FaultBudget(s, Policy{Replicas: 2})
	fmt.Println(b.Workers, err)

	s.Workers[0].Draining = true // what if a were drained?
	b, err = FaultBudget(s, Policy{Replicas: 2})
	fmt.Println(b.Workers, err)
	// Output:
	// 2 <nil>
	// 1 <nil>
}

func TestFaultBudget(t *testing.T) {
	cluster := func(replicas, jobs int, capacities ...float64) State {
		var s State
		for i, units := range capacities {
			c, err := ParseLoad(units)
			if err != nil {
				t.Fatal(err)
			}
			s.Workers = append(s.Workers, Worker{Name: string(rune('a' + i)), Capacity: c})
		}
		for j := range jobs {
			s.Jobs = append(s.Jobs, Job{Name: fmt.Sprint(j), Load: Unit, Replicas: replicas})
		}
		return s
	}
	with := func(s State, change func(*State)) State { change(&s); return s }
	for _, test := range []struct {
		name string
		s    State
		want Budget
	}{
		{"the document's five of 60", cluster(2, 100, 60, 60, 60, 60, 60),
			Budget{1, 1, []string{"a", "b", "c", "d", "e"}, nil, 20}},
		{"as many workers as replicas", cluster(3, 1, 9, 9, 9),
			Budget{0, 0, []string{"a", "b", "c"}, nil, 1}},
		{"the largest hurts most", cluster(1, 4, 1, 2, 4),
			Budget{0, 0, []string{"c", "b", "a"}, nil, 1}},
		{"one can bear all but one death", cluster(1, 1, 1, 1, 1),
			Budget{2, 2, []string{"a", "b", "c"}, nil, 1}},
		{"half a place is none", cluster(1, 3, 1.5, 1.5, 1.5),
			Budget{0, 0, []string{"a", "b", "c"}, nil, 1}},
		{"not even now", cluster(2, 3, 2, 2), Budget{-1, -1, []string{"a", "b"}, nil, 2}},
		{"no jobs", cluster(1, 0, 1, 1), Budget{2, 2, []string{"a", "b"}, nil, 0}},
		{"nobody", cluster(2, 3), Budget{-1, -1, nil, nil, 6}},
		{"jobs without load need different workers all the same",
			with(cluster(2, 3, 1, 1, 1), func(s *State) {
				s.Jobs[0].Load, s.Jobs[1].Load, s.Jobs[2].Load = 0, 0, 0
			}), Budget{1, 1, []string{"a", "b", "c"}, nil, 3}},
		{"of equal workers the one that has more",
			with(cluster(1, 1, 2, 2), func(s *State) {
				s.Current = []Replica{{Job: "0", Worker: "b"}}
			}), Budget{1, 1, []string{"b", "a"}, nil, 1}},
		{"draining ones do not count", with(cluster(1, 2, 2, 2, 2), func(s *State) {
			s.Workers[1].Draining = true
		}), Budget{1, 1, []string{"a", "c"}, nil, 2}},
		{"what others use is not there", with(cluster(1, 2, 2, 2, 2), func(s *State) {
			s.Workers[1].Used = 1500
		}), Budget{1, 1, []string{"a", "c", "b"}, nil, 2}},
		{"unequal loads, much room", with(cluster(2, 3, 9, 9, 9, 9), func(s *State) {
			s.Jobs[1].Load = 2500
		}), Budget{2, 2, []string{"a", "b", "c", "d"}, nil, 3}},
		{"unequal loads, little room", with(cluster(1, 3, 2.5, 2.5, 2.5), func(s *State) {
			s.Jobs[1].Load, s.Jobs[2].Load = 2000, 2000
		}), Budget{0, 0, []string{"a", "b", "c"}, nil, 1}},
		{"unequal loads that may fit or not, and do",
			with(cluster(1, 3, 2, 3), func(s *State) {
				s.Jobs[1].Load, s.Jobs[2].Load = 2000, 2000
				s.Current = []Replica{
					{Job: "0", Worker: "b"}, {Job: "1", Worker: "a"}, {Job: "2", Worker: "b"},
				}
			}), Budget{0, 0, []string{"b", "a"}, nil, 1}},
	} {
		got, err := FaultBudget(test.s, Policy{})
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

// TestFaultBudgetIsExact asks every group of workers, and for each every way to place all jobs.
func TestFaultBudgetIsExact(t *testing.T) { rapid.Check(t, budgetIsExact) }

func FuzzFaultBudgetIsExact(f *testing.F) { f.Fuzz(rapid.MakeFuzz(budgetIsExact)) }

func budgetIsExact(t *rapid.T) {
	var s State
	loads := rapid.SampledFrom([][]Load{{Unit}, {Unit}, {2 * Unit}, {0}, {Unit, 2 * Unit},
		{0, Unit, 1500, 3 * Unit}}).Draw(t, "loads")
	for i := range rapid.IntRange(0, 5).Draw(t, "workers") {
		capacity := rapid.SampledFrom([]Load{0, Unit, 2 * Unit, 2500, 4 * Unit, 6 * Unit}).Draw(t,
			"capacity")
		s.Workers = append(s.Workers, Worker{Name: string(rune('a' + i)), Capacity: capacity})
	}
	for j := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		s.Jobs = append(s.Jobs, Job{
			Name: fmt.Sprint(j), Load: rapid.SampledFrom(loads).Draw(t, "load"),
			Replicas: rapid.IntRange(1, 3).Draw(t, "replicas"),
		})
	}
	b, err := FaultBudget(s, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	open := slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool {
		return w.Capacity == 0
	})
	bears := len(open) // the smallest group that leaves too little, less one
	for group := range 1 << len(open) {
		var rooms []Load
		for i, w := range open {
			if group>>i&1 == 0 {
				rooms = append(rooms, w.Capacity)
			}
		}
		if missing(s.Jobs, rooms) > 0 {
			bears = min(bears, bits.OnesCount(uint(group))-1)
		}
	}
	equal := len(loads) == 1
	if equal && (b.Workers != bears || b.AtMost != bears) || b.Workers > bears || b.AtMost < bears {
		t.Fatalf("%d can die, not %d to %d", bears, b.Workers, b.AtMost)
	}
	if b.AtMost == len(open) {
		return
	}
	var rooms []Load
	for _, w := range open {
		if slices.Index(b.Weakest, w.Name) > b.AtMost {
			rooms = append(rooms, w.Capacity)
		}
	}
	if n := missing(s.Jobs, rooms); equal && n != b.Short || n < b.Short {
		t.Fatalf("without %v %d replicas have no place, not %d", b.Weakest[:b.AtMost+1], n, b.Short)
	}
}

// missing is how many replicas have no place in the best of all ways to place them.
func missing(jobs []Job, rooms []Load) int {
	if len(jobs) == 0 {
		return 0
	}
	least := 1 << 30
	for group := range 1 << len(rooms) {
		n := bits.OnesCount(uint(group))
		if n > jobs[0].Replicas {
			continue
		}
		left, fits := slices.Clone(rooms), true
		for i := range left {
			if group>>i&1 == 1 {
				left[i] -= jobs[0].Load
				fits = fits && left[i] >= 0
			}
		}
		if fits {
			least = min(least, jobs[0].Replicas-n+missing(jobs[1:], left))
		}
	}
	return least
}

// TestBudgetCountsOnlyReplicasThatAreWanted: a worker that claims to run replica -1 of a job has
// not placed another one for it.
func TestBudgetCountsOnlyReplicasThatAreWanted(t *testing.T) {
	s := State{
		Workers: []Worker{{Name: "v", Capacity: 4 * Unit}, {Name: "w", Capacity: 4 * Unit}},
		Jobs: []Job{
			{Name: "a", Load: 3 * Unit}, {Name: "b", Load: 3 * Unit}, {Name: "c", Load: 2 * Unit},
			{Name: "z"},
		},
		Current: []Replica{
			{Job: "a", Worker: "v"}, {Job: "b", Worker: "w"}, {Job: "z", Worker: "v"},
			{Job: "z", Worker: "w", Replica: -1},
		},
	}
	b, err := FaultBudget(s, Policy{})
	if err != nil || b.Workers != -1 {
		t.Errorf("%+v, %v: job c, which runs nowhere, has no place", b, err)
	}
}
