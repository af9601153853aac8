package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestChildrenHaveChildren(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.AllChildren, pages("a")...), task.Recorded)
		child := h.one("w")
		h.report("w", child, join(task.AllChildren, pages("b", "c")...), task.Recorded)
		for range 2 {
			y := h.one("w")
			if y.Parent != child.ID {
				t.Errorf("%+v", y)
			}
			h.report("w", y, task.Finish(nil), task.Recorded)
		}
		y := h.one("w")
		if y.ID != child.ID || y.Parent != x.ID || y.Children.Done != 2 {
			t.Errorf("%+v", y)
		}
		h.report("w", y, task.Finish(nil), task.Recorded)
		if y = h.one("w"); y.ID != x.ID || y.Children.Done != 1 {
			t.Errorf("%+v", y)
		}
	})
}

// With a cancelled tree goes what hangs below it: what is in memory is dropped, and workers hear of
// what they run.
func TestATreeIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		got := h.told("w", x, join(task.AllChildren, pages("a", "b", "c")...))
		runs := h.one("w")
		h.beat("w", "i", 10, runs)
		all := store.Action{Kind: task.KindCancelled, By: "me", Tree: true}
		if err := h.d.ActOn(h.ctx, all, x.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		for _, id := range got.Spawned {
			h.state(id, task.Cancelled)
		}
		if actions := h.beat("w", "i", 10, runs); actions[runs.ID] != task.ActionCancel {
			t.Errorf("its worker is told %v", actions)
		}
		if n := h.held(); n != 0 {
			t.Errorf("memory holds %d tasks", n)
		}
		h.report("w", runs, task.Finish(nil), task.Stale)
	})
}

// Below a dead task what has not begun is cancelled, but orphans.
func TestWhatHasNotBegunFallsWithItsParent(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		children := pages("a", "b", "c")
		children[2].Orphan = true
		list := h.add(x, children...)
		y := h.one("w")
		time.Sleep(2 * time.Second) // it has a running row
		h.report("w", x, task.Fail(errHiccup), task.Recorded)
		time.Sleep(3 * time.Second)
		for _, r := range list {
			want := task.Cancelled
			switch r.ID {
			case y.ID:
				want = task.Running
			case list[2].ID:
				want = task.Ready
			}
			h.state(r.ID, want)
		}
		if orphan := h.one("w"); orphan.ID != list[2].ID {
			t.Errorf("%+v", orphan)
		}
		if got := h.hold("w", 10); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		h.report("w", y, task.Finish(nil), task.Recorded)
	})
}

func TestChildrenAreListed(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		ids := h.told("w", x, task.Finish(nil).Spawning(pages("a", "b", "c", "d", "e")...)).Spawned
		y := h.one("w")
		h.report("w", y, task.Finish(7), task.Recorded)
		running := h.one("w")
		var seen []task.ID
		for cursor := ""; ; {
			page, next, err := h.d.Children(h.ctx, x.ID, "", cursor, 2)
			if err != nil || len(page) > 2 {
				t.Fatalf("%d children, %v", len(page), err)
			}
			for _, v := range page {
				seen = append(seen, v.ID)
				if want := v.ID == y.ID; (v.State == task.Done) != want ||
					(string(v.Result) == "7") != want {
					t.Errorf("%s is %s with %s", v.ID, v.State, v.Result)
				}
				if (v.State == task.Running) != (v.ID == running.ID) {
					t.Errorf("%s is %s", v.ID, v.State)
				}
			}
			if cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(seen, ids) {
			t.Errorf("%v, want %v", seen, ids)
		}
		page, _, err := h.d.Children(h.ctx, x.ID, task.Done, "", 10)
		if err != nil || len(page) != 1 || page[0].ID != y.ID {
			t.Errorf("%+v, %v", page, err)
		}
		for _, bad := range []struct {
			id            task.ID
			state, cursor string
			want          string
		}{
			{task.ID{Batch: 1}, "", "", store.ErrNotFound.Error()},
			{x.ID, "good", "", "query.state"}, {x.ID, "", "next", "query.cursor"},
		} {
			_, _, err := h.d.Children(h.ctx, bad.id, task.State(bad.state), bad.cursor, 10)
			if err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// The end of a child by its queue's deletion ends the wait, too, and at once.
func TestADeletedQueueTakesItsChildrenAlong(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.AllChildren, task.Submission{Queue: "gone"}), task.Recorded)
		if err := h.d.DeleteQueue(h.ctx, "gone", true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		y := h.one("w")
		took, want := time.Since(began), &task.Children{Total: 1, Cancelled: 1}
		if diff := cmp.Diff(want, y.Children); diff != "" || took > 100*time.Millisecond {
			t.Errorf("after %v: %s", took, diff)
		}
	})
}
