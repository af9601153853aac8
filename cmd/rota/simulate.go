package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/place"
)

// simulateFlags are what `rota simulate` was told.
type simulateFlags struct {
	workers  []string
	jobs     string
	load     float64
	replicas int
	selector []string
	spread   string
	moves    int
	fresh    int
	script   string
	steps    int
	live     string
	svg      string
}

func (a *app) simulate() *cobra.Command {
	var f simulateFlags
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
		Args: takes(),
	}
	s := cmd.Flags()
	s.StringArrayVar(&f.workers, "workers", nil, "`workers` at the start: [COUNTx]CAPACITY[@k=v[,k=v…]]; repeat it for more")
	s.StringVar(&f.jobs, "jobs", "", "`jobs` at the start: COUNT[xLOAD], more of them behind commas")
	s.Float64Var(&f.load, "load", 1, "`load` of a job that says nothing else")
	s.IntVar(&f.replicas, "replicas", 1, "workers that each job runs on")
	s.StringSliceVar(&f.selector, "selector", nil, "`k=v` that a worker must have as a label; repeat it for more (default any worker)")
	s.StringVar(&f.spread, "spread", "zone", "`zone` or worker: what the replicas of a job are kept apart by, zones where workers name theirs")
	s.IntVar(&f.moves, "moves", place.DefaultMoves, "replicas moved in a step at most; 0 = none")
	s.IntVar(&f.fresh, "new", place.DefaultNew, "replicas started or moved to one worker in a step at most; 0 = no limit")
	s.StringVar(&f.script, "script", "", "`events` as STEP: EVENT; …, or @FILE")
	s.IntVar(&f.steps, "steps", 1000, "end after so many steps at the latest")
	s.StringVar(&f.live, "live", "", "begin with the workers, jobs and assignments of this `group`")
	s.StringVar(&f.svg, "svg", "", "write a picture of the loads to this `file`, too")
	complete(cmd, "spread", "zone", "worker")
	s.AddFlagSet(a.shared)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.runSimulate(cmd.Context(), f, s.Changed) }
	return cmd
}

// runSimulate plays it and shows what came of it. given says which flags were.
func (a *app) runSimulate(ctx context.Context, f simulateFlags, given func(flag string) bool) error {
	begin := f.madeUp
	if f.live != "" {
		for _, flag := range []string{"workers", "jobs", "load", "replicas", "selector", "spread", "moves", "new"} {
			if given(flag) {
				return usagef("--live takes workers, jobs and policy from the group: leave --%s away, or change things in the script", flag)
			}
		}
		begin = func() (*simulation, error) { return a.liveSimulation(ctx, f.live) }
	}
	if f.svg == "-" {
		return usagef("--svg needs a file: the table goes to stdout")
	}
	if f.steps < 0 {
		return usagef("--steps must be at least 0")
	}
	script, err := a.readScript(f)
	if err != nil {
		return err
	}
	sim, err := begin()
	if err != nil {
		return err
	}
	if err := sim.play(ctx, script, f.steps); err != nil {
		return err
	}
	if f.svg != "" {
		if err := os.WriteFile(f.svg, []byte(drawLoads(sim)), 0o644); err != nil {
			return err // it names the file
		}
	}
	return a.show(sim.view(), func() string { return a.simulationText(sim) })
}

// simulationView is a simulation in JSON.
type simulationView struct {
	Steps   []simulatedStep `json:"steps"`
	AtRest  bool            `json:"at_rest"` // the last plan had nothing more to do
	Pending []waitingView   `json:"pending"` // replicas that wait in the end
}

type waitingView struct {
	Job     string `json:"job"`
	Replica int    `json:"replica"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

func (s *simulation) view() simulationView {
	v := simulationView{Steps: s.steps, AtRest: s.atRest, Pending: []waitingView{}}
	for _, p := range s.pending {
		v.Pending = append(v.Pending, waitingView{p.Job, p.Replica, string(p.Reason.Code), p.Reason.String()})
	}
	return v
}

// simulationText is a table of the steps in which anything happened, and what waits in the end.
func (a *app) simulationText(s *simulation) string {
	t := a.newTable("#STEP", "#START", "#STOP", "#MOVE", "#PENDING", "#IN USE", "#SPREAD", "#BEARS", "EVENTS")
	before := -1
	for _, step := range s.steps {
		if step.idle() && step.Pending == before {
			continue // till the next event
		}
		before = step.Pending
		pending := count(step.Pending)
		if step.Pending > 0 {
			pending = red(pending)
		}
		t.add(count(step.Step), count(step.Start), count(step.Stop), count(step.Moves), pending,
			fmt.Sprintf("%.1f–%.1f %%", 100*step.Least, 100*step.Most), fmt.Sprintf("%.1f %%", 100*step.Spread),
			bearsText(step.Budget), strings.Join(step.Events, "; "))
	}
	text := t.String() + "\n"
	if !s.atRest {
		text += yellow(fmt.Sprintf("not at rest after %s", plural(len(s.steps)-1, "step"))) + "\n"
	}
	waiting := map[string]int{}
	for _, p := range s.pending {
		waiting[p.Reason.String()]++
	}
	for _, reason := range slices.Sorted(maps.Keys(waiting)) {
		verb := " wait"
		if waiting[reason] == 1 {
			verb = " waits"
		}
		text += fmt.Sprintf("%s: %s\n", red(plural(waiting[reason], "replica")+verb), reason)
	}
	if len(s.pending) == 0 {
		text += green("every replica runs") + "\n"
	}
	return text + faint("BEARS: so many workers can die at once with every replica still placeable") + "\n"
}

func (s *simulatedStep) idle() bool { return s.Start+s.Stop+s.Moves+len(s.Events) == 0 && s.Step > 0 }

func bearsText(b simulatedBudget) string {
	switch {
	case b.AtMost < 0:
		return "-"
	case max(b.Workers, 0) < b.AtMost:
		return fmt.Sprintf("%d–%d", max(b.Workers, 0), b.AtMost)
	}
	return fmt.Sprint(b.AtMost)
}
