package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// drawn is a tree as text: stages and states, how many are left out.
func drawn(t *task.Tree, depth int) string {
	s := fmt.Sprintf("%s%s %s", strings.Repeat("  ", depth), t.Task.Stage, t.Task.State)
	if t.LeftOut > 0 {
		s += fmt.Sprint(" without ", t.LeftOut)
	}
	s += "\n"
	for i := range t.Below {
		s += drawn(&t.Below[i], depth+1)
	}
	return s
}

func (h *house) tree(id task.ID, limit int) task.Tree {
	h.t.Helper()
	t, err := h.d.Tree(h.ctx, id, limit)
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

func (h *house) wantTree(id task.ID, limit int, want ...string) {
	h.t.Helper()
	t := h.tree(id, limit)
	if got := drawn(&t, 0); got != strings.Join(want, "\n")+"\n" {
		h.t.Errorf("limit %d: got\n%swant\n%s", limit, got, strings.Join(want, "\n"))
	}
}

func TestATreeIsWhatHangsBelowATask(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, join(task.AllChildren, pages("a", "b", "c")...), task.Recorded)
		a := h.one("w")
		h.report("w", a, task.Finish(nil).Spawning(pages("aa", "ab", "ac")...), task.Recorded)
		time.Sleep(time.Minute)
		b := h.one("w")
		h.report("w", b, task.Fail(errors.New("no")).Spawning(pages("none")...), task.Recorded)
		c := h.one("w")
		h.report("w", c, task.Next("c2", nil).Spawning(pages("ca")...), task.Recorded)
		h.wantTree(x.ID, 100, "join blocked", "  a done", "    aa ready", "    ab ready",
			"    ac ready", "  b dead", "  c2 ready", "    ca ready")
		h.wantTree(x.ID, 6, "join blocked", "  a done without 1", "    aa ready", "    ab ready",
			"  b dead", "  c2 ready without 1")
		h.wantTree(x.ID, 3, "join blocked without 1", "  a done without 3", "  b dead")
		h.wantTree(x.ID, 1, "join blocked without 3")
		h.wantTree(x.ID, 0, "join blocked without 3")
		h.wantTree(a.ID, 4, "a done", "  aa ready", "  ab ready", "  ac ready")

		tree := h.tree(x.ID, 100)
		for _, of := range []task.Tree{tree, tree.Below[0], tree.Below[1], tree.Below[2]} {
			if of.Began.IsZero() || of.Since.Before(of.Began) {
				t.Errorf("%s began %v, is so since %v", of.Task.Stage, of.Began, of.Since)
			}
		}
		if took := tree.Below[1].Since.Sub(tree.Since); took != time.Minute {
			t.Errorf("the second ended %v after its parent began to wait", took)
		}
		if leaf := tree.Below[0].Below[0]; !leaf.Began.IsZero() || leaf.Since.IsZero() {
			t.Errorf("what nobody began: %+v", leaf)
		}
		running := h.one("w")
		for _, leaf := range h.tree(a.ID, 9).Below {
			if leaf.Task.ID == running.ID && (leaf.Task.State != task.Running ||
				leaf.Began.IsZero() || leaf.Since != leaf.Task.Started) {
				t.Errorf("what runs: %+v", leaf)
			}
		}
		if _, err := h.d.Tree(h.ctx, task.ID{Batch: 1}, 9); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of nobody: %v", err)
		}
	})
}

func TestATreeIsOfThePresentRun(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		h.report("w", x, task.Finish(nil).Spawning(pages("a", "b")...), task.Recorded)
		h.wantTree(x.ID, 9, "split done", "  a ready", "  b ready")
		if err := h.d.ActOn(h.ctx, store.Action{Kind: task.KindReplayed}, x.ID); err != nil {
			t.Fatal(err)
		}
		h.wantTree(x.ID, 9, "split ready")
		if tree := h.tree(x.ID, 9); !tree.Began.IsZero() {
			t.Errorf("it began anew at %v", tree.Began)
		}
	})
}

func TestATreeLeavesOutWhatIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		ids := h.told("w", x, task.Finish(nil).Spawning(pages("a", "b")...)).Spawned
		if err := h.d.ActOn(h.ctx, store.Action{Kind: task.KindRemoved}, ids[0]); err != nil {
			t.Fatal(err)
		}
		h.wantTree(x.ID, 9, "split done", "  b ready")
	})
}
