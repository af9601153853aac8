package model

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// state is a copy that can be compared.
func state(m *Model) *Model {
	is := m.Copy()
	is.now = nil // functions can't be
	for i := range is.history {
		is.history[i].count = nil
	}
	return is
}

func TestCopyStaysAsItIsAndTheModelBecomesIt(t *testing.T) {
	ctx := context.Background()
	m := New(time.Now)
	work := func(batch int64) {
		t.Helper()
		lease, err := m.Acquire(ctx, "node/n", "n", time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.ChangeQueue(ctx, "q", func(q *task.Queue, _ bool) error {
			q.Timeout += time.Second
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b := store.Batch{
			ID: batch, Queue: "q", Tasks: []store.Task{{N: 0}, {N: 1}},
			Spans: []store.NewSpan{{Lo: 0, Hi: 1}},
		}
		if _, err := m.Submit(ctx, store.Submission{Batches: []store.Batch{b}}); err != nil {
			t.Fatal(err)
		}
		h := store.Holder{Node: "n", Token: lease.Token}
		got, err := m.Take(ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: 1})
		if err != nil || len(got.Spans) != 1 {
			t.Fatalf("took %+v: %v", got, err)
		}
		sp := got.Spans[0]
		r := store.Running{ID: task.ID{Batch: sp.Batch, N: sp.Lo}, Span: sp.ID, Token: sp.Token}
		sync := store.SyncRequest{Holder: h, Insert: []store.Running{r}}
		if _, err := m.Sync(ctx, sync); err != nil {
			t.Fatal(err)
		}
		if err := m.EndAll(ctx, []store.Lease{lease}, true); err != nil {
			t.Fatal(err)
		}
	}
	work(1 << 20)
	before := m.Copy()
	was := state(before)
	if !reflect.DeepEqual(was, state(m)) {
		t.Fatal("a copy is not what was copied")
	}
	if a, b := (task.ID{Batch: 1 << 20}), (task.ID{Batch: 1 << 20, N: 1}); before.tasks[a].batch !=
		before.tasks[b].batch {
		t.Error("tasks of one batch have two in the copy")
	}
	work(2 << 20)
	if reflect.DeepEqual(was, state(m)) {
		t.Fatal("the model stands as it did before it was written to")
	}
	if !reflect.DeepEqual(was, state(before)) {
		t.Fatal("what is written to the model changes a copy")
	}
	m.Become(before)
	if !reflect.DeepEqual(was, state(m)) {
		t.Fatal("the model did not become its copy")
	}
	work(2 << 20) // as if it had not been
}
