//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// runs writes down that a task of a span runs.
func (c *client) runs(sp *store.Span, n, seq int32) {
	c.Helper()
	must(c.Sync(c.Context(), store.SyncRequest{Holder: c.holder, Insert: []store.Running{{
		ID: task.ID{Batch: sp.Batch, N: n}, Seq: seq, Span: sp.ID, Token: sp.Token,
		Worker: "worker-1", Started: 1, Until: 1e18,
	}}}))(c.TB)
}

// adds is another node's addition of a batch of children, up to its commit.
func (o *other) adds(sp *store.Span, running bool) {
	o.Helper()
	if running {
		o.do("SELECT FROM rota.running WHERE batch = $1 AND n = 0 AND seq = 0 FOR UPDATE", sp.Batch)
	} else {
		o.do("SELECT FROM rota.span WHERE id = $1 FOR UPDATE", sp.ID)
	}
	b := o.brood(0, 1, false)
	address := store.ChildrenOf(task.ID{Batch: sp.Batch}, 0).String()
	o.do(`INSERT INTO rota.pack (batch, has, lo, stage) VALUES ($1, 1, 0, 'first')`, b.ID)
	o.do(`INSERT INTO rota.batch (id, queue, rank, due, created, origin, span, granted)
VALUES ($1, 'q', 1, 1, $2, 'b', -($1::bigint), false)`, b.ID, b.Created)
	o.do(`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths,
size, gaps) VALUES (-($1::bigint), $1, 0, 0, 0, 'q', 1, 1, 0, 0, 0, 1, false)`, b.ID)
	o.do(`INSERT INTO rota.child_batch VALUES ($1, $2, 0, 0, 0, true, false, $3)`, b.ID, sp.Batch,
		address)
	o.do(`INSERT INTO rota.change (address, total) VALUES ($1, 1)`, address)
}

// onceByRow runs a test with a running row of the hand-out, and without.
func onceByRow(t *testing.T, test func(t *testing.T, o *other, sp store.Span, running bool)) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running row ", running), func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(2, 2, true))[0]
			if running {
				o.runs(&sp, 0, 0)
			}
			test(t, o, sp, running)
		})
	}
}

// Whoever ends a hand-out comes behind children that are being added to it: those fall with it.
func TestAnEndWaitsForChildrenThatAreAdded(t *testing.T) {
	one := func(o *other, sp *store.Span, rest ...store.Report) {
		o.records(append(rest, report(sp, 0, 0, 1, task.Fail(errors.New("no"))))...)
	}
	for what, ends := range map[string]func(o *other, sp *store.Span){
		"settled": func(o *other, sp *store.Span) { one(o, sp) },
		"settled one by one": func(o *other, sp *store.Span) {
			stale := report(sp, 1, 0, 1, task.Finish(nil))
			stale.Token.SpanToken++
			got := must(o.Settle(o.Context(), store.Settlement{Reports: []store.Report{
				stale, report(sp, 0, 0, 1, task.Fail(errors.New("no"))),
			}}))(o.TB)
			if got.Verdicts[1] != task.Recorded {
				o.Errorf("got %v", got.Verdicts)
			}
		},
		"cancelled": func(o *other, sp *store.Span) {
			o.acts(task.ID{Batch: sp.Batch}, task.KindCancelled)
		},
	} {
		t.Run(what, func(t *testing.T) {
			onceByRow(t, func(t *testing.T, o *other, sp store.Span, running bool) {
				o.adds(&sp, running)
				done := make(chan struct{})
				go func() { defer close(done); ends(o, &sp) }()
				o.awaitLock(t)
				o.commits()
				<-done
				if l := o.looks(store.LookRequest{}); len(l.Cancelled) != 1 {
					t.Errorf("the look: %+v", l)
				}
				o.stands(task.ID{Batch: sp.Batch}, task.Children{Total: 1, Cancelled: 1})
			})
		})
	}
}

// beside is one more transaction of somebody else's.
func (o *other) beside(t *testing.T) *other {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.dsn)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tx.Rollback(t.Context())
		conn.Close(t.Context())
	})
	return &other{o.client, tx, o.dsn}
}

