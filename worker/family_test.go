package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rotahq/rota/task"
)

// parentQueue is a fake whose tasks may have children.
type parentQueue struct {
	*fakeQueue
	added []string
	err   error
	count int // of children
}

func (q *parentQueue) AddChildren(
	_ context.Context, worker string, id task.ID, token string, children []task.Submission,
) ([]task.Receipt, error) {
	if q.err != nil {
		return nil, q.err
	}
	for _, s := range children {
		q.added = append(q.added, fmt.Sprint(worker, " ", id, " ", token, " ", s.Queue))
	}
	return make([]task.Receipt, len(children)), nil
}

// Children answers so many children that are equal but for their numbers, in pages of three.
func (q *parentQueue) Children(
	_ context.Context, parent task.ID, state task.State, cursor string, limit int,
) (page []task.View, next string, err error) {
	var from int
	fmt.Sscan(cursor, &from)
	for n := from; n < q.count; n++ {
		if len(page) == 3 {
			return page, fmt.Sprint(n), nil
		}
		page = append(page, task.View{ID: task.ID{Batch: parent.Batch, N: int32(n)}, State: state})
	}
	return page, "", q.err
}

// within runs f as the handler of a task.
func within(t *testing.T, f func(ctx context.Context, q *parentQueue, h task.Handout)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &parentQueue{fakeQueue: newFake()}
		_, stop := begin(t, q.fakeQueue, Config{Queue: q}, one(
			func(ctx context.Context, h task.Handout) task.Outcome {
				f(ctx, q, h)
				return task.Finish(nil)
			}))
		q.submit("q", "", "")
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAHandlerAddsChildrenInItsTasksName(t *testing.T) {
	within(t, func(ctx context.Context, q *parentQueue, h task.Handout) {
		got, err := AddChildren(ctx, task.Submission{Queue: "a"}, task.Submission{Queue: "b"})
		if err != nil || len(got) != 2 {
			t.Errorf("%v, %v", got, err)
		}
		head := fmt.Sprint(NameOf(ctx), " ", h.ID, " ", h.Token, " ")
		if want := []string{head + "a", head + "b"}; !slices.Equal(q.added, want) {
			t.Errorf("%q, want %q", q.added, want)
		}
		_, err = AddChildren(ctx, task.Submission{Queue: "a"}, task.Submission{Context: []byte("{")})
		if err == nil || !strings.Contains(err.Error(), "tasks[1].context: ") {
			t.Errorf("a context that is no JSON: %v", err)
		}
		q.err = fmt.Errorf("not yours: %w", task.ErrConflict)
		if _, err = AddChildren(ctx, task.Submission{}); !errors.Is(err, ErrStale) {
			t.Errorf("a stale hand-out: %v", err)
		}
	})
	if _, err := AddChildren(t.Context(), task.Submission{Queue: "a"}); err == nil {
		t.Error("children were added outside of any handler")
	}
}

func TestAHandlerGoesThroughItsChildren(t *testing.T) {
	within(t, func(ctx context.Context, q *parentQueue, h task.Handout) {
		q.count = 8
		n := int32(0)
		for v, err := range ChildrenOf(ctx, task.Done) {
			if err != nil || v.ID.N != n || v.State != task.Done {
				t.Errorf("child %d: %+v, %v", n, v, err)
			}
			n++
		}
		if n != 8 {
			t.Errorf("%d children", n)
		}
		for range ChildrenOf(ctx, "") {
			break
		}
		q.err = errDown
		failed := 0
		for _, err := range ChildrenOf(ctx, "") {
			if errors.Is(err, errDown) {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%d errors", failed)
		}
	})
	for _, err := range ChildrenOf(t.Context(), "") {
		if err == nil {
			t.Error("there are children outside of any handler")
		}
	}
}

// A child that no server would take makes the outcome a failure that says so, at once.
func TestAnOutcomeWithAWrongChildFails(t *testing.T) {
	for want, o := range map[string]task.Outcome{
		"spawn[1].context: must be a JSON value": task.Finish(nil).Spawning(task.Submission{},
			task.Submission{Context: []byte("{")}),
		"spawn: only done and next": {Kind: task.KindRetry, Spawn: make([]task.Submission, 1)},
		"spawn: contexts of ": task.Finish(nil).Spawning(task.Submission{
			Context: []byte(`"` + strings.Repeat("x", maxOutcome) + `"`),
		}),
	} {
		if got := sound(o); got.Kind != task.KindFail || !strings.Contains(got.Error, want) {
			t.Errorf("%.100v, want %s", got, want)
		}
	}
}
