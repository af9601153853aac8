// Command rota is the door to rota: it starts nodes and workers, submits tasks, and shows and
// steers what runs.
//
// Each command is one constructor that returns a *cobra.Command around a method of app. Results go
// to stdout, errors and progress to stderr. The exit code is 0 when it was done, 1 when it failed,
// 2 when the command was used wrongly and 3 when something named does not exist. A command that has
// not begun cannot have failed, so every error from before its RunE (unknown commands, flags,
// arguments, settings) is wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
)

// heapGrowth is by how many percent the heap may grow before the next collection. Live heaps here
// are small (megabytes) and rubbish is plenty (some kilobytes a task), so Go's default of
// 100 collects a hundred times a second under load. See ADR 6.
const heapGrowth = 400

// heapLimit is where that freedom ends: beyond it rubbish is collected as it comes, so that a node
// under a crowd of large values stays below 512 MiB. It limits no live data.
const heapLimit = 448 << 20

func main() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(heapLimit)
	}
	if needsReaper(os.Args[1:]) {
		code, err := reaper(os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "rota: run worker as a child:", err)
		}
		os.Exit(code)
	}
	a := &app{
		Output: term.Output{Out: os.Stdout, Err: os.Stderr, Now: time.Now}, in: os.Stdin,
		env: os.LookupEnv,
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go a.obey(signals, stop) // until the process ends
	os.Exit(a.run(ctx, os.Args[1:]))
}

// signalGap is how close together two signals are one: a terminal, and programs like timeout,
// signal a process and its whole group.
const signalGap = 300 * time.Millisecond

// obey lets the first signal ask the command to end cleanly. The second ends the process at once,
// and before it what the process runs: nobody would look after that.
func (a *app) obey(signals <-chan os.Signal, stop func()) {
	for s := range signals {
		if s != syscall.SIGHUP || !a.rereads.Load() {
			break
		}
	}
	first := time.Now()
	stop()
	for s := range signals {
		if s == syscall.SIGHUP && a.rereads.Load() {
			continue
		}
		if time.Since(first) > signalGap {
			break
		}
	}
	a.leash.Kill()
	fmt.Fprintln(a.Err, "rota: ended at once, by a second signal")
	os.Exit(exitFailed)
}

// app is one run of the program: what it reads, where it writes, and what all commands were told.
type app struct {
	term.Output
	in  io.Reader
	env func(string) (string, bool)

	shared  *pflag.FlagSet // flags that mean the same in every command that has them
	config  string
	servers []string
	fixed   bool // keep to servers
	token   string

	rereads atomic.Bool // a node runs: SIGHUP makes it read its tokens again, and ends nothing

	begun bool         // the command itself has begun: what fails from here on is no wrong usage
	leash worker.Leash // of the commands that a worker runs
}

// run executes one command line and says how the process should exit.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if !a.begun && !errors.Is(err, usage.Err) {
		err = usage.Errorf("%v", err)
	}
	fmt.Fprintln(a.Err, "rota:", a.explain(ctx, err))
	code := exitCode(err)
	if code == exitUsage {
		fmt.Fprintf(a.Err, "See `%s --help`.\n", cmd.CommandPath())
	}
	return code
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, usage.Err), errors.Is(err, client.ErrInvalid),
		errors.Is(err, rota.ErrConfig):
		return exitUsage
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	}
	return exitFailed
}

// explain is err in words that say what to do about it, where that is known.
func (a *app) explain(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Sprintf("no server at %s: start one with `rota serve`, or name it with --server",
			strings.Join(a.servers, " or "))
	case errors.Is(err, client.ErrUnauthorized) && inTask(a.env):
		return err.Error() +
			": inside a task ROTA_TOKEN is the token of the hand-out, no access token; give one with --token, or as token in the file that ROTA_CONFIG names"
	case errors.Is(err, client.ErrUnauthorized):
		return err.Error() + ": give an access token with --token or ROTA_TOKEN"
	case errors.Is(err, client.ErrForbidden):
		return err.Error() +
			": another token is needed; the server's --token-file says its role and, for a worker's, the --name it is good for"
	}
	return err.Error()
}

func (a *app) root() *cobra.Command {
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
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.configure(cmd); err != nil {
				return err
			}
			a.begun = true
			return nil
		},
	}
	root.SetVersionTemplate("rota {{.Version}}\n")
	root.SetIn(a.in)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().StringVar(&a.config, "config", "",
		"YAML `file` with settings (default none)")

	a.shared = pflag.NewFlagSet("shared", pflag.ContinueOnError)
	a.shared.StringSliceVar(&a.servers, "server", []string{client.DefaultServer},
		"`URL` of a node; repeat it to name others to turn to when one is away")
	a.shared.BoolVar(&a.fixed, "fixed", false,
		"keep to the nodes that --server names; else the others of their cluster are turned to, too")
	a.shared.StringVar(&a.token, "token", "",
		"access `token`; better kept in ROTA_TOKEN or the config file, out of the list of processes")
	a.shared.VarP(&a.Format, "output", "o", "`format` of the result: table or json")

	root.AddCommand(a.serve(), a.worker(), a.submit(), a.task(), a.queue(), a.schedule(),
		a.calendar(), a.group(), a.node(), a.cluster(), a.events(), a.notifier(), a.bench(),
		a.simulate(), a.demo(), a.demoWorker(), a.backup(), a.restore(), a.doctor(), a.version())
	root.InitDefaultCompletionCmd()
	completion(root)
	takeOnce(root)
	return root
}

// completion makes cobra's own command a family like the others, with an example for each shell.
func completion(root *cobra.Command) {
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // our own bug: it was just added
	}
	cmd.Args, cmd.RunE = nil, needsMember(cmd.Commands())
	cmd.Example = "  source <(rota completion bash)\n  rota completion zsh --help      # where to put it for good"
	for _, shell := range cmd.Commands() {
		shell.Example = "  rota completion " + shell.Name()
	}
}

// family is a command that only has subcommands.
func family(use, short, long, example string, members ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, DisableFlagsInUseLine: true,
		RunE: needsMember(members),
	}
	cmd.AddCommand(members...)
	return cmd
}

// needsMember is what a command does that does nothing by itself.
func needsMember(members []*cobra.Command) func(*cobra.Command, []string) error {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name()
	}
	return func(cmd *cobra.Command, args []string) error {
		known := strings.Join(names, ", ")
		if len(args) == 0 {
			return usage.Errorf("%s needs a command: %s", cmd.Name(), known)
		}
		return usage.Errorf("%s has no command %q; it has %s", cmd.Name(), args[0], known)
	}
}

// takes makes an argument check: exactly the named arguments, or at least them when the last one
// ends with "…".
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		command := strings.TrimPrefix(cmd.CommandPath(), "rota ")
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…")
		switch {
		case len(args) < len(names):
			return usage.Errorf("%s needs %s", command, strings.Join(names[len(args):], " "))
		case len(args) > len(names) && !many:
			return usage.Errorf("%s does not take %q", command, args[len(names)])
		}
		return nil
	}
}

// version is what the build recorded of itself: a release, or the revision it was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			v += "-dirty"
		}
	}
	return v
}
