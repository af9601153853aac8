//go:build unix

package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// tables lists the partitions of a table.
func (c *client) tables(parent string) (names []string) {
	c.Helper()
	err := c.glance(c.Context(), ask(`SELECT c.relname::text FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE p.relname = $1 ORDER BY 1`, func(r row) error {
		var name string
		err := r.Scan(&name)
		names = append(names, name)
		return err
	}, parent))
	if err != nil {
		c.Fatal(err)
	}
	return names
}

// prune prunes until nothing is left to prune.
func (c *client) prune() (pruned int) {
	c.Helper()
	for {
		n, err := c.Prune(c.Context(), 1000)
		if err != nil {
			c.Fatal(err)
		}
		if pruned += n; n == 0 {
			return pruned
		}
	}
}

func (c *client) counts(want task.Counts) {
	c.Helper()
	got, err := c.Counts(c.Context(), "q")
	if err != nil || got[0].Counts != want {
		c.Errorf("counts: got %+v, %v, want %+v", got, err, want)
	}
}

func TestPartitionGoesAsAWholeWhenItsTimeIsOver(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	first := c.tables("pack")
	b := c.batch(50, 10, true)
	b.Tasks[7].StartWithin = 365 * 24 * 3600e6
	c.settle(c.submit(b))
	if n := c.count("SELECT count(*) FROM rota.expiry"); n != 1 {
		t.Errorf("%d batches are to be looked at", n)
	}
	clock.Advance(limits.DefaultRetention + 24*time.Hour) // the day that it was is over for as long
	if n := c.prune(); n != 0 {
		t.Errorf("%d tasks were deleted one by one", n)
	}
	c.counts(task.Counts{})
	if n := c.count("SELECT count(*) FROM rota.expiry"); n != 0 {
		t.Errorf("%d batches are to be looked at that are gone", n)
	}
	for _, table := range []string{"batch", "pack", "keyed", "mark", "step"} {
		now := c.tables(table)
		if slices.Contains(now, first[0]) || len(now) == 0 {
			t.Errorf("partitions of %s: %v, before %v", table, now, first)
		}
	}
}

// What is not over stays, byte for byte, and goes on.
func TestSurvivorsMoveIntoASmallPartition(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	b := c.batch(40, 10, true)
	const within = 365 * 24 * 3600e6
	for i := range b.Tasks {
		b.Tasks[i].StartWithin = within
	}
	spans := c.submit(b)
	c.settle(spans[:2])
	expired := report(&spans[2], spans[2].Lo+1, 0, clock.Micros(), task.Outcome{
		Kind: task.KindExpired,
	})
	if got, err := c.Settle(
		t.Context(), store.Settlement{Reports: []store.Report{expired}},
	); err != nil || got.Verdicts[0] != task.Recorded {
		t.Fatal(got, err)
	}
	dead := report(&spans[2], spans[2].Lo, 0, clock.Micros(), task.Fail(nil))
	if got, err := c.Settle(
		t.Context(), store.Settlement{Reports: []store.Report{dead}},
	); err != nil || got.Verdicts[0] != task.Recorded {
		t.Fatal(got, err)
	}
	waiting := task.ID{Batch: spans[3].Batch, N: spans[3].Lo}
	if err := c.AppendLog(
		t.Context(), waiting, []task.LogLine{{Time: clock.Now(), Stream: "out", Text: "kept"}},
	); err != nil {
		t.Fatal(err)
	}
	clock.Advance(limits.DefaultRetention + 25*time.Hour)
	if n := c.prune(); n != 0 {
		t.Errorf("%d tasks were deleted one by one", n)
	}
	if list := c.tables("pack"); !slices.ContainsFunc(list, func(name string) bool {
		return name[len(name)-len(kept):] == kept
	}) {
		t.Errorf("no partition is a small one: %v", list)
	}
	c.counts(task.Counts{Ready: 18, Dead: 1, Expired: 1})
	if v, err := c.Task(t.Context(), waiting); err != nil ||
		string(v.Context) != string(context100) || v.Expires.UnixMicro() != b.Due+within {
		t.Errorf("a task that waits: %+v, %v", v, err)
	}
	if page, err := c.Store.Log(t.Context(), waiting, 0, 10); err != nil || len(page.Lines) != 1 {
		t.Errorf("its log: %+v, %v", page, err)
	}
	if _, err := c.Task(t.Context(), task.ID{Batch: waiting.Batch}); err == nil {
		t.Error("a task that was over is still there")
	}
	again := []store.Action{
		{ID: dead.ID, Kind: task.KindReplayed, Rank: clock.Micros(), Due: clock.Micros()},
	}
	if got, err := c.Act(t.Context(), again); err != nil || !got[0].Changed {
		t.Errorf("replay of a dead task that moved: %+v, %v", got, err)
	}
	late := []store.Report{
		report(&spans[0], 0, 0, 1, task.Finish(nil)), report(&spans[3], 35, 0, 1, task.Finish(nil)),
	}
	if got, err := c.Settle(
		t.Context(), store.Settlement{Reports: late},
	); err != nil || got.Verdicts[0] != task.Unknown || got.Verdicts[1] != task.Recorded {
		t.Errorf("reports of one that is gone and one that was kept: %v, %v", got.Verdicts, err)
	}
	c.counts(task.Counts{Ready: 18, Done: 1, Expired: 1})
}

