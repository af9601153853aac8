package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// workerFlags are what `rota worker` was told.
type workerFlags struct {
	queues    []string
	capacity  int
	name      string
	labels    []string
	zone      string
	grace     time.Duration
	stopGrace time.Duration
	level     slog.Level
}

func (a *app) worker() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --queue Q… -- COMMAND [ARG…]",
		Short: "Run a command for each task of a queue; look after workers",
		Long: `Run a worker: COMMAND is started once per task, up to --capacity at a time, in this
directory. It finds

    the context             as JSON on stdin
    ROTA_TASK ROTA_QUEUE    what it is about
    ROTA_STAGE ROTA_ATTEMPT the stage, and which attempt at it this is, from 1
    ROTA_TOKEN              the token of this hand-out, greater for every later one of the
                            task: to fence what the command writes elsewhere
    ROTA_OUTPUT             a file for {"outcome","stage","context","result","delay"};
                            what it says decides over the exit code

Exit code 0 = done, 75 = try again, 65 = failed for good, any other = try again by the
queue's policy; after its last attempt a task is dead. With {"outcome":"next","stage":"S"}
in ROTA_OUTPUT the task goes on in stage S, with the context given there. stdout and stderr
become the task's log. When the task is cancelled or its time is over the whole process
group gets SIGTERM, and SIGKILL after --grace.

ROTA_TOKEN has two meanings: for rota itself it is the access token, for a command of a task
the token of the hand-out. The access token is not passed on. A command that calls rota, as
to submit follow-up tasks, gives one with --token or in the file that ROTA_CONFIG names. On
a server with access tokens one of role worker is good for the worker NAME that stands
before it in the token file, so say --name NAME; * is good for any.

Ctrl-C, SIGTERM and SIGHUP take nothing new and let running commands finish for up to
--stop-grace; a second signal kills them and ends at once.`,
		Example: `  rota worker --queue thumbnails --capacity 4 -- ./thumbnail.sh
  rota worker --server http://10.0.0.5:7700 --queue mail --queue news --label zone=a -- sendmail -t
  rota worker --queue order -- sh -c 'case $ROTA_STAGE in
      "") ./check.sh && echo "{\"outcome\":\"next\",\"stage\":\"ship\"}" >$ROTA_OUTPUT ;;
      ship) ./ship.sh || exit 75 ;;
    esac'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.ArgsLenAtDash(), args); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			return a.runWorker(cmd.Context(), c, f, args)
		},
	}
	s := cmd.Flags()
	s.AddFlag(a.shared.Lookup("server"))
	s.AddFlag(a.shared.Lookup("fixed"))
	s.AddFlag(a.shared.Lookup("token"))
	s.StringSliceVar(&f.queues, "queue", nil, "`queue` to take tasks from; repeat it for more")
	s.IntVar(&f.capacity, "capacity", 8, "commands at a time; a task costs 1")
	s.StringVar(&f.name, "name", "", "`name` of this worker; no two may share one (default host name and process id)")
	s.StringSliceVar(&f.labels, "label", nil, "`k=v` that tells this worker from others; repeat it for more")
	s.StringVar(&f.zone, "zone", "", "`zone` of this worker: what may fail together (default none)")
	s.DurationVar(&f.grace, "grace", 10*time.Second, "from SIGTERM to SIGKILL")
	s.DurationVar(&f.stopGrace, "stop-grace", 30*time.Second, "how long running commands may go on after Ctrl-C")
	s.TextVar(&f.level, "log-level", slog.LevelInfo, "`level` from which on to log: debug, info, warn or error")
	cmd.AddCommand(a.workerList(), a.workerShow(), a.workerDrain("drain"), a.workerDrain("undrain"))
	return cmd
}

// check refuses flags and arguments that make no worker. dash is how many arguments stand before the "--".
func (f *workerFlags) check(dash int, args []string) error {
	switch {
	case dash != 0 && len(args) > 0:
		return usagef("worker has no command %q; it has ls, show, drain and undrain, and a command to run stands after --", args[0])
	case len(args) == 0:
		return usagef("worker needs the command to run after --, as in: rota worker --queue q -- ./handle.sh")
	case len(f.queues) == 0:
		return usagef("worker needs at least one --queue")
	case f.capacity < 1:
		return usagef("--capacity must be at least 1")
	}
	if f.name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name the worker: %w (name it with --name)", err)
		}
		f.name = nameHere(host, os.Getpid())
	}
	return errors.Join(checkNames("queue", f.queues...), checkNames("worker", f.name))
}

func (a *app) runWorker(ctx context.Context, c *client.Client, f workerFlags, argv []string) error {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	log := a.logger(f.level)
	w, err := worker.New(worker.Config{
		Queue: c, Name: f.name, Capacity: f.capacity, Ahead: -1, // no command is so quick that it must wait here to be started
		Labels: labels, Zone: f.zone, Load: machineLoad, Log: log, StopGrace: f.stopGrace,
	})
	command, wrong := worker.Command(worker.CommandConfig{Argv: argv, Grace: f.grace, Leash: &a.leash})
	if err := errors.Join(err, wrong); err != nil {
		return usagef("%v", err)
	}
	for _, queue := range f.queues {
		w.Handle(queue, command)
	}
	log.Info("worker runs", "worker", f.name, "queues", f.queues, "capacity", f.capacity, "server", a.servers)
	return w.Run(ctx)
}

// machineLoad is the machine's load since it was last asked for; what can't be found out counts as none.
func machineLoad() task.Load {
	var load task.Load
	if busy, err := cpu.Percent(0, false); err == nil && len(busy) == 1 {
		load.CPU = busy[0] / 100
	}
	if m, err := mem.VirtualMemory(); err == nil {
		load.Memory = m.UsedPercent / 100
	}
	return load
}

func parseLabels(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, usagef("--label %q: want k=v", pair)
		}
		labels[k] = v
	}
	return labels, nil
}

// workerView is a worker in JSON, with the fields of the API.
type workerView struct {
	Name     string            `json:"name"`
	Node     string            `json:"node"`
	Active   bool              `json:"active"`
	Draining bool              `json:"draining"`
	Capacity float64           `json:"capacity"`
	Load     task.Load         `json:"load"`
	Labels   map[string]string `json:"labels"`
	Zone     string            `json:"zone,omitempty"`
	Running  int               `json:"running_tasks"`
	Jobs     int               `json:"jobs"`
	Seen     stamp             `json:"seen"`
}

func viewOfWorker(w task.Worker) workerView {
	return workerView{
		Name: w.Name, Node: w.Node, Active: w.Active, Draining: w.Draining, Capacity: w.Capacity, Load: w.Load,
		Labels: w.Labels, Zone: w.Zone, Running: w.Running, Jobs: w.Jobs, Seen: stamp(w.Seen),
	}
}

// condition is where a worker stands, in one word.
func condition(w task.Worker) string {
	switch {
	case !w.Active:
		return red("silent")
	case w.Draining && w.Running == 0:
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
		doc := page[workerView]{Items: make([]workerView, len(workers))}
		for i, w := range workers {
			doc.Items[i] = viewOfWorker(w)
		}
		return a.show(doc, func() string {
			t := a.newTable("WORKER", "STATE", "#RUNNING", "#CAPACITY", "#CPU", "SEEN", "NODE", "LABELS")
			for _, w := range workers {
				t.add(w.Name, condition(w), fmt.Sprint(w.Running), fmt.Sprint(w.Capacity), fmt.Sprintf("%.0f%%", 100*w.Load.CPU),
					short(w.Seen, a.now()), w.Node, labelText(w.Labels))
			}
			return t.String()
		})
	})
}

func (a *app) workerShow() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show one worker",
		Long:    `Show one worker: its state, its load and what it may carry.`,
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
		return a.show(viewOfWorker(w), func() string {
			s := sheet{indent: 10}
			s.line("worker", bold(w.Name))
			s.line("state", condition(w))
			s.line("running", fmt.Sprintf("%d of %v", w.Running, w.Capacity))
			s.line("load", fmt.Sprintf("%.0f%% cpu, %.0f%% memory", 100*w.Load.CPU, 100*w.Load.Memory))
			s.line("labels", labelText(w.Labels))
			s.line("zone", oneLine(w.Zone))
			s.line("node", w.Node)
			s.line("seen", short(w.Seen, a.now()))
			return s.String()
		})
	})
}

func (a *app) workerDrain(verb string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     verb + " NAME…",
		Short:   "Let workers take tasks again",
		Long:    `Let drained workers take tasks again.`,
		Example: "  rota worker " + verb + " box-4711",
		Args:    takes("NAME…"),
	}
	call := (*client.Client).UndrainWorker
	if verb == "drain" {
		cmd.Short = "Let workers finish and take nothing new"
		cmd.Long = `Let workers finish what they run and take nothing new. rota worker ls shows when they are
drained; undrain takes it back at any time.`
		call = (*client.Client).DrainWorker
	}
	return a.remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("worker", args...); err != nil {
			return err
		}
		return each(args, func(name string) error { return call(c, ctx, name) })
	})
}
