//go:build unix

package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// Which outcomes stand in marks, and which as steps.
func TestManyPlainOutcomesOfAPackAreAMark(t *testing.T) {
	large := strings.Repeat("x", pack.ResultLimit)
	for name, x := range map[string]struct {
		reports func(sp *store.Span) []store.Report
		marked  int64
	}{
		"four":        {func(sp *store.Span) []store.Report { return ends(sp, 60, 63) }, 4},
		"three":       {func(sp *store.Span) []store.Report { return ends(sp, 60, 62) }, 0},
		"two and two": {func(sp *store.Span) []store.Report { return ends(sp, 62, 65) }, 0},
		"two packs":   {func(sp *store.Span) []store.Report { return ends(sp, 60, 67) }, 8},
		"with results": {func(sp *store.Span) (list []store.Report) {
			for n := range int32(8) {
				list = append(list, report(sp, n, 0, 1, task.Finish(n)))
			}
			return list
		}, 8},
		"with long results": {func(sp *store.Span) (list []store.Report) {
			for n := range int32(8) {
				list = append(list, report(sp, n, 0, 1, task.Finish(strings.Repeat("x", 100))))
			}
			return list
		}, 0},
		"all with long results": {func(sp *store.Span) (list []store.Report) {
			for n := range int32(64) {
				list = append(list, report(sp, n, 0, 1, task.Finish(strings.Repeat("x", 100))))
			}
			return list
		}, 64},
		"beside others": {func(sp *store.Span) []store.Report {
			return append(ends(sp, 0, 3), report(sp, 4, 0, 1, task.Retry(nil)),
				report(sp, 5, 0, 1, task.Finish(large)))
		}, 4},
		"in no order": {func(sp *store.Span) []store.Report {
			list := ends(sp, 0, 70)
			slices.Reverse(list)
			return list
		}, 71},
		"with the death of another": {func(sp *store.Span) []store.Report {
			dead := report(sp, 9, 0, 1, task.Fail(nil))
			dead.Notice = &store.Batch{ID: sp.Batch + 100, Queue: "q", Tasks: []store.Task{{}},
				Spans: []store.NewSpan{{}}}
			return append(ends(sp, 0, 8), dead)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := join(t, fresh(t, contract.NewClock(), Config{}))
			sp := c.submit(c.batch(100, 100, true))[0]
			list := x.reports(&sp)
			c.settles(list, all(task.Recorded))
			marks := map[int64]int64{0: 0, 4: 1, 8: 1 + int64(map[string]int{"two packs": 1}[name]),
				64: 1, 71: 2}[x.marked]
			c.rows(marks, x.marked, int64(len(list))-x.marked)
		})
	}
}

// Whatever a mark says is seen as it would be of steps.
func TestMarksAreSeenAsStepsWouldBe(t *testing.T) {
	see := func(marksFrom int) (seen []string) {
		clock := contract.NewClock()
		c := join(t, fresh(t, clock, Config{marksFrom: marksFrom}))
		b := c.batch(150, 150, true)
		sp := c.submit(b)[0]
		note := func(what string, v any) {
			text := strings.ReplaceAll(fmt.Sprintf("%s: %+v", what, v), fmt.Sprint(b.ID), "B")
			seen = append(seen, strings.ReplaceAll(text, task.ID{Batch: b.ID}.String()[:13], "B"))
		}
		var list []store.Report
		for n := range int32(100) {
			r := report(&sp, n, 0, clock.Micros()+int64(n), task.Finish(nil))
			if n%3 == 0 {
				o := task.Finish(n)
				r.Step.Result, r.Step.Hash = store.Value(o.Result), store.ReportHash(o)
			}
			r.Step.Worker = fmt.Sprint("worker-", n%4)
			r.Step.Finished += int64(n) * 1000
			list = append(list, r)
		}
		c.settles(list, all(task.Recorded))
		id := func(n int32) task.ID { return task.ID{Batch: b.ID, N: n} }
		now := clock.Micros()
		acted := must(c.Act(t.Context(), []store.Action{
			{ID: id(5), Kind: task.KindReplayed, Rank: now, Due: now},
			{ID: id(6), Kind: task.KindCancelled}, {ID: id(120), Kind: task.KindCancelled},
			{ID: id(7), Kind: task.KindRemoved},
		}))(t)
		for i := range acted {
			acted[i].ID.Batch = 0
		}
		note("acted", acted)
		for _, n := range []int32{0, 3, 5, 6, 7, 63, 64, 99, 100, 120} {
			v, err := c.Task(t.Context(), id(n))
			note("view", fmt.Sprintf("%+v %s %s %v", v, v.Result, v.Context, err != nil))
			st := must(c.Stand(t.Context(), []task.ID{id(n)}))(t)[0]
			st.Owner.ID = min(st.Owner.ID, 1)
			note("stands", st)
		}
		for _, f := range []store.Filter{
			{}, {State: task.Done}, {State: task.Ready}, {Worker: "worker-2"},
			{Worker: "worker-2", State: task.Done}, {State: task.Done, Stage: "first"},
			{Queue: "q", State: task.Done, Worker: "worker-3"}, {State: task.Cancelled},
			{Stage: "first", Worker: "worker-1"},
		} {
			page, _, err := c.Tasks(t.Context(), f, task.ID{}, 200)
			if err != nil || len(page) == 0 {
				t.Errorf("%+v: %d tasks, %v", f, len(page), err)
			}
			note(fmt.Sprintf("list %+v", f), page)
		}
		note("counts", must(c.Counts(t.Context(), "q"))(t))
		for _, limit := range []int{10, 70, 1000} {
			times := must(c.RunTimes(t.Context(), "q", limit))(t)
			slices.SortFunc(times, func(a, b store.RunTime) int { return int(a.Took - b.Took) })
			note("run times", times)
		}
		var watch []store.Watch
		for n := range int32(150) {
			watch = append(watch, store.Watch{ID: id(n)})
		}
		synced := must(c.Sync(t.Context(), store.SyncRequest{Holder: c.holder, Watch: watch}))(t)
		slices.SortFunc(synced.Settled, task.ID.Compare)
		note("settled", synced)
		a := must(c.Ahead(t.Context(), id(140), 1000))(t)
		note("ahead", a)
		held := must(c.Held(t.Context(), c.holder, nil))(t)
		for i := range held {
			held[i].ID = 0
		}
		note("held", held)
		return seen
	}
	steps, marks := see(1000), see(1)
	if diff := cmp.Diff(steps, marks); diff != "" {
		t.Errorf("with steps -, with marks +:\n%s", diff)
	}
}

