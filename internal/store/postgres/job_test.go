//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// crew makes a group with n jobs and two replicas each, and w workers at the client's node, which
// has the claim.
func (c *client) crew(group string, n, w int) store.Lease {
	c.Helper()
	ctx := c.Context()
	g := limits.DefaultGroup(group)
	g.Replicas = 2
	_, err := c.ChangeGroup(ctx, g.Name, store.Whole(g))
	change := store.JobChange{Group: group, Put: make([]task.Job, n)}
	for i := range change.Put {
		change.Put[i] = task.Job{
			Name: jobName(i), Load: task.Unit, Spec: []byte(`{"file":"/var/log/some/service.log"}`),
		}
	}
	_, err2 := c.ChangeJobs(ctx, change)
	r := store.SeatRequest{Holder: c.holder}
	for i := range w {
		capacity := task.Unit * task.Units(2*n/w+1)
		r.Taken = append(r.Taken, store.Seat{
			Worker: workerName(i), Incarnation: "1", Capacity: capacity, Groups: []string{group},
		})
	}
	_, err3 := c.Seat(ctx, r)
	claim, err4 := c.Acquire(ctx, "group/"+group, "a", time.Hour, nil)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		c.Fatal(err)
	}
	return claim
}

func jobName(i int) string    { return fmt.Sprintf("job-%07d", i) }
func workerName(i int) string { return fmt.Sprintf("worker-%04d", i) }

// starts are both replicas of jobs lo to hi-1, on n workers in turn.
func starts(lo, hi, n int) (list []store.Place) {
	for i := lo; i < hi; i++ {
		for r := range 2 {
			list = append(list, store.Place{
				Job: jobName(i), Replica: r, Worker: workerName((2*i + r) % n), Load: task.Unit,
			})
		}
	}
	return list
}

func (c *client) assigned(claim store.Lease, list []store.Place) store.Assigned {
	c.Helper()
	got, err := c.Assign(c.Context(), store.Assign{Group: "g", Claim: claim, Start: list})
	if err != nil || got.ClaimGone || len(got.Refused) > 0 {
		c.Fatalf("%d refused, claim gone %v, %v", len(got.Refused), got.ClaimGone, err)
	}
	return got
}

// running lets the workers say that they run what was started at a version.
func running(list []store.Place, token int64) (states []store.Observation) {
	for _, p := range list {
		states = append(states, store.Observation{
			Group: "g", Job: p.Job, Replica: p.Replica, Worker: p.Worker, Token: token,
			State: task.JobRunning,
		})
	}
	return states
}

// second is a call's error.
func second[T any](_ T, err error) error { return err }

func TestTripsOfJobs(t *testing.T) {
	story.Whole(t)
	m := &meter{}
	c := join(t, open(t, Config{NoNotify: true, tracer: m}))
	claim := c.crew("g", 200, 20)
	ctx := t.Context()
	list := starts(0, 200, 20)
	token := int64(0)
	seats := store.SeatRequest{Holder: c.holder, Taken: []store.Seat{
		{Worker: workerName(0), Incarnation: "1", Capacity: 21 * task.Unit, Groups: []string{"g"}},
	}}
	for _, call := range []struct {
		what string
		want int64
		do   func() error
	}{
		{"assign 400", 2, func() error { token = c.assigned(claim, list).Version; return nil }},
		{"assign what is refused", 2, func() error { // the second ends the transaction
			return second(c.Assign(ctx, store.Assign{Group: "g", Claim: claim, Start: list}))
		}},
		{"observe 400", 2, func() error {
			return second(c.Observe(ctx,
				store.Observed{Holder: c.holder, States: running(list, token)}))
		}},
		{"board", 3, func() error { return second(c.Board(ctx, 0)) }},
		{"board, when nothing is new", 1, func() error { return second(c.Board(ctx, 1)) }},
		{"changes, everything", 2, func() error { return second(c.Changes(ctx, "g", 0)) }},
		{"changes, what is new", 2, func() error { return second(c.Changes(ctx, "g", token)) }},
		{"seat as before", 2, func() error { return second(c.Seat(ctx, seats)) }},
		{"free", 1, func() error { return second(c.Free(ctx, c.holder, math.MaxInt64)) }},
		{"change jobs", 3, func() error {
			return second(c.ChangeJobs(ctx,
				store.JobChange{Group: "g", Whole: true, Put: []task.Job{{Name: "x"}}}))
		}},
	} { // the last trip of what reads something new has the standby confirm it
		before := m.trips.Load()
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.what, err)
		}
		if got := m.trips.Load() - before; got != call.want {
			t.Errorf("%s: %d trips, want %d", call.what, got, call.want)
		}
	}
}

