package place

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestInputOrderNeverMatters(t *testing.T) { rapid.Check(t, orderNeverMatters) }

func FuzzInputOrderNeverMatters(f *testing.F) { f.Fuzz(rapid.MakeFuzz(orderNeverMatters)) }

func orderNeverMatters(t *rapid.T) {
	w := newWorld(t, Policy{
		Replicas: 2, Zones: rapid.Bool().Draw(t, "zones"),
		New: rapid.SampledFrom([]int{0, -1}).Draw(t, "new"),
	})
	for range rapid.IntRange(1, 30).Draw(t, "events") {
		w.disturb(wild)
		if rapid.Bool().Draw(t, "plan") {
			w.begin(w.plan())
			w.pass(false)
		}
	}
	s := w.state()
	for range rapid.IntRange(0, 10).Draw(t, "claims") {
		// by workers that run what they were never given
		claim := Replica{
			Job: "j01", Worker: "w01", Replica: rapid.IntRange(-1, 3).Draw(t, "replica"),
			Moving: rapid.Bool().Draw(t, "moving"),
		}
		if names := append(slices.Clone(s.Jobs), Job{Name: "unheard-of"}); len(names) > 0 {
			claim.Job = rapid.SampledFrom(names).Draw(t, "job").Name
		}
		if names := append(slices.Clone(s.Workers), Worker{Name: "unheard-of"}); len(names) > 0 {
			claim.Worker = rapid.SampledFrom(names).Draw(t, "worker").Name
		}
		s.Current = append(s.Current, claim)
	}
	before := fmt.Sprintf("%+v", s)
	plan, err := Compute(s, w.policy)
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, s, w.policy, plan)
	mixed := State{
		Jobs:      rapid.Permutation(s.Jobs).Draw(t, "jobs"),
		Workers:   rapid.Permutation(s.Workers).Draw(t, "workers"),
		Current:   rapid.Permutation(s.Current).Draw(t, "current"),
		Penalties: rapid.Permutation(s.Penalties).Draw(t, "penalties"),
	}
	again, err := Compute(mixed, w.policy)
	if diff := cmp.Diff(plan, again); diff != "" || err != nil {
		t.Fatalf("%v: in another order (-first +second):\n%s", err, diff)
	}
	if after := fmt.Sprintf("%+v", s); after != before {
		t.Fatalf("the state was changed to %s", after)
	}
	for _, j := range s.Jobs {
		checkExplanation(t, s, w.policy, plan, j.Name)
	}
}

// checkExplanation: an explanation tells of the same things as the plan, and judges every worker.
func checkExplanation(t *rapid.T, s State, p Policy, plan Plan, job string) {
	e, err := Explain(s, p, job)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Doing]int{
		Starts: len(of(plan.Start, func(x Start) string { return x.Job }, job)),
		Stops:  len(of(plan.Stop, func(x Stop) string { return x.Job }, job)),
		Moves:  len(of(plan.Move, func(x Move) string { return x.Job }, job)),
		Waits:  len(of(plan.Pending, func(x Pending) string { return x.Job }, job)),
		Stays:  len(of(plan.Stay, func(x Stay) string { return x.Job }, job)),
	}
	got := map[Doing]int{}
	for _, r := range e.Replicas {
		if r.Text == "" {
			t.Fatalf("%+v has no words", r)
		}
		if want[r.Doing] > 0 {
			got[r.Doing]++
		}
		if (r.Doing == Waits || r.Doing == Stays) && len(e.Changes) == 0 {
			t.Fatalf("%+v, and nothing would change it", r)
		}
	}
	for doing, n := range want {
		if got[doing] != n {
			t.Fatalf("%d replicas of %s that %s, not %d: %+v", got[doing], job, doing, n, e)
		}
	}
	if len(e.Candidates) != len(s.Workers) {
		t.Fatalf("%d candidates of %d workers", len(e.Candidates), len(s.Workers))
	}
}

