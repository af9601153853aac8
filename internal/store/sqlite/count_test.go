package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// plan is how a statement finds its rows.
func (c *client) plan(query string, args ...any) (plan string) {
	c.Helper()
	if err := c.read(c.Context(), func(conn *conn) error {
		return conn.each("EXPLAIN QUERY PLAN "+query, func(st *sqlite.Stmt) bool {
			plan += st.ColumnText(3) + "\n"
			return true
		}, args...)
	}); err != nil {
		c.Fatal(err)
	}
	return plan
}

// Ten thousand tasks may run, each in a span of its own: counting looks each up by its keys, and
// what nobody holds it does not look at.
func TestCountingLooksUpWhatRuns(t *testing.T) {
	c := join(t, open(t, Config{}))
	for query, index := range map[string]string{
		aloneHeld: "span_held", aloneFreed: "span_freed",
	} {
		plan := c.plan(query, `["q"]`)
		for _, part := range []string{
			"s USING INDEX " + index,
			"SEARCH p USING PRIMARY KEY (batch=? AND n=? AND seq=?)",
			"SEARCH r USING PRIMARY KEY (batch=? AND n=?)",
		} {
			if !strings.Contains(plan, part) {
				t.Errorf("the plan has no %q:\n%s", part, plan)
			}
		}
	}
	if plan := c.plan(runningNow, `["q"]`); !strings.Contains(plan, "COVERING INDEX running_queue") {
		t.Errorf("what runs is not counted in an index:\n%s", plan)
	}
}

// What sleeps and what is blocked is not passed over on the way to what is due.
func TestKeysOfAQueuePassOverNothingThatSleeps(t *testing.T) {
	c := join(t, open(t, Config{}))
	if plan := c.plan(dueUnsorted, "q", 1, 1); !strings.Contains(plan, "(queue=? AND rank<?)") {
		t.Errorf("the plan is\n%s", plan)
	}
}

// Tasks that stand alone take longer to look at than those of one span, so fewer are.
func TestKeysOfManyLoneTasksAreCut(t *testing.T) {
	c := join(t, open(t, Config{}))
	b := c.batch(3000, 1, false)
	for i := range b.Tasks {
		b.Tasks[i].GroupKey = fmt.Sprint("k", i%10)
	}
	if _, err := c.Submit(t.Context(), store.Submission{
		Holder: c.holder, NewQueues: []string{"q"}, Batches: []store.Batch{b},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Keys(t.Context(), "q")
	if err != nil || !got.Cut || len(got.Keys) != 10 || got.Keys[0].Ready < 100 {
		t.Errorf("got %d keys, cut %v, %v", len(got.Keys), got.Cut, err)
	}
}
