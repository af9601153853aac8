package tasks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

func TestATreeIsDrawn(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	node := func(
		n int64, state task.State, began, since time.Duration, below ...task.Tree,
	) task.Tree {
		t := task.Tree{
			Task:  task.View{ID: task.ID{Batch: n << 40}, Queue: "q", State: state},
			Below: below, Since: now.Add(-since),
		}
		if began > 0 {
			t.Began = now.Add(-began)
		}
		return t
	}
	tree := node(1, task.Blocked, time.Hour, time.Minute,
		node(2, task.Done, 9*time.Second, 4*time.Second, node(3, task.Ready, 0, 3*time.Second)),
		node(4, task.Cancelled, 0, time.Second),
		node(5, task.Running, 2*time.Second, time.Second))
	tree.Below[0].LeftOut = 1234
	tree.Below[1].Task.After = []task.Prior{
		{ID: task.ID{Batch: 2 << 40}, Ref: "load", State: task.Dead}, {ID: task.ID{Batch: 3 << 40}},
	}
	tree.Below[1].Task.Error = "after load: dead"
	id := func(n int64) string { return task.ID{Batch: n << 40}.String() }
	for locale, signs := range map[string]string{
		"en_GB.UTF-8": "├─└─│", "": "├─└─│", "C": "|-`-|",
	} {
		a := commands{&app.App{Output: term.Output{
			Now: func() time.Time { return now }, Columns: 200,
		}}}
		a.Env = func(name string) (string, bool) { return locale, name == "LANG" && locale != "" }
		got := ansi.Strip(a.treeText(&tree))
		r := []rune(signs)
		fork, last, line := string(r[:2]), string(r[2:4]), string(r[4])
		want := [][]string{
			{id(1), "blocked", "waits 1m0s"},
			{fork + " " + id(2), "done", "ran 5s"},
			{line + "  " + fork + " " + id(3), "ready", "waits 3s"},
			{line + "  " + last + " 1,234 more"},
			{fork + " " + id(4), "cancelled", "did not run",
				"after load (dead), after " + id(3) + " (open), after load: dead"},
			{last + " " + id(5), "running", "runs 2s"},
		}
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")[1:]
		for i, parts := range want {
			for _, p := range parts {
				if i >= len(lines) || !strings.Contains(lines[i], p) {
					t.Errorf("%q: line %d has no %q:\n%s", locale, i, p, got)
				}
			}
		}
	}
	doc, err := json.Marshal(treeOf(&tree))
	if err != nil || !strings.Contains(string(doc), `"left_out":1234`) ||
		!strings.Contains(string(doc), `"began":null`) {
		t.Errorf("%s, %v", doc, err)
	}
}
