package place

import "testing"

// TestChainForBalanceIsBegunAtItsEnd: a goes from w to v, c from v to y and d from y to x, so that
// w has less. When a plan may make one move only, that is the one from y: v would have more than w
// has if a went first, and would give it back in the next plan, for ever.
func TestChainForBalanceIsBegunAtItsEnd(t *testing.T) {
	s := State{Workers: []Worker{
		{Name: "v", Capacity: 2 * Unit}, {Name: "w", Capacity: 2500},
		{Name: "x", Capacity: 10 * Unit}, {Name: "y", Capacity: 4 * Unit},
	}}
	for _, job := range []struct{ name, on, may string }{
		{"a", "w", "vw"}, {"b", "w", "w"}, {"c", "v", "vy"}, {"d", "y", "xy"}, {"e", "y", "y"},
		{"f", "y", "y"},
	} {
		s.Jobs = append(s.Jobs, Job{Name: job.name, Load: Unit})
		s.Current = append(s.Current, Replica{Job: job.name, Worker: job.on})
		for _, w := range s.Workers {
			if w.Name != job.may[:1] && w.Name != job.may[len(job.may)-1:] {
				s.Penalties = append(s.Penalties, Penalty{Job: job.name, Worker: w.Name})
			}
		}
	}
	for _, want := range []Move{
		{Job: "d", From: "y", To: "x"}, {Job: "c", From: "v", To: "y"}, {Job: "a", From: "w", To: "v"},
	} {
		plan, err := Compute(s, Policy{Moves: 1})
		if err != nil || len(plan.Move) != 1 {
			t.Fatalf("%+v, %v", plan, err)
		}
		got := plan.Move[0]
		if got.Reason.Code != Balance {
			t.Errorf("%+v is not for balance", got)
		}
		if got.Reason = (Reason{}); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
		s = applied(s, plan)
	}
	if plan, err := Compute(s, Policy{Moves: 1}); err != nil || !plan.Empty() {
		t.Errorf("no rest: %+v, %v", plan, err)
	}
}
