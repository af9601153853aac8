//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// brood makes a batch of n children from a number on, in one span.
func (c *client) brood(from, n int, hold bool) store.Batch {
	for {
		if b := c.batch(n, n, hold); store.MayBeChildren(b.ID) {
			for i := range b.Tasks {
				b.Tasks[i].N += int32(from)
			}
			b.Spans[0].Lo, b.Spans[0].Hi = int32(from), int32(from+n-1)
			return b
		}
	}
}

// parent submits a task that is held, and may have children.
func (c *client) parent() store.Span { return c.submit(c.batch(1, 1, true))[0] }

// awaits is a report that the task of a span waits for its children, behind seq.
func awaits(sp *store.Span, seq int32, first bool, children ...store.Batch) store.Report {
	id := task.ID{Batch: sp.Batch, N: sp.Lo}
	r := waits(sp, sp.Lo, seq, 1, store.Await{Address: store.ChildrenOf(id, 0), First: first})
	r.Spawn = children
	return r
}

// under adds children to the hand-out of a span's task.
func (c *client) under(sp *store.Span, seq int32, batches ...store.Batch) ([]store.Span, error) {
	got, err := c.Submit(c.Context(), store.Submission{
		Holder: c.holder, Batches: batches, Under: &store.Right{
			ID: task.ID{Batch: sp.Batch, N: sp.Lo}, Token: task.Token{
				Span: sp.ID, SpanToken: sp.Token, Seq: seq,
			},
		},
	})
	return got.Spans, err
}

// records settles reports, all of which are to be recorded.
func (c *client) records(reports ...store.Report) store.Settled {
	c.Helper()
	got := must(c.Settle(c.Context(), store.Settlement{Reports: reports}))(c.TB)
	for i, v := range got.Verdicts {
		if v != task.Recorded {
			c.Errorf("report %d is %s", i, v)
		}
	}
	return got
}

// familyRows holds the counts of tables against what is wanted.
func (c *client) familyRows(batches, counts, changes int64) {
	c.Helper()
	for table, want := range map[string]int64{
		"child_batch": batches, "child_count": counts, "change": changes,
	} {
		if got := c.count("SELECT count(*) FROM rota." + table); got != want {
			c.Errorf("table %s has %d rows, want %d", table, got, want)
		}
	}
}

// stands holds how the children of a task stand against what is wanted.
func (c *client) stands(id task.ID, want task.Children) {
	c.Helper()
	v := must(c.Task(c.Context(), id))(c.TB)
	if v.Children == nil || *v.Children != want {
		c.Errorf("its children stand %+v, want %+v", v.Children, want)
	}
}

// However many children a settlement ends, it leaves a row for each parent, and looks add them up.
func TestASettlementLeavesOneChangeForEachParent(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	sp, other := c.parent(), c.parent()
	children := []store.Batch{c.brood(0, 8, true), c.brood(8, 4, true)}
	spans := must(c.under(&sp, 0, children...))(t)
	more := must(c.under(&other, 0, c.brood(0, 2, true)))(t)
	c.familyRows(3, 0, 2)
	var reports []store.Report
	for i := range int32(8) { // together they are a mark
		reports = append(reports, report(&spans[0], i, 0, 1, task.Finish(nil)))
	}
	reports = append(reports, report(&spans[1], 8, 0, 1, task.Fail(errors.New("no"))),
		report(&more[0], 1, 0, 1, task.Finish(nil)))
	got := c.records(reports...)
	if n := c.count("SELECT count(*) FROM rota.mark"); n != 1 {
		t.Errorf("%d marks", n)
	}
	id := task.ID{Batch: sp.Batch}
	want := []store.Address{store.ChildrenOf(id, 0),
		store.ChildrenOf(task.ID{Batch: other.Batch}, 0)}
	if !slices.Equal(got.Look, want) {
		t.Errorf("to look at: %v, want %v", got.Look, want)
	}
	c.familyRows(3, 0, 4)
	c.stands(id, task.Children{Total: 12, Done: 8, Dead: 1})
	c.looks(store.LookRequest{Addresses: want[:1]})
	c.familyRows(3, 1, 2)
	c.stands(id, task.Children{Total: 12, Done: 8, Dead: 1})
	c.looks(store.LookRequest{})
	c.familyRows(3, 2, 0)
	c.stands(id, task.Children{Total: 12, Done: 8, Dead: 1})
}

