package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

// treeView is a tree in JSON, with the fields of the API.
type treeView struct {
	taskview.View
	Began   term.Stamp `json:"began"`
	Since   term.Stamp `json:"since"`
	Below   []treeView `json:"below"`
	LeftOut int64      `json:"left_out,omitempty"`
}

func treeOf(t *task.Tree) treeView {
	v := treeView{
		View: taskview.Row(t.Task), Began: term.Stamp(t.Began), Since: term.Stamp(t.Since),
		Below: make([]treeView, len(t.Below)), LeftOut: t.LeftOut,
	}
	v.Children, v.After = t.Task.Children, taskview.Priors(t.Task.After)
	for i := range t.Below {
		v.Below[i] = treeOf(&t.Below[i])
	}
	return v
}

func (a commands) tree() *cobra.Command {
	var limit int
	cmd := a.Remote(&cobra.Command{
		Use:   "tree ID",
		Short: "Draw a task and what hangs below it, with states and times",
		Long: `Draw a task and what hangs below it: the tasks that it has submitted in its present run, and
theirs. TIME is how long one ran, from its first hand-out to its end, or has run or waited so
far. First come all children, then all of theirs, until there are --limit tasks: what is left
out is counted below the task that lacks it.`,
		Example: `  rota task tree 1pq3v0m7d2k5g10
  rota task tree 1pq3v0m7d2k5g10 --limit 50
  rota task tree 1pq3v0m7d2k5g10 -o json`,
		Args: app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if limit < 1 || limit > task.MaxTree {
			return usage.Errorf("--limit must be 1 to %d", task.MaxTree)
		}
		t, err := c.Tree(ctx, ids[0], limit)
		if err != nil {
			return err
		}
		return a.Show(treeOf(&t), func() string { return a.treeText(&t) })
	})
	cmd.Flags().IntVar(&limit, "limit", task.MaxTree, "at most so many tasks")
	return cmd
}

// shownBelow is how many tasks are drawn below a task's own text, at most.
const shownBelow = 100

// below is the picture of what hangs below a task, "" when that is nothing.
func (a commands) below(ctx context.Context, c *client.Client, v *task.View) (string, error) {
	if v.Children == nil || a.JSON() {
		return "", nil
	}
	t, err := c.Tree(ctx, v.ID, shownBelow)
	if errors.Is(err, task.ErrNotFound) { // it was deleted meanwhile, or the server is older
		return "", nil
	}
	if err != nil || len(t.Below) == 0 {
		return "", err
	}
	return "\n" + a.treeText(&t), nil
}

// branches are the lines by which a tree is drawn.
type branches struct{ fork, last, line, gap string }

// branches are those that the terminal can show, by what its locale says.
func (a commands) branches() branches {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := a.Env(name); v != "" {
			v = strings.ToUpper(v)
			if !strings.Contains(v, "UTF-8") && !strings.Contains(v, "UTF8") {
				return branches{"|- ", "`- ", "|  ", "   "}
			}
			break
		}
	}
	return branches{"├─ ", "└─ ", "│  ", "   "}
}

func (a commands) treeText(t *task.Tree) string {
	d := drawing{branches: a.branches(), now: a.Now()}
	d.add(t, "", "", "")
	table := a.Table("TASK", "QUEUE", "STAGE", "STATE", "TIME", "NOTE")
	table.Below = true
	for _, row := range d.rows {
		table.Add(row...)
	}
	return table.String()
}

// drawing is a tree in lines.
type drawing struct {
	branches
	now  time.Time
	rows [][]string
}

// add draws a task behind what stands before it, and below it what hangs there, each line of which
// begins with below.
func (d *drawing) add(t *task.Tree, before, branch, below string) {
	v := &t.Task
	d.rows = append(d.rows, []string{
		before + branch + v.ID.String(), v.Queue, term.OneLine(v.Stage), term.Painted(v.State),
		treeTime(t, d.now), treeNote(v),
	})
	for i := range t.Below {
		if i == len(t.Below)-1 && t.LeftOut == 0 {
			d.add(&t.Below[i], below, d.last, below+d.gap)
		} else {
			d.add(&t.Below[i], below, d.fork, below+d.line)
		}
	}
	if t.LeftOut > 0 {
		d.rows = append(d.rows, []string{
			below + d.last + term.Count(t.LeftOut) + " more", "", "", "", "", "",
		})
	}
}

// treeTime is how long a task ran, or has run or waited so far.
func treeTime(t *task.Tree, now time.Time) string {
	long := func(from, to time.Time) string {
		return term.Round(max(to.Sub(from), 0)).Truncate(time.Millisecond).String()
	}
	switch s := t.Task.State; {
	case s.Final() && t.Began.IsZero():
		return "did not run"
	case s.Final():
		return "ran " + long(t.Began, t.Since)
	case s == task.Running:
		return "runs " + long(t.Began, now)
	case s == task.Waiting:
		return "due " + term.Short(t.Task.Due, now)
	}
	return "waits " + long(t.Since, now)
}

// treeNote is what else there is to say of a task in a tree: for whom it waited, and why it failed.
func treeNote(v *task.View) string {
	var parts []string
	for i := range v.After {
		p := &v.After[i]
		if i == shownAfter {
			parts = append(parts, fmt.Sprintf("and %s more", term.Count(len(v.After)-i)))
			break
		}
		name, state := p.ID.String(), string(p.State)
		if p.Ref != "" {
			name = term.OneLine(p.Ref)
		}
		if state == "" {
			state = "open"
		}
		parts = append(parts, fmt.Sprintf("after %s (%s)", name, state))
	}
	if v.Error != "" {
		parts = append(parts, term.OneLine(v.Error))
	}
	return strings.Join(parts, ", ")
}

// shownAfter is for how many tasks a line says that its task waited for them.
const shownAfter = 3