// A queue that keeps its tasks for a year kept those of all others of the day for as long.
func TestAQueueOfLongRetentionKeepsNobodyElsesPartition(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	long := limits.DefaultQueue("long")
	long.Retention = 365 * 24 * time.Hour
	if _, err := c.ChangeQueue(t.Context(), long.Name, store.Whole(long)); err != nil {
		t.Fatal(err)
	}
	b := c.batch(10, 10, true)
	b.Queue = long.Name
	large := c.tables("pack")
	c.settle(c.submit(b))
	c.settle(c.submit(c.batch(50, 10, true)))
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	if n := c.prune(); n != 0 {
		t.Errorf("%d tasks were deleted one by one", n)
	}
	c.counts(task.Counts{})
	if n := c.count("SELECT count(*) FROM rota.tasks"); n != 10 {
		t.Errorf("%d tasks are left, want the ten of the queue that keeps them", n)
	}
	small := large[0] + kept
	if now := c.tables("pack"); slices.Contains(now, large[0]) || !slices.Contains(now, small) {
		t.Errorf("partitions: %v, before %v", now, large)
	}
	clock.Advance(365 * 24 * time.Hour)
	c.prune()
	if now := c.tables("pack"); slices.Contains(now, small) {
		t.Errorf("partitions a year later: %v", now)
	}
}

// Where most is kept for long, what is not goes task by task.
func TestMovingMoreThanIsDroppedIsLeft(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	long := limits.DefaultQueue("long")
	long.Retention = 365 * 24 * time.Hour
	if _, err := c.ChangeQueue(t.Context(), long.Name, store.Whole(long)); err != nil {
		t.Fatal(err)
	}
	b := c.batch(50, 10, true)
	b.Queue = long.Name
	large := c.tables("pack")
	c.settle(c.submit(b))
	c.settle(c.submit(c.batch(10, 10, true)))
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	if n := c.prune(); n != 0 {
		t.Errorf("%d tasks were deleted before the time in which they may go together was over", n)
	}
	clock.Advance(2 * time.Hour)
	if n := c.prune(); n != 10 {
		t.Errorf("%d tasks were deleted one by one, want the ten that are kept no longer", n)
	}
	if now := c.tables("pack"); !slices.Contains(now, large[0]) {
		t.Errorf("partitions: %v, before %v", now, large)
	}
}

// What another node changes is heard by the node that prunes: it rested until its tasks would have
// been over by the old configuration.
func TestARetentionThatAnotherNodeChangesIsHeard(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	dsn := pgtest.Shared(t).Database(t)
	c, other := join(t, open(t, Config{DSN: dsn, Now: clock.Now, Linger: -1})), open(t, Config{
		DSN: dsn, Now: clock.Now, Linger: -1,
	})
	c.settle(c.submit(c.batch(10, 10, true)))
	clock.Advance(time.Hour)
	if n := c.prune(); n != 0 {
		t.Fatalf("%d tasks were deleted", n)
	}
	short := limits.DefaultQueue("q")
	short.Retention = time.Minute
	if _, err := other.ChangeQueue(t.Context(), "q", store.Whole(short)); err != nil {
		t.Fatal(err)
	}
	if n := c.prune(); n != 10 {
		t.Errorf("%d tasks were deleted after the change, want 10", n)
	}
	if lag := c.Retention().Lag; lag < 58*time.Minute || lag > time.Hour {
		t.Errorf("lag %v, of tasks that were to be kept for one of 60 minutes", lag)
	}
}