// A repeated report is answered by what it recorded, not by what was added before it.
func TestARepeatedReportAnswersItsOwnChildren(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	sp := c.parent()
	r := report(&sp, 0, 0, 1, task.Finish(nil))
	added := []store.Batch{c.brood(0, 2, false)}
	r.Spawn = []store.Batch{c.brood(0, 2, false)}
	added = append(added, c.brood(0, 2, false)) // its id is greater
	must(c.under(&sp, 0, added...))(t)
	first := c.records(r)
	again := must(c.Settle(t.Context(), store.Settlement{Reports: []store.Report{r}}))(t)
	if again.Verdicts[0] != task.Repeated || len(again.Look) != 0 ||
		fmt.Sprint(again.Spawned) != fmt.Sprint(first.Spawned) {
		t.Errorf("got %+v, the first time %+v", again, first)
	}
	both := []store.Report{r, r}
	sp = c.parent()
	for i := range both {
		both[i].ID.Batch, both[i].Token.Span = sp.Batch, sp.ID
		both[i].Spawn = []store.Batch{c.brood(0, 3, false)}
	}
	got := must(c.Settle(t.Context(), store.Settlement{Reports: both}))(t)
	if len(got.Spawned) != 2 || fmt.Sprint(got.Spawned[0].IDs) != fmt.Sprint(got.Spawned[1].IDs) ||
		len(got.Spawned[0].IDs) != 3 {
		t.Errorf("twice in one settlement: %+v", got)
	}
	c.stands(task.ID{Batch: sp.Batch}, task.Children{Total: 3})
}

// A report that is not recorded submits nothing, also among others that are.
func TestChildrenOfARefusedReportDoNotStand(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	sp, good := c.parent(), c.parent()
	set := store.Settlement{Reports: []store.Report{
		report(&sp, 0, 0, 1, task.Finish(nil)), report(&good, 0, 0, 1, task.Finish(nil)),
	}}
	set.Reports[0].Token.SpanToken++
	for i, keyed := range []bool{true, false} {
		b := c.brood(0, 2, false)
		if keyed {
			b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", b.Due+1e9
		}
		set.Reports[i].Spawn = []store.Batch{b}
	}
	got := must(c.Settle(t.Context(), set))(t)
	if got.Verdicts[0] != task.Stale || got.Verdicts[1] != task.Recorded ||
		len(got.Spawned) != 1 || got.Spawned[0].Report != 1 {
		t.Errorf("got %+v", got)
	}
	c.familyRows(1, 0, 1)
	if n := c.count("SELECT count(*) FROM rota.task_key"); n != 0 {
		t.Errorf("%d keys are claimed", n)
	}
}

// What a transaction of a worker's own ends counts, too.
func TestAHandlersCommitCountsAChild(t *testing.T) {
	o := meanwhile(t)
	sp := o.parent()
	children := must(o.under(&sp, 0, o.brood(0, 2, true)))(t)
	o.records(awaits(&sp, 0, false))
	o.looks(store.LookRequest{})
	o.records(report(&children[0], 0, 0, 1, task.Finish(nil)))
	if err := o.finishes(&children[0], 1, 0); err != nil {
		t.Fatal(err)
	}
	if l := o.looks(store.LookRequest{}); l.Ended != 0 {
		t.Errorf("a look before the commit: %+v", l)
	}
	o.commits()
	said := report(&children[0], 1, 0, 1, task.Finish(nil))
	said.Step.Hash = store.UncommittedHash
	got := must(o.Settle(t.Context(), store.Settlement{Reports: []store.Report{said}}))(t)
	if got.Verdicts[0] != task.Repeated || len(got.Look) != 1 {
		t.Errorf("its report: %+v", got)
	}
	if l := o.looks(store.LookRequest{Addresses: got.Look}); l.Ended != 1 {
		t.Errorf("a look behind it: %+v", l)
	}
	o.stands(task.ID{Batch: sp.Batch}, task.Children{Total: 2, Done: 2})
}

// More waits for children may end than a look is to end: the others are for the next.
func TestALookEndsNoMoreWaitsForChildrenThanItIsTo(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	for range 5 {
		sp := c.parent()
		c.records(awaits(&sp, 0, false))
	}
	for i, want := range []struct {
		ended int
		more  bool
	}{{2, true}, {2, true}, {1, false}, {0, false}} {
		l := c.looks(store.LookRequest{Limit: 2})
		if l.Ended != want.ended || l.More != want.more {
			t.Errorf("look %d: %+v, want %+v", i, l, want)
		}
	}
}

