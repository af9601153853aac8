package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// workerDoc is a worker in JSON, with the fields of the API.
type workerDoc struct {
	task.Worker
	Seen stamp `json:"seen"`
}

// condition is where a worker stands, in one word.
func condition(w task.Worker) string {
	switch {
	case w.State == task.WorkerLeft:
		return faint("left")
	case !w.Active:
		return red("silent")
	case w.Draining && w.Running+w.Jobs == 0:
		return yellow("drained")
	case w.Draining:
		return yellow("draining")
	}
	return green("active")
}

func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, oneLine(k+"="+v))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

func (a *app) workerList() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:     "ls",
		Short:   "List workers",
		Long:    `List the workers of all nodes: those that speak, and those that fell silent lately.`,
		Example: `  rota worker ls`,
		Args:    takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		workers, missing, err := c.AllWorkers(ctx)
		if err != nil {
			return err
		}
		for _, node := range missing {
			fmt.Fprintf(a.err, "%s did not answer: workers that only it knows are missing\n", node)
		}
		doc := page[workerDoc]{Items: make([]workerDoc, len(workers))}
		for i, w := range workers {
			doc.Items[i] = workerDoc{w, stamp(w.Seen)}
		}
		return a.show(doc, func() string {
			t := a.newTable("WORKER", "STATE", "#TASKS", "#JOBS", "#CAPACITY", "#CPU", "SEEN", "NODE", "LABELS")
			for _, w := range workers {
				t.add(w.Name, condition(w), count(w.Running), count(w.Jobs), fmt.Sprint(w.Capacity), fmt.Sprintf("%.0f%%", 100*w.Load.CPU),
					short(w.Seen, a.now()), w.Node, labelText(w.Labels))
			}
			return t.String()
		})
	})
}

func (a *app) workerShow() *cobra.Command {
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
		}{workerDoc{w, stamp(w.Seen)}, jobs}
		return a.show(doc, func() string { return a.workerText(w, jobs) })
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
		replicas, err := c.AssignmentsOf(ctx, g.Name, client.PlacementFilter{Worker: worker})
		if errors.Is(err, client.ErrNotFound) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range replicas {
			jobs = append(jobs, workerJob{g.Name, p})
		}
	}
	return jobs, nil
}

func (a *app) workerText(w task.Worker, jobs []workerJob) string {
	s := sheet{indent: 10}
	s.line("worker", bold(w.Name))
	s.line("state", condition(w))
	s.line("runs", fmt.Sprintf("%s and %s; capacity %v", plural(w.Running, "task"), plural(w.Jobs, "job"), w.Capacity))
	s.line("load", fmt.Sprintf("%.0f%% cpu, %.0f%% memory", 100*w.Load.CPU, 100*w.Load.Memory))
	s.line("labels", labelText(w.Labels))
	s.line("zone", oneLine(w.Zone))
	s.line("node", w.Node)
	s.line("seen", short(w.Seen, a.now()))
	if len(jobs) == 0 {
		return s.String()
	}
	t := a.newTable("GROUP", "JOB", "#REPLICA", "STATE", "SINCE", "REASON")
	for _, j := range jobs {
		since := "-"
		if j.Since != nil {
			since = short(*j.Since, a.now())
		}
		t.add(j.Group, j.Job, fmt.Sprint(j.Replica), paintedJob(j.State), since, oneLine(j.Reason))
	}
	return s.String() + "\n" + t.String()
}

func (a *app) workerDrain() *cobra.Command {
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
			effect, err := c.DrainWorkerEffect(ctx, name)
			if effect != "" {
				fmt.Fprintf(a.err, "%s: %s\n", name, oneLine(effect))
			}
			return err
		})
		if err != nil || !wait {
			return err
		}
		return each(args, func(name string) error { return a.workerDrained(ctx, c, name) })
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "until they run nothing any more; what is left is told on stderr")
	return cmd
}

// workerDrained waits until a worker runs nothing, and tells what is left whenever that changes.
func (a *app) workerDrained(ctx context.Context, c *client.Client, name string) error {
	said := ""
	for {
		w, err := c.Worker(ctx, name)
		switch {
		case errors.Is(err, client.ErrNotFound), err == nil && !w.Active:
			fmt.Fprintf(a.err, "%s has stopped\n", name)
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
				fmt.Fprintf(a.err, "%s is drained\n", name)
				return nil
			}
		}
		if left := plural(assigned, "job") + " and " + plural(w.Running, "task"); left != said {
			said = left
			fmt.Fprintf(a.err, "%s still runs %s\n", name, left)
		}
		if err := rest(ctx, drainPoll); err != nil {
			return err
		}
	}
}

func (a *app) workerUndrain() *cobra.Command {
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
