package supervise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// Whoever reads on, now and then, knows what whoever reads everything knows.
func TestReadingOnIsReadingAll(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		clock := contract.NewClock()
		db := model.New(clock.Now)
		ctx := t.Context()
		must := func(err error) {
			if err != nil {
				t.Helper()
				t.Fatal(err)
			}
		}
		group := limits.DefaultGroup("g")
		group.Replicas = 3
		_, err := db.ChangeGroup(ctx, group.Name, store.Whole(group))
		must(err)
		leases, err := db.AcquireAll(ctx, "n",
			[]store.Lease{{Name: "node/n"}, {Name: "claim/group/g"}}, 100*time.Hour, 1<<62)
		must(err)
		holder, claim := store.Holder{Node: "n", Token: leases.Leases[0].Token}, leases.Leases[1]
		for i := range 4 {
			_, err := db.Seat(ctx, store.SeatRequest{Holder: holder, Taken: []store.Seat{{
				Worker: fmt.Sprint("w", i), Incarnation: "i", Capacity: 5 * task.Unit,
				Groups: []string{"g"},
			}}})
			must(err)
		}
		l := newGroupCache()
		pick := func() (job, worker string) {
			return fmt.Sprint("j", r.IntN(5)), fmt.Sprint("w", r.IntN(4))
		}
		for range 200 {
			job, worker := pick()
			at := store.Place{Job: job, Replica: r.IntN(3), Worker: worker, Load: task.Unit}
			if a := l.find(worker, job); a != nil {
				at.Token = a.Token
			}
			assign := store.Assign{Group: "g", Claim: claim}
			switch r.IntN(8) {
			case 0:
				_, err = db.ChangeJobs(ctx, store.JobChange{
					Group: "g", Put: []task.Job{{Name: job, Load: task.Units(r.IntN(2000))}},
				})
			case 1:
				_, err = db.ChangeJobs(ctx, store.JobChange{Group: "g", Remove: []string{job}})
			case 2:
				assign.End = []store.Place{at}
				_, err = db.Assign(ctx, assign)
			case 3:
				assign.Drop = []store.Place{at}
				_, err = db.Assign(ctx, assign)
			case 4:
				clock.Advance(time.Duration(r.IntN(100)) * time.Minute)
				_, err = db.Prune(ctx, 100)
			default:
				assign.Start = []store.Place{at}
				_, err = db.Assign(ctx, assign)
			}
			must(err)
			if r.IntN(3) == 0 {
				changes, err := db.Changes(ctx, "g", l.version)
				must(err)
				l.apply(changes)
				everything, err := db.Changes(ctx, "g", 0)
				must(err)
				whole := newGroupCache()
				whole.apply(everything)
				if got, want := told(l), told(whole); !slices.Equal(got, want) {
					t.Fatalf("seed %d: reading on knows\n%v\nreading all knows\n%v", seed, got,
						want)
				}
			}
		}
	}
}

// told is all that a cache knows, but of what is over.
func told(l *groupCache) (list []string) {
	for _, name := range l.sorted() {
		if j := l.jobs[name]; j != nil {
			list = append(list, fmt.Sprintf("%+v", *j))
		}
		for _, a := range l.stand[name] {
			list = append(list, fmt.Sprintf("%+v", *a))
			if l.find(a.Worker, a.Job) != a {
				list = append(list, "which is not what its worker has")
			}
		}
	}
	return append(list, fmt.Sprint(len(l.stand), l.version))
}

func TestEndedAssignmentsAreForgottenInTheEnd(t *testing.T) {
	l := newGroupCache()
	hour := time.Hour.Microseconds()
	l.apply(store.Changes{
		Now: 0, Version: 1,
		Assignments: []store.Assignment{{Job: "a", Worker: "w", State: store.Ended, Since: 0}},
	})
	if l.find("w", "a") == nil {
		t.Error(
			"it was forgotten at once: a worker that runs it could not be told from one whose assignment was lost",
		)
	}
	l.apply(store.Changes{
		Now: hour / 2, Version: 2,
		Assignments: []store.Assignment{{Job: "a", Worker: "w", State: task.JobStarting, Token: 2}},
	})
	l.apply(store.Changes{Now: 3 * hour, Version: 3})
	if a := l.find("w", "a"); a == nil || a.State != task.JobStarting {
		t.Errorf("%+v, want the assignment that came in its place", a)
	}
	if len(l.ended) != 0 {
		t.Errorf("%d tombstones are left", len(l.ended))
	}
}

func TestTombstonesAreForgottenByAgeHoweverTheyWereRead(t *testing.T) {
	l := newGroupCache()
	minute := time.Minute.Microseconds()
	l.apply(store.Changes{Whole: true, Now: 30 * minute, Version: 1,
		Assignments: []store.Assignment{
			{Job: "b", Worker: "w", State: store.Ended, Since: 20 * minute},
			{Job: "a", Worker: "w", State: store.Ended, Since: 10 * minute},
		}})
	l.apply(store.Changes{Now: 15*minute + kept.Microseconds(), Version: 2})
	if l.find("w", "a") != nil || l.find("w", "b") == nil {
		t.Error("not the older one was forgotten first")
	}
}