// The function that shows people what stands in a body reads it as package pack does.
func TestViewOfOutcomesReadsBodies(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	sp := c.submit(c.batch(130, 130, true))[0]
	var want []string
	for _, part := range [][2]int32{{0, 30}, {31, 63}, {64, 129}} {
		var list []store.Report
		for n := part[0]; n <= part[1]; n++ {
			o := task.Finish(nil)
			if n%5 == 0 {
				o = task.Finish(strings.Repeat("ü", int(n)))
			}
			r := report(&sp, n, 0, time.Now().UnixMicro()-int64(n*n), o)
			r.Step.Worker = fmt.Sprint("wörker-", n/20)
			r.Step.Finished += 1000 * int64(n)
			list = append(list, r)
			want = append(want, fmt.Sprint(n, r.Token.SpanToken, r.Step.Started, r.Step.Finished,
				r.Step.Worker, string(r.Step.Result)))
		}
		c.settles(list, all(task.Recorded))
	}
	var got []string
	err := c.glance(t.Context(), ask(`SELECT n, token, started, finished, worker, result
FROM rota.outcome ORDER BY n`, func(r row) error {
		var n int32
		var token, started, finished int64
		var worker string
		var result []byte
		err := r.Scan(&n, &token, &started, &finished, &worker, &result)
		got = append(got, fmt.Sprint(n, token, started, finished, worker, string(result)))
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// Rows of hand-outs that ran for long go with their outcomes; their tokens are good also when the
// span has another holder, and then those of the span are not.
func TestMarksGoByRunningRows(t *testing.T) {
	for name, taken := range map[string]bool{"own span": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
			sp := c.submit(c.batch(20, 20, true))[0]
			var running []store.Running
			for n := range int32(10) {
				running = append(running, store.Running{
					ID: task.ID{Batch: sp.Batch, N: n}, Span: sp.ID, Token: sp.Token, Worker: "w",
				})
			}
			must(c.Sync(t.Context(), store.SyncRequest{Holder: c.holder, Insert: running}))(t)
			now := sp
			if taken {
				runSQL(t, c.conf.DSN, "UPDATE rota.span SET token = token + 1")
				now.Token++
				c.settles(ends(&now, 0, 9), all(task.Stale))
			}
			c.settles(ends(&sp, 0, 9), all(task.Recorded))
			c.rows(1, 10, 0)
			if taken {
				c.settles(ends(&sp, 10, 19), all(task.Stale))
			}
			c.settles(ends(&now, 10, 19), all(task.Recorded))
			c.rows(1, 20, 0)
		})
	}
}

// Numbers that are no tasks get no outcome.
func TestMarksLeaveGapsAlone(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	b := c.batch(20, 20, true)
	b.Tasks = slices.Delete(b.Tasks, 5, 7)
	sp := c.submit(b)[0]
	c.settles(ends(&sp, 0, 9), func(i int) task.Status {
		if i == 5 || i == 6 {
			return task.Unknown
		}
		return task.Recorded
	})
	c.settles(ends(&sp, 10, 19), all(task.Recorded))
	c.rows(1, 10, 8)
}

// A mark goes with the last task of its pack, and each task at its own time.
func TestMarksGoWithTheirTasks(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, Linger: -1}))
	sp := c.submit(c.batch(64, 64, true))[0]
	settle := func(lo, hi int32) {
		var list []store.Report
		for n := lo; n <= hi; n++ {
			list = append(list, report(&sp, n, 0, clock.Micros(), task.Finish(nil)))
		}
		c.settles(list, all(task.Recorded))
	}
	settle(0, 31)
	clock.Advance(time.Hour)
	settle(32, 63)
	must(c.Settle(t.Context(), store.Settlement{Spent: []store.Taking{sp.Taking()}}))(t)
	clock.Advance(limits.DefaultRetention - time.Hour + time.Minute)
	if n := c.prune(); n != 32 {
		t.Errorf("%d tasks were deleted, want the older half", n)
	}
	c.counts(task.Counts{Done: 32})
	c.settles([]store.Report{report(&sp, 3, 0, 1, task.Finish(nil)),
		report(&sp, 40, 0, 1, task.Finish(nil))}, func(i int) task.Status {
		return []task.Status{task.Unknown, task.Repeated}[i]
	})
	if n := c.count("SELECT count(*) FROM rota.mark"); n != 1 {
		t.Errorf("%d marks are left of a pack with tasks", n)
	}
	clock.Advance(time.Hour)
	if n := c.prune(); n != 32 {
		t.Errorf("%d tasks were deleted, want the other half", n)
	}
	if n := c.count("SELECT count(*) FROM rota.mark"); n != 0 {
		t.Errorf("%d marks are left without tasks", n)
	}
}

