package tasks

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

func (a commands) list() *cobra.Command {
	var filter filterFlags
	var cursor string
	var limit int
	var stuck bool
	cmd := a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List tasks, newest first",
		Long: `List tasks, newest first. When there are more than --limit, the cursor to go on from is
printed to stderr (with -o json it stands in "next"). What few of many tasks match is searched
for piece by piece, until there are --limit or none are left. ERROR is why the last attempt
failed.

--stuck lists running tasks that seem stuck, and why: they run for more than a minute and
three times as long as 99 of 100 in their queue and stage did lately (20 runs at least), or
at a worker that has been silent for longer than it may.`,
		Example: `  rota task ls --queue mail --state dead
  rota task ls --state dead --error 'connection (refused|reset)' --since 2d
  rota task ls --meta customer=7
  rota task ls --stuck
  rota task ls --since 1h --limit 1000 -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		f, err := filter.filter(a.Now())
		if err != nil {
			return err
		}
		if limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		f.Stuck = stuck
		views, next, err := a.tasksUpTo(ctx, c, f, cursor, limit)
		if err != nil {
			return err
		}
		doc := term.Page[taskview.View]{Items: make([]taskview.View, len(views)), Next: next}
		for i, v := range views {
			doc.Items[i] = taskview.Row(v)
		}
		table := a.table
		if stuck {
			table = a.stuckTable
		}
		if err := a.Show(doc, func() string { return table(views) }); err != nil {
			return err
		}
		if next != "" && !a.JSON() {
			fmt.Fprintf(a.Err, "There are more: this was --limit %d; go on with --cursor %s\n",
				limit, next)
		}
		return nil
	})
	filter.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&stuck, "stuck", false, "running tasks that seem stuck, and why")
	f.IntVar(&limit, "limit", 100,
		"at most so many tasks, as many as you like: they are read 1,000 at a time")
	f.StringVar(&cursor, "cursor", "", "where an earlier list ended")
	return cmd
}

// tasksUpTo reads pages until there are limit tasks. What is rare among many may take many pages: a
// terminal is shown that it goes on.
func (a commands) tasksUpTo(
	ctx context.Context, c *client.Client, f client.TaskFilter, cursor string, limit int,
) (all []task.View, next string, err error) {
	next = cursor
	p := a.Progress()
	defer p.Clear()
	for pages := 1; ; pages++ {
		var views []task.View
		views, next, err = c.Tasks(ctx, f, next, min(limit-len(all), 1000))
		if err != nil {
			return nil, "", err
		}
		all = append(all, views...)
		if next == "" || len(all) >= limit {
			return all, next, nil
		}
		if pages > 5 {
			p.Step(a.Now(), int64(len(all)), -1, "tasks found, searching on")
		}
	}
}

func (a commands) table(views []task.View) string {
	heads := []string{"ID", "QUEUE", "STATE", "STAGE", "#ATTEMPT", "CREATED", "DUE", "WORKER"}
	failed := slices.ContainsFunc(views, func(v task.View) bool { return v.Error != "" })
	if failed {
		heads = append(heads, "ERROR")
	}
	carry := slices.ContainsFunc(views, func(v task.View) bool { return len(v.Meta) > 0 })
	if carry {
		heads = slices.Insert(heads, 8, "META")
	}
	t := a.Table(heads...)
	t.Below = failed
	now := a.Now()
	for _, v := range views {
		due, attempt := "-", "-"
		if v.State == task.Waiting || v.State == task.Ready {
			due = term.Short(v.Due, now)
		}
		if v.Attempt > 0 {
			attempt = fmt.Sprint(v.Attempt)
		}
		cells := []string{
			v.ID.String(), v.Queue, term.Painted(v.State), term.OneLine(v.Stage), attempt,
			term.Short(v.Created, now), due, v.Worker,
		}
		if carry {
			cells = append(cells, app.MetaText(v.Meta))
		}
		if failed {
			cells = append(cells, term.OneLine(v.Error))
		}
		t.Add(cells...)
	}
	return t.String()
}

// stuckTable lists running tasks and why they seem stuck.
func (a commands) stuckTable(views []task.View) string {
	t := a.Table("ID", "QUEUE", "STAGE", "#ATTEMPT", "SINCE", "WORKER", "WHY")
	t.Below = true
	for _, v := range views {
		t.Add(v.ID.String(), v.Queue, term.OneLine(v.Stage), fmt.Sprint(v.Attempt),
			term.Short(v.Started, a.Now()), v.Worker, term.OneLine(v.Stuck))
	}
	return t.String()
}
