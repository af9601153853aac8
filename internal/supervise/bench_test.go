package supervise_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

// BenchmarkBeat is one beat of one of 2,000 workers that run 10,000 replicas, heard and answered,
// with its share of the rounds when each beats every 3 s and there is a round every second.
func BenchmarkBeat(b *testing.B) {
	const workers, jobs, beatsPerRound = 2000, 5000, 667
	ctx := context.Background()
	db := model.New(time.Now)
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	group := limits.DefaultGroup("g")
	group.Replicas = 2
	_, err := db.ChangeGroup(ctx, group.Name, store.Whole(group))
	must(err)
	change := store.JobChange{Group: "g"}
	for i := range jobs {
		change.Put = append(change.Put, task.Job{Name: fmt.Sprintf("j%04d", i), Load: task.Unit})
	}
	_, err = db.ChangeJobs(ctx, change)
	must(err)
	leases, err := db.AcquireAll(ctx, "n1",
		[]store.Lease{{Name: "node/n1"}, {Name: "claim/group/g"}}, time.Hour, math.MaxInt64)
	must(err)
	sessions, err := supervise.NewSessions(supervise.SessionsConfig{
		Cache: supervise.NewClusterCache(db, time.Second), Store: db,
		Holder: store.Holder{Node: "n1", Token: leases.Leases[0].Token}, Secret: nodetest.Secret(),
	})
	must(err)

	beats := make([]task.Beat, workers)
	for i := range beats {
		beats[i] = task.Beat{
			Worker: fmt.Sprintf("w%04d", i), Incarnation: "i", Capacity: 10, Groups: []string{"g"},
		}
		sessions.Hear(&beats[i])
	}
	must(sessions.Round(ctx, time.Now()))
	assign := store.Assign{Group: "g", Claim: leases.Leases[1]}
	for i := range 2 * jobs {
		assign.Start = append(assign.Start, store.Place{
			Job: change.Put[i/2].Name, Replica: i % 2, Worker: beats[i%workers].Worker,
			Load: task.Unit,
		})
	}
	got, err := db.Assign(ctx, assign)
	must(err)
	if len(got.Refused) > 0 {
		b.Fatalf("%d are refused: %+v", len(got.Refused), got.Refused[0])
	}
	must(sessions.Round(ctx, time.Now()))
	for i := range beats {
		orders, err := sessions.Orders(b.Context(), &beats[i])
		must(err)
		for _, a := range orders.Add {
			beats[i].Jobs = append(beats[i].Jobs, task.Run{
				Group: "g", Job: a.Job, Replica: a.Replica, Token: a.Token.String(),
				State: task.JobRunning,
			})
		}
		beats[i].Version = "1"
		sessions.Hear(&beats[i])
	}
	must(sessions.Round(ctx, time.Now()))

	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := &beats[i%workers]
		sessions.Hear(at)
		if i%beatsPerRound == 0 {
			must(sessions.Round(ctx, time.Now()))
		}
		orders, err := sessions.Orders(b.Context(), at)
		must(err)
		if n := len(orders.Add) + len(orders.End); n > 0 {
			b.Fatalf("%d orders of a worker that runs what it is to run", n)
		}
	}
}