// crowd is n equal workers with room for more than they get, at rest with unit jobs of some
// replicas each.
func crowd(t *rapid.T, n int) (State, Policy) {
	replicas := rapid.IntRange(1, min(3, n)).Draw(t, "replicas")
	jobs := rapid.IntRange(0, 60).Draw(t, "jobs")
	p := Policy{Replicas: replicas, New: -1, Moves: 1000}
	s := even(jobs, n, 1)
	for i := range s.Jobs {
		s.Jobs[i].Replicas = 0
	}
	for i := range s.Workers {
		s.Workers[i].Capacity = Load(jobs+1) * Unit
	}
	plan, err := Compute(s, p)
	if err != nil || len(plan.Pending) > 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	return applied(s, plan), p
}

// TestAppliedPlanNeedsNoPlan: from nothing one plan does it all, however uneven loads and
// capacities are.
func TestAppliedPlanNeedsNoPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]mix{unit, units, wild}).Draw(t, "mix")
		w := newWorld(t, Policy{
			Replicas: rapid.IntRange(1, 3).Draw(t, "replicas"), New: -1, Moves: 1000,
		})
		for range rapid.IntRange(0, 6).Draw(t, "workers") {
			w.join(m)
		}
		for range rapid.IntRange(0, 12).Draw(t, "jobs") {
			w.list(m)
		}
		s := w.state()
		plan := w.plan()
		again, err := Compute(applied(s, plan), w.policy)
		if err != nil || !again.Empty() || len(again.Pending) != len(plan.Pending) {
			t.Fatalf("after %+v\n%+v, %v\n%+v", plan, again, err, s)
		}
	})
}

// TestLostWorkerMovesOnlyItsReplicas: what the dead worker ran starts elsewhere, and nothing else
// moves, unless that alone would leave some worker with two jobs more than another: a job that is
// on all the others cannot go where there is most room.
func TestLostWorkerMovesOnlyItsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "workers")
		s, p := crowd(t, n)
		dead := s.Workers[rapid.IntRange(0, n-1).Draw(t, "dead")].Name
		s.Workers = slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool {
			return w.Name == dead
		})
		plan, err := Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if lost := len(of(s.Current, func(r Replica) string {
			return r.Worker
		}, dead)); len(plan.Stop) != lost || len(plan.Start)+len(plan.Pending) != lost {
			t.Fatalf("%d were lost: %+v", lost, plan)
		}
		for _, x := range plan.Stop {
			if x.Reason.Code != Gone {
				t.Fatalf("%+v", x)
			}
		}
		p.Moves = -1
		alone, err := Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if spread(applied(s, alone)) <= 1 && len(plan.Move) > 0 {
			t.Fatalf("needless moves: %+v", plan.Move)
		}
	})
}

// TestJoinMovesOneShareAtMost: a worker that joins n others gets ⌊J/(n+1)⌋ of J unit replicas at
// most, and all are as even as before.
func TestJoinMovesOneShareAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "workers")
		s, p := crowd(t, n)
		p.New, p.Moves = 0, rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "moves")
		s.Workers = append(slices.Clone(s.Workers), Worker{
			Name: "new", Capacity: s.Workers[0].Capacity,
		})
		ended, rest := carryOut(t, s, p)
		if most := len(s.Current) / (n + 1); ended > most {
			t.Fatalf("%d moves, at most %d", ended, most)
		}
		if d := spread(rest); d > 1 {
			t.Fatalf("spread %d", d)
		}
	})
}

// spread is how many replicas the fullest worker has more than the emptiest.
func spread(s State) int {
	n := map[string]int{}
	for _, r := range s.Current {
		n[r.Worker]++
	}
	least, most := len(s.Current), 0
	for _, w := range s.Workers {
		least, most = min(least, n[w.Name]), max(most, n[w.Name])
	}
	return max(most-least, 0)
}