// Groups that stand still cost a node reads and nothing else: no transaction has a number, no log
// is written.
func TestGroupsThatStandStillWriteNothing(t *testing.T) {
	story.Whole(t)
	// nobody else writes
	server := pgtest.Start(t, pgtest.Config{Settings: []string{"autovacuum = off"}})
	c := join(t, open(t, Config{DSN: server.Database(t), NoNotify: true}))
	claim := c.crew("g", 10, 4)
	list := starts(0, 10, 4)
	token := c.assigned(claim, list).Version
	ctx := t.Context()
	board, err := c.Board(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	const newest = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
	for what, do := range map[string]func() error{
		"board":   func() error { return second(c.Board(ctx, board.Seats.Version)) },
		"changes": func() error { return second(c.Changes(ctx, "g", token)) },
		"free":    func() error { return second(c.Free(ctx, c.holder, math.MaxInt64)) },
		"prune":   func() error { return second(c.Prune(ctx, 1000)) },
	} {
		if err := do(); err != nil { // the first time there may be something to do
			t.Fatal(err)
		}
		before := c.count(newest)
		for range 3 {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.count(newest) - before; n != 0 {
			t.Errorf("%s, with nothing to do: %d transactions wrote", what, n)
		}
	}
}

func TestOtherNodesHearOfJobsAndSeats(t *testing.T) {
	dsn := contested.database(t)
	a, b := join(t, open(t, Config{DSN: dsn})), open(t, Config{DSN: dsn})
	heard := hear(t, b)
	claim := a.crew("g", 2, 2)
	want(t, heard, Hint{Group: "g"})
	want(t, heard, Hint{Seats: true})
	a.assigned(claim, starts(0, 2, 2))
	want(t, heard, Hint{Group: "g"})
	if err := a.AskGroup(t.Context(), "g", true, true); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Group: "g"})
	if err := a.DeleteSeat(t.Context(), workerName(0)); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Group: "g"})
	want(t, heard, Hint{Seats: true})
	if err := a.End(t.Context(), "node/a", a.holder.Token, false); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Free(t.Context(), store.Holder{Node: "b"}, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Seats: true})
	if err := a.DeleteGroup(t.Context(), "g", true); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Group: "g"})
}

