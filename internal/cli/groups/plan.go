package groups

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/simulate"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// planFlags are what `rota group plan` was told.
type planFlags struct {
	remove, drain, add []string
	replicas           int
	jobs               string
}

func (a commands) plan() *cobra.Command {
	var f planFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Say what would become of a group if …",
		Long: `Say what would become of a group if workers died (--remove), were drained or joined, or if
it had other replicas or jobs: on what is there now, thought through to the end by the
planner that looks after the group. Nothing is changed. Without a flag it says what is still
to be done.

Workers that join are given as [COUNTx]CAPACITY[@k=v[,k=v…]]: 3x60@zone=a,disk=fast are three
of capacity 60 in zone a with a label.`,
		Example: `  rota group plan tails --remove w1,w2
  rota group plan tails --add 3x60@zone=a --drain w3
  rota group plan tails --replicas 3
  rota group plan tails --jobs tomorrow.txt -o json`,
		Args: app.Takes("NAME"),
	}
	s := cmd.Flags()
	s.StringSliceVar(&f.remove, "remove", nil, "`workers` that die")
	s.StringSliceVar(&f.drain, "drain", nil, "`workers` that are drained")
	s.StringArrayVar(&f.add, "add", nil,
		"`workers` that join: [COUNTx]CAPACITY[@k=v[,k=v…]]; repeat it for more")
	s.IntVar(&f.replicas, "replicas", 0, "replicas of each job (default as it is)")
	s.StringVar(&f.jobs, "jobs", "",
		"`file` with the whole list of jobs, - is stdin, as rota group jobs --from takes it (default as it is)")
	s.IntVar(&limit, "limit", 10,
		"show at most so many replicas of a kind, and twice as many workers")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args...); err != nil {
			return err
		}
		what, err := a.whatIf(f, s.Changed("replicas"))
		if err != nil {
			return err
		}
		p, err := c.PlanGroup(ctx, args[0], what)
		if err != nil {
			return err
		}
		return a.Show(p, func() string { return a.planText(p, max(limit, 0)) })
	})
}

// whatIf is the change that the flags ask about; replicated says that they say how many replicas.
func (a commands) whatIf(f planFlags, replicated bool) (client.WhatIf, error) {
	what := client.WhatIf{Remove: f.remove, Drain: f.drain, Replicas: f.replicas}
	if err := app.CheckNames("worker", slices.Concat(f.remove, f.drain)...); err != nil {
		return what, err
	}
	if replicated && f.replicas < 1 {
		return what, usage.Errorf("--replicas must be at least 1")
	}
	for _, text := range f.add {
		specs, err := simulate.ParseWorkers(text)
		if err != nil {
			return what, err
		}
		for _, s := range specs {
			what.Add = append(what.Add, client.NewWorkers{
				Capacity: s.Capacity.Float(), Labels: s.Labels, Zone: s.Zone, Count: s.Count,
			})
		}
	}
	if f.jobs == "" {
		return what, nil
	}
	text, err := a.ReadFrom(f.jobs)
	if err != nil {
		return what, err
	}
	jobs, err := wire.ParseJobText(text, task.MaxJobChange)
	if err != nil {
		return what, fmt.Errorf("%s: %w", app.SourceName(f.jobs), err)
	}
	what.Jobs = &jobs
	return what, nil
}

// planText is a plan for people: what it comes to, the loads, and the first of what would happen.
func (a commands) planText(p client.Plan, limit int) string {
	s := term.Sheet{Indent: 10}
	s.Line("start", planned(len(p.Start), p.Moves))
	s.Line("stop", term.Plural(len(p.Stop), "replica"))
	pending := term.Plural(len(p.Pending), "replica")
	if len(p.Pending) > 0 {
		pending = term.Red(pending)
	}
	s.Line("pending", pending)
	s.Line("rounds", term.Count(p.Rounds))
	s.Line("budget", term.OneLine(p.Budget.Text))
	s.Line("weakest", term.OneLine(strings.Join(p.Budget.Weakest, ", ")))
	text := s.String() + a.loadTable(p, 2*limit)
	for _, part := range []struct {
		head string
		list []client.Planned
	}{{"START", p.Start}, {"STOP", p.Stop}, {"PENDING", p.Pending}} {
		text += a.plannedTable(part.head, part.list, limit)
	}
	return text
}

func planned(start, moves int) string {
	text := term.Plural(start, "replica")
	if moves > 0 {
		text += fmt.Sprintf(", %s of them by a move", term.Count(moves))
	}
	return text
}

func (a commands) plannedTable(head string, list []client.Planned, limit int) string {
	if len(list) == 0 || limit == 0 {
		return ""
	}
	t := a.Table(head, "#REPLICA", "WORKER", "REASON")
	for _, p := range list[:min(limit, len(list))] {
		t.Add(p.Job, fmt.Sprint(p.Replica), p.Worker, term.OneLine(p.Reason))
	}
	return "\n" + t.String() + andMore(len(list)-limit)
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("and %s more\n", term.Count(n))
}

// loadBar is how wide the bar of the greatest load is.
const loadBar = 20

// loadTable shows the loads of workers before and after, those that change most first, then by
// name.
func (a commands) loadTable(p client.Plan, limit int) string {
	names := map[string]bool{}
	most := 0.0
	for _, loads := range []map[string]float64{p.Before, p.After} {
		for name, load := range loads {
			names[name] = true
			most = max(most, load)
		}
	}
	if len(names) == 0 || limit == 0 {
		return ""
	}
	change := func(name string) float64 { return math.Abs(p.After[name] - p.Before[name]) }
	order := slices.SortedFunc(maps.Keys(names), func(x, y string) int {
		return cmp.Or(cmp.Compare(change(y), change(x)), strings.Compare(x, y))
	})
	t := a.Table("WORKER", "#BEFORE", "", "#AFTER", "", "#CHANGE")
	for _, name := range order[:min(limit, len(order))] {
		before, after := p.Before[name], p.After[name]
		t.Add(name, loadText(p.Before, name), loadLine(before, most), loadText(p.After, name),
			loadLine(after, most), changeText(after-before))
	}
	return "\n" + t.String() + andMore(len(order)-limit)
}

// loadText is a worker's load; "-" when it is not there.
func loadText(loads map[string]float64, name string) string {
	load, there := loads[name]
	if !there {
		return "-"
	}
	return units(load)
}

func loadLine(load, most float64) string {
	if most == 0 {
		return ""
	}
	return term.Cyan(strings.Repeat("█", int(math.Ceil(load/most*loadBar))))
}

func changeText(change float64) string {
	switch text := units(math.Abs(change)); {
	case change > 0:
		return "+" + text
	case change < 0:
		return "-" + text
	}
	return ""
}

// units is an amount of load, to the thousandth.
func units(load float64) string {
	return fmt.Sprint(math.Round(load*1000) / 1000)
}
