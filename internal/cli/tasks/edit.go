package tasks

import (
	"context"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// editFlags say what `rota task edit` changes.
type editFlags struct {
	task.Edit          // but for what is below
	due, context, text string
	meta               app.MetaFlag
	given              *pflag.FlagSet
}

func (e *editFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	e.given = s
	app.Optional(s, s.Duration, &e.Priority, "priority", "head start in the queue, as 30s or 5m")
	s.StringVar(&e.due, "due", "", "`time` when it is due, RFC 3339")
	app.Optional(s, s.Duration, &e.Delay, "delay", "due so long from now, as 90s or 2h; 0s = now")
	s.StringVar(&e.context, "context", "",
		"another context: a `JSON` value (null = none), - for stdin, or @file")
	s.StringVar(&e.text, "context-text", "",
		"any `text` as the context, - for stdin, or @file")
	app.Optional(s, s.String, &e.GroupKey, "group-key", "another group `key`; \"\" = none")
	app.Optional(s, s.Int, &e.MaxAttempts, "max-attempts", "attempts per stage; 0 = the queue's")
	app.Optional(s, s.Duration, &e.StartWithin, "start-within",
		"how long after it is due it may wait to begin, as 30s; 0s = for ever")
	s.Var(&e.meta, "set-meta",
		"all that it carries from now on, a `name=text`; repeat it for more; \"\" = nothing")
}

// edit is the edit that the flags ask for.
func (e *editFlags) edit(a *app.App) (d task.Edit, err error) {
	d = e.Edit
	d.Meta = e.meta.Strings()
	if e.given.Changed("due") {
		due, err := time.Parse(time.RFC3339, e.due)
		if err != nil {
			return d, usage.Errorf("--due %q: want a time like %s", e.due,
				a.Now().UTC().Format(time.RFC3339))
		}
		d.Due = &due
	}
	if e.given.Changed("context") && e.given.Changed("context-text") {
		return d, usage.Errorf(
			"--context and --context-text are two contexts: leave one of them out")
	}
	switch {
	case e.given.Changed("context"):
		d.Context, err = a.ReadJSON("--context", e.context)
	case e.given.Changed("context-text"):
		var text []byte
		if text, err = a.ReadValue("context-text", e.text); err == nil {
			d.Context, err = textOf(text)
		}
	}
	if err != nil {
		return d, err
	}
	if len(d.Changed()) == 0 {
		return d, usage.Errorf("nothing to change: give --priority, --due, --delay, --context, " +
			"--context-text, --group-key, --max-attempts, --start-within or --set-meta")
	}
	if err := limits.CheckEdit(&d, "task"); err != nil {
		return d, usage.Errorf("%s", strings.ReplaceAll(err.Error(), "task.", ""))
	}
	return d, nil
}

// edit is edit, whose flags besides those of all verbs say what to change.
func (a commands) edit() *cobra.Command {
	var e editFlags
	var d task.Edit
	cmd := a.act(act{
		verb: "edit", past: "edited", short: "Change tasks that neither run nor are over",
		long: `Change the priority, the time, the context, the group key, the attempts or the meta of tasks that
wait or are ready. What is not given stays as it is; --set-meta replaces all that a task carries,
while --meta selects tasks. A task that was edited keeps its attempts and its
steps, which show the edit; one that runs or is over is not changed.

A task that is still in its first stage, with the context that was submitted, is from then on as
if it had been submitted with the new one, also when it is retried with --whole.`,
		example: `  rota task edit 1pq3v0m7d2k5g10 --priority 10m --context @order.json
  rota task edit --queue mail --state waiting --delay 0s
`,
		one: func(c *client.Client, ctx context.Context, id task.ID) error {
			return c.Edit(ctx, id, d)
		},
		all: func(
			c *client.Client, ctx context.Context, f client.TaskFilter, how client.Bulk,
		) (client.Acted, error) {
			return c.EditAll(ctx, f, d, how)
		},
	})
	e.add(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if d, err = e.edit(a.App); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
