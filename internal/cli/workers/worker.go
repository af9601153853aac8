package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/guard"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/cobra"
)

// commands are the commands that run a worker and look after workers.
type commands struct{ *app.App }

// Commands are the commands that run a worker and look after workers.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.worker()}
}

// workerFlags are what `rota worker` was told.
type workerFlags struct {
	queues    []string
	groups    []string
	capacity  int
	name      string
	labels    []string
	zone      string
	grace     time.Duration
	stopGrace time.Duration
	level     slog.Level
	shell     bool
	stream    bool
}

func (a commands) worker() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker (--queue Q… | --group G…) (-- COMMAND [ARG…] | --shell)",
		Short: "Run a command for each task of a queue, or each job of a group; look after workers",
		Long: `Run a worker: COMMAND is started once per task of the queues, and once per replica of the
groups' jobs that is assigned here, up to --capacity in all, in this directory.

For a task it finds

    the context             as JSON on stdin
    ROTA_TASK ROTA_QUEUE    what it is about
    ROTA_STAGE ROTA_ATTEMPT the stage, and which attempt at it this is, from 1
    ROTA_META               what the task carries (rota submit --meta), a JSON object
    TRACEPARENT TRACESTATE  the trace that the task belongs to, when its meta names one
    ROTA_TOKEN              the token of this hand-out, greater for every later one of the
                            task: to fence what the command writes elsewhere
    ROTA_SIGNAL             what the stage has waited for, as JSON: {"name","payload","by","at"}
                            or {"timed_out":true}; empty when it has not waited
    ROTA_PARENT             the task whose child this one is; empty for nobody's
    ROTA_CHILDREN           how the children ended for which the stage has waited, as JSON:
                            {"total","done","dead","cancelled","expired"}
    ROTA_AFTER              the tasks for which this one has waited, as a JSON list:
                            [{"state","id","ref","if","context","result","left_out"}]
    ROTA_OUTPUT             a file for {"outcome","stage","context","result","delay","await",
                            "spawn"}; what it says decides over the exit code

Exit code 0 = done, 75 = try again, 65 = failed for good, any other = try again by the
queue's policy; after its last attempt a task is dead. With {"outcome":"next","stage":"S"}
in ROTA_OUTPUT the task goes on in stage S, with the context given there, after a "delay"
if one is given, or once a signal has come: "await":{"signal","key","timeout","else"}. With
"spawn":[TASK…] a done or next submits children along with it, and "await":"children" lets the
next stage begin when all have ended; rota task spawn adds some meanwhile.

stdout and stderr become the task's log. When the task is cancelled or its time is over the
whole process group gets SIGTERM, and SIGKILL after --grace.

With --shell it has no COMMAND: each task brings a command line in its context, {"command",
"shell","env","stdin"}, which runs with "shell" -c, in $HOME of "env" if that is there. So
whoever may submit to the queue may run anything as this user. A command line that another
worker wrote, in the outcome of an earlier stage, is refused unless that worker's access token
names the queue in its scope (queues=).

For a job it finds

    the spec                as JSON on stdin
    ROTA_GROUP ROTA_JOB     what it is about
    ROTA_REPLICA            which replica of the job this is, from 0
    ROTA_FENCE              a number, greater for every later assignment of the group: to
                            fence what the command writes elsewhere
    ROTA_TOKEN              the assignment's token

It is to run until it gets SIGTERM: when the job ends or moves, when the worker stops, or
when no node answers for 12 seconds. SIGKILL follows after --grace. When it ends by itself,
with whatever exit code, it is started again after 1, 2, 4 … 60 seconds. stdout and stderr
become the job's log (rota group logs), as streams named stdout.N and stderr.N after the
replica. rota group show tells what runs where.

ROTA_TOKEN has two meanings: for rota itself it is the access token, for a command the token
of the hand-out or assignment. The access token is not passed on. A command that calls rota, as
to submit follow-up tasks, gives one with --token or in the file that ROTA_CONFIG names. On
a server with access tokens one of role worker is good for the worker NAME that stands
before it in the token file, so say --name NAME; * is good for any.

Ctrl-C, SIGTERM and SIGHUP take nothing new, end the jobs, and let commands of tasks finish
for up to --stop-grace; a second signal kills them and ends at once. No command outlives the
worker, not even when that is killed.`,
		Example: `  rota worker --queue thumbnails --capacity 4 -- ./thumbnail.sh
  rota worker --server http://10.0.0.5:7700 --queue mail --queue news --label zone=a -- sendmail -t
  rota worker --queue order -- sh -c 'case $ROTA_STAGE in
      "") ./check.sh && echo "{\"outcome\":\"next\",\"stage\":\"ship\"}" >$ROTA_OUTPUT ;;
      ship) ./ship.sh || exit 75 ;;
    esac'
  rota worker --group feeds --capacity 60 --zone a -- sh -c 'exec ./follow "$ROTA_JOB"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.ArgsLenAtDash(), args); err != nil {
				return err
			}
			log := a.Logger(f.level)
			c, err := a.Connect(client.Config{HTTPOnly: !f.stream, Log: log})
			if err != nil {
				return err
			}
			defer c.Close()
			return a.run(cmd.Context(), c, log, f, args)
		},
	}
	a.AddShared(cmd.Flags(), "server", "fixed", "token")
	f.add(cmd)
	cmd.AddCommand(a.list(), a.show(), a.drain(), a.undrain(), guard.Command(a.App))
	return cmd
}

func (f *workerFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringSliceVar(&f.queues, "queue", nil, "`queue` to take tasks from; repeat it for more")
	s.BoolVar(&f.shell, "shell", false,
		"in place of COMMAND: run the command line that each task brings, as those of rota schedule import do")
	s.StringSliceVar(&f.groups, "group", nil, "`group` whose jobs to run; repeat it for more")
	s.IntVar(&f.capacity, "capacity", 8, "units of load at a time; a task costs 1, a job its load")
	s.StringVar(&f.name, "name", "",
		"`name` of this worker; no two may share one (default host name and process id)")
	s.StringSliceVar(&f.labels, "label", nil,
		"`k=v` that tells this worker from others, and lets groups select it; repeat it for more")
	s.StringVar(&f.zone, "zone", "", "`zone` of this worker: what may fail together (default none)")
	s.DurationVar(&f.grace, "grace", 10*time.Second, "from SIGTERM to SIGKILL; 0s = at once")
	s.DurationVar(&f.stopGrace, "stop-grace", 30*time.Second,
		"how long tasks' commands may go on after Ctrl-C; 0s = they end at once")
	s.BoolVar(&f.stream, "stream", true,
		"make calls on one WebSocket to the server, where it takes one; --stream=false: over HTTP")
	s.TextVar(&f.level, "log-level", slog.LevelInfo,
		"`level` from which on to log: debug, info, warn or error")
}

// check refuses flags and arguments that make no worker. dash is how many arguments stand before
// the "--".
func (f *workerFlags) check(dash int, args []string) error {
	switch {
	case dash != 0 && len(args) > 0:
		return usage.Errorf(
			"worker has no command %q; it has ls, show, drain and undrain, and a command to run stands after --",
			args[0],
		)
	case f.shell && (len(args) > 0 || len(f.groups) > 0 || len(f.queues) == 0):
		return usage.Errorf(
			"worker --shell takes its commands from the tasks of --queue: leave COMMAND and --group out",
		)
	case len(args) == 0 && !f.shell:
		return usage.Errorf(
			"worker needs the command to run after --, as in: rota worker --queue q -- ./handle.sh",
		)
	case len(f.queues) == 0 && len(f.groups) == 0:
		return usage.Errorf("worker needs at least one --queue or --group")
	case f.capacity < 1:
		return usage.Errorf("--capacity must be at least 1")
	}
	if f.name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name the worker: %w (name it with --name)", err)
		}
		f.name = nameHere(host, os.Getpid())
	}
	f.name = names.Canonical(f.name)
	f.queues, f.groups = names.All(f.queues), names.All(f.groups)
	return errors.Join(app.CheckNames("queue", f.queues...), app.CheckNames("group", f.groups...),
		app.CheckNames("worker", f.name))
}

func (a commands) run(
	ctx context.Context, c *client.Client, log *slog.Logger, f workerFlags, argv []string,
) error {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		// no command is so quick that it must wait here to be started
		Queue: c, Name: f.name, Capacity: f.capacity, Ahead: -1,
		Labels: labels, Zone: f.zone, Version: "rota " + app.Version(), Load: app.MachineLoad,
		Log: log, StopGrace: app.Grace(f.stopGrace),
	})
	how := worker.CommandConfig{
		Argv: argv, Grace: app.Grace(f.grace), Worker: f.name, Leash: &a.Leash,
	}
	handler := worker.Command
	if f.shell {
		handler = worker.Shell
	}
	command, wrong := handler(how)
	jobCommand, _ := worker.JobCommand(how) // wrong in the same way
	if err := errors.Join(err, wrong); err != nil {
		return usage.Errorf("%v", err)
	}
	for _, queue := range f.queues {
		w.Handle(queue, command)
	}
	for _, group := range f.groups {
		w.HandleJob(group, jobCommand)
	}
	beside, err := guard.Over(&a.Leash)
	if err != nil {
		return fmt.Errorf("guard the commands: %w", err)
	}
	defer beside.Close()
	log.Info("worker runs", "worker", f.name, "queues", f.queues, "groups", f.groups, "capacity",
		f.capacity, "server", a.Servers)
	return w.Run(ctx)
}

func parseLabels(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, usage.Errorf("--label %q: want k=v", pair)
		}
		labels[k] = v
	}
	return labels, nil
}

// nameHere is a worker's name made of the host's name and the process id, by the rule for names.
func nameHere(host string, pid int) string {
	return fmt.Sprintf("%s-%d", cmp.Or(names.Of(strings.ToLower(host), 100), "host"), pid)
}
