package cli

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/client"
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
	all                     func(
		*client.Client, context.Context, client.TaskFilter, client.Bulk,
	) (client.Acted, error)
}

func (a taskCommands) taskAct(v act) *cobra.Command {
	var filter filterFlags
	var all, dryRun bool
	cmd := a.remote(&cobra.Command{
		Use:   v.verb + " ID… | --queue Q --state S …",
		Short: v.short,
		Long: v.long + `

Name tasks, or select them with the filter flags (together they narrow the selection);
--dry-run only counts.`,
		Example: v.example + fmt.Sprintf(`  rota task %[1]s 1pq3v0m7d2k5g10
  rota task %[1]s --queue mail --since 1h --dry-run`, v.verb),
	}, func(ctx context.Context, c *client.Client, args []string) error {
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
				"name tasks, or select some with --queue, --state, --stage, --since or --until, or say --all",
			)
		}
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			return each(ids, func(id task.ID) error { return v.one(c, ctx, id) })
		}
		f.All = all && !filtered
		return a.actAll(ctx, c, v, f, dryRun)
	})
	filter.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all tasks of all queues")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the tasks and change nothing")
	return cmd
}

// taskRetry is retry, which names where named tasks begin: there --stage is no filter.
func (a taskCommands) taskRetry() *cobra.Command {
	var stage *string
	var whole bool
	retry := func(c *client.Client, ctx context.Context, id task.ID) error {
		if !whole && stage == nil {
			return c.Retry(ctx, id)
		}
		return c.Retry(ctx, id, client.Replay{Stage: stage, Whole: whole})
	}
	cmd := a.taskAct(act{
		verb: "retry", past: "replayed", short: "Replay dead tasks",
		long: `Let dead tasks (dead letters) begin again, at attempt 1 of the stage in which they died, with
the context that they have. Tasks that are named begin in another stage in which they were with
--stage, with the context with which they first came there; or from the first stage, with the
context that was submitted, with --whole.`,
		example: "  rota task retry 1pq3v0m7d2k5g10 --stage render\n  rota task retry 1pq3v0m7d2k5g10 --whole\n",
		one:     retry, all: (*client.Client).RetryAll,
	})
	cmd.Flags().BoolVar(&whole, "whole", false,
		"named tasks begin in their first stage, with the context that was submitted")
	cmd.Flags().Lookup("stage").Usage = "named tasks begin in this `stage`; without names, tasks that died in it"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Lookup("stage")
		switch {
		case whole && (len(args) == 0 || given.Changed):
			return usage.Errorf("--whole goes with the ids of tasks, and without --stage")
		case len(args) > 0 && given.Changed:
			stage = new(given.Value.String())
			if err := override(given, ""); err != nil { // it selects nothing
				return err
			}
		}
		return run(cmd, args)
	}
	return cmd
}

func (a taskCommands) actAll(
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

func (a taskCommands) taskRemove() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "rm ID…",
		Short: "Delete tasks",
		Long: `Delete tasks that do not run. Nothing of them is kept; cancel keeps the history. Finished
tasks go by themselves when the retention of their queue has passed.`,
		Example: `  rota task rm 1pq3v0m7d2k5g10`,
		Args:    takes("ID…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		return each(ids, func(id task.ID) error { return c.Delete(ctx, id) })
	})
}
