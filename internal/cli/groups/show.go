package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// groupDoc is a group with its replicas.
type groupDoc struct {
	Group       client.Group       `json:"group"`
	Assignments []client.Placement `json:"assignments"`
	Next        string             `json:"next"`
}

// jobStates are the states of a replica that can be asked for.
var jobStates = []string{
	string(task.JobPending), string(task.JobStarting), string(task.JobRunning),
	string(task.JobFailed), string(task.JobMoving), string(task.JobEnding),
}

func (a commands) show() *cobra.Command {
	var filter client.PlacementFilter
	var state, cursor string
	var limit int
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a group and where the replicas of its jobs are",
		Long: `Show a group: how it is configured, how it stands, how many workers can die, and where the
replicas of its jobs are. One that has no worker is pending and says why.`,
		Example: "  rota group show tails\n  rota group show tails --state pending\n  rota group show tails --worker w1 -o json",
		Args:    app.Takes("NAME"),
	}
	f := cmd.Flags()
	f.StringVar(&filter.Job, "job", "", "replicas of this `job`")
	f.StringVar(&filter.Worker, "worker", "", "replicas on this `worker`")
	f.StringVar(&state, "state", "", "replicas in this `state`: "+strings.Join(jobStates, ", "))
	f.IntVar(&limit, "limit", 100, "at most so many replicas, up to 1,000")
	f.StringVar(&cursor, "cursor", "", "where an earlier list of replicas ended")
	app.Complete(cmd, "state", jobStates...)
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args...); err != nil {
			return err
		}
		if state != "" && !slices.Contains(jobStates, state) {
			return usage.Errorf("--state %q: want one of %s", state, strings.Join(jobStates, ", "))
		}
		if limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		filter.State = task.JobState(state)
		g, err := c.Group(ctx, args[0])
		if err != nil {
			return err
		}
		replicas, next, err := c.Assignments(ctx, args[0], filter, cursor, limit)
		if err != nil {
			return err
		}
		doc := groupDoc{g, append([]client.Placement{}, replicas...), next}
		if err := a.Show(doc, func() string { return Text(a.App, g, replicas) }); err != nil {
			return err
		}
		if next != "" && !a.JSON() {
			fmt.Fprintf(a.Err, "There are more: this was --limit %d; go on with --cursor %s\n",
				limit, next)
		}
		return nil
	})
}

// Text says how a group is configured, how it stands, and where replicas of its jobs are.
func Text(a *app.App, g client.Group, replicas []client.Placement) string {
	s := term.Sheet{Indent: 10}
	s.Line("state", State(g))
	s.Line("jobs",
		fmt.Sprintf("%s, %s wanted", term.Count(g.Jobs), term.Plural(g.Wanted, "replica")))
	s.Line("replicas", standingOf(g))
	s.Line("budget", term.OneLine(g.Budget.Text))
	s.Line("weakest", term.OneLine(strings.Join(g.Budget.Weakest, ", ")))
	if len(g.Budget.Groups) > 1 {
		s.Line("shared by", term.OneLine(strings.Join(g.Budget.Groups, ", ")))
	}
	s.Line("read", sourceReadText(g, a.Now()))
	if s.Line("supervisor", g.Supervisor); g.Supervisor == "" {
		s.Line("supervisor", term.Yellow("no node looks after it just now"))
	}
	text := confText(g.Group) + s.String()
	if len(replicas) > 0 {
		text += "\n" + placementTable(a, replicas)
	}
	return text
}

// standingOf is how many replicas are in which state.
func standingOf(g client.Group) string {
	var parts []string
	for _, n := range []struct {
		n    int
		what string
	}{
		{g.Running, "running"}, {g.Starting, "starting"}, {g.Failed, "failed"},
		{g.Moving, "moving"}, {g.Ending, "ending"}, {g.Pending, "pending"},
	} {
		if n.n > 0 {
			parts = append(parts, term.Count(n.n)+" "+n.what)
		}
	}
	return strings.Join(parts, ", ")
}

// sourceReadText says what came of the newest reading of a group's source; "" when it has none.
func sourceReadText(g client.Group, now time.Time) string {
	switch {
	case g.Source.Kind == task.SourceAPI:
		return ""
	case g.Read.Error != "":
		return term.Red(term.OneLine(g.Read.Error)) + ", tried " +
			term.Short(g.Read.Tried, now) + "; the list is that of " +
			term.Short(g.Read.Good, now)
	case g.Read.Good.IsZero():
		return "not read yet"
	}
	return term.Short(g.Read.Good, now)
}

func placementTable(a *app.App, replicas []client.Placement) string {
	t := a.Table("JOB", "#REPLICA", "STATE", "WORKER", "SINCE", "REASON")
	for _, p := range replicas {
		since := "-"
		if p.Since != nil {
			since = term.Short(*p.Since, a.Now())
		}
		t.Add(p.Job, fmt.Sprint(p.Replica), term.PaintedJob(p.State), p.Worker, since,
			term.OneLine(p.Reason))
	}
	return t.String()
}

func (a commands) explain() *cobra.Command {
	var limit int
	cmd := a.Remote(&cobra.Command{
		Use:   "explain NAME JOB",
		Short: "Say why a job is where it is or why it waits",
		Long: `Say why each replica of a job is where it is, or why it waits; what would change that; and
which workers are candidates for one more replica. SCORE is the share of a worker's capacity
that is free: of those that fit the greatest gets it.`,
		Example: "  rota group explain tails access.log",
		Args:    app.Takes("NAME", "JOB"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args[0]); err != nil {
			return err
		}
		if err := app.CheckNames("job", args[1]); err != nil {
			return err
		}
		e, err := c.ExplainJob(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.explanation(e, limit) })
	})
	cmd.Flags().IntVar(&limit, "limit", 20, "show at most so many candidates, up to 100")
	return cmd
}

func (a commands) explanation(e client.JobExplanation, limit int) string {
	var b strings.Builder
	for _, p := range e.Replicas {
		b.WriteString(term.Bold(fmt.Sprintf("Replica %d", p.Replica)) + ", " + string(p.State))
		if p.Worker != "" {
			b.WriteString(" on " + p.Worker)
		}
		if p.Reason != "" {
			b.WriteString(": " + term.OneLine(p.Reason))
		}
		b.WriteByte('\n')
	}
	if len(e.Changes) > 0 {
		b.WriteString("What would change that:\n")
	}
	for _, change := range e.Changes {
		b.WriteString("  " + term.OneLine(change) + "\n")
	}
	if len(e.Candidates) == 0 || limit < 1 {
		return b.String()
	}
	t := a.Table("CANDIDATE", "FITS", "#SCORE", "#FREE", "#CAPACITY", "REASON")
	shown := e.Candidates[:min(limit, len(e.Candidates))]
	for _, c := range shown {
		fits := term.Red("no")
		if c.Fits {
			fits = term.Green("yes")
		}
		t.Add(c.Worker, fits, fmt.Sprintf("%.2f", c.Score), fmt.Sprint(c.Free),
			fmt.Sprint(c.Capacity), term.OneLine(c.Reason))
	}
	b.WriteString("\n" + t.String())
	if more := e.Workers - len(shown); more > 0 {
		fmt.Fprintf(&b, "and %s more\n", term.Count(more))
	}
	return b.String()
}
