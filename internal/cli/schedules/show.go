package schedules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func (a commands) show() *cobra.Command {
	var run string
	cmd := a.Remote(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule and its newest due times, or a run",
		Long: `Show a schedule: what it does when, how it stands, and what came of its newest due times.
With --run show all of one run as a tree: the due time with which it began, and what
followed it by way of --after, with the states and times of the tasks.`,
		Example: `  rota schedule show nightly
  rota schedule show nightly -o json
  rota schedule show nightly --run last
  rota schedule show nightly --run 2026-12-01T02:30:00Z`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		if run != "" {
			return a.showRun(ctx, c, args[0], run)
		}
		s, err := c.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		fires, _, err := c.Fires(ctx, args[0], client.FireFilter{}, "", 5)
		if err != nil {
			return err
		}
		doc := struct {
			Schedule client.Schedule `json:"schedule"`
			Fires    []fireDoc       `json:"fires"`
		}{s, docsOfFires(fires)}
		return a.Show(doc, func() string {
			text := Text(a.App, &s)
			if len(fires) > 0 {
				text += "\n" + FireTable(a.App, fires, s.Zone)
			}
			return text
		})
	})
	cmd.Flags().StringVar(&run, "run", "",
		"show the run of this due `time`, as in rota schedule fires; last = of the newest")
	return cmd
}

// showRun shows the run to which a due time belongs.
func (a commands) showRun(
	ctx context.Context, c *client.Client, name, text string,
) error {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "last" {
		return usage.Errorf("--run %q: want a time like %s, or last", text,
			a.Now().UTC().Format(time.RFC3339))
	}
	if text == "last" {
		fires, _, err := c.Fires(ctx, name, client.FireFilter{}, "", 1)
		if err != nil {
			return err
		}
		if len(fires) == 0 {
			return fmt.Errorf("schedule %s has not been due yet", name)
		}
		at = fires[0].At.Time
	}
	run, err := c.ScheduleRun(ctx, name, at)
	if err != nil {
		return err
	}
	return a.Show(run, func() string { return a.runText(&run) })
}

// runText is a run as a tree.
func (a commands) runText(run *view.ScheduleRun) string {
	t := a.Table("RUN", "DUE", "STATE", "BEGAN", "TOOK", "TASK", "")
	var add func(list []view.RunFire, lead string)
	add = func(list []view.RunFire, lead string) {
		for i := range list {
			branch, below := "├─ ", "│  "
			if i == len(list)-1 {
				branch, below = "└─ ", "   "
			}
			if lead == "" && len(run.Tree) == 1 {
				branch, below = "", " "
			}
			f := &list[i]
			t.Add(lead+branch+f.Schedule, term.ShortIn(f.At.Time, a.Now(), time.UTC),
				runState(f), term.ShortIn(f.Began.Time, a.Now(), time.UTC), tookText(f, a.Now()),
				f.Task.String(), term.OneLine(runNote(f)))
			add(f.Children, lead+below)
		}
	}
	add(run.Tree, "")
	text := t.String()
	if !run.Whole {
		text += fmt.Sprintf("the run has more than these %d\n", run.Fires)
	}
	return text
}

// runState is where a fire of a run stands, in one word.
func runState(f *view.RunFire) string {
	state := string(f.State)
	if state == "" {
		state = f.Ended
	}
	switch {
	case f.Outcome != task.FireFired:
		return term.Yellow(string(f.Outcome))
	case f.State == task.Done:
		return term.Green(state)
	case f.State == task.Dead:
		return term.Red(state)
	}
	return state
}

// tookText is how long the task of a fire took, or has taken so far.
func tookText(f *view.RunFire, now time.Time) string {
	switch {
	case f.Began.IsZero():
		return ""
	case f.Finished.IsZero():
		return twoUnits(now.Sub(f.Began.Time)) + " so far"
	}
	took := f.Finished.Sub(f.Began.Time)
	if took < time.Minute {
		return took.Round(time.Millisecond).String()
	}
	return twoUnits(took)
}

// runNote says why a fire has no task, what it waited for besides where it stands, and what went
// wrong.
func runNote(f *view.RunFire) string {
	var list []string
	if f.Reason != "" {
		list = append(list, f.Reason)
	}
	if len(f.After) > 1 {
		var names []string
		for _, k := range f.After {
			names = append(names, k.Schedule)
		}
		list = append(list, "after "+strings.Join(names, ", "))
	}
	if f.Error != "" {
		list = append(list, f.Error)
	}
	return strings.Join(list, "; ")
}
