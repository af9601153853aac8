// Package simulate is `rota simulate`: it plays what becomes of jobs when workers die, join and
// drain, with the planner that looks after groups. Run reads a script of events (script.go), begins
// with a cluster that is made up or with a copy of a group (live.go), makes one plan for each step
// and carries it out (play.go), and shows the steps as a table, as JSON and as a picture (svg.go).
package simulate

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
)

// Config is what a simulation is told. Where it begins with a group, that brings workers, jobs and
// policy.
type Config struct {
	// at the start: [COUNTx]CAPACITY[@k=v[,k=v…]], more of them behind commas
	Workers []string
	// at the start: COUNT[xLOAD], more of them behind commas
	Jobs     string
	Load     float64  // of a job that says nothing else
	Replicas int      // workers that each job runs on
	Selector []string // k=v that a worker must have as a label
	// zone or worker: what the replicas of a job are kept apart by
	Spread string
	Moves  int // replicas moved in a step at most; 0 = none
	// replicas started or moved to one worker in a step at most; 0 = no limit
	New int
	// what happens: STEP: EVENT, parted by semicolons or lines
	Script     string
	ScriptName string // what errors call the script
	Steps      int    // end after so many steps at the latest
	// begin with a copy of this group, "" = with what is made up
	Live    string
	Connect func() (*client.Client, error) // to the group's cluster
	// write a picture of the loads to this file, too; "" = none
	Picture string
	Output  *term.Output // for what came of it
}

// Run plays it and shows what came of it.
func Run(ctx context.Context, conf Config) error {
	script, err := parseScript(conf.Script, conf.ScriptName)
	if err != nil {
		return err
	}
	begin := conf.madeUp
	if conf.Live != "" {
		begin = func() (*simulation, error) { return beginLive(ctx, conf) }
	}
	sim, err := begin()
	if err != nil {
		return err
	}
	if err := sim.play(ctx, script, conf.Steps); err != nil {
		return err
	}
	if conf.Picture != "" {
		if err := os.WriteFile(conf.Picture, []byte(drawLoads(sim)), 0o644); err != nil {
			return err // it names the file
		}
	}
	return conf.Output.Show(sim.view(), func() string { return text(conf.Output, sim) })
}

// resultView is a simulation in JSON.
type resultView struct {
	Steps   []stepResult  `json:"steps"`
	AtRest  bool          `json:"at_rest"` // the last plan had nothing more to do
	Pending []waitingView `json:"pending"` // replicas that wait in the end
}

type waitingView struct {
	Job     string `json:"job"`
	Replica int    `json:"replica"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

func (s *simulation) view() resultView {
	v := resultView{Steps: s.steps, AtRest: s.atRest, Pending: []waitingView{}}
	for _, p := range s.pending {
		v.Pending = append(v.Pending,
			waitingView{p.Job, p.Replica, string(p.Reason.Code), p.Reason.String()})
	}
	return v
}

// text is a table of the steps in which anything happened, and what waits in the end.
func text(o *term.Output, s *simulation) string {
	t := o.Table("#STEP", "#START", "#STOP", "#MOVE", "#PENDING", "#IN USE", "#SPREAD", "#BEARS",
		"EVENTS")
	before := -1
	for _, step := range s.steps {
		if step.idle() && step.Pending == before {
			continue // till the next event
		}
		before = step.Pending
		pending := term.Count(step.Pending)
		if step.Pending > 0 {
			pending = term.Red(pending)
		}
		t.Add(term.Count(step.Step), term.Count(step.Start), term.Count(step.Stop),
			term.Count(step.Moves), pending,
			fmt.Sprintf("%.1f–%.1f %%", 100*step.Least, 100*step.Most),
			fmt.Sprintf("%.1f %%", 100*step.Spread),
			bearsText(step.Budget), strings.Join(step.Events, "; "))
	}
	text := t.String() + "\n"
	if !s.atRest {
		text += term.Yellow(fmt.Sprintf("not at rest after %s",
			term.Plural(len(s.steps)-1, "step"))) + "\n"
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
		text += fmt.Sprintf("%s: %s\n", term.Red(term.Plural(waiting[reason], "replica")+verb),
			reason)
	}
	if len(s.pending) == 0 {
		text += term.Green("every replica runs") + "\n"
	}
	return text +
		term.Faint("BEARS: so many workers can die at once with every replica still placeable") +
		"\n"
}

func (s *stepResult) idle() bool { return s.Start+s.Stop+s.Moves+len(s.Events) == 0 && s.Step > 0 }

func bearsText(b faultBudget) string {
	switch {
	case b.AtMost < 0:
		return "-"
	case max(b.Workers, 0) < b.AtMost:
		return fmt.Sprintf("%d–%d", max(b.Workers, 0), b.AtMost)
	}
	return fmt.Sprint(b.AtMost)
}
