package place

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// two is a cluster of two workers with room for 10 each.
func two() State {
	return State{
		Workers: []Worker{{Name: "a", Capacity: 10 * Unit}, {Name: "b", Capacity: 10 * Unit}},
	}
}

func TestBadInputIsNamedAllAtOnce(t *testing.T) {
	s := State{
		Jobs: []Job{
			{Name: "x"}, {Name: "x"}, {Name: ""}, {Name: "low", Load: -1},
			{Name: "high", Load: MaxLoad + 1, Replicas: -1},
			{Name: "many", Replicas: MaxReplicas + 1},
		},
		Workers: []Worker{
			{Name: "w", Capacity: -1}, {Name: "w", Used: MaxLoad + 1, Most: -1},
			{Name: "", Passing: -5},
		},
	}
	_, err := Compute(s, Policy{Replicas: -2})
	var input *InputError
	if !errors.As(err, &input) {
		t.Fatalf("%v", err)
	}
	want := []string{
		`a job without a name`,
		`a worker without a name`,
		`job "high": -1 replicas, not 0 to 10000`,
		`job "high": load 9007199254740.993, not 0 to 9007199254740.992`,
		`job "low": load -0.001, not 0 to 9007199254740.992`,
		`job "many": 10001 replicas, not 0 to 10000`,
		`job "x": listed twice`,
		`policy: -2 replicas, not 0 to 10000`,
		`worker "": passing -0.005, not 0 to 9007199254740.992`,
		`worker "w": at most -1 replicas, not 0 or more`,
		`worker "w": capacity -0.001, not 0 to 9007199254740.992`,
		`worker "w": listed twice`,
		`worker "w": used 9007199254740.993, not 0 to 9007199254740.992`,
	}
	if diff := cmp.Diff(want, input.Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	slices.Reverse(s.Jobs)
	slices.Reverse(s.Workers)
	if _, again := Compute(s, Policy{Replicas: -2}); again.Error() != err.Error() {
		t.Errorf("in another order: %v", again)
	}
	if _, err := FaultBudget(s, Policy{}); err == nil {
		t.Error("a budget of nonsense")
	}
	if _, err := Explain(s, Policy{}, "x"); err == nil {
		t.Error("an explanation of nonsense")
	}
}

func TestManyMistakesAreCounted(t *testing.T) {
	s := two()
	for i := range 50 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprintf("j%02d", i), Load: -1})
	}
	_, err := Compute(s, Policy{})
	if text := fmt.Sprint(err); !strings.Contains(text, `"j19"`) ||
		strings.Contains(text, `"j20"`) || !strings.HasSuffix(text, "; and 30 more") {
		t.Errorf("%v", err)
	}
}

func TestTooManyReplicasInAllAreRefused(t *testing.T) {
	s := two()
	for i := range 10_000 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprint(i), Replicas: MaxReplicas})
	}
	if _, err := Compute(s, Policy{}); err == nil ||
		err.Error() != "100000000 replicas in all, at most 50000000" {
		t.Errorf("%v", err)
	}
}

