package supervise

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// BenchmarkDecide is what a supervisor of 100,000 jobs with two replicas each on 1,000 workers
// thinks when one of them has died: the snapshot of the group, the plan, and what follows from it.
func BenchmarkDecide(b *testing.B) {
	const jobs, workers = 100_000, 1000
	cache := NewClusterCache(nil, time.Second)
	group := limits.DefaultGroup("g")
	group.Replicas = 2
	cache.groups["g"] = store.Group{Group: group, Version: 1}
	cache.clock = clock{time.Now(), time.Hour.Microseconds()}
	for i := range workers {
		name := fmt.Sprintf("w%04d", i)
		cache.seats[name] = &store.Seat{
			Worker: name, Capacity: 300 * task.Unit, Used: 2 * jobs / workers * task.Unit,
			Groups: []string{"g"}, State: store.SeatTaken,
		}
	}
	cache.seats["w0500"].State = store.SeatSilent
	changes := store.Changes{Version: 1, Whole: true}
	for i := range jobs {
		name := fmt.Sprintf("j%06d", i)
		changes.Jobs = append(changes.Jobs, store.GroupJob{
			Job: task.Job{Name: name, Load: task.Unit}, Version: 1,
		})
		for n := range 2 {
			changes.Assignments = append(changes.Assignments, store.Assignment{
				Job: name, Replica: n, Worker: fmt.Sprintf("w%04d", (2*i+n)%workers),
				State: task.JobRunning, Load: task.Unit, Token: 1, Version: 1,
			})
		}
	}
	cache.counted = cache.groups
	l := cache.groupCache("g")
	l.apply(changes)
	b.ReportAllocs()
	for b.Loop() {
		p := cache.snapshot(l, time.Now())
		in, err := p.decide(nil)
		if err != nil || len(in.Drop) != 2*jobs/workers || len(in.Start) != len(in.Drop) {
			b.Fatalf("%d dropped, %d started, %v", len(in.Drop), len(in.Start), err)
		}
	}
}