// Rows of families go with what they are of.
func TestNothingIsLeftOfDeletedFamilies(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, NoNotify: true}))
	partition := c.tables("pack")[0]
	over, runs := c.parent(), c.parent()
	children := must(c.under(&over, 0, c.brood(0, 3, true)))(t)
	waited := must(c.under(&runs, 0, c.brood(0, 3, true)))(t)
	for i := range int32(3) {
		c.records(report(&children[0], i, 0, clock.Micros(), task.Finish(nil)),
			report(&waited[0], i, 0, clock.Micros(), task.Finish(nil)))
	}
	c.records(report(&over, 0, 0, clock.Micros(), task.Finish(nil)))
	c.looks(store.LookRequest{})
	c.familyRows(2, 2, 0)
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	c.prune()
	if slices.Contains(c.tables("pack"), partition) {
		t.Errorf("partition %s still stands", partition)
	}
	c.familyRows(1, 1, 0)
	c.stands(task.ID{Batch: runs.Batch}, task.Children{Total: 3, Done: 3})
	page, _, err := c.Children(t.Context(), store.ChildrenQuery{
		Parent: task.ID{Batch: runs.Batch}, Limit: 10,
	})
	if err != nil || len(page) != 3 {
		t.Errorf("%d children are kept for their parent: %v", len(page), err)
	}
	// its holder is gone by now
	c.acts(task.ID{Batch: runs.Batch}, task.KindCancelled)
	c.looks(store.LookRequest{})
	clock.Advance(limits.DefaultRetention + limits.DefaultDeadKept + 24*time.Hour)
	c.prune()
	c.looks(store.LookRequest{})
	c.familyRows(0, 0, 0)
}

// A queue that is deleted takes what it has with it, and lets children in others fall.
func TestADeletedQueueEndsItsTasksForOthers(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	top := c.parent()
	mid := c.brood(0, 1, true)
	mid.Queue = "r"
	spans := must(c.under(&top, 0, mid))(t)
	must(c.under(&spans[0], 0, c.brood(0, 2, false)))(t)
	c.records(awaits(&top, 0, true))
	c.looks(store.LookRequest{})
	must(c.ChangeQueue(t.Context(), "r", func(*task.Queue, bool) error { return nil }))(t)
	if err := c.DeleteQueue(t.Context(), "r", true); err != nil {
		t.Fatal(err)
	}
	l := c.looks(store.LookRequest{})
	if l.Ended != 1 || len(l.Cancelled) != 2 {
		t.Errorf("the look: %+v", l)
	}
	c.stands(task.ID{Batch: top.Batch}, task.Children{Total: 1, Cancelled: 1})
	c.looks(store.LookRequest{})
	c.familyRows(1, 1, 0)
}

// A look finds nothing to add up of a parent that is gone.
func TestCountsOfWhoIsGoneAreNotKept(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	sp := c.parent()
	must(c.under(&sp, 0, c.brood(0, 1, false)))(t)
	runSQL(t, c.conf.DSN, fmt.Sprintf("DELETE FROM rota.pack WHERE batch = %d", sp.Batch))
	c.looks(store.LookRequest{})
	c.familyRows(1, 0, 0)
}

// Whatever the size of the tables, what is asked of families goes by their indexes.
func TestFamiliesAreFoundByIndexes(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{NoNotify: true}))
	sp := c.parent()
	must(c.under(&sp, 0, c.brood(0, 100, false)))(t)
	runSQL(t, c.conf.DSN, `INSERT INTO rota.child_batch SELECT 1000 + 2 * i, i, 0, 0, 0, false, false,
'c ' || i FROM generate_series(1, 50000) i`, `INSERT INTO rota.child_count
SELECT i, 0, 0, 1, 0, 0, 0, 0 FROM generate_series(1, 50000) i`,
		"INSERT INTO rota.change (address, done) SELECT 'c x' || i, 1 FROM generate_series(1, 50000) i",
		"ANALYZE rota.child_batch, rota.child_count, rota.change")
	id := task.ID{Batch: sp.Batch}
	address := store.ChildrenOf(id, 0).String()
	one, zero, none := []int64{sp.Batch}, []int64{0}, []int32{0}
	for name, q := range map[string]query{
		"ends":    tell(childrenEnded, one, one, zero, zero, zero),
		"falls":   tell(leaveFalls, one, none, []string{"f x"}),
		"parents": tell(parentsOf, one),
		"sums":    tell(sumsOf, one, none, none, []string{address}),
		"family":  tell(familyOf, sp.Batch, 0, strings.TrimSuffix(address, "0")),
		"list":    tell(childrenOf, sp.Batch, 0, 0, -1, 100),
		"behind":  tell(childrenBehind, one, none, zero, []int32{-1}, 10, []int32{9}),
		"repeat":  tell(spawnedBy, one, none, none),
		"take":    tell(takeChangesAt, []string{address}, 1000),
		"first":   tell(firstChange, nil),
		"left":    tell("SELECT " + fallsLeft),
		"waited":  tell(waitedAmong, one),
	} {
		var lines []string
		if err := c.glance(t.Context(), ask("EXPLAIN "+q.text, func(r row) error {
			var line string
			err := r.Scan(&line)
			lines = append(lines, line)
			return err
		}, q.args...)); err != nil {
			t.Fatal(name, err)
		}
		plan := strings.Join(lines, "\n")
		for _, table := range []string{"child_batch", "child_count", "change"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s reads all of table %s:\n%s", name, table, plan)
			}
		}
	}
}
