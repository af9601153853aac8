package sqlite

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// crew makes group g with n jobs and two replicas each, and w workers at the client's node, which
// has the claim.
func (c *client) crew(n, w int) store.Lease {
	c.Helper()
	ctx := c.Context()
	g := limits.DefaultGroup("g")
	g.Replicas = 2
	_, err := c.ChangeGroup(ctx, g.Name, store.Whole(g))
	change := store.JobChange{Group: "g", Put: make([]task.Job, n)}
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
			Worker: workerName(i), Incarnation: "1", Capacity: capacity, Groups: []string{"g"},
		})
	}
	_, err3 := c.Seat(ctx, r)
	claim, err4 := c.Acquire(ctx, "group/g", "a", time.Hour, nil)
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

func TestGroupsThatStandStillWriteNothing(t *testing.T) {
	c := join(t, open(t, Config{}))
	claim := c.crew(10, 4)
	list := starts(0, 10, 4)
	token := c.assigned(claim, list).Version
	ctx := t.Context()
	beat := func() {
		for _, err := range []error{
			second(c.Board(ctx, 0)), second(c.Changes(ctx, "g", 0)),
			second(c.Changes(ctx, "g", token)), second(c.Free(ctx, c.holder, math.MaxInt64)),
			second(c.Prune(ctx, 1000)),
			second(c.Observe(ctx, store.Observed{Holder: c.holder, States: running(list, token)})),
			second(c.Seat(ctx, store.SeatRequest{Holder: c.holder, Taken: []store.Seat{
				{Worker: workerName(0), Incarnation: "1", Capacity: 6 * task.Unit,
					Groups: []string{"g"}},
			}})),
			second(c.Assign(ctx, store.Assign{Group: "g", Claim: claim})),
			// all of it is refused
			second(c.Assign(ctx, store.Assign{Group: "g", Claim: claim, Start: list})),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	beat()
	if got := c.commits(beat); got != 0 {
		t.Errorf("a beat of a group that stands still: %d commits", got)
	}
}

// second is a call's error.
func second[T any](_ T, err error) error { return err }

func TestAGroupHasAMillionJobsAtMost(t *testing.T) {
	c := join(t, open(t, Config{}))
	c.crew(2, 1)
	err := c.write(t.Context(), func(t *tx) error {
		_, err := t.exec("UPDATE job_group SET jobs = 999999")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, put := range [][]task.Job{{{Name: "x"}, {Name: "y"}},
		{{Name: jobName(0)}, {Name: "x"}, {Name: "y"}}} {
		if _, err := c.ChangeJobs(
			t.Context(), store.JobChange{Group: "g", Put: put},
		); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%d jobs more: %v", len(put), err)
		}
	}
	if n := c.count("SELECT count(*) FROM job"); n != 2 {
		t.Errorf("%d jobs stand after the refusal", n)
	}
	if _, err := c.ChangeJobs(
		t.Context(), store.JobChange{Group: "g", Put: []task.Job{{Name: "x"}}},
	); err != nil {
		t.Errorf("the last one: %v", err)
	}
}

func TestWhatADeletedGroupLeavesIsPrunedInPieces(t *testing.T) {
	c := join(t, open(t, Config{}))
	claim := c.crew(2*piece, 10)
	c.assigned(claim, starts(0, 2*piece, 10))
	for i := range 3 {
		if err := c.AppendJobLog(t.Context(), "g", jobName(i),
			[]task.LogLine{{Time: time.Now(), Text: "x"},
				{Time: time.Now(), Text: "y"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteGroup(t.Context(), "g", true); err != nil {
		t.Fatal(err)
	}
	if n := c.count("SELECT count(*) FROM assignment"); n != 4*piece {
		t.Errorf("the deletion deleted assignments itself: %d are left of %d", n, 4*piece)
	}
	c.crew(3, 10)
	total := 0
	for n := 1; n > 0; total += n {
		var err error
		if n, err = c.Prune(t.Context(), 10*piece); err != nil || n > piece {
			t.Fatalf("%d rows were deleted at once, %v", n, err)
		}
	}
	if want := 4*piece + 2*piece + 6 + 3; total != want {
		t.Errorf("%d rows were pruned, want %d", total, want)
	}
	for table, want := range map[string]int{"job": 3, "assignment": 0, "job_log": 0,
		"job_log_size": 0, "job_remains": 0, "job_group": 1} {
		if n := c.count("SELECT count(*) FROM " + table); n != want {
			t.Errorf("table %s has %d rows, want %d", table, n, want)
		}
	}
	if n := c.count("SELECT sum(used) FROM seat"); n != 0 {
		t.Errorf("%d is in use by what is gone", n)
	}
}

func TestJobsLeaveNoRowsBehind(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	c.assigned(c.crew(3, 2), starts(0, 3, 2))
	if err := errors.Join(c.AppendJobLog(t.Context(), "g", jobName(0), []task.LogLine{{Text: "x"}}),
		c.DeleteSeat(t.Context(), workerName(0)), c.DeleteSeat(t.Context(), workerName(1)),
		second(c.ChangeJobs(t.Context(), store.JobChange{Group: "g", Whole: true}))); err != nil {
		t.Fatal(err)
	}
	clock.Advance(store.EndedKept)
	c.prune()
	for _, table := range []string{"job", "assignment", "seat", "job_log", "job_log_size"} {
		if n := c.count("SELECT count(*) FROM " + table); n != 0 {
			t.Errorf("table %s has %d rows", table, n)
		}
	}
}

// BenchmarkChangeJobs puts 100,000 jobs at once: new ones, the same again, and each with another
// load. It says how long another caller's write waited for that at most: there is one writer.
func BenchmarkChangeJobs(b *testing.B) {
	const n = 100_000
	c := join(b, open(b, Config{}))
	c.crew(0, 1)
	put := make([]task.Job, n)
	for i := range put {
		put[i] = task.Job{
			Name: jobName(i), Load: task.Unit, Spec: []byte(`{"file":"/var/log/some/service.log"}`),
		}
	}
	for _, kind := range []struct {
		name   string
		before func(b *testing.B)
	}{
		{"new", func(b *testing.B) {
			err := c.DeleteGroup(b.Context(), "g", true)
			if _, err2 := c.ChangeGroup(
				b.Context(), "g", store.Whole(limits.DefaultGroup("g")),
			); err != nil || err2 != nil {
				b.Fatal(err, err2)
			}
		}},
		{"same", func(*testing.B) {}},
		{"others", func(*testing.B) {
			for i := range put {
				put[i].Load++
			}
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			worst := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				kind.before(b)
				done := make(chan time.Duration)
				over := make(chan struct{})
				go func() { done <- c.longestWrite(over) }()
				b.StartTimer()
				_, err := c.ChangeJobs(b.Context(), store.JobChange{
					Group: "g", Put: put, Whole: true,
				})
				close(over)
				if worst = max(worst, <-done); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(worst.Milliseconds()), "others-wait-ms")
		})
	}
}

// longestWrite does small writes until it is over, and says how long the longest took.
func (c *client) longestWrite(over <-chan struct{}) (longest time.Duration) {
	for {
		begun := time.Now()
		if _, err := c.Acquire(c.Context(), "other", "a", time.Hour, nil); err != nil {
			c.Error(err)
			return longest
		}
		longest = max(longest, time.Since(begun))
		select {
		case <-over:
			return longest
		case <-time.After(time.Millisecond):
		}
	}
}

// BenchmarkAssign starts 4,000 replicas on 1,000 workers, lets them run, and drops them.
func BenchmarkAssign(b *testing.B) {
	c := join(b, open(b, Config{}))
	claim := c.crew(2000, 1000)
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

// BenchmarkBoard looks at 10 groups and 2,000 seats, of which nothing is new.
func BenchmarkBoard(b *testing.B) {
	c := join(b, open(b, Config{}))
	c.crew(1, 2000)
	for i := range 9 {
		if _, err := c.ChangeGroup(
			b.Context(), fmt.Sprint("g", i), store.Whole(limits.DefaultGroup(fmt.Sprint("g", i))),
		); err != nil {
			b.Fatal(err)
		}
	}
	board, err := c.Board(b.Context(), 0)
	for b.Loop() {
		if _, err = c.Board(b.Context(), board.Seats.Version); err != nil {
			b.Fatal(err)
		}
	}
	if len(board.Seats.Seats) != 2000 {
		b.Fatal("the seats were not listed: ", err)
	}
}

// What a change of jobs writes is found before it has the writer. The tombstone of a job that comes
// back may be deleted in between.
func TestJobComesBackWhileItsTombstoneIsDeleted(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	c.crew(2, 2)
	ctx := t.Context()
	if _, err := c.ChangeJobs(ctx, store.JobChange{
		Group: "g", Remove: []string{jobName(0)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChangeJobs(ctx, store.JobChange{
		Group: "g", Put: []task.Job{{Name: jobName(1), Load: 2 * task.Unit}},
	}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * store.EndedKept)
	change := store.JobChange{
		Group: "g", Put: []task.Job{{Name: jobName(0), Load: task.Unit}},
	}
	var d jobDiff
	if err := c.read(ctx, func(conn *conn) error {
		g, err := conn.jobs().group("g")
		if err == nil {
			d, err = conn.jobs().jobDiff(&g, &change)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.pruneJobs(ctx, 10); err != nil || n != 1 {
		t.Fatalf("pruned %d, %v, want the tombstone", n, err)
	}
	if err := c.write(ctx, func(t *tx) error {
		_, err := t.jobs().changeJobs(&change, d)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Changes(ctx, "g", 0)
	if err != nil || len(got.Jobs) != 2 {
		t.Errorf("got %+v, %v, want both jobs", got.Jobs, err)
	}
}
