package tasks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// commands are the commands that submit tasks, and show and steer them.
type commands struct{ *app.App }

// Commands are the commands that submit tasks, and show and steer them.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.submit(), c.task(), c.signal()}
}

func (a commands) task() *cobra.Command {
	return app.Family("task", "Show, follow, signal, cancel, replay and edit tasks",
		`Look at tasks and steer them. Ids are those that submit printed.

A task that failed for good, or used up its attempts, is dead: a dead letter, kept with its
steps and its log until it is replayed or its queue's --retention-dead has passed.`,
		`  rota task ls --state dead                # the dead letters
  rota task show 1pq3v0m7d2k5g10           # what became of each hand-out
  rota task contexts 1pq3v0m7d2k5g10       # what each stage was handed
  rota task explain 1pq3v0m7d2k5g10        # why it does not run
  rota task ls --stuck                     # what runs for suspiciously long
  rota task children 1pq3v0m7d2k5g10       # the tasks that it has submitted
  rota task tree 1pq3v0m7d2k5g10           # they and theirs, drawn
  rota task signal 1pq3v0m7d2k5g10 paid    # what it waits for has come
  rota task retry --queue mail             # all dead ones of a queue begin again
  rota task retry 1pq3v0m7d2k5g10          # one that is over, however it ended`,
		a.list(), a.show(), a.explain(), a.logs(),
		a.act(act{
			verb: "cancel", past: "cancelled", short: "Cancel tasks",
			long: `Cancel tasks that are not finished. The state is cancelled at once; a worker that runs
the task hears of it with its next beat, and its late report is refused.`,
			one: (*client.Client).Cancel, tree: (*client.Client).CancelTree,
			all: (*client.Client).CancelAll,
		}),
		a.contexts(),
		a.children(),
		a.taskTree(),
		a.spawn(),
		a.taskSignal(),
		a.retry(),
		a.edit(),
		a.remove())
}

// filterFlags select tasks.
type filterFlags struct {
	queue, state, stage, worker, key, since, until, matching string

	meta app.MetaFlag
}

func (f *filterFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.queue, "queue", "", "tasks of this `queue`")
	s.StringVar(&f.state, "state", "", "tasks in this `state`: "+stateWords())
	app.Complete(cmd, "state", strings.Split(stateWords(), ", ")...)
	s.StringVar(&f.stage, "stage", "", "tasks in this `stage`")
	s.StringVar(&f.worker, "worker", "", "tasks that this `worker` has, or had last")
	s.StringVar(&f.key, "key", "", "the task with this `key`")
	s.Var(&f.meta, "meta", "tasks that carry this `name=text`; repeat it for more")
	s.StringVar(&f.matching, "error", "",
		"tasks whose error this regular `expression` (RE2) matches somewhere")
	s.StringVar(&f.since, "since", "",
		"created at this `time` or later: RFC 3339, or an age like 90m or 2d")
	s.StringVar(&f.until, "until", "", "created before this `time`: RFC 3339, or an age like 90m or 2d")
}

func stateWords() string {
	words := make([]string, len(task.States))
	for i, s := range task.States {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// filter is the filter that the flags ask for.
func (f *filterFlags) filter(now time.Time) (client.TaskFilter, error) {
	state := task.State(f.state)
	if f.state != "" && !state.Valid() {
		return client.TaskFilter{},
			usage.Errorf("--state %q: want one of %s", f.state, stateWords())
	}
	since, err := app.Moment("--since", f.since, now)
	if err != nil {
		return client.TaskFilter{}, err
	}
	until, err := app.Moment("--until", f.until, now)
	if err != nil {
		return client.TaskFilter{}, err
	}
	if _, err := regexp.Compile(f.matching); err != nil {
		return client.TaskFilter{}, usage.Errorf("--error %q: %v", f.matching, err)
	}
	return client.TaskFilter{
		Queue: f.queue, State: state, Stage: f.stage, Worker: f.worker, Key: f.key,
		Meta: f.meta.Strings(), Since: since, Until: until, Error: f.matching,
	}, nil
}

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

func (a commands) show() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "show ID",
		Short: "Show one task and every step of it",
		Long: `Show one task: where it stands, its context and result, and what became of each hand-out.
Below it stands what it has submitted while it ran, drawn as rota task tree does: 100 tasks.`,
		Example: `  rota task show 1pq3v0m7d2k5g10`,
		Args:    app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		v, err := c.Task(ctx, ids[0], 0)
		if err != nil {
			return err
		}
		below, err := a.below(ctx, c, &v)
		if err != nil {
			return err
		}
		return a.Show(taskview.Of(v), func() string { return Text(a.App, v) + below })
	})
}

// stepNote is what there is to say of a step: why it failed, or what an edit changed.
func stepNote(s task.Step) string {
	if s.Changed != "" {
		return "changed " + s.Changed
	}
	return s.Error
}

// Text says where a task stands, and what became of each hand-out.
func Text(a *app.App, v task.View) string {
	s := term.Sheet{Indent: 10}
	now := a.Now()
	s.Line("task", term.Bold(v.ID.String()))
	s.Line("queue", v.Queue)
	s.Line("state", term.Painted(v.State))
	s.Line("stage", term.OneLine(v.Stage))
	if v.Attempt > 0 { // it was handed out, or is to be
		s.Line("attempt", fmt.Sprint(v.Attempt))
	}
	s.Line("created", term.Short(v.Created, now))
	if v.State == task.Waiting || v.State == task.Ready {
		s.Line("due", term.Short(v.Due, now))
	}
	s.Line("waits for", awaitsText(v.Awaits, now))
	if v.Parent != (task.ID{}) {
		s.Line("parent", v.Parent.String())
	}
	s.Line("children", childrenText(v.Children))
	for i, line := range priorLines(v.After) {
		s.Line(map[bool]string{true: "after"}[i == 0], line)
	}
	if !v.Expires.IsZero() {
		s.Line("expires", term.Short(v.Expires, now)+", unless it is begun before")
	}
	if v.Priority != 0 {
		s.Line("priority", v.Priority.String())
	}
	s.Line("key", term.OneLine(v.Key))
	s.Line("group-key", term.OneLine(v.GroupKey))
	s.Line("meta", app.MetaText(v.Meta))
	s.Line("worker", v.Worker)
	s.Line("progress", taskview.ProgressText(v))
	s.Line("context", term.OneLine(string(v.Context)))
	s.Line("result", term.OneLine(string(v.Result)))
	if len(v.Steps) == 0 {
		return s.String()
	}
	t := a.Table("#SEQ", "OUTCOME", "STAGE", "BY", "FINISHED", "#TOOK", "ERROR")
	t.Below = true
	for _, step := range v.Steps {
		took := "-"
		if !step.Started.IsZero() {
			took = step.Finished.Sub(step.Started).Round(time.Millisecond).String()
		}
		t.Add(fmt.Sprint(step.Seq), step.Kind.String(), term.OneLine(step.Stage), step.Worker,
			term.Short(step.Finished, now), took, term.OneLine(stepNote(step)))
	}
	return s.String() + "\n" + t.String()
}

// taskIDs parses the ids that a command was given, all before anything is done.
func taskIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = task.ParseID(arg); err != nil {
			return nil, usage.Errorf("%v", err)
		}
	}
	return ids, nil
}
