package sqlite

import (
	"testing"

	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// count is what a query that counts answers.
func (c *client) count(query string) (n int) {
	c.Helper()
	err := c.read(c.Context(), func(conn *conn) error {
		_, err := conn.one(query, func(st *sqlite.Stmt) { n = st.ColumnInt(0) })
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// Rows go in by the hundred; those that stand already must not shift the verdicts of the others,
// nor the rows.
func TestRepeatedReportsAmongManyAreFoundOneByOne(t *testing.T) {
	c := join(t, open(t, Config{}))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 600).Draw(t, "reports")
		sp := c.submit(c.batch(n, n, true))[0]
		before := c.count(countFirst)
		all := make([]store.Report, n)
		for i := range all {
			all[i] = report(&sp, int32(i), 0, int64(i), task.Finish(nil))
		}
		early := rapid.SliceOfDistinct(rapid.IntRange(0, n-1), rapid.ID[int]).Draw(t, "early")
		var first store.Settlement
		for _, i := range early {
			first.Reports = append(first.Reports, all[i])
		}
		if _, err := c.Settle(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		got, err := c.Settle(t.Context(), store.Settlement{Reports: all})
		if err != nil {
			t.Fatal(err)
		}
		want := make([]task.Status, n)
		for i := range want {
			want[i] = task.Recorded
		}
		for _, i := range early {
			want[i] = task.Repeated
		}
		for i := range want {
			if got.Verdicts[i] != want[i] {
				t.Errorf("report %d of %d: got %s, want %s", i, n, got.Verdicts[i], want[i])
			}
		}
		if rows := c.count(countFirst) - before; rows != n {
			t.Errorf("%d reports left %d steps", n, rows)
		}
	})
}

// The same words from another hand-out are not the same report.
func TestSameOutcomeOfAnotherHandOutIsStale(t *testing.T) {
	c := join(t, open(t, Config{}))
	sp := c.submit(c.batch(1, 1, true))[0]
	if err := c.Give(
		t.Context(), store.GiveRequest{Holder: c.holder, Spans: []store.Taking{sp.Taking()}},
	); err != nil {
		t.Fatal(err)
	}
	taken, err := c.Take(t.Context(), store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	newer := taken.Spans[0].Span
	got, err := c.Settle(t.Context(), store.Settlement{Reports: []store.Report{
		report(&newer, 0, 0, 1, task.Finish(nil)), report(&sp, 0, 0, 1, task.Finish(nil)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if want := [2]task.Status{task.Recorded, task.Stale}; [2]task.Status(got.Verdicts) != want {
		t.Errorf("got %v, want %v", got.Verdicts, want)
	}
}

// A running row at a settled seq would make a dead hand-out's token good again.
func TestNothingRunsWhereAStepStands(t *testing.T) {
	c := join(t, open(t, Config{}))
	sp := c.submit(c.batch(2, 2, true))[0]
	running := func(n int32) store.Running {
		return store.Running{
			ID: task.ID{Batch: sp.Batch, N: n}, Span: sp.ID, Token: sp.Token, Worker: "w",
		}
	}
	sync := func() {
		t.Helper()
		if _, err := c.Sync(t.Context(),
			store.SyncRequest{Holder: c.holder,
				Insert: []store.Running{running(0), running(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if got := c.count("SELECT count(*) FROM running"); got != 2 {
		t.Errorf("got %d running rows, want 2", got)
	}
	if _, err := c.Settle(t.Context(),
		store.Settlement{Reports: []store.Report{report(&sp, 0, 0, 1,
			task.Finish(nil))}}); err != nil {
		t.Fatal(err)
	}
	sync() // the hand-out was settled through another node
	if got := c.count("SELECT count(*) FROM running"); got != 1 {
		t.Errorf("got %d running rows after one report, want 1", got)
	}
}
