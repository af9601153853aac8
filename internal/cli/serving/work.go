package serving

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/guard"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ownWork is what a node runs itself, in its own process, as a worker of its name.
type ownWork struct {
	queues   []string
	groups   []string
	capacity int
	shell    bool
	grace    time.Duration
	argv     []string
}

func (f *ownWork) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.IntVar(&f.capacity, "capacity", 0,
		"units of load that the node itself runs at a time, of --queue and --group (default 8 with these, else 0)")
	s.StringSliceVar(&f.queues, "queue", nil,
		"`queue` whose tasks the node itself runs, by COMMAND; repeat it for more")
	s.StringSliceVar(&f.groups, "group", nil,
		"`group` whose jobs the node itself runs, by COMMAND; repeat it for more")
	s.BoolVar(&f.shell, "shell", false,
		"in place of COMMAND: run the command line that each task brings, as rota worker --shell does")
	s.DurationVar(&f.grace, "grace", 10*time.Second, "from SIGTERM to SIGKILL of a COMMAND; 0s = at once")
}

// check refuses what makes no worker. dash is how many arguments stand before the "--".
func (f *ownWork) check(dash int, args []string) error {
	some := len(f.queues)+len(f.groups) > 0
	switch f.argv = args; {
	case dash != 0 && len(args) > 0:
		return usage.Errorf(
			"serve takes no argument %q; a command that the node is to run itself stands after --",
			args[0])
	case f.capacity < 0:
		return usage.Errorf("--capacity must not be negative")
	case f.shell && (len(args) > 0 || len(f.groups) > 0 || len(f.queues) == 0):
		return usage.Errorf(
			"serve --shell takes its commands from the tasks of --queue: leave COMMAND and --group out")
	case some && len(args) == 0 && !f.shell:
		return usage.Errorf(
			"the node has no command for its --queue or --group: it stands after --, as in: rota serve --queue q -- ./handle.sh")
	case !some && len(args) > 0:
		return usage.Errorf(
			"the node has nothing to run %q for: say of which --queue it is to run tasks, or of which --group jobs",
			args[0])
	case !some && f.capacity > 0:
		return usage.Errorf(
			"--capacity %d: this node runs nothing itself; give it --queue Q (or --group G) and a command after --, run tasks with `rota worker --capacity %d`, or in a Go program that calls rota.Node.Handle",
			f.capacity, f.capacity)
	}
	return errors.Join(app.CheckNames("queue", f.queues...), app.CheckNames("group", f.groups...))
}

// checkCapacity refuses 0 where it would be the default: a node that runs something has some.
func (f *ownWork) checkCapacity(flags *pflag.FlagSet) error {
	if len(f.queues)+len(f.groups) == 0 {
		return nil
	}
	return app.CheckGiven(flags, "capacity")
}

// begin lets nodes run commands; done ends that. A node is made ready by handlers.
func (a commands) begin(f *ownWork) (done func(), err error) {
	if len(f.queues)+len(f.groups) == 0 {
		return func() {}, nil
	}
	beside, err := guard.Over(&a.Leash)
	if err != nil {
		return nil, fmt.Errorf("guard the commands: %w", err)
	}
	return beside.Close, nil
}

// handlers gives a node the handlers of what it runs itself.
func (a commands) handlers(node *rota.Node, name string, f *ownWork) error {
	if len(f.queues)+len(f.groups) == 0 {
		return nil
	}
	how := worker.CommandConfig{
		Argv: f.argv, Grace: app.Grace(f.grace), Worker: name, Leash: &a.Leash,
	}
	handler := worker.Command
	if f.shell {
		handler = worker.Shell
	}
	command, err := handler(how)
	if err != nil {
		return usage.Errorf("%v", err)
	}
	for _, queue := range f.queues {
		node.Handle(queue, command)
	}
	if len(f.groups) == 0 {
		return nil
	}
	job, err := worker.JobCommand(how)
	if err != nil {
		return usage.Errorf("%v", err)
	}
	for _, group := range f.groups {
		node.HandleJob(group, job)
	}
	return nil
}
