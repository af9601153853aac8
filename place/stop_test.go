package place

import (
	"errors"
	"fmt"
	"testing"
)

var errEnough = errors.New("enough")

// huge is a state that takes seconds: many replicas, most of them without room, and workers of all
// sizes.
func huge() (State, Policy) {
	var s State
	for i := range 2000 {
		s.Jobs = append(s.Jobs, Job{Name: fmt.Sprintf("j%05d", i), Load: Unit + Load(i%7)})
	}
	for i := range 1000 {
		s.Workers = append(s.Workers, Worker{
			Name: fmt.Sprintf("w%05d", i), Capacity: Load(20+i%30) * Unit, Zone: fmt.Sprint(i % 9),
		})
	}
	return s, Policy{Replicas: 50, New: -1, Moves: 1000, Zones: true}
}

// Whoever asks may leave at any moment: the call looks up often, ends at once, and answers with the
// reason alone.
func TestCallsEndWhenTheyAreToldTo(t *testing.T) {
	s, p := huge()
	calls := map[string]func(Policy) (bool, error){
		"compute": func(p Policy) (bool, error) {
			plan, err := Compute(s, p)
			return plan.Empty() && plan.Pending == nil, err
		},
		"explain": func(p Policy) (bool, error) {
			e, err := Explain(s, p, "j00001")
			return e.Job == "" || len(e.Candidates) == 0, err
		},
	}
	for name, call := range calls {
		for _, after := range []int{1, 2, 10, 100, 300} {
			asked := 0
			p.Stop = func() error {
				if asked++; asked >= after {
					return errEnough
				}
				return nil
			}
			if empty, err := call(p); !errors.Is(err, errEnough) || !empty || asked != after {
				t.Errorf("%s, told to end after it asked %d times: asked %d times, %v", name, after,
					asked, err)
			}
		}
	}
}

func TestStopChangesNoPlan(t *testing.T) {
	s, p := huge()
	s.Jobs, s.Workers = s.Jobs[:100], s.Workers[:40]
	want, err := Compute(s, p)
	if err != nil {
		t.Fatal(err)
	}
	p.Stop = func() error { return nil }
	if got, err := Compute(s, p); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("another plan, %v", err)
	}
}
