package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/place"
)

// simulation is a cluster that is only thought of.
type simulation struct {
	state   place.State
	policy  place.Policy
	load    place.Load      // of a job that says nothing else
	placed  bool            // it is given what runs; else all is placed at step 0
	workers int             // names given to workers
	jobs    int             // names given to jobs
	taken   map[string]bool // names that a copied group has brought

	steps   []stepResult
	names   []string // of all workers there ever were, in order of their coming
	pending []place.Pending
	atRest  bool
}

// stepResult is one step, and how things stand after it.
type stepResult struct {
	Step    int      `json:"step"`
	Events  []string `json:"events"`
	Start   int      `json:"start"`
	Stop    int      `json:"stop"`
	Moves   int      `json:"moves"`
	Pending int      `json:"pending"`
	// replicas that are to leave their worker and cannot yet
	Staying int            `json:"staying"`
	Reasons map[string]int `json:"reasons"` // of stops, moves, waiting and staying, by code
	// shares of capacity in use, from 0 to 1, of workers that take jobs
	Least  float64            `json:"least"`
	Most   float64            `json:"most"`
	Spread float64            `json:"spread"` // most − least
	Budget faultBudget        `json:"budget"`
	Loads  map[string]float64 `json:"loads"`

	shares map[string]float64
}

// faultBudget is how many workers can die with every replica still placeable; below 0 means that
// there is no room for all even now.
type faultBudget struct {
	Workers int      `json:"workers"`
	AtMost  int      `json:"at_most"`
	Weakest []string `json:"weakest"` // the worst first: one more than can die
}

// play plays the script to its end and on until a plan has nothing to do.
func (s *simulation) play(ctx context.Context, script []scriptEvent, limit int) error {
	last := 0
	for _, e := range script {
		last = max(last, e.step)
	}
	for step := 0; step <= limit; step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := stepResult{Step: step, Events: []string{}, Reasons: map[string]int{}}
		for len(script) > 0 && script[0].step <= step {
			if err := s.happens(script[0]); err != nil {
				return usage.Errorf("%s: %v", script[0].place, err)
			}
			now.Events = append(now.Events, script[0].text)
			script = script[1:]
		}
		empty, err := s.plan(&now)
		if err != nil {
			return err
		}
		if s.atRest = empty && step >= last; s.atRest && step > last {
			return nil // the step before was the last in which anything happened
		}
		s.steps = append(s.steps, now)
	}
	return nil
}

// plan makes a plan and carries it out.
func (s *simulation) plan(now *stepResult) (empty bool, err error) {
	policy := s.policy
	if now.Step == 0 && !s.placed {
		policy.New = -1
	}
	p, err := place.Compute(s.state, policy)
	if err != nil {
		return false, usage.Errorf("%v", err)
	}
	now.Start = len(p.Start)
	now.Stop = len(p.Stop)
	now.Moves = len(p.Move)
	now.Pending = len(p.Pending)
	now.Staying = len(p.Stay)
	for _, x := range p.Stop {
		now.Reasons[string(x.Reason.Code)]++
	}
	for _, x := range p.Move {
		now.Reasons[string(x.Reason.Code)]++
	}
	for _, x := range p.Pending {
		now.Reasons[string(x.Reason.Code)]++
	}
	for _, x := range p.Stay {
		now.Reasons[string(x.Cause)]++
	}
	s.pending = p.Pending
	s.carryOut(p)
	return p.Empty(), s.measure(now)
}

// carryOut does at once what a plan says.
func (s *simulation) carryOut(p place.Plan) {
	if p.Empty() {
		return
	}
	ends := map[place.Replica]bool{}
	for _, x := range p.Stop {
		ends[place.Replica{Job: x.Job, Replica: x.Replica, Worker: x.Worker}] = true
	}
	for _, x := range p.Move {
		ends[place.Replica{Job: x.Job, Replica: x.Replica, Worker: x.From}] = true
	}
	s.state.Current = slices.DeleteFunc(s.state.Current, func(r place.Replica) bool {
		return ends[r]
	})
	for _, x := range p.Start {
		s.state.Current = append(s.state.Current, place.Replica{
			Job: x.Job, Replica: x.Replica, Worker: x.Worker,
		})
	}
	for _, x := range p.Move {
		s.state.Current = append(s.state.Current, place.Replica{
			Job: x.Job, Replica: x.Replica, Worker: x.To,
		})
	}
	slices.SortFunc(s.state.Current, func(x, y place.Replica) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), cmp.Compare(x.Replica, y.Replica))
	})
}

