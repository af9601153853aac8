//go:build unix

package postgres

import (
	"fmt"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Who takes a part of a span that others have changed meanwhile counts what is left by how it is.
func TestRestOfASpanIsCountedByWhatItIs(t *testing.T) {
	o := meanwhile(t)
	o.submit(o.batch(10, 10, false))
	// Somebody else cancels two of its tasks.
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) SELECT batch, n, 0, -1, 0, 0, 1, 0, -1, 9, '' FROM rota.span, generate_series(0, 1) n`)
	o.do("UPDATE rota.span SET size = size - 2")
	took := make(chan store.Taken, 1)
	go func() {
		took <- must(o.Take(t.Context(), store.TakeRequest{
			Holder: o.holder, Queue: "q", Limit: 4,
		}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-took; len(got.Spans) != 1 || len(got.Spans[0].Tasks) != 2 {
		t.Errorf("took %+v", got.Spans)
	}
	if n := o.count("SELECT size FROM rota.span WHERE holder IS NULL"); n != 6 {
		t.Errorf("the rest has %d tasks, want 6", n)
	}
}

// Whoever waits for spans waits in the order of their ids: an action on tasks of many has none
// that comes behind the one that it waits for.
func TestActionsLockSpansInTheOrderOfTheirIDs(t *testing.T) {
	o := meanwhile(t)
	b := o.batch(80, 2, false)
	o.submit(b)
	var moves []store.Action
	for n := range int32(40) {
		moves = append(moves, store.Action{
			ID: task.ID{Batch: b.ID, N: 2 * n}, Kind: task.KindMoved, Rank: b.Rank, Due: b.Due,
		})
	}
	o.do("SELECT FROM rota.span ORDER BY id LIMIT 1 FOR UPDATE")
	acted := make(chan []store.Acted, 1)
	go func() { acted <- must(o.Act(t.Context(), moves))(t) }()
	o.awaitLock(t)
	free := 0
	if err := o.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM rota.span
ORDER BY id OFFSET 1 FOR UPDATE SKIP LOCKED) s`).Scan(&free); err != nil {
		t.Fatal(err)
	}
	o.commits()
	for _, a := range <-acted {
		if !a.Changed {
			t.Errorf("%+v", a)
		}
	}
	if free != 39 {
		t.Errorf("%d of 39 spans were free behind the first", free)
	}
}

// An action on a task that somebody takes meanwhile counts it where it is by then: not in the rest
// of the span that it was in, which is counted without it.
func TestActionsCountTasksInTheSpansThatTheyAreIn(t *testing.T) {
	o := meanwhile(t)
	b := o.batch(2, 2, false)
	o.submit(b)
	o.do(`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token,
deaths, size, gaps) SELECT 1, batch, 0, 0, 0, queue, rank, due, $1, $2, 1, 0, 1, false
FROM rota.span`, o.holder.Node, o.holder.Token)
	o.do("UPDATE rota.span SET lo = 1, size = 1 WHERE id <> 1")
	acted := make(chan []store.Acted, 1)
	go func() {
		acted <- must(o.Act(t.Context(), []store.Action{
			{ID: task.ID{Batch: b.ID}, Kind: task.KindCancelled},
		}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-acted; !got[0].Changed {
		t.Errorf("%+v", got)
	}
	if n := o.count("SELECT size FROM rota.span WHERE holder IS NULL"); n != 1 {
		t.Errorf("the rest has %d tasks, want 1", n)
	}
	if got := must(o.Counts(t.Context(), "q"))(t); got[0].OldestReady == 0 {
		t.Errorf("no task is ready: %+v", got[0])
	}
}

// Also where a take by keys has sorted them meanwhile, which counts a task whose action nobody sees
// yet.
func TestActionsCountTasksInTheSpansThatTheyAreSortedInto(t *testing.T) {
	o := meanwhile(t)
	b := o.batch(3, 3, false)
	o.submit(b)
	o.do(`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths,
size, gaps, key) SELECT 1, batch, 1, 2, 0, queue, rank, due, 0, 0, 0, 2, false, 'b' FROM rota.span`)
	o.do("UPDATE rota.span SET hi = 0, size = 1, key = 'a' WHERE id <> 1")
	acted := make(chan []store.Acted, 1)
	go func() {
		acted <- must(o.Act(t.Context(), []store.Action{
			{ID: task.ID{Batch: b.ID, N: 1}, Kind: task.KindCancelled},
			{ID: task.ID{Batch: b.ID, N: 2}, Kind: task.KindCancelled},
		}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-acted; !got[0].Changed || !got[1].Changed {
		t.Errorf("%+v", got)
	}
	for lo, want := range []int64{1, 0} {
		if n := o.count(fmt.Sprintf("SELECT size FROM rota.span WHERE lo = %d", lo)); n != want {
			t.Errorf("the span from %d on has %d tasks, want %d", lo, n, want)
		}
	}
}
