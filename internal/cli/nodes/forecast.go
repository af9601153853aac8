package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) forecast() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "forecast [QUEUE…]",
		Short: "Say how many workers queues and groups need",
		Long: `Say how many workers queues and groups need, and why.

Of a queue it is the least number with which 95 of 100 tasks wait less than --wait, by what came
in the last hour, how long it ran, and what is ready now. Of a group of jobs it is how many it
takes so that any n of them (the --tolerance of rota serve) can die at once with a place left for
every replica; where its jobs grow steadily it says by when.

Those that need the most more come first. docs/forecast.md says how it is found, how far off it
is, and how an autoscaler reads it.`,
		Example: `  rota forecast
  rota forecast mail --wait 30s
  rota forecast mail news -o json`,
	}
	cmd.Flags().DurationVar(&wait, "wait", 5*time.Second,
		"the `wait` that 95 of 100 tasks are to stay below")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := errors.Join(
			app.CheckNames("queue", args...), app.CheckGiven(cmd.Flags(), "wait"),
		); err != nil {
			return err
		}
		f, err := c.Forecast(ctx, client.ForecastQuery{Queues: args, Wait: wait})
		if err != nil {
			return err
		}
		return a.Show(f, func() string { return a.forecastText(&f, len(args) == 0) })
	})
}

func (a commands) forecastText(f *view.Forecast, groups bool) string {
	var text string
	if len(f.Queues) > 0 || !groups {
		t := a.Table("QUEUE", "#WORKERS", "#WANTED", "#P95 WAIT", "WHY")
		for _, q := range f.Queues {
			wait := "?"
			if q.WaitP95 != nil {
				wait = time.Duration(*q.WaitP95).String()
			}
			t.Add(term.OneLine(q.Queue), term.Count(q.Workers), wantedText(q.Workers, q.Wanted),
				wait, term.OneLine(q.Why))
		}
		text = t.String() + leftOut(f.QueuesLeftOut, "queue")
	}
	if len(f.Groups) > 0 {
		t := a.Table("GROUP", "#WORKERS", "#WANTED", "BY", "WHY")
		for _, g := range f.Groups {
			by := ""
			if g.By != nil {
				by = term.Short(g.By.Time, a.Now())
			}
			t.Add(term.OneLine(g.Group), term.Count(g.Workers), wantedText(g.Workers, g.Wanted), by,
				term.OneLine(g.Why))
		}
		if text != "" {
			text += "\n"
		}
		text += t.String() + leftOut(f.GroupsLeftOut, "group")
	}
	if text == "" {
		text = "no queues and no groups\n"
	}
	if len(f.Missing) > 0 {
		text += term.Yellow(fmt.Sprintf("%s did not say which workers they have: there may be more",
			term.Enumerated(f.Missing))) + "\n"
	}
	return text
}

// wantedText marks what is more than there is.
func wantedText(workers, wanted int) string {
	if wanted > workers {
		return term.Yellow(term.Count(wanted))
	}
	return term.Count(wanted)
}

func leftOut(n int, what string) string {
	if n == 0 {
		return ""
	}
	return term.Faint(fmt.Sprintf("%s more", term.Plural(n, what))) + "\n"
}
