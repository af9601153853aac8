package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// workerDoc is a worker in JSON, with the fields of the API.
type workerDoc struct {
	task.Worker
	Seen term.Stamp `json:"seen"`
}

// condition is where a worker stands, in one word.
func condition(w task.Worker) string {
	switch {
	case w.State == task.WorkerLeft:
		return term.Faint("left")
	case !w.Active:
		return term.Red("silent")
	case w.Draining && w.Running+w.Jobs == 0:
		return term.Yellow("drained")
	case w.Draining:
		return term.Yellow("draining")
	}
	return term.Green("active")
}

func (a workerCommands) workerList() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:     "ls",
		Short:   "List workers",
		Long:    `List the workers of all nodes: those that speak, and those that fell silent lately.`,
		Example: `  rota worker ls`,
		Args:    takes(),
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
				t.Add(w.Name, condition(w), term.Count(w.Running), term.Count(w.Jobs),
					fmt.Sprint(w.Capacity), fmt.Sprintf("%.0f%%", 100*w.Load.CPU),
					term.Short(w.Seen, a.Now()), w.Node, term.Labels(w.Labels))
			}
			return t.String()
		})
	})
}

func (a workerCommands) workerShow() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show one worker and its jobs",
		Long:    `Show one worker: its state, its load and what it may carry, and the replicas of jobs on it.`,
		Example: `  rota worker show box-4711`,
		Args:    takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("worker", args...); err != nil {
			return err
		}
		w, err := c.Worker(ctx, args[0])
		if err != nil {
			return err
		}
		jobs, err := jobsOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		doc := struct {
			workerDoc
			Assignments []workerJob `json:"assignments"`
		}{workerDoc{w, term.Stamp(w.Seen)}, jobs}
		return a.Show(doc, func() string { return a.workerText(w, jobs) })
	})
}

// workerJob is one replica on a worker.
type workerJob struct {
	Group string `json:"group"`
	client.Placement
}

// jobsOf are the replicas on a worker, of all groups.
func jobsOf(ctx context.Context, c *client.Client, worker string) ([]workerJob, error) {
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

func (a workerCommands) workerText(w task.Worker, jobs []workerJob) string {
	s := term.Sheet{Indent: 10}
	s.Line("worker", term.Bold(w.Name))
	s.Line("state", condition(w))
	s.Line("runs",
		fmt.Sprintf("%s and %s; capacity %v", term.Plural(w.Running, "task"),
			term.Plural(w.Jobs, "job"), w.Capacity))
	s.Line("load", fmt.Sprintf("%.0f%% cpu, %.0f%% memory", 100*w.Load.CPU, 100*w.Load.Memory))
	s.Line("labels", term.Labels(w.Labels))
	s.Line("zone", term.OneLine(w.Zone))
	s.Line("node", w.Node)
	s.Line("seen", term.Short(w.Seen, a.Now()))
	if len(jobs) == 0 {
		return s.String()
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
	return s.String() + "\n" + t.String()
}

func (a workerCommands) workerDrain() *cobra.Command {
	var wait bool
	cmd := a.remote(&cobra.Command{
		Use:   "drain NAME…",
		Short: "Let workers finish and take nothing new",
		Long: `Let workers finish the tasks that they run and take nothing new; their jobs move to other
workers, a few at a time, each running on until its successor does. It says what that does
to the groups that they serve. rota worker undrain takes it back at any time.

With --wait it waits until nothing is left, and tells what is on stderr; Ctrl-C only ends the
waiting.`,
		Example: "  rota worker drain box-4711\n  rota worker drain box-4711 --wait",
		Args:    takes("NAME…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("worker", args...); err != nil {
			return err
		}
		err := each(args, func(name string) error {
			effect, err := c.DrainWorker(ctx, name)
			if effect != "" {
				fmt.Fprintf(a.Err, "%s: %s\n", name, term.OneLine(effect))
			}
			return err
		})
		if err != nil || !wait {
			return err
		}
		return each(args, func(name string) error { return a.workerDrained(ctx, c, name) })
	})
	cmd.Flags().BoolVar(&wait, "wait", false,
		"until they run nothing any more; what is left is told on stderr")
	return cmd
}

// workerDrained waits until a worker runs nothing, and tells what is left whenever that changes.
func (a workerCommands) workerDrained(ctx context.Context, c *client.Client, name string) error {
	said := ""
	for {
		w, err := c.Worker(ctx, name)
		switch {
		case errors.Is(err, client.ErrNotFound), err == nil && !w.Active:
			fmt.Fprintf(a.Err, "%s has stopped\n", name)
			return nil
		case err != nil:
			return err
		}
		assigned := w.Jobs
		if w.Running+w.Jobs == 0 { // a job that it was given just before may start yet
			jobs, err := jobsOf(ctx, c, name)
			if err != nil {
				return err
			}
			if assigned = len(jobs); assigned == 0 {
				fmt.Fprintf(a.Err, "%s is drained\n", name)
				return nil
			}
		}
		if left := term.Plural(assigned, "job") + " and " +
			term.Plural(w.Running, "task"); left != said {
			said = left
			fmt.Fprintf(a.Err, "%s still runs %s\n", name, left)
		}
		if err := pause.For(ctx, Poll); err != nil {
			return err
		}
	}
}

func (a workerCommands) workerUndrain() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:     "undrain NAME…",
		Short:   "Let workers take work again",
		Long:    `Let drained workers take tasks and jobs again.`,
		Example: "  rota worker undrain box-4711",
		Args:    takes("NAME…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("worker", args...); err != nil {
			return err
		}
		return each(args, func(name string) error { return c.UndrainWorker(ctx, name) })
	})
}