// Supervisors, nodes and chores lock the same groups and seats: they wait for one another, and none
// of them fails.
func TestNobodyFailsWhoeverChangesJobsAtOnce(t *testing.T) {
	c := join(t, fresh(t, contract.NewClock(), Config{}))
	const groups, workers, rounds = 4, 6, 12
	var claims []store.Lease
	for i := range groups {
		claims = append(claims, c.crew(fmt.Sprint("g", i), 8, workers))
	}
	ctx := t.Context()
	others := store.SeatRequest{Holder: c.holder}
	for i := range workers {
		others.Taken = append(others.Taken, store.Seat{
			Worker: workerName(workers - 1 - i), Incarnation: "1", Capacity: 100 * task.Unit,
		})
	}
	var failed sync.Map
	var crowd sync.WaitGroup
	repeat := func(what string, do func(i int) error) {
		crowd.Go(func() {
			for i := range rounds {
				if err := do(i); err != nil {
					failed.Store(what, err)
					return
				}
			}
		})
	}
	for g := range groups {
		name := fmt.Sprint("g", g)
		repeat("assign", func(i int) error {
			list := starts(0, 8, workers)
			if (g+i)%2 == 0 {
				slices.Reverse(list)
			}
			got, err := c.Assign(ctx, store.Assign{Group: name, Claim: claims[g], Start: list})
			if err != nil {
				return err
			}
			var drop []store.Place
			o := store.Observed{Holder: c.holder}
			for k, p := range list {
				runs := store.Observation{
					Group: name, Job: p.Job, Worker: p.Worker, Token: got.Version,
					State: task.JobRunning,
				}
				ended := runs
				ended.Group, ended.State = fmt.Sprint("g", (g+1)%groups), store.Ended
				o.States = append(o.States, runs, ended)
				if p.Token = got.Version; k%2 == 0 {
					drop = append(drop, p)
				}
			}
			return errors.Join(second(c.Observe(ctx, o)),
				second(c.Assign(ctx, store.Assign{Group: name, Claim: claims[g], Drop: drop})))
		})
	}
	repeat("seat", func(int) error { return second(c.Seat(ctx, others)) })
	repeat("free", func(int) error { return second(c.Free(ctx, c.holder, math.MaxInt64)) })
	repeat("forget", func(i int) error { return c.DeleteSeat(ctx, workerName(i%workers)) })
	repeat("prune", func(int) error { return second(c.Prune(ctx, 100)) })
	repeat("other group", func(i int) error {
		return errors.Join(second(c.ChangeGroup(ctx, "other",
			store.Whole(limits.DefaultGroup("other")))), c.DeleteGroup(ctx, "other", true))
	})
	crowd.Wait()
	failed.Range(func(what, err any) bool {
		t.Errorf("%s: %v", what, err)
		return true
	})
	const wrong = `SELECT count(*) FROM rota.seat s WHERE used <>
  (SELECT coalesce(sum(load), 0) FROM rota.assignment a WHERE a.worker = s.worker
  AND a.state <> 'ended')`
	if n := c.count(wrong); n != 0 {
		t.Errorf("of %d workers it is not known how much is in use", n)
	}
}

// BenchmarkChangeJobs puts 100,000 jobs at once: the same again, and each with another load.
func BenchmarkChangeJobs(b *testing.B) {
	c := join(b, open(b, Config{}))
	c.crew("g", 0, 1)
	put := make([]task.Job, 100_000)
	for i := range put {
		put[i] = task.Job{
			Name: jobName(i), Load: task.Unit, Spec: []byte(`{"file":"/var/log/some/service.log"}`),
		}
	}
	for name, more := range map[string]task.Units{"same": 0, "others": 1} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for i := range put {
					put[i].Load += more
				}
				if _, err := c.ChangeJobs(
					b.Context(), store.JobChange{Group: "g", Put: put, Whole: true},
				); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAssign starts 4,000 replicas on 1,000 workers, lets them run, and drops them.
func BenchmarkAssign(b *testing.B) {
	c := join(b, open(b, Config{}))
	claim := c.crew("g", 2000, 1000)
	list := starts(0, 2000, 1000)
	for b.Loop() {
		token := c.assigned(claim, list).Version
		if _, err := c.Observe(
			b.Context(), store.Observed{Holder: c.holder, States: running(list, token)},
		); err != nil {
			b.Fatal(err)
		}
		drop := make([]store.Place, len(list))
		for i, p := range list {
			drop[i] = store.Place{Job: p.Job, Worker: p.Worker, Token: token}
		}
		if _, err := c.Assign(
			b.Context(), store.Assign{Group: "g", Claim: claim, Drop: drop},
		); err != nil {
			b.Fatal(err)
		}
	}
}
