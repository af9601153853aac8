package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/chart"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// workerDoc is a worker in JSON, with the fields of the API.
type workerDoc struct {
	task.Worker
	Seen term.Stamp `json:"seen"`
}

// State is where a worker stands, in one word.
func State(w task.Worker) string {
	switch {
	case w.State == task.WorkerLeft:
		return term.Faint("left")
	case !w.Active:
		return term.Red("silent")
	case w.Draining && w.Running+w.Jobs == 0:
		return term.Yellow("drained")
	case w.Draining:
		return term.Yellow("draining")
	case w.Shed > 0:
		return term.Yellow(fmt.Sprintf("active, sheds %v", w.Shed))
	}
	return term.Green("active")
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "ls",
		Short:   "List workers",
		Long:    `List the workers of all nodes: those that speak, and those that fell silent lately.`,
		Example: `  rota worker ls`,
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		workers, missing, err := c.Workers(ctx)
		if err != nil {
			return err
		}
		for _, node := range missing {
			fmt.Fprintf(a.Err, "%s did not answer: workers that only it knows are missing\n", node)
		}
		doc := term.Page[workerDoc]{Items: make([]workerDoc, len(workers))}
		for i, w := range workers {
			doc.Items[i] = workerDoc{w, term.Stamp(w.Seen)}
		}
		return a.Show(doc, func() string {
			t := a.Table("WORKER", "STATE", "#TASKS", "#JOBS", "#CAPACITY", "#CPU", "SEEN", "NODE",
				"LABELS")
			for _, w := range workers {
				t.Add(w.Name, State(w), term.Count(w.Running), term.Count(w.Jobs),
					fmt.Sprint(w.Capacity), fmt.Sprintf("%.0f%%", 100*w.Load.CPU),
					term.Short(w.Seen, a.Now()), w.Node, term.Labels(w.Labels))
			}
			return t.String()
		})
	})
}

func (a commands) show() *cobra.Command {
	var last time.Duration
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one worker, its jobs and what it did lately",
		Long: `Show one worker: its state, its load and what it may carry, and the replicas of jobs on it;
and draw what became lately of the tasks that it was given: how many were started and how they
ended, and how long they had waited and ran. Done are those, too, that it let go on to another
stage. Minutes are kept for a day, hours for 90 days. Each column is a period; with -o json each
is there with all its numbers.

Of a worker that nobody knows any more it shows the past, and that it is gone.`,
		Example: `  rota worker show box-4711
  rota worker show box-4711 --last 24h
  rota worker show box-4711 -o json | jq '[.periods[].done] | add'`,
		Args: app.Takes("NAME"),
	}
	chart.LastFlag(cmd, &last)
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("worker", args...); err != nil {
			return err
		}
		step, err := chart.ColumnHere(a.App, last)
		if err != nil {
			return err
		}
		w, err := c.Worker(ctx, args[0])
		if errors.Is(err, client.ErrNotFound) {
			return a.showGone(ctx, c, args[0], last, step, err)
		}
		if err != nil {
			return err
		}
		jobs, err := JobsOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		h, err := chart.Of(ctx, a.App, c, client.StatsQuery{Worker: args[0]}, last, step)
		if err != nil {
			return err
		}
		doc := struct {
			workerDoc
			Assignments []workerJob `json:"assignments"`
			chart.History
		}{workerDoc{w, term.Stamp(w.Seen)}, jobs, h}
		return a.Show(doc, func() string { return Text(a.App, w, jobs, &h) })
	})
}

// workerJob is one replica on a worker.
type workerJob struct {
	Group string `json:"group"`
	client.Placement
}

// JobsOf are the replicas on a worker, of all groups.
func JobsOf(ctx context.Context, c *client.Client, worker string) ([]workerJob, error) {
	groups, err := c.Groups(ctx)
	if err != nil {
		return nil, err
	}
	jobs := []workerJob{}
	for _, g := range groups {
		for p, err := range client.All(
			func(cursor string) ([]client.Placement, string, error) {
				here := client.PlacementFilter{Worker: worker}
				return c.Assignments(ctx, g.Name, here, cursor, limits.MaxHold)
			}) {
			if errors.Is(err, client.ErrNotFound) { // deleted meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, workerJob{g.Name, p})
		}
	}
	return jobs, nil
}

// inUse is how much of a capacity is in use, behind it.
func inUse(used float64) string {
	if used == 0 {
		return ""
	}
	return fmt.Sprintf(", %v in use", used)
}

// Text says how a worker stands, what it did lately, and which jobs it has.
func Text(a *app.App, w task.Worker, jobs []workerJob, h *chart.History) string {
	s := term.Sheet{Indent: 10}
	s.Line("worker", term.Bold(w.Name))
	s.Line("state", State(w))
	s.Line("runs",
		fmt.Sprintf("%s and %s; capacity %v%s", term.Plural(w.Running, "task"),
			term.Plural(w.Jobs, "job"), w.Capacity, inUse(w.Used)))
	if !w.DrainBy.IsZero() {
		s.Line("drain by", w.DrainBy.Local().Format(time.DateTime))
	}
	s.Line("load", fmt.Sprintf("%.0f%% cpu, %.0f%% memory", 100*w.Load.CPU, 100*w.Load.Memory))
	s.Line("labels", term.Labels(w.Labels))
	s.Line("zone", term.OneLine(w.Zone))
	s.Line("version", term.OneLine(w.Version))
	s.Line("node", w.Node)
	s.Line("seen", term.Short(w.Seen, a.Now()))
	text := s.String() + "\n" + h.Text()
	if len(jobs) == 0 {
		return text
	}
	t := a.Table("GROUP", "JOB", "#REPLICA", "STATE", "SINCE", "REASON")
	for _, j := range jobs {
		since := "-"
		if j.Since != nil {
			since = term.Short(*j.Since, a.Now())
		}
		t.Add(j.Group, j.Job, fmt.Sprint(j.Replica), term.PaintedJob(j.State), since,
			term.OneLine(j.Reason))
	}
	return text + "\n" + t.String()
}
