package place

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
)

// shedding is a state of three workers of 10, the first of which is to shed so much, with jobs of
// one replica on it.
func shedding(shed Load, loads ...Load) State {
	s := State{Workers: []Worker{
		{Name: "a", Capacity: 10 * Unit, Shed: shed}, {Name: "b", Capacity: 10 * Unit},
		{Name: "c", Capacity: 10 * Unit},
	}}
	for i, load := range loads {
		name := fmt.Sprintf("j%d", i)
		s.Jobs = append(s.Jobs, Job{Name: name, Load: load * Unit})
		s.Current = append(s.Current, Replica{Job: name, Worker: "a"})
	}
	return s
}

func TestWorkerShedsByMovesOnly(t *testing.T) {
	s := shedding(7*Unit, 1, 1, 1, 1, 1, 1)
	s.Workers = append(s.Workers[:1], Worker{Name: "b", Capacity: 3 * Unit})
	plan, err := Compute(s, Policy{})
	if err != nil || len(plan.Stop)+len(plan.Start)+len(plan.Stay) > 0 || len(plan.Move) != 3 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, m := range plan.Move {
		if m.From != "a" || m.To != "b" || m.Reason.Code != Shed {
			t.Errorf("%+v", m)
		}
	}
}

func TestFewLeaveWhatSheds(t *testing.T) {
	for _, test := range []struct {
		shed  Load
		loads []Load
		moves string
	}{
		{3, []Load{1, 2, 4}, "[]"}, // there is as much free already
		{4, []Load{1, 2, 4}, "[j0]"},
		{5, []Load{1, 2, 4}, "[j1]"},
		{6, []Load{1, 2, 4}, "[j2]"}, // the smallest load with which all is done
		{8, []Load{1, 2, 4}, "[j0 j2]"},
		{9, []Load{0, 2, 4}, "[j1 j2]"}, // what takes nothing may stay
	} {
		s := shedding(test.shed*Unit, test.loads...)
		for w := 1; w < 3; w++ { // too full for balance to want anything
			s.Workers[w].Used, s.Workers[w].Capacity = 90*Unit, 100*Unit
		}
		plan, err := Compute(s, Policy{New: -1})
		moved := []string{}
		for _, m := range plan.Move {
			moved = append(moved, m.Job)
		}
		if got := fmt.Sprint(moved); err != nil || got != test.moves || len(plan.Stay) > 0 {
			t.Errorf("shed %v of %v: %s %+v, %v", test.shed, test.loads, got, plan, err)
		}
	}
}

func TestWhatCannotLeaveStaysAndOnlyWhatIsTooMuchIsNamed(t *testing.T) {
	s := shedding(7*Unit, 1, 1, 1, 1, 1)
	s.Workers = s.Workers[:1]
	plan, err := Compute(s, Policy{})
	if err != nil || !plan.Empty() || len(plan.Stay) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, stay := range plan.Stay {
		if stay.Cause != Shed || stay.Reason.Code != NoCapacity && stay.Reason.Code != TooFew {
			t.Errorf("%+v", stay)
		}
	}
}

func TestNothingStartsInWhatIsShed(t *testing.T) {
	s := shedding(7*Unit, 1, 1, 1)
	s.Jobs = append(s.Jobs, Job{Name: "new", Load: Unit})
	s.Workers = s.Workers[:1]
	plan, err := Compute(s, Policy{})
	if err != nil || len(plan.Start) > 0 || len(plan.Pending) != 1 ||
		plan.Pending[0].Reason.Code != NoCapacity {
		t.Fatalf("%+v, %v", plan, err)
	}
}

func TestToShedAllIsToDrain(t *testing.T) {
	for _, shed := range []Load{10 * Unit, 11 * Unit, MaxLoad} {
		s := shedding(shed, 0, 1, 2)
		plan, err := Compute(s, Policy{})
		if err != nil || len(plan.Move) != 3 || plan.Move[0].Reason.Code != Drained {
			t.Errorf("shed %v: %+v, %v", shed, plan, err)
		}
		if b, err := FaultBudget(s, Policy{}); err != nil || b.Workers != 1 {
			t.Errorf("shed %v: %+v, %v", shed, b, err)
		}
	}
}

