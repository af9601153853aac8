package tools

import (
	"strings"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/simulate"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/place"
	"github.com/spf13/cobra"
)

func (a commands) simulate() *cobra.Command {
	conf := simulate.Config{Connect: a.Client, Output: &a.Output}
	var script string
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Play what becomes of jobs when workers die, join and drain",
		Long: `Play what becomes of jobs when workers die, join and drain: on a made-up cluster, or on a
copy of a real group (--live), with the planner that looks after groups. Nothing is changed.

Workers are given as [COUNTx]CAPACITY[@k=v[,k=v…]]: 10x60,3x20@zone=a are ten of capacity 60,
called w1 to w10, and three of 20 in zone a. Jobs are given as COUNT[xLOAD]: 900,100x5 are
900 of the load that --load says and 100 of load 5, called j1 to j1000.

At step 0 everything is placed. At each later step what the script says of it happens, then
one plan is made and carried out. The script is a list of STEP: EVENT, parted by semicolons
or lines, or @FILE with such a list (@- is stdin):

    kill W…        workers die           drain W… · undrain W…
    join WORKERS   workers join          resize W CAPACITY
    add JOBS       jobs are added        remove J…
    replicas N     every job is to run on so many workers

A worker W is a name or a label: kill zone=a kills all workers of a zone. It ends when the
script is over and a plan has nothing more to do.`,
		Example: `  rota simulate --workers 10x60 --jobs 250 --replicas 2 --script '1: kill w1; 5: join 2x60; 9: drain w2'
  rota simulate --workers 2x40@zone=a,2x40@zone=b --jobs 60 --replicas 2 --script '1: kill zone=a' -o json
  rota simulate --workers 5x60 --jobs 100 --replicas 3 --script @deaths.txt --svg loads.svg
  rota simulate --live tails --script '1: kill w1 w2'`,
		Args: app.Takes(),
	}
	s := cmd.Flags()
	s.StringArrayVar(&conf.Workers, "workers", nil,
		"`workers` at the start: [COUNTx]CAPACITY[@k=v[,k=v…]]; repeat it for more")
	s.StringVar(&conf.Jobs, "jobs", "",
		"`jobs` at the start: COUNT[xLOAD], more of them behind commas")
	s.Float64Var(&conf.Load, "load", 1, "`load` of a job that says nothing else")
	s.IntVar(&conf.Replicas, "replicas", 1, "workers that each job runs on")
	s.StringSliceVar(&conf.Selector, "selector", nil,
		"`k=v` that a worker must have as a label; repeat it for more (default any worker)")
	s.StringVar(&conf.Spread, "spread", "zone",
		"`zone` or worker: what the replicas of a job are kept apart by, zones where workers name theirs")
	s.IntVar(&conf.Moves, "moves", place.DefaultMoves, "replicas moved in a step at most; 0 = none")
	s.IntVar(&conf.New, "new", place.DefaultNew,
		"replicas started or moved to one worker in a step at most; 0 = no limit")
	s.StringVar(&script, "script", "", "`events` as STEP: EVENT; …, or @FILE")
	s.IntVar(&conf.Steps, "steps", 1000, "end after so many steps at the latest")
	s.StringVar(&conf.Live, "live", "",
		"begin with the workers, jobs and assignments of this `group`")
	s.StringVar(&conf.Picture, "svg", "", "write a picture of the loads to this `file`, too")
	app.Complete(cmd, "spread", "zone", "worker")
	a.AddShared(s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := checkSimulation(conf, s.Changed); err != nil {
			return err
		}
		if conf.Script, conf.ScriptName, err = a.readScript(script); err != nil {
			return err
		}
		return simulate.Run(cmd.Context(), conf)
	}
	return cmd
}

// checkSimulation refuses flags that don't go together. given says which flags were.
func checkSimulation(conf simulate.Config, given func(flag string) bool) error {
	if conf.Live != "" {
		for _, flag := range []string{"workers", "jobs", "load", "replicas", "selector", "spread",
			"moves", "new"} {
			if given(flag) {
				return usage.Errorf(
					"--live takes workers, jobs and policy from the group: leave --%s away, or change things in the script",
					flag,
				)
			}
		}
	}
	if conf.Picture == "-" {
		return usage.Errorf("--svg needs a file: the table goes to stdout")
	}
	if conf.Steps < 0 {
		return usage.Errorf("--steps must be at least 0")
	}
	return nil
}

// readScript reads the script that the flag gives or names, and says what errors are to call it.
func (a commands) readScript(flag string) (script, name string, err error) {
	file, named := strings.CutPrefix(flag, "@")
	if !named {
		return flag, "--script", nil
	}
	text, err := a.ReadFrom(file)
	return string(text), app.SourceName(file), err
}
