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
	flags                        *pflag.FlagSet
	priority, delay              time.Duration
	due, context, text, groupKey string
	maxAttempts                  int
	startWithin                  time.Duration
	meta                         app.MetaFlag
}

func (e *editFlags) add(f *pflag.FlagSet) {
	e.flags = f
	f.DurationVar(&e.priority, "priority", 0, "head start in the queue, as 30s or 5m")
	f.StringVar(&e.due, "due", "", "`time` when it is due, RFC 3339")
	f.DurationVar(&e.delay, "delay", 0, "due so long from now, as 90s or 2h; 0s = now")
	f.StringVar(&e.context, "context", "",
		"another context: a `JSON` value (null = none), - for stdin, or @file")
	f.StringVar(&e.text, "context-text", "",
		"any `text` as the context, - for stdin, or @file")
	f.StringVar(&e.groupKey, "group-key", "", "another group `key`; \"\" = none")
	f.IntVar(&e.maxAttempts, "max-attempts", 0, "attempts per stage; 0 = the queue's")
	f.DurationVar(&e.startWithin, "start-within", 0,
		"how long after it is due it may wait to begin, as 30s; 0s = for ever")
	f.Var(&e.meta, "set-meta",
		"all that it carries from now on, a `name=text`; repeat it for more; \"\" = nothing")
}

// edit is the edit that the flags ask for.
func (e *editFlags) edit(a *app.App) (d task.Edit, err error) {
	var due time.Time
	for _, set := range []func(){
		app.Optional(&e.priority, e.flags, "priority", &d.Priority),
		app.Optional(&due, e.flags, "due", &d.Due),
		app.Optional(&e.delay, e.flags, "delay", &d.Delay),
		app.Optional(&e.groupKey, e.flags, "group-key", &d.GroupKey),
		app.Optional(&e.maxAttempts, e.flags, "max-attempts", &d.MaxAttempts),
		app.Optional(&e.startWithin, e.flags, "start-within", &d.StartWithin),
	} {
		set()
	}
	d.Meta = e.meta.Strings()
	if d.Due != nil {
		if due, err = time.Parse(time.RFC3339, e.due); err != nil {
			return d, usage.Errorf("--due %q: want a time like %s", e.due,
				a.Now().UTC().Format(time.RFC3339))
		}
	}
	if e.flags.Changed("context") && e.flags.Changed("context-text") {
		return d, usage.Errorf(
			"--context and --context-text are two contexts: leave one of them out")
	}
	switch {
	case e.flags.Changed("context"):
		d.Context, err = a.ReadJSON("--context", e.context)
	case e.flags.Changed("context-text"):
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
	e.add(cmd.Flags())
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if d, err = e.edit(a.App); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