// measure adds up loads and shares.
func (s *simulation) measure(now *stepResult) error {
	of := make(map[string]place.Load, len(s.state.Jobs))
	for _, j := range s.state.Jobs {
		of[j.Name] = j.Load
	}
	taken := make(map[string]place.Load, len(s.state.Workers))
	for _, r := range s.state.Current {
		taken[r.Worker] += of[r.Job]
	}
	now.Loads, now.shares = map[string]float64{}, map[string]float64{}
	var open []float64
	for _, w := range s.state.Workers {
		load := taken[w.Name] + w.Used
		now.Loads[w.Name] = load.Float()
		now.shares[w.Name] = float64(load) / float64(max(w.Capacity, 1))
		if w.Capacity > 0 && !w.Draining && matches(w.Labels, s.policy.Selector) {
			open = append(open, now.shares[w.Name])
		}
	}
	if len(open) > 0 {
		now.Least, now.Most = slices.Min(open), slices.Max(open)
		now.Spread = now.Most - now.Least
	}
	b, err := place.FaultBudget(s.state, s.policy)
	now.Budget = faultBudget{
		b.Workers, b.AtMost,
		append([]string{}, b.Weakest[:min(max(b.Workers, 0)+1, len(b.Weakest))]...),
	}
	return err
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// happens changes the cluster as an event says.
func (s *simulation) happens(e scriptEvent) error {
	switch e.verb {
	case "join":
		return s.join(e.args[0])
	case "add":
		return s.add(e.args[0])
	case "remove":
		for _, name := range e.args {
			i := slices.IndexFunc(s.state.Jobs, func(j place.Job) bool { return j.Name == name })
			if i < 0 {
				return fmt.Errorf("there is no job %q", name)
			}
			s.state.Jobs = slices.Delete(s.state.Jobs, i, i+1)
		}
		return nil
	case "replicas":
		s.policy.Replicas = e.number
		return nil
	}
	for _, arg := range e.workers() {
		chosen := s.choose(arg)
		if len(chosen) == 0 {
			return fmt.Errorf("there is no worker %q", arg)
		}
		for _, i := range chosen {
			switch w := &s.state.Workers[i]; e.verb {
			case "drain", "undrain":
				w.Draining = e.verb == "drain"
			case "resize":
				w.Capacity = e.capacity
			}
		}
		if e.verb == "kill" {
			for _, i := range slices.Backward(chosen) {
				s.state.Workers = slices.Delete(s.state.Workers, i, i+1)
			}
		}
	}
	return nil
}

// choose finds the workers of a name or of a label k=v.
func (s *simulation) choose(text string) (chosen []int) {
	key, value, labelled := strings.Cut(text, "=")
	for i, w := range s.state.Workers {
		is := w.Name == text
		if labelled {
			is = key == "zone" && w.Zone == value || matches(w.Labels, map[string]string{
				key: value,
			})
		}
		if is {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// join adds workers under names that were never given.
func (s *simulation) join(text string) error {
	specs, err := ParseWorkers(text)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		for range spec.Count {
			w := place.Worker{
				Name: s.name("w", &s.workers), Capacity: place.Load(spec.Capacity),
				Labels: maps.Clone(spec.Labels), Zone: spec.Zone,
			}
			s.state.Workers = append(s.state.Workers, w)
			s.names = append(s.names, w.Name)
		}
	}
	return nil
}

// add adds jobs under names that were never given.
func (s *simulation) add(text string) error {
	specs, err := parseJobs(text, s.load)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		for range spec.count {
			s.state.Jobs = append(s.state.Jobs, place.Job{
				Name: s.name("j", &s.jobs), Load: spec.load,
			})
		}
	}
	return nil
}

// name is a name that was never given.
func (s *simulation) name(prefix string, n *int) string {
	for *n++; s.taken[prefix+strconv.Itoa(*n)]; *n++ {
		// one of the copied group has it
	}
	return prefix + strconv.Itoa(*n)
}
