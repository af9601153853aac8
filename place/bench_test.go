package place

import (
	"fmt"
	"testing"
)

// even is a cluster of equal workers that have room for twice their part.
func even(jobs, workers, replicas int) State {
	var s State
	for i := range workers {
		s.Workers = append(s.Workers, Worker{
			Name:     fmt.Sprintf("worker-%05d.example.org", i),
			Capacity: Load(2*jobs*replicas/workers) * Unit,
		})
	}
	for i := range jobs {
		s.Jobs = append(s.Jobs, Job{
			Name: fmt.Sprintf("job-%07d", i), Load: Unit, Replicas: replicas,
		})
	}
	return s
}

// running is the state after its plan.
func running(tb testing.TB, s State, p Policy) State {
	tb.Helper()
	plan, err := Compute(s, p)
	if err != nil {
		tb.Fatal(err)
	}
	return applied(s, plan)
}

func BenchmarkCompute(b *testing.B) {
	unlimited := Policy{New: -1}
	for _, size := range []struct{ jobs, workers int }{{100_000, 1_000}, {1_000_000, 10_000}} {
		nothing := even(size.jobs, size.workers, 2)
		rest := running(b, nothing, unlimited)
		death := rest
		death.Workers = rest.Workers[1:]
		join := rest
		join.Workers = append([]Worker{{Name: "worker-new.example.org",
			Capacity: rest.Workers[0].Capacity}}, rest.Workers...)
		for _, test := range []struct {
			name string
			s    State
		}{
			{"nothing runs", nothing}, {"at rest", rest}, {"a worker died", death},
			{"a worker joined", join},
		} {
			b.Run(fmt.Sprintf("jobs=%d/%s", size.jobs, test.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Compute(test.s, unlimited); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