// Marks of what is kept move with it, whole. What of them is kept no longer goes task by task.
func TestMarksMoveIntoASmallPartition(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	sp := c.submit(c.batch(192, 192, true))[0]
	c.settles(ends(&sp, 0, 95), all(task.Recorded)) // long ago, by their clock
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	var late []store.Report
	for n := int32(96); n < 104; n++ {
		late = append(late, report(&sp, n, 0, clock.Micros(), task.Finish(nil)))
	}
	c.settles(late, all(task.Recorded))
	clock.Advance(time.Hour)
	if n := c.prune(); n != 32 {
		t.Errorf("%d tasks were deleted one by one, want those that shared a mark with others", n)
	}
	if list := c.tables("mark"); !slices.ContainsFunc(list, func(name string) bool {
		return strings.HasSuffix(name, kept)
	}) {
		t.Errorf("no partition is a small one: %v", list)
	}
	c.counts(task.Counts{Ready: 88, Done: 8})
	c.settles(late, all(task.Repeated))
	v := must(c.Task(t.Context(), late[0].ID))(t)
	if v.State != task.Done || len(v.Steps) != 1 {
		t.Errorf("a task that was kept: %+v", v)
	}
}

// The tables of the version before become those of this one: what stands stays, and nodes of that
// version, which may go on, do no harm.
func TestNodesOfTheVersionBeforeDoNoHarm(t *testing.T) {
	story.Whole(t)
	dsn := pgtest.Shared(t).Database(t)
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	defer conn.Close(t.Context())
	apply := func(number string) {
		t.Helper()
		files := must(migrations.ReadDir("migrations"))(t)
		for _, f := range files {
			if strings.HasPrefix(f.Name(), number) {
				text := must(migrations.ReadFile("migrations/" + f.Name()))(t)
				if _, err := conn.Exec(t.Context(), string(text)); err != nil {
					t.Fatalf("%s: %v", f.Name(), err)
				}
			}
		}
	}
	runSQL(t, dsn, "CREATE SCHEMA rota")
	for v := 1; v < 18; v++ {
		apply(fmt.Sprintf("%05d_", v))
	}
	runSQL(t, dsn, `INSERT INTO rota.lease (name, holder, token, until) VALUES ('node/old', 'old', 7, 1152921504606846976),
('claim/x', 'old', 3, 9223372036854775807)`)
	apply("00018_")

	var token, until, claim int64
	if err := conn.QueryRow(t.Context(), `SELECT token, until,
(SELECT until FROM rota.lease WHERE name = 'claim/x') FROM rota.lease WHERE name = 'node/old'`).
		Scan(&token, &until, &claim); err != nil || token != 8 || until != 0 || claim != 1<<60 {
		t.Errorf("the membership: token %d, until %d, %v; its claim until %d", token, until, err,
			claim)
	}
	for what, text := range map[string]string{
		"renews":     "UPDATE rota.lease SET until = 1152921504606846976 WHERE name = 'node/old'",
		"joins":      "UPDATE rota.lease SET until = 1152921504606846976, token = 9 WHERE name = 'node/old'",
		"joins anew": "INSERT INTO rota.lease (name, holder, token, until) VALUES ('node/b', 'b', 1, 5)",
	} {
		if _, err := conn.Exec(t.Context(), text); stateOf(err) != codeCheck {
			t.Errorf("a node of the version before %s: %v", what, err)
		}
	}
}