// TestWhatRunsIsStopped: whatever workers say they run, what nobody wants is stopped and the rest
// stays.
func TestWhatRunsIsStopped(t *testing.T) {
	jobs := []Job{{Name: "x", Load: Unit, Replicas: 2}, {Name: "y", Load: 4 * Unit}}
	on := func(job string, replica int, worker string) Replica {
		return Replica{Job: job, Replica: replica, Worker: worker}
	}
	for _, test := range []struct {
		name    string
		current []Replica
		stops   []string
		starts  []string
	}{
		{"an unknown job", []Replica{on("z", 0, "a")}, []string{"z/0 a removed"},
			[]string{"x/0 b", "x/1 a", "y/0 a"}},
		{"an unknown worker", []Replica{on("x", 0, "c"), on("x", 1, "a"), on("y", 0, "b")},
			[]string{"x/0 c gone"}, []string{"x/0 b"}},
		{"a replica too many",
			[]Replica{on("x", 0, "a"), on("x", 1, "b"), on("x", 2, "b"), on("y", 0, "b")},
			[]string{"x/2 b surplus"}, nil},
		{"a number that cannot be",
			[]Replica{on("x", 0, "a"), on("x", 1, "b"), on("y", -1, "a"), on("y", 0, "b")},
			[]string{"y/-1 a surplus"}, nil},
		{"on two workers",
			[]Replica{on("x", 0, "a"), on("x", 1, "b"), on("y", 0, "a"), on("y", 0, "b")},
			[]string{"y/0 b double"}, nil},
		{"two on one worker", []Replica{on("x", 0, "a"), on("x", 1, "a"), on("y", 0, "b")},
			[]string{"x/1 a double"}, []string{"x/1 b"}},
		{"said twice",
			[]Replica{on("x", 0, "a"), on("x", 0, "a"), on("x", 1, "b"), on("y", 0, "b")}, nil,
			nil},
		{"beside one that goes",
			[]Replica{{Job: "x", Worker: "a", Going: true}, on("x", 1, "a"), on("y", 0, "a")},
			[]string{"x/1 a double"}, []string{"x/0 b"}},
		{"all goes",
			[]Replica{{Job: "x", Worker: "a", Going: true},
				{Job: "q", Worker: "a", Going: true, Load: 10 * Unit}}, nil,
			[]string{"x/0 b", "y/0 b"}},
	} {
		s := two()
		s.Jobs, s.Current = jobs, test.current
		plan, err := Compute(s, Policy{})
		var stops, starts []string
		for _, x := range plan.Stop {
			stops = append(stops,
				fmt.Sprintf("%s/%d %s %s", x.Job, x.Replica, x.Worker, x.Reason.Code))
		}
		for _, x := range plan.Start {
			starts = append(starts, fmt.Sprintf("%s/%d %s", x.Job, x.Replica, x.Worker))
		}
		if err != nil || !slices.Equal(stops, test.stops) || !slices.Equal(starts, test.starts) ||
			len(plan.Move) > 0 {
			t.Errorf("%s: %v, stops %q, starts %q, moves %v", test.name, err, stops, starts,
				plan.Move)
		}
	}
}

func TestReplicaThatMovesIsOnBothWorkers(t *testing.T) {
	s := two()
	s.Workers[0].Capacity, s.Workers[1].Capacity = Unit, Unit
	s.Jobs = []Job{{Name: "x", Load: Unit}, {Name: "y", Load: Unit}}
	s.Current = []Replica{{Job: "x", Worker: "a", Moving: true}, {Job: "x", Worker: "b"}}
	plan, err := Compute(s, Policy{})
	if want := (Pending{"y", 0, Reason{Code: Ending, Load: Unit, On: "a"}}); err != nil ||
		!plan.Empty() || len(plan.Pending) != 1 || plan.Pending[0] != want {
		t.Errorf("while it moves: %+v, %v", plan, err)
	}
	s.Current = s.Current[:1] // the new one is not there: the old one counts
	plan, err = Compute(s, Policy{})
	if want := (Start{"y", 0, "b"}); err != nil || len(plan.Start) != 1 || plan.Start[0] != want ||
		len(plan.Stop)+len(plan.Move) > 0 {
		t.Errorf("when it does not: %+v, %v", plan, err)
	}
}

