package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/await"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/tracecontext"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// submission is what `rota submit` was told.
type submission struct {
	task.Submission
	context string // JSON, "-" or "@file"
	text    string // any text, "-" or "@file", where --context-text was given
	isText  bool   // it was
	due     string
	meta    app.MetaFlag
	unique  task.Unique
	while   string
	exists  string
	ended   string
	tasks   string // a list of tasks in JSON, "-" or "@file"
	lines   bool
	wait    bool
	given   *pflag.FlagSet
}

func (a commands) submit() *cobra.Command {
	var s submission
	cmd := a.Remote(&cobra.Command{
		Use:   "submit QUEUE",
		Short: "Submit a task, or one for each line of stdin",
		Long: `Submit a task to QUEUE and print its id. The queue comes to be, with defaults, at its
first task. What is acknowledged is on disk.

The context is any JSON value; workers get it byte for byte. --context-text takes any text in
UTF-8 instead, also one that happens to be JSON, with all its spaces and line ends: its context
is a JSON string. With --lines every line of stdin becomes a task: a line that is JSON is the
context as it is, any other line becomes a JSON string; with --context-text - every line does,
and with --context-text @FILE every line of that file. The ids are printed in the order of the
lines (not on a terminal, where a progress line stands instead).

With --unique only one task of the queue has the key at a time. While one has it, nothing new
comes to be: the id printed is that of the task that has it. --on-existing says what becomes of
that one: it stays as it is (keep), takes what is submitted if no worker was handed it yet
(replace; with debounce its delay begins anew), or the command fails (refuse). With -o json
the answer says which.

With --after the task begins when another one is done, which stands already, and is cancelled if
that ends otherwise; with --if ended, however it ends. What the other left it is told. Tasks
that wait for each other are submitted together, by --tasks: a JSON list as the API takes it, or
one task for each line, "ref" naming one, "after" those it waits for. QUEUE is that of tasks
which name none. All of them are submitted or none; the ids are printed in their order.

In a trace, that is with W3C's TRACEPARENT and TRACESTATE in the environment, tasks carry both as
their meta, so that whoever handles them goes on with the trace; --meta traceparent= leaves it out.

With --wait the command ends when the task does: it tells the id on stderr at once, prints
the result, and exits 1 when the task died or was cancelled. A server that is away for a
while is waited for; Ctrl-C ends the waiting, not the task. With --lines and --wait all
tasks are waited for once the last is submitted; the ids of those that were not done are
told on stderr.`,
		Example: `  rota submit mail --context '{"to":"ann@example.org"}'
  rota submit report --context @order.json --priority 30s --wait
  rota submit mail --context-text 'Dear Ann, it is 5 < 6.'
  rota submit letters --context-text @letter.txt
  find . -name '*.jpg' | rota submit thumbnails --lines --wait
  rota submit mail --context '"ann"' --meta customer=7
  rota submit mail --context '"ann"' --group-key acme
  rota submit nightly --key 2026-11-21 --delay 2h
  rota submit reindex --unique customer-7 --on-existing debounce --delay 30s
  rota submit report --after 1pq3v0m7d2k5g10 --after 1pq3v0m7d2k5g11
  rota submit build --tasks '[{"ref":"a"},{"ref":"b"},{"queue":"ship","after":["a","b"]}]'`,
		Args: app.Takes("QUEUE"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		s.Queue = args[0]
		if err := errors.Join(
			nonZero(s.given, "timeout", "max-attempts"),
			app.CheckNotEmpty(s.given, "key", "unique", "due", "tasks"),
			app.CheckGiven(s.given, "key-for", "unique-for", "start-within"), s.check(a.Now()),
		); err != nil {
			return err
		}
		s.trace(a.Env)
		switch {
		case s.tasks != "":
			return a.submitTasks(ctx, c, s)
		case s.lines:
			return a.submitLines(ctx, c, s)
		}
		return a.submitOne(ctx, c, s)
	})
	s.add(cmd)
	return cmd
}

func (s *submission) add(cmd *cobra.Command) {
	f := cmd.Flags()
	s.given = f
	f.StringVar(&s.context, "context", "", "`JSON` value, - for stdin, or @file (default none)")
	f.StringVar(&s.text, "context-text", "",
		"any `text` as the context, - for stdin, or @file (default none)")
	f.StringVar(&s.Stage, "stage", "", "first `stage` of the task (default none)")
	f.DurationVar(&s.Priority, "priority", 0, "head start in the queue, as 30s or 5m")
	f.DurationVar(&s.Delay, "delay", 0, "how long until it is due, as 90s or 2h")
	f.StringVar(&s.due, "due", "", "`time` when it is due, RFC 3339 (default now)")
	f.StringVar(&s.Key, "key", "",
		"submit once: the same `key` answers with the first task (remembered for 7 days, see --key-for)")
	f.DurationVar(&s.KeyFor, "key-for", 0, "how long the key is remembered, as 24h (default 168h)")
	f.StringVar(&s.GroupKey, "group-key", "",
		"whose the task is: a `key` for limits per key of the queue, and turns (default nobody's)")
	f.Var(&s.meta, "meta", "a `name=text` that the task carries wherever it goes; repeat it for more")
	f.IntVar(&s.MaxAttempts, "max-attempts", 0, "attempts per stage (default the queue's)")
	f.DurationVar(&s.Timeout, "timeout", 0, "longest attempt, as 10m (default the queue's)")
	f.DurationVar(&s.StartWithin, "start-within", 0,
		"how long after it is due it may wait to begin, as 30s; then it expires (default for ever)")
	f.StringVar(&s.unique.Key, "unique", "",
		"let one task of the queue at a time have this `key`; see --on-existing (default none)")
	f.StringVar(&s.while, "unique-while", "",
		"until when it has the unique key: waiting (its first hand-out) or unfinished (default unfinished)")
	f.DurationVar(&s.unique.For, "unique-for", 0,
		"how long it has the unique key at most, as 24h (default no limit)")
	f.StringVar(&s.exists, "on-existing", "",
		"when another task has the unique key: keep, replace, debounce or refuse (default keep)")
	f.StringArrayVar(&s.After, "after", nil,
		"begin when the task with this `id` is done; repeat it for more")
	f.StringVar(&s.ended, "if", "",
		"how those have to end: done, or ended for in whatever state (default done)")
	f.StringVar(&s.tasks, "tasks", "",
		"several tasks that may wait for each other: `JSON`, - for stdin, or @file")
	f.BoolVar(&s.lines, "lines", false, "one task for each line of stdin")
	f.BoolVar(&s.wait, "wait", false,
		"wait until the task ended and print its result; with --lines until all have")
}

// nonZero refuses flags that were given as 0 where leaving them out means the queue's own value.
func nonZero(flags *pflag.FlagSet, names ...string) error {
	var wrong []error
	for _, name := range names {
		if f := flags.Lookup(name); f.Changed &&
			(f.Value.String() == "0" || f.Value.String() == "0s") {
			wrong = append(wrong,
				usage.Errorf("--%s 0 is no limit: leave it out for the queue's", name))
		}
	}
	return errors.Join(wrong...)
}

// check refuses what no server would take.
func (s *submission) check(now time.Time) error {
	s.isText = s.given.Changed("context-text")
	switch {
	case s.isText && s.context != "":
		return usage.Errorf("--context and --context-text are two contexts: leave one of them out")
	case s.lines && s.isText && s.text != "-" && !strings.HasPrefix(s.text, "@"):
		return usage.Errorf("--lines takes the contexts from stdin, or from a file: " +
			"want --context-text - or --context-text @FILE")
	case s.lines && s.context != "":
		return usage.Errorf("--lines takes the contexts from stdin: leave --context out")
	case s.lines && s.Key != "":
		return usage.Errorf(
			"--lines with one --key would submit a single task: leave one of them out",
		)
	}
	s.unique.While, s.OnExisting = task.While(s.while), task.OnExisting(s.exists)
	if s.unique != (task.Unique{}) {
		s.Unique = &s.unique
	}
	if s.lines && s.Unique != nil {
		return usage.Errorf(
			"--lines with one --unique would submit a single task: leave one of them out",
		)
	}
	if s.due != "" {
		due, err := time.Parse(time.RFC3339, s.due)
		if err != nil {
			return usage.Errorf("--due %q: want a time like %s", s.due,
				now.UTC().Format(time.RFC3339))
		}
		s.Due = due
	}
	s.Meta, s.If = s.meta.Strings(), task.Condition(s.ended)
	for i, id := range s.After {
		if _, err := task.ParseID(id); err != nil {
			return usage.Errorf("--after[%d]: %.60q is not a task id", i, id)
		}
	}
	var invalid task.InvalidError
	limits.CheckSubmission(&s.Submission, &invalid, "task")
	return bare(&invalid, "task.")
}

// trace lets the task belong to the trace that the environment tells of, unless --meta says
// otherwise: traceparent=… names another one, traceparent= and an empty --meta none.
func (s *submission) trace(env func(string) (string, bool)) {
	switch parent, said := s.Meta[tracecontext.Parent]; {
	case said && parent == "":
		delete(s.Meta, tracecontext.Parent)
	case s.meta.List == nil || len(s.Meta) > 0:
		s.Meta = tracecontext.With(s.Meta, env)
	}
}

func (a commands) submitOne(ctx context.Context, c *client.Client, s submission) error {
	var err error
	if s.isText {
		s.Context, err = readText(a.App, s.text)
	} else {
		s.Context, err = a.ReadJSON("--context", s.context)
	}
	if err != nil {
		return err
	}
	receipts, err := c.Submit(ctx, s.Submission)
	if err != nil {
		return a.unsure(ctx, err)
	}
	if s.wait {
		return await.Result(ctx, a.App, c, receipts[0].ID)
	}
	doc := struct {
		ID       task.ID        `json:"id"`
		Existing bool           `json:"existing"`
		Action   task.Submitted `json:"action"`
	}{receipts[0].ID, receipts[0].Existing, receipts[0].Action}
	return a.Show(doc, func() string { return doc.ID.String() + "\n" })
}

// unsure says of a call that was interrupted on its way that it may have been done all the same.
func (a commands) unsure(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, client.ErrOutcomeUnknown) {
		fmt.Fprintln(a.Err, "It may be submitted all the same: nobody waited for the answer.")
	}
	return err
}

// readText reads the value of --context-text.
func readText(a *app.App, arg string) (json.RawMessage, error) {
	text, err := a.ReadValue("--context-text", arg)
	if err != nil {
		return nil, err
	}
	context, err := textOf(text)
	if err == nil && len(context) > app.MaxContext {
		err = fmt.Errorf("as a JSON string more than %s", term.Bytes(app.MaxContext))
	}
	if err != nil {
		return nil, usage.Errorf("--context-text: %v", err)
	}
	return context, nil
}