func TestWhatIsShedIsNoRoomWhenOthersDie(t *testing.T) {
	s := shedding(0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	for shed, workers := range map[Load]int{0: 2, 1: 1, 10: 1} {
		s.Workers[0].Shed = shed * Unit
		if b, err := FaultBudget(s, Policy{}); err != nil || b.Workers != workers {
			t.Errorf("shed %v: %+v, %v", shed, b, err)
		}
	}
}

func TestShedOutOfBoundsIsRefused(t *testing.T) {
	for _, shed := range []Load{-1, MaxLoad + 1} {
		if _, err := Compute(shedding(shed, 1), Policy{}); err == nil {
			t.Errorf("%v passes", shed)
		}
	}
}

// TestRoomThatWasMadeIsKept: x can leave a only when y has left b for c, and one move is allowed in
// a plan. Balance must not give b's room to another meanwhile.
func TestRoomThatWasMadeIsKept(t *testing.T) {
	s := State{
		Jobs: []Job{
			{Name: "big", Load: 3 * Unit}, {Name: "x", Load: Unit}, {Name: "y", Load: Unit},
		},
		Workers: []Worker{
			{Name: "a", Capacity: 10 * Unit, Draining: true}, {Name: "b", Capacity: 3 * Unit},
			{Name: "c", Capacity: 10 * Unit, Used: 7500},
		},
		Current: []Replica{
			{Job: "big", Worker: "a"}, {Job: "x", Worker: "b", Going: true},
			{Job: "x", Worker: "c"}, {Job: "y", Worker: "c"},
		},
	}
	plan, err := Compute(s, Policy{Moves: 1})
	if err != nil || !plan.Empty() || len(plan.Stay) != 1 || plan.Stay[0].Reason.Code != Ending {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestRoomThatIsNotFreeYetHoldsUpNobody: x waits for what a handler on b does not end, and takes
// nothing of what a plan may move.
func TestRoomThatIsNotFreeYetHoldsUpNobody(t *testing.T) {
	s := State{
		Jobs: []Job{
			{Name: "x", Load: 3 * Unit}, {Name: "y", Load: Unit}, {Name: "z", Load: Unit},
		},
		Workers: []Worker{
			{Name: "a", Capacity: 10 * Unit, Draining: true}, {Name: "b", Capacity: 3 * Unit},
			{Name: "c", Capacity: 2 * Unit},
		},
		Current: []Replica{
			{Job: "old", Worker: "b", Going: true, Load: 3 * Unit},
			{Job: "x", Worker: "a"}, {Job: "y", Worker: "a"}, {Job: "z", Worker: "a"},
		},
	}
	for _, want := range []string{"y", "z"} {
		plan, err := Compute(s, Policy{Moves: 1})
		if err != nil || len(plan.Move) != 1 || plan.Move[0].Job != want {
			t.Fatalf("%+v, %v, want a move of %s", plan, err, want)
		}
		carryAll(&s, plan)
	}
}

// carryAll makes a plan true at once.
func carryAll(s *State, p Plan) {
	gone := map[run]bool{}
	for _, x := range p.Stop {
		gone[run{x.Job, x.Replica, x.Worker}] = true
	}
	for _, x := range p.Move {
		gone[run{x.Job, x.Replica, x.From}] = true
	}
	left := slices.DeleteFunc(slices.Clone(s.Current), func(r Replica) bool {
		return gone[run{r.Job, r.Replica, r.Worker}]
	})
	for _, x := range p.Start {
		left = append(left, Replica{Job: x.Job, Replica: x.Replica, Worker: x.Worker})
	}
	for _, x := range p.Move {
		left = append(left, Replica{Job: x.Job, Replica: x.Replica, Worker: x.To})
	}
	s.Current = left
}

// TestWhatShedsComesToRestBesideZones: seeds of worlds in which what left a worker, and what left a
// zone, made room for each other for ever.
func TestWhatShedsComesToRestBesideZones(t *testing.T) {
	seeds := []int64{3263, 16335, 18581, 19176}
	for seed := range int64(300) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		r := rand.New(rand.NewSource(seed))
		s, p := anyState(r)
		rests := func() bool {
			for range 150 {
				plan, err := Compute(s, p)
				if err != nil {
					t.Fatal(err)
				}
				if plan.Empty() {
					return true
				}
				carryAll(&s, plan)
			}
			return false
		}
		if !rests() {
			t.Errorf("seed %d: no rest before", seed)
		}
		for w := range s.Workers {
			switch r.Intn(5) {
			case 0:
				s.Workers[w].Draining = true
			case 1, 2:
				s.Workers[w].Shed = Load(1+r.Intn(24)) * Unit / 2
			}
		}
		if !rests() {
			t.Errorf("seed %d: no rest: %+v", seed, s)
		}
	}
}

// anyState is a small cluster without replicas, and a policy.
func anyState(r *rand.Rand) (s State, p Policy) {
	for w := range 2 + r.Intn(5) {
		x := Worker{Name: fmt.Sprintf("w%d", w), Capacity: Load(1+r.Intn(12)) * Unit}
		if r.Intn(4) == 0 {
			x.Used = Load(r.Intn(4)) * Unit
		}
		x.Zone = []string{"", "a", "b", "c"}[r.Intn(4)]
		s.Workers = append(s.Workers, x)
	}
	jobs := 1 + r.Intn(10)
	equal := r.Intn(3) == 0
	for j := range jobs {
		load := Load(r.Intn(9)) * Unit / 2
		if equal {
			load = Unit
		}
		s.Jobs = append(s.Jobs, Job{
			Name: fmt.Sprintf("j%d", j), Load: load, Replicas: 1 + r.Intn(3),
		})
	}
	return s, Policy{
		Moves: []int{1, 1, 2, 5, 0}[r.Intn(5)], New: []int{1, 5, -1, 0}[r.Intn(4)],
		Zones: r.Intn(2) == 0,
	}
}