func TestReplicaWhoseSuccessorIsStoppedDoesNotWait(t *testing.T) {
	s := two()
	s.Workers[1].Capacity = Unit / 2 // shrunk while x moved to it
	s.Jobs = []Job{{Name: "x", Load: Unit}}
	s.Current = []Replica{{Job: "x", Worker: "a", Moving: true}, {Job: "x", Worker: "b"}}
	plan, err := Compute(s, Policy{})
	if err != nil || len(plan.Stop) != 1 || plan.Stop[0].Worker != "b" ||
		len(plan.Start)+len(plan.Move)+len(plan.Pending) > 0 {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestRoomOfDrainingWorkerIsNotGivenOn: y has no replica and x has two, one of them on a worker
// that takes nothing.
func TestRoomOfDrainingWorkerIsNotGivenOn(t *testing.T) {
	s := two()
	s.Workers[0].Capacity, s.Workers[1].Capacity, s.Workers[0].Draining = 2*Unit, 2*Unit, true
	s.Jobs = []Job{{Name: "x", Load: 2 * Unit, Replicas: 2}, {Name: "y", Load: Unit}}
	s.Current = []Replica{{Job: "x", Worker: "b"}, {Job: "x", Replica: 1, Worker: "a"}}
	ended, rest := carryOut(t, s, Policy{})
	want := []Replica{{Job: "x", Replica: 1, Worker: "a"}, {Job: "y", Worker: "b"}}
	if diff := cmp.Diff(want, rest.Current); diff != "" || ended != 1 {
		t.Errorf("%d ended (-want +got):\n%s", ended, diff)
	}
}

// TestChainLongerThanTheBudgetTakesPlans: z needs b's room, which needs two moves: from b to c, and
// from c to d.
func TestChainLongerThanTheBudgetTakesPlans(t *testing.T) {
	var s State
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Workers = append(s.Workers, Worker{Name: name, Capacity: Unit})
	}
	s.Jobs = []Job{
		{Name: "x", Load: Unit}, {Name: "y", Load: Unit}, {Name: "z", Load: Unit, Replicas: 2},
	}
	s.Current = []Replica{{Job: "x", Worker: "b"}, {Job: "y", Worker: "c"}, {Job: "z", Worker: "a"}}
	s.Penalties = []Penalty{{"x", "d"}, {"z", "c"}, {"z", "d"}}
	moves := []string{}
	for range 4 {
		plan, err := Compute(s, Policy{Moves: 1})
		if err != nil || len(plan.Move) > 1 {
			t.Fatalf("%+v, %v", plan, err)
		}
		for _, x := range plan.Move {
			moves = append(moves, x.Job+" "+x.From+" "+x.To)
		}
		s = applied(s, plan)
	}
	if want := []string{"y c d", "x b c"}; !slices.Equal(moves, want) || len(s.Current) != 4 {
		t.Errorf("moves %q, not %q; %+v", moves, want, s.Current)
	}
}

func TestExtremeLoadsDoNotOverflow(t *testing.T) {
	s := two()
	s.Workers[0].Capacity, s.Workers[1].Capacity, s.Workers[1].Used = MaxLoad, MaxLoad, MaxLoad
	for i := range 5000 {
		name := fmt.Sprintf("j%04d", i)
		s.Jobs = append(s.Jobs, Job{Name: name, Load: MaxLoad})
		s.Current = append(s.Current, Replica{Job: name, Worker: "a"})
	}
	plan, err := Compute(s, Policy{New: -1})
	if err != nil || len(plan.Stop) != 4999 || len(plan.Pending) != 4999 ||
		len(plan.Start)+len(plan.Move) > 0 {
		t.Errorf("%v, %d stops, %d wait, %d start", err, len(plan.Stop), len(plan.Pending),
			len(plan.Start))
	}
	s.Current = nil
	if plan, err = Compute(s, Policy{New: -1}); err != nil || len(plan.Start) != 1 ||
		len(plan.Pending) != 4999 {
		t.Errorf("%v, %d start, %d wait", err, len(plan.Start), len(plan.Pending))
	}
	if b, err := FaultBudget(s, Policy{}); err != nil || b.AtMost != -1 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestJobsWithoutLoadAreSpreadToo(t *testing.T) {
	s := two()
	for i := range 10 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprint(i)})
	}
	plan, err := Compute(s, Policy{New: -1})
	n := len(slices.DeleteFunc(slices.Clone(plan.Start), func(x Start) bool {
		return x.Worker == "a"
	}))
	if err != nil || n != 5 {
		t.Errorf("%v, %d of %d on b", err, n, len(plan.Start))
	}
}

