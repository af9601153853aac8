//go:build unix

package postgres

import (
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// after makes a batch of n tasks that wait for another one to be done.
func (c *client) after(n int, on ...task.ID) store.Batch {
	for {
		b := c.batch(n, n, false)
		if !store.MayDepend(b.ID) {
			continue
		}
		for i := range b.Tasks {
			for _, id := range on {
				b.Tasks[i].After = append(b.Tasks[i].After, store.Dependency{On: id})
			}
		}
		return b
	}
}

// endsUnseen is another node's settlement of a first hand-out, but for its commit: it asks for
// those who wait, and sees nobody.
func (o *other) endsUnseen(sp *store.Span) {
	o.Helper()
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) VALUES ($1, $2, 0, $3, 7, 0, 1, 1, -1, 1, 'first')`, sp.Batch, sp.Lo, sp.Token)
	o.do(noteEnds, []int64{sp.Batch}, []int32{0}, []int64{-1}, sp.Batch, sp.Batch)
}

// Who begins to wait for a task that just ends, by a transaction that could not see it, is woken by
// a look behind that, whichever of the two has the greater id.
func TestAnEndThatSawNobodyIsSeenByALaterLook(t *testing.T) {
	for _, endsFirst := range []bool{true, false} {
		o := meanwhile(t)
		sp := o.submit(o.batch(1, 1, true))[0]
		id := task.ID{Batch: sp.Batch}
		submitting := o.beside(t)
		sub := store.Submission{Batches: []store.Batch{o.after(1, id)}}
		if !endsFirst {
			submitting.do("SELECT pg_current_xact_id()")
		}
		o.endsUnseen(&sp)
		must(o.SubmitTx(t.Context(), submitting.Tx, sub))(t)
		submitting.commits()
		for range 3 {
			l := o.looks(store.LookRequest{})
			if l.Ended != 0 || l.More || len(l.Cancelled) > 0 {
				t.Errorf("a look before the commit: %+v", l)
			}
		}
		if n := o.count("SELECT count(*) FROM rota.unseen"); n != 1 {
			t.Errorf("%d ends may have come unseen, want 1", n)
		}
		o.commits()
		if l := o.looks(store.LookRequest{}); l.Ended != 1 {
			t.Errorf("a look behind it: %+v", l)
		}
		o.looks(store.LookRequest{})
		for _, table := range []string{"unseen", "change", "wait"} {
			if n := o.count("SELECT count(*) FROM rota." + table); n != 0 {
				t.Errorf("table %s has %d rows in the end", table, n)
			}
		}
	}
}

// Where nobody ends it, what was left for a look goes once nobody may.
func TestALookAtATaskThatGoesOnEnds(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(1, 1, true))[0]
	o.submit(o.after(3, task.ID{Batch: sp.Batch}))
	o.do("SELECT pg_current_xact_id()")
	o.looks(store.LookRequest{})
	o.submit(o.after(1, task.ID{Batch: sp.Batch}))
	o.commits()
	for range 2 {
		o.looks(store.LookRequest{})
	}
	if n := o.count("SELECT count(*) FROM rota.unseen"); n != 0 {
		t.Errorf("%d ends may have come unseen, though all transactions are over", n)
	}
	got := o.records(report(&sp, 0, 0, 1, task.Finish(nil)))
	if l := o.looks(store.LookRequest{Addresses: got.Look}); l.Ended != 4 {
		t.Errorf("the look: %+v", l)
	}
	if n := o.count("SELECT count(*) FROM rota.span WHERE rank = " + never); n != 0 {
		t.Errorf("%d parked spans are left", n)
	}
}

// A handler's transaction that began before somebody waited tells of its end all the same.
func TestAHandlersOldSnapshotEndsAWait(t *testing.T) {
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
		o := meanwhile(t)
		sp := o.submit(o.batch(1, 1, true))[0]
		o.do("SET TRANSACTION ISOLATION LEVEL " + level)
		o.do("SELECT FROM rota.store")
		o.submit(o.after(1, task.ID{Batch: sp.Batch}))
		o.looks(store.LookRequest{})
		if err := o.finishes(&sp, 0, 0); err != nil {
			t.Fatal(err)
		}
		o.commits()
		if l := o.looks(store.LookRequest{}); l.Ended != 1 {
			t.Errorf("%s: the look: %+v", level, l)
		}
	}
}
