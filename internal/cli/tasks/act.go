package tasks

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// act is a verb that steers tasks: named ones, or all that a filter selects.
type act struct {
	verb, past, short, long string
	example                 string // besides those of all verbs
	one                     func(*client.Client, context.Context, task.ID) error
	// as one, of all that hangs below the task, too; nil = there is no such thing
	tree func(*client.Client, context.Context, task.ID) error
	all  func(
		*client.Client, context.Context, client.TaskFilter, client.Bulk,
	) (client.Acted, error)
}

func (a commands) act(v act) *cobra.Command {
	var filter filterFlags
	var all, dryRun, tree bool
	var cmd *cobra.Command
	more := ""
	if v.tree != nil {
		more = ` --tree, of named ones, cancels all that hangs below them, too: their
children and theirs.`
	}
	cmd = a.Remote(&cobra.Command{
		Use:   v.verb + " ID… | --queue Q --state S …",
		Short: v.short,
		Long: v.long + `

Name tasks, or select them with the filter flags (together they narrow the selection);
--dry-run only counts.` + more,
		Example: v.example + fmt.Sprintf(`  rota task %[1]s 1pq3v0m7d2k5g10
  rota task %[1]s --queue mail --since 1h --dry-run
  rota task %[1]s --queue mail --error 'timed? out' --dry-run`, v.verb),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 0 { // what is not narrowed down as it was meant to be is done to too many
			if err := app.CheckNotEmpty(cmd.Flags(), filterNames()...); err != nil {
				return err
			}
		}
		f, err := filter.filter(a.Now())
		if err != nil {
			return err
		}
		filtered := filter != (filterFlags{})
		switch {
		case len(args) > 0 && (filtered || all || dryRun):
			return usage.Errorf("name tasks or select them with flags, not both")
		case len(args) == 0 && !filtered && !all:
			return usage.Errorf(
				"name tasks, or select some with --queue, --state, --stage, --worker, --key, --meta, --error, --since or --until, or say --all",
			)
		case len(args) == 0 && tree:
			return usage.Errorf("--tree is about named tasks")
		}
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			one := v.one
			if tree {
				one = v.tree
			}
			return app.Each(ids, func(id task.ID) error { return one(c, ctx, id) })
		}
		f.All = all && !filtered
		return a.actAll(ctx, c, v, f, dryRun)
	})
	filter.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all tasks of all queues")
	if v.tree != nil {
		treeFlag(cmd, &tree)
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the tasks and change nothing")
	return cmd
}

// retry is retry, which says where tasks begin: of named ones --stage does so, too, and is no
// filter.
func (a commands) retry() *cobra.Command {
	var from client.Replay
	cmd := a.act(act{
		verb: "retry", past: "replayed", short: "Replay tasks that are over",
		long: `Let tasks that are over begin again, at attempt 1: dead and cancelled ones in the stage in which
they ended, with the context that they have; done ones in their first stage, with the context
that was submitted. --from names another stage in which they were, and they begin there with
the context with which they first came there (for named tasks --stage says the same); --whole
is the first stage, with the context that was submitted.

Filters select dead tasks (dead letters), also with --all; done or cancelled ones only with
--state done or --state cancelled.`,
		example: `  rota task retry 1pq3v0m7d2k5g10 --from render
  rota task retry 1pq3v0m7d2k5g10 --whole
  rota task retry --queue mail --state done --since 1h --dry-run
`,
		one: func(c *client.Client, ctx context.Context, id task.ID) error {
			if from == (client.Replay{}) {
				return c.Retry(ctx, id)
			}
			return c.Retry(ctx, id, from)
		},
		tree: func(c *client.Client, ctx context.Context, id task.ID) error {
			if from == (client.Replay{}) {
				return c.RetryTree(ctx, id)
			}
			return c.RetryTree(ctx, id, from)
		},
		all: func(
			c *client.Client, ctx context.Context, f client.TaskFilter, how client.Bulk,
		) (client.Acted, error) {
			how.From = from
			return c.RetryAll(ctx, f, how)
		},
	})
	flags := cmd.Flags()
	begin := flags.String("from", "", "they begin in this `stage`")
	flags.BoolVar(&from.Whole, "whole", false,
		"they begin in their first stage, with the context that was submitted")
	flags.Lookup("stage").Usage = "named tasks begin in this `stage`; without names, tasks that ended in it"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given, named := flags.Lookup("stage"), flags.Changed("from")
		if len(args) > 0 && given.Changed {
			if named {
				return usage.Errorf("--from and --stage say the same of named tasks: give one")
			}
			named, *begin = true, given.Value.String()
			if err := app.Override(given, ""); err != nil { // it selects nothing
				return err
			}
		}
		if named && from.Whole {
			return usage.Errorf("--whole begins in the first stage: leave --from and --stage out")
		}
		if named {
			from.Stage = begin
		}
		return run(cmd, args)
	}
	return cmd
}

func (a commands) actAll(
	ctx context.Context, c *client.Client, v act, f client.TaskFilter, dryRun bool,
) error {
	p := a.Progress()
	defer p.Clear()
	n, err := v.all(c, ctx, f, client.Bulk{DryRun: dryRun, Progress: func(n client.Acted) {
		p.Step(a.Now(), n.Matched, -1, "tasks found")
	}})
	if err != nil {
		return partly(err, n.Changed, v.past)
	}
	p.Clear()
	doc := struct {
		Matched int64 `json:"matched"`
		Changed int64 `json:"changed"`
	}{n.Matched, n.Changed}
	return a.Show(doc, func() string {
		if dryRun {
			return fmt.Sprintf("%s tasks would be %s\n", term.Count(n.Matched), v.past)
		}
		return fmt.Sprintf("%s of %s tasks %s\n",
			term.Count(n.Changed), term.Count(n.Matched), v.past)
	})
}

// partly is the error of an action on many tasks that came to some of them.
func partly(err error, changed int64, past string) error {
	if changed == 0 {
		return err
	}
	return fmt.Errorf("after %s tasks were %s: %w", term.Count(changed), past, err)
}

func (a commands) run() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "run ID…",
		Short: "Make tasks due now",
		Long: `Make tasks that wait for a time due now: those submitted with a delay, those that
back off before their next attempt, and those that put themselves off. They begin when a worker has room,
after what comes before them by rank. What a limit holds, or waits for other tasks or a signal,
goes on doing so; a task that runs or is over is refused. A start limit (--start-within) no
longer counts.`,
		Example: `  rota task run 1pq3v0m7d2k5g10`,
		Args:    app.Takes("ID…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		return app.Each(ids, func(id task.ID) error { return c.RunNow(ctx, id) })
	})
}

func (a commands) remove() *cobra.Command {
	var tree bool
	cmd := a.Remote(&cobra.Command{
		Use:   "rm ID…",
		Short: "Delete tasks",
		Long: `Delete tasks that do not run. Nothing of them is kept; cancel keeps the history. Finished
tasks go by themselves when the retention of their queue has passed.`,
		Example: `  rota task rm 1pq3v0m7d2k5g10`,
		Args:    app.Takes("ID…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		return app.Each(ids, func(id task.ID) error {
			if tree {
				return c.DeleteTree(ctx, id)
			}
			return c.Delete(ctx, id)
		})
	})
	treeFlag(cmd, &tree)
	return cmd
}
