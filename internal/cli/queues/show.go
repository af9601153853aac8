package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/chart"
	"github.com/rotahq/rota/internal/term"
	"github.com/spf13/cobra"
)

func (a commands) show() *cobra.Command {
	var last time.Duration
	var stage string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show how a queue stands, and draw what was done in it",
		Long: `Show how a queue stands, and draw what was done in it lately: what was submitted, started
and ended, how many tasks were ready, and how long they waited and ran. Minutes are kept for a
day, hours for 90 days. Each column is a period; with -o json each is there with all its numbers.

Of --stage, submitted are the tasks that came into the stage, and done those that left it well.`,
		Example: `  rota queue show mail
  rota queue show mail --last 24h
  rota queue show order --stage pack --last 30d`,
		Args: app.Takes("NAME"),
	}
	chart.LastFlag(cmd, &last)
	cmd.Flags().StringVar(&stage, "stage", "", "draw this `stage` of the queue")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("queue", args...); err != nil {
			return err
		}
		step, err := chart.ColumnHere(a.App, last)
		if err != nil {
			return err
		}
		q, err := c.Queue(ctx, args[0])
		if err != nil {
			return app.Absent(err, "queue", args[0], "the first submission creates it")
		}
		of := client.StatsQuery{Queue: args[0], Stage: stage}
		h, err := chart.Of(ctx, a.App, c, of, last, step)
		if err != nil {
			return err
		}
		doc := struct {
			Queue client.Queue `json:"queue"`
			chart.History
		}{q, h}
		return a.Show(doc, func() string { return a.standText(&q) + "\n" + h.Text() })
	})
}

// standText says how the tasks of a queue stand.
func (a commands) standText(q *client.Queue) string {
	s := term.Sheet{Indent: chart.Names}
	s.Line("queue", term.Bold(term.OneLine(q.Name)))
	s.Line("title", term.OneLine(q.Title))
	s.Line("owner", term.OneLine(q.Owner))
	s.Line("state", painted(q))
	n := q.Counts
	tasks := fmt.Sprintf("%s waiting, %s ready, %s running", term.Count(n.Waiting),
		term.Count(n.Ready), term.Count(n.Running))
	if n.Blocked > 0 {
		tasks = term.Count(n.Blocked) + " blocked, " + tasks
	}
	s.Line("tasks", tasks)
	s.Line("kept", fmt.Sprintf("%s done, %s dead, %s cancelled, %s expired", term.Count(n.Done),
		term.Count(n.Dead), term.Count(n.Cancelled), term.Count(n.Expired)))
	if !q.OldestReady.IsZero() {
		s.Line("oldest", "ready for "+term.Round(a.Now().Sub(q.OldestReady)).String())
	}
	if limits := LimitsText(q); limits != "" {
		s.Line("limits", limits)
	}
	s.Line("held by", heldText(q))
	return s.String()
}
