package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

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
