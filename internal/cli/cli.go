// Package cli has the commands of the program rota: here is their root, and below it a package for
// each noun.
//
// rota task and rota submit are in tasks, rota queue in queues, and so on: rootOf lists them. Each
// command is one constructor that returns a *cobra.Command; those of one noun are methods of one
// small struct around app.App, which is what all of them share. Nouns do not import each other;
// only top, which shows things of all, knows them. What two of them need is in app, await, chart,
// guard or taskview.
//
// Results go to stdout, errors and progress to stderr. The exit code is 0 when it was done, 1 when
// it failed, 2 when the command was used wrongly and 3 when something named does not exist. A
// command that has not begun cannot have failed, so every error from before its RunE (unknown
// commands, flags, arguments, settings) is wrong usage.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/events"
	"github.com/rotahq/rota/internal/cli/groups"
	"github.com/rotahq/rota/internal/cli/hooks"
	"github.com/rotahq/rota/internal/cli/nodes"
	"github.com/rotahq/rota/internal/cli/queues"
	"github.com/rotahq/rota/internal/cli/schedules"
	"github.com/rotahq/rota/internal/cli/serving"
	"github.com/rotahq/rota/internal/cli/tasks"
	"github.com/rotahq/rota/internal/cli/tools"
	"github.com/rotahq/rota/internal/cli/top"
	"github.com/rotahq/rota/internal/cli/workers"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// Exit codes of the process.
const (
	ExitDone = iota
	ExitFailed
	ExitUsage
	ExitNotFound
)

// Run executes one command line and says how the process should exit.
func Run(ctx context.Context, a *app.App, args []string) int {
	root := rootOf(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	if !a.HasBegun() && !errors.Is(err, usage.Err) {
		err = usage.Errorf("%v", err)
	}
	err = inFlags(cmd, err)
	fmt.Fprintln(a.Err, "rota:", a.Explain(ctx, err))
	code := exitCode(err)
	if code == ExitUsage {
		fmt.Fprintf(a.Err, "See `%s --help`.\n", cmd.CommandPath())
	}
	return code
}

// inFlags says what is wrong with the values of a call in the words of the command line, if each of
// them has a flag of its name.
func inFlags(cmd *cobra.Command, err error) error {
	var wrong *task.InvalidError
	if !errors.As(err, &wrong) || len(wrong.Fields) == 0 {
		return err
	}
	var texts []string
	for _, f := range wrong.Fields {
		name := strings.TrimPrefix(f.Location, "body.")
		name = strings.NewReplacer("per_key.", "key-", "_", "-", ".", "-").Replace(name)
		if cmd.Flags().Lookup(name) == nil {
			return err
		}
		texts = append(texts, fmt.Sprintf("--%s: %s", name, f.Message))
	}
	return usage.Errorf("%s", strings.Join(texts, "; "))
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, usage.Err), errors.Is(err, client.ErrInvalid),
		errors.Is(err, rota.ErrConfig):
		return ExitUsage
	case errors.Is(err, client.ErrNotFound):
		return ExitNotFound
	}
	return ExitFailed
}

// rootOf is rota itself, with all commands below it.
func rootOf(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "Share out work: tasks in, many workers, nothing lost",
		Long: `Rota shares out work. Tasks go in, workers on many machines take them up within
their capacity, and when machines die nothing is lost.

Settings: every flag can also be given as an environment variable (--token-file is
ROTA_TOKEN_FILE; lists are separated by commas) or in the YAML file that --config names.
A flag wins over the environment, the environment over the file. A flag that takes one
value is refused when it is given twice with different ones. In the file, a
command's flags stand below its name; server, token and output stand at the top:

    server: http://10.0.0.1:7700
    worker:
      queue: [thumbnails, mail]
      capacity: 16

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.`,
		Example: `  rota serve                                        # a node on this machine
  rota worker --queue greet -- sh -c 'cat; echo'    # a worker: one process per task
  rota submit greet --context '"hello"' --wait      # a task, and its result`,
		Version:       app.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
	}
	root.SetVersionTemplate("rota {{.Version}}\n")
	a.Prepare(root)
	for _, noun := range []func(*app.App) []*cobra.Command{
		serving.Commands, workers.Commands, tasks.Commands, queues.Commands, schedules.Commands,
		groups.Commands, nodes.Commands, top.Commands, events.Commands, hooks.Commands,
		tools.Commands,
	} {
		root.AddCommand(noun(a)...)
	}
	root.AddCommand(versionCommand(a))
	root.InitDefaultCompletionCmd()
	completion(root)
	a.Finish(root)
	return root
}

// completion makes cobra's own command a family like the others, with an example for each shell.
func completion(root *cobra.Command) {
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // our own bug: it was just added
	}
	cmd.Args, cmd.RunE = nil, app.NeedsMember(cmd.Commands())
	cmd.Example = "  source <(rota completion bash)\n  rota completion zsh --help      # where to put it for good"
	for _, shell := range cmd.Commands() {
		shell.Example = "  rota completion " + shell.Name()
	}
}