// A running row may come while somebody ends the hand-out who saw none, and children under it: they
// are waited for all the same.
func TestAnEndWaitsForChildrenUnderARowThatCame(t *testing.T) {
	for what, ends := range map[string]func(o *other, sp *store.Span){
		"settled": func(o *other, sp *store.Span) {
			o.records(report(sp, 0, 0, 1, task.Fail(errNone)),
				report(sp, 1, 0, 1, task.Finish(nil)))
		},
		"cancelled": func(o *other, sp *store.Span) {
			must(o.Act(o.Context(), []store.Action{
				{ID: task.ID{Batch: sp.Batch}, Kind: task.KindCancelled},
				{ID: task.ID{Batch: sp.Batch, N: 1}, Kind: task.KindCancelled},
			}))(o.TB)
		},
	} {
		t.Run(what, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(2, 2, true))[0]
			adding := o.beside(t)
			// it waits for somebody who ends the neighbour, and changes his mind
			o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt,
base, kind, ran) VALUES ($1, 1, 0, $2, 7, 0, 1, 1, -1, 1, 'first')`, sp.Batch, sp.Token)
			done := make(chan struct{})
			go func() { defer close(done); ends(o, &sp) }()
			o.awaitLock(t)
			o.runs(&sp, 0, 0)
			adding.adds(&sp, true)
			o.end(false)
			adding.awaitLock(t)
			adding.commits()
			<-done
			if l := o.looks(store.LookRequest{}); len(l.Cancelled) != 1 {
				t.Errorf("the look: %+v", l)
			}
		})
	}
}

// A removal is refused while its task has a running row, but comes in the way of a young hand-out.
func TestARemovalWaitsForChildrenThatAreAdded(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(2, 2, true))[0]
	o.adds(&sp, false)
	done := make(chan struct{})
	go func() { defer close(done); o.acts(task.ID{Batch: sp.Batch}, task.KindRemoved) }()
	o.awaitLock(t)
	o.commits()
	<-done
	if l := o.looks(store.LookRequest{}); len(l.Cancelled) != 1 {
		t.Errorf("the look: %+v", l)
	}
}

// Children that are added while somebody ends the hand-out wait, and do not come if he did.
func TestAddedChildrenWaitForAnEnd(t *testing.T) {
	for _, commits := range []bool{true, false} {
		for what, step := range map[string][2]int{
			"dead": {3, -1}, "next": {2, 0}, "cancelled": {9, -1},
		} {
			t.Run(fmt.Sprint(what, " ", commits), func(t *testing.T) {
				onceByRow(t, func(t *testing.T, o *other, sp store.Span, running bool) {
					o.do("SELECT FROM rota.span WHERE id = $1 FOR SHARE", sp.ID)
					o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished,
attempt, base, kind, ran) VALUES ($1, 0, 0, $2, 1, 0, 1, 0, $3, $4, 'first')`, sp.Batch, sp.Token,
						step[1], step[0])
					o.do("DELETE FROM rota.running WHERE batch = $1", sp.Batch)
					added := make(chan error, 1)
					go func() {
						_, err := o.under(&sp, 0, o.brood(0, 1, false))
						added <- err
					}()
					o.awaitLock(t)
					o.end(commits)
					if err := <-added; errors.Is(err, store.ErrStale) != commits ||
						!commits && err != nil {
						t.Errorf("adding: %v, and the end stands: %v", err, commits)
					}
					want := int64(1)
					if commits {
						want = 0
					}
					o.familyRows(want, 0, want)
				})
			})
		}
	}
}

// The same with what a handler's own transaction ends, and with a mark.
func TestAddedChildrenWaitForAHandlersCommit(t *testing.T) {
	onceByRow(t, func(t *testing.T, o *other, sp store.Span, running bool) {
		if err := o.finishes(&sp, 0, 0); err != nil {
			t.Fatal(err)
		}
		added := make(chan error, 1)
		go func() {
			_, err := o.under(&sp, 0, o.brood(0, 1, false))
			added <- err
		}()
		o.awaitLock(t)
		o.commits()
		if err := <-added; !errors.Is(err, store.ErrStale) {
			t.Errorf("adding: %v", err)
		}
	})
}

func TestNoChildrenAreAddedToWhatAMarkSaysIsDone(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true, marksFrom: 1}, ""))
	sp := c.parent()
	c.records(report(&sp, 0, 0, 1, task.Finish(nil)))
	if n := c.count("SELECT count(*) FROM rota.mark"); n != 1 {
		t.Fatalf("%d marks", n)
	}
	if _, err := c.under(&sp, 0, c.brood(0, 1, false)); !errors.Is(err, store.ErrStale) {
		t.Errorf("adding: %v", err)
	}
}