func TestCapacityZeroTakesNothing(t *testing.T) {
	s := two()
	s.Workers[0].Capacity = 0
	s.Jobs = []Job{{Name: "x"}, {Name: "y"}}
	s.Current = []Replica{{Job: "x", Worker: "a"}}
	plan, err := Compute(s, Policy{})
	if err != nil || len(plan.Start) != 1 || plan.Start[0].Worker != "b" || len(plan.Move) != 1 ||
		plan.Move[0].To != "b" {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestLimitsKeepBack: four new replicas per worker and plan, ten moves per plan, unless the policy
// says otherwise.
func TestLimitsKeepBack(t *testing.T) {
	s := two()
	for i := range 20 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprintf("j%02d", i), Load: Unit / 2})
	}
	for _, test := range []struct{ limit, starts int }{{0, 8}, {1, 2}, {7, 14}, {-1, 20}} {
		plan, err := Compute(s, Policy{New: test.limit})
		if err != nil || len(plan.Start) != test.starts {
			t.Errorf("new %d: %d starts, %v", test.limit, len(plan.Start), err)
		}
		for _, x := range plan.Pending {
			if x.Reason.Code != NewLimit || x.Reason.Limit == 0 {
				t.Errorf("new %d: %v", test.limit, x.Reason)
			}
		}
	}
	for _, j := range s.Jobs {
		s.Current = append(s.Current, Replica{Job: j.Name, Worker: "a"})
	}
	s.Workers[0].Draining = true
	for _, test := range []struct{ limit, moves int }{{0, 10}, {3, 3}, {-1, 0}, {50, 20}} {
		plan, err := Compute(s, Policy{Moves: test.limit, New: -1})
		if err != nil || len(plan.Move) != test.moves || len(plan.Stay) != 20-test.moves {
			t.Errorf("moves %d: %d moves, %d stay, %v", test.limit, len(plan.Move), len(plan.Stay),
				err)
		}
		for _, x := range plan.Stay {
			if x.Cause != Drained || x.Reason.Code != MoveLimit || x.Reason.Limit != test.moves {
				t.Errorf("moves %d: %+v", test.limit, x)
			}
		}
	}
}

func TestAboveCapacityThoseStopFirstWhoseJobsHaveMostElsewhere(t *testing.T) {
	s := State{
		Jobs: []Job{
			{Name: "alone", Load: 3 * Unit}, {Name: "large", Load: 2 * Unit, Replicas: 2},
			{Name: "small", Load: Unit, Replicas: 2},
		},
		Workers: []Worker{{Name: "a", Capacity: 6 * Unit}, {Name: "b", Capacity: 10 * Unit}},
		Current: []Replica{
			{Job: "alone", Worker: "a"}, {Job: "large", Worker: "a"},
			{Job: "large", Replica: 1, Worker: "b"},
			{Job: "small", Worker: "a"}, {Job: "small", Replica: 1, Worker: "b"},
		},
	}
	for _, test := range []struct {
		capacity Load
		stops    []string
	}{
		{6 * Unit, nil}, {5 * Unit, []string{"large"}}, {3 * Unit, []string{"large", "small"}},
		{2 * Unit, []string{"alone", "large", "small"}},
	} {
		s.Workers[0].Capacity = test.capacity
		plan, err := Compute(s, Policy{Moves: -1})
		var stops []string
		for _, x := range plan.Stop {
			stops = append(stops, x.Job)
		}
		if err != nil || !slices.Equal(stops, test.stops) {
			t.Errorf("capacity %v: %v, stops %q, want %q", test.capacity, err, stops, test.stops)
		}
	}
}