// Between the look at a partition and its swap a task that is over may be replayed, however it
// ended: it stays, and is counted once.
func TestReplayWhileAPartitionIsRetiredIsNotLost(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	recorded := all(task.Recorded)
	acts := func(c *client, a store.Action) {
		c.Helper()
		a.Rank, a.Due = clock.Micros(), clock.Micros()
		if got, err := c.Act(t.Context(), []store.Action{a}); err != nil || !got[0].Changed {
			c.Fatal(got, err)
		}
	}
	for name, end := range map[string]func(c *client, sp *store.Span){
		"dead": func(c *client, sp *store.Span) {
			c.settles([]store.Report{
				report(sp, 0, 0, clock.Micros(), task.Fail(nil)),
				report(sp, 1, 0, clock.Micros(), task.Fail(nil)),
			}, recorded)
		},
		"done": func(c *client, sp *store.Span) {
			c.settles([]store.Report{report(sp, 0, 0, clock.Micros(), task.Finish([]byte(`"x"`)))},
				recorded)
		},
		"done, in a mark": func(c *client, sp *store.Span) { c.settle([]store.Span{*sp}) },
		"expired": func(c *client, sp *store.Span) {
			c.settles([]store.Report{
				report(sp, 0, 0, clock.Micros(), task.Outcome{Kind: task.KindExpired}),
				report(sp, 1, 0, clock.Micros(), task.Finish(nil)),
			}, recorded)
		},
		"cancelled": func(c *client, sp *store.Span) {
			acts(c, store.Action{ID: task.ID{Batch: sp.Batch}, Kind: task.KindCancelled})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := join(t, open(t, Config{Now: clock.Now}))
			b := c.batch(2, 2, true)
			b.Tasks[0].StartWithin = 365 * 24 * 3600e6
			spans := c.submit(b)
			end(c, &spans[0])
			clock.Advance(limits.DefaultDeadKept + 48*time.Hour)
			keep := must(c.retention(t.Context()))(t)
			p := c.oldest()
			rest := must(c.sift(t.Context(), &keep, p, clock.Micros()))(t)
			id := task.ID{Batch: b.ID}
			acts(c, store.Action{ID: id, Kind: task.KindReplayed})
			c.swaps(&keep, p, rest, clock.Micros())
			c.counts(task.Counts{Ready: 1 + int64(len(rest.tasks))})
			if v, err := c.Task(t.Context(), id); err != nil || v.State != task.Ready {
				t.Errorf("the replayed task: %+v, %v", v, err)
			}
		})
	}
}

func TestMissingPartitionsAreFound(t *testing.T) {
	stands := func(list ...bounds) (out []partition) {
		for _, b := range list {
			out = append(out, partition{bounds: b})
		}
		return out
	}
	for _, test := range []struct {
		name     string
		stand    []partition
		from, to int64
		want     []bounds
	}{
		{"none stands", nil, 5, 25, []bounds{{0, 10}, {10, 20}, {20, 30}}},
		{"all stand", stands(bounds{0, 10}, bounds{10, 20}), 0, 20, nil},
		{"one lacks", stands(bounds{0, 10}, bounds{20, 30}), 3, 30, []bounds{{10, 20}}},
		{"the width was another", stands(bounds{0, 7}, bounds{14, 21}), 0, 21,
			[]bounds{{7, 10}, {10, 14}}},
		{"the next one begins inside", stands(bounds{15, 25}), 12, 26,
			[]bounds{{10, 15}, {25, 30}}},
		{"a moment", stands(bounds{0, 10}), 10, 11, []bounds{{10, 20}}},
	} {
		if got := missing(test.stand, test.from, test.to, 10); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// A walk that found nothing in a stretch rested as if it had come to the end: what stood in front
// kept what stood behind.
func TestManyReadyTasksInFrontDoNotStopRetention(t *testing.T) {
	story.Whole(t)
	const front, done = 2*pruneExamined + 5000, 1000
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, Linger: -1}))
	for range front / 5000 { // of each one is done, so that all of it is looked at
		sp := c.submit(c.batch(5000, 5000, true))[0]
		one := store.Settlement{
			Reports: []store.Report{report(&sp, 0, 0, clock.Micros(), task.Finish(nil))},
		}
		if _, err := c.Settle(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(c.submit(c.batch(done, done, true)))
	clock.Advance(2 * limits.DefaultRetention)
	calls, found := 0, 0
	for more := true; more; more = c.Retention().Behind {
		n, err := c.Prune(t.Context(), 5000)
		if err != nil {
			t.Fatal(err)
		}
		found += n
		if calls++; calls == 1 && (n > front/5000 || !c.Retention().Behind) {
			t.Errorf("after the first stretch %d were deleted, and the store says %+v", n,
				c.Retention())
		}
	}
	if found != done+front/5000 || calls > front/pruneExamined+3 {
		t.Errorf("%d of %d were deleted in %d calls", found, done, calls)
	}
	if lag := c.Retention().Lag; lag < limits.DefaultRetention-time.Minute ||
		lag > limits.DefaultRetention {
		t.Errorf("lag %v, of tasks that should have gone a day ago", lag)
	}
}