// A handler that ends the hand-out waits for children that are being added.
func TestAHandlersCommitWaitsForChildrenThatAreAdded(t *testing.T) {
	onceByRow(t, func(t *testing.T, o *other, sp store.Span, running bool) {
		o.adds(&sp, running)
		id, token := o.given(&sp, 0, 0)
		done := make(chan error, 1)
		go func() {
			done <- o.glance(t.Context(), ask("SELECT rota.finish($1, $2)",
				func(row) error { return nil }, id, token))
		}()
		o.awaitLock(t)
		o.commits()
		if err := <-done; err != nil {
			t.Error(err)
		}
		o.stands(task.ID{Batch: sp.Batch}, task.Children{Total: 1})
	})
}

// The last two children end at the same time, and each look may come between: one of them wakes
// their parent, whichever is the last to look.
func TestTheLastTwoChildrenEndAtOnce(t *testing.T) {
	o := meanwhile(t)
	sp := o.parent()
	children := must(o.under(&sp, 0, o.brood(0, 2, true)))(t)
	o.records(awaits(&sp, 0, false))
	o.looks(store.LookRequest{})
	at := store.ChildrenOf(task.ID{Batch: sp.Batch}, 0)
	// the other settlement is not committed while this one and its look are
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) VALUES ($1, 1, 0, $2, 1, 0, 1, 1, -1, 1, 'first')`, children[0].Batch, children[0].Token)
	o.do("INSERT INTO rota.change (address, done) VALUES ($1, 1)", at.String())
	got := o.records(report(&children[0], 0, 0, 1, task.Finish(nil)))
	if l := o.looks(store.LookRequest{Addresses: got.Look}); l.Ended != 0 {
		t.Errorf("the look of the first: %+v", l)
	}
	o.commits()
	for i, want := range []int{1, 0} {
		if l := o.looks(store.LookRequest{Addresses: []store.Address{at}}); l.Ended != want {
			t.Errorf("look %d of the other: %+v", i, l)
		}
	}
	o.stands(at.Task, task.Children{Total: 2, Done: 2})
}

// A look at one end waits for another look that has added up the other end, and counts both.
func TestTwoLooksAtOneParentCountBothEnds(t *testing.T) {
	o := meanwhile(t)
	sp := o.parent()
	children := must(o.under(&sp, 0, o.brood(0, 2, true)))(t)
	o.records(awaits(&sp, 0, false), report(&children[0], 0, 0, 1, task.Finish(nil)))
	at := store.ChildrenOf(task.ID{Batch: sp.Batch}, 0)
	// the other look: it saw one end, and that a child is open
	o.do("DELETE FROM rota.change")
	o.do("INSERT INTO rota.child_count VALUES ($1, 0, 0, 2, 1, 0, 0, 0)", sp.Batch)
	o.do("SELECT FROM rota.wait FOR UPDATE")
	o.records(report(&children[0], 1, 0, 1, task.Finish(nil)))
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{Addresses: []store.Address{at}}) }()
	o.awaitLock(t)
	o.commits()
	if l := <-looked; l.Ended != 1 {
		t.Errorf("the look: %+v", l)
	}
	o.stands(at.Task, task.Children{Total: 2, Done: 2})
}

// What a wait ends with is read behind its lock: children that were added before it, by who ended
// the hand-out since, are among it.
func TestALookCountsChildrenThatCameWhileItWaited(t *testing.T) {
	o := meanwhile(t)
	sp := o.parent()
	id := task.ID{Batch: sp.Batch}
	o.records(awaits(&sp, 0, false))
	at := store.ChildrenOf(id, 0)
	// the task is woken, adds a child, and awaits it, by somebody else and in one transaction
	o.do("SELECT FROM rota.wait FOR UPDATE")
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{Addresses: []store.Address{at}}) }()
	o.awaitLock(t)
	o.do("INSERT INTO rota.change (address, total) VALUES ($1, 1)", at.String())
	o.commits()
	if l := <-looked; l.Ended != 0 {
		t.Errorf("the look: %+v", l)
	}
}

// A look adds up nothing of a parent that is being deleted, and nothing is left of it.
func TestALookWaitsForADeletion(t *testing.T) {
	o := meanwhile(t)
	sp := o.parent()
	must(o.under(&sp, 0, o.brood(0, 1, false)))(t)
	o.do("SELECT FROM rota.pack WHERE batch = $1 FOR UPDATE", sp.Batch)
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{}) }()
	o.awaitLock(t)
	o.do("DELETE FROM rota.pack WHERE batch = $1", sp.Batch)
	o.commits()
	<-looked
	o.familyRows(1, 0, 0)
}
