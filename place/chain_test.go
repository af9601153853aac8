package place

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"
)

// TestRoomIsNotGivenToAndFro: j0 starts in the room of w4 that j9 would leave w2 for, so that j8
// can run there, if that chain is not found before j0 is in the way.
func TestRoomIsNotGivenToAndFro(t *testing.T) {
	s := State{
		Workers: []Worker{
			{Name: "w0", Capacity: 3 * Unit, Used: 700, Zone: "b"},
			{Name: "w2", Capacity: 10 * Unit, Passing: Unit},
			{Name: "w3", Capacity: 2 * Unit, Used: 700, Zone: "b", Draining: true},
			{Name: "w4", Capacity: 3 * Unit, Zone: "a"},
			{Name: "w5", Capacity: Unit, Passing: Unit, Zone: "b", Draining: true},
			{Name: "w6", Capacity: Unit},
		},
		Penalties: []Penalty{{"j5", "w0"}},
	}
	for i, job := range []struct {
		load     Load
		replicas int
		on       []string // by replica; empty = nowhere
	}{
		{500, 3, []string{"", "w6", "w5"}}, {2000, 1, []string{"w0"}},
		{2000, 2, []string{"", "w2"}},
		{500, 3, []string{"w6", "w3"}}, {3000, 2, []string{"w2"}}, {1000, 3, []string{"w4"}},
		{0, 2, []string{"w0", "w6"}}, {3000, 3, []string{"w2"}}, {1000, 2, []string{"", "w4"}},
		{1000, 1, []string{"w2"}},
	} {
		name := fmt.Sprint("j", i)
		s.Jobs = append(s.Jobs, Job{Name: name, Load: job.load, Replicas: job.replicas})
		for n, worker := range job.on {
			if worker != "" {
				s.Current = append(s.Current, Replica{Job: name, Replica: n, Worker: worker})
			}
		}
	}
	var plan Plan
	for range 20 {
		var err error
		if plan, err = Compute(s, Policy{Zones: true, Moves: 3, New: 1}); err != nil {
			t.Fatal(err)
		}
		if plan.Empty() {
			return
		}
		s = applied(s, plan)
	}
	t.Errorf("no rest: %+v", plan)
}

// TestWorkOfAFullClusterIsBounded: that nothing more has room, of loads of any size, is found out
// in a bounded number of steps.
func TestWorkOfAFullClusterIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two seconds, and looks for no races")
	}
	const workers, most = 1000, 50_000_000 // it takes a fifth of that
	r := rand.New(rand.NewSource(1))
	var s State
	for w := range workers {
		s.Workers = append(s.Workers, Worker{Name: fmt.Sprintf("w%04d", w), Capacity: 40 * Unit})
	}
	for total := Load(0); total < workers*44*Unit; {
		j := Job{Name: fmt.Sprintf("j%04d", len(s.Jobs)), Load: Load(200 + r.Intn(3000))}
		j.Replicas = 2
		total += 2 * j.Load
		s.Jobs = append(s.Jobs, j)
	}
	steps := 0
	plan, err := Compute(s, Policy{New: -1, Stop: func() error {
		if steps += stopEvery; steps > most {
			return errors.New("it takes too many steps")
		}
		return nil
	}})
	if err != nil || len(plan.Pending) == 0 {
		t.Errorf("%d replicas wait, %v", len(plan.Pending), err)
	}
}