func TestNoWorkerHasMoreReplicasThanItMay(t *testing.T) {
	s := two()
	for i := range 8 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprintf("j%d", i), Load: Load(i%2) * Unit / 10})
	}
	on := func() map[string]int {
		counts := map[string]int{}
		for _, r := range s.Current {
			counts[r.Worker]++
		}
		return counts
	}
	for _, test := range []struct{ most, a, b int }{{0, 4, 4}, {3, 3, 5}, {1, 1, 7}} {
		s.Workers[0].Most = test.most
		if _, s = carryOut(t, s, Policy{New: -1}); !maps.Equal(on(),
			map[string]int{"a": test.a, "b": test.b}) {
			t.Errorf("at most %d on a: %v, want %d and %d", test.most, on(), test.a, test.b)
		}
	}
	s.Workers[0].Most, s.Workers[1].Most = 2, 5
	if _, s = carryOut(t, s, Policy{New: -1}); !maps.Equal(on(), map[string]int{"a": 2, "b": 5}) {
		t.Errorf("at most 2 and 5: %v", on())
	}
	plan, err := Compute(s, Policy{})
	if err != nil || len(plan.Pending) != 1 || plan.Pending[0].Reason.Code != NoCapacity {
		t.Fatalf("%v, pending %v", err, plan.Pending)
	}
	e, err := Explain(s, Policy{}, plan.Pending[0].Job)
	if err != nil || len(e.Candidates) != 2 ||
		e.Candidates[0].Text != "has 2 replicas, as many as it may have" {
		t.Errorf("%v, candidates %+v", err, e.Candidates)
	}
	want := "every worker that could take it has as many replicas as it may have: of 2 workers 2 have as many replicas as they may have"
	if got := plan.Pending[0].Reason.String(); got != want {
		t.Errorf("it waits: %s", got)
	}
	if want := []string{fmt.Sprintf("a further worker with room for %v",
		e.Load)}; !slices.Equal(e.Changes, want) {
		t.Errorf("what would change it: %q, want %q", e.Changes, want)
	}
	s.Workers[0].Most, s.Workers[0].Capacity = 0, Unit
	e, err = Explain(State{Workers: s.Workers, Current: s.Current,
		Jobs: append(s.Jobs, Job{Name: "large", Load: 2 * Unit})}, Policy{}, "large")
	want = "no worker has room for a load of 2: of 2 workers 1 has as many replicas as it may have, 1 has room for 0.8"
	if err != nil || len(e.Replicas) != 1 || e.Replicas[0].Reason.String() != want {
		t.Errorf("%v, %+v, want %s", err, e.Replicas, want)
	}
}

func TestWorstCasesLeaveFirst(t *testing.T) {
	s := State{
		Jobs: []Job{
			{Name: "drained"}, {Name: "near", Replicas: 2}, {Name: "sick"}, {Name: "stranger"},
		},
		Workers: []Worker{
			{Name: "a", Zone: "1"}, {Name: "b", Zone: "2", Draining: true}, {Name: "c", Zone: "3"},
			{Name: "d", Zone: "1"}, {Name: "e", Zone: "4"},
		},
		Current: []Replica{
			{Job: "drained", Worker: "b"}, {Job: "near", Worker: "a"},
			{Job: "near", Replica: 1, Worker: "d"}, {Job: "sick", Worker: "a"},
			{Job: "stranger", Worker: "c"},
		},
		Penalties: []Penalty{{Job: "sick", Worker: "a"}},
	}
	for i := range s.Workers {
		w := &s.Workers[i]
		if w.Capacity = 10 * Unit; w.Name != "c" {
			w.Labels = map[string]string{"disk": "yes"}
		}
	}
	var left []string
	for range 5 {
		plan, err := Compute(s, Policy{
			Selector: map[string]string{"disk": "yes"}, Zones: true, Moves: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range plan.Move {
			left = append(left, m.Job)
		}
		s = applied(s, plan)
	}
	if want := []string{"sick", "stranger", "drained", "near"}; !slices.Equal(left, want) {
		t.Errorf("left in the order %q, want %q", left, want)
	}
}

func TestUnknownJobIsNotExplained(t *testing.T) {
	if _, err := Explain(two(), Policy{}, "x"); !errors.Is(err, ErrNoJob) {
		t.Errorf("%v", err)
	}
}

// A replica that was to stay where it is not wanted, and then had to yield, does not stay.
func TestWhatYieldsDoesNotStay(t *testing.T) {
	s := State{
		Jobs: []Job{{Name: "light", Load: 500}, {Name: "heavy", Load: 3000}},
		Workers: []Worker{
			{Name: "large", Capacity: 4000, Passing: 700}, {Name: "small", Capacity: 1000},
		},
		Current:   []Replica{{Job: "light", Worker: "large", Load: 500}},
		Penalties: []Penalty{{Job: "light", Worker: "large"}},
	}
	p, err := Compute(s, Policy{Replicas: 2, Moves: -1})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stop) != 1 || p.Stop[0].Worker != "large" || p.Stop[0].Reason.Code != Yields ||
		len(p.Stay) > 0 {
		t.Errorf("stops %+v, stays %+v", p.Stop, p.Stay)
	}
	for _, x := range p.Pending {
		if x.Reason.Code == MoveLimit {
			t.Errorf("%s/%d waits for a move: %v", x.Job, x.Replica, x.Reason)
		}
	}
}
