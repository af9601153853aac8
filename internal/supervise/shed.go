package supervise

import (
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
)

// divided is a state as the planner of its group is to see it: of what workers are to shed, the
// group's part. Did the planner of each group that shares a worker see all of it, they would empty
// the worker together. What other groups can't give up is this one's to give up a round later, when
// the parts are of what is left.
func divided(s place.State) place.State {
	if !slices.ContainsFunc(s.Workers, func(w place.Worker) bool { return w.Shed > 0 }) {
		return s
	}
	own := loadsOf(&s)
	s.Workers = slices.Clone(s.Workers)
	for i := range s.Workers {
		w := &s.Workers[i]
		w.Shed = partOf(w, own[w.Name])
	}
	return s
}

// partOf is what a group that has own on a worker, where other groups have w.Used, is to see of
// what the worker is to shed.
func partOf(w *place.Worker, own place.Load) place.Load {
	keep := w.Capacity - w.Shed
	if keep <= 0 || w.Used+own <= keep {
		return w.Shed
	}
	part := place.Load(float64(keep) * (float64(own) / float64(w.Used+own)))
	return max(w.Capacity-w.Used-max(keep-w.Used, part), 0)
}

// loadsOf is what each worker has of a group.
func loadsOf(s *place.State) map[string]place.Load {
	of := make(map[string]place.Load, len(s.Jobs))
	for _, j := range s.Jobs {
		of[j.Name] = j.Load
	}
	own := make(map[string]place.Load, len(s.Workers))
	for _, r := range s.Current {
		load, listed := of[r.Job]
		if !listed {
			load = r.Load
		}
		own[r.Worker] += load
	}
	return own
}

// takeAway ends what is still where it was to leave, once the time is up that was given for it. It
// starts elsewhere where there is a place.
func (p *snapshot) takeAway(in *plan, stays []place.Stay) {
	by := map[string]int64{}
	for _, s := range p.seats {
		if s.DrainBy == 0 {
			continue
		}
		by[s.Worker] = s.DrainBy
		if s.DrainBy > p.now {
			in.later(s.DrainBy)
		}
	}
	for _, s := range stays {
		if s.Cause != place.Drained && s.Cause != place.Shed {
			continue
		}
		a := p.find(s.Job, s.Replica, s.Worker)
		if until := by[s.Worker]; until != 0 && until <= p.now && a != nil && lives(a.State) {
			in.end(a, Why(s.Cause))
		}
	}
}

// demandWith is what the group asks of its workers when some of them are to shed so much.
func (s *sketch) demandWith(shed []store.ToShed) (place.Demand, error) {
	if len(shed) == 0 {
		return s.demand()
	}
	state := s.state
	state.Workers = slices.Clone(state.Workers)
	for i := range state.Workers {
		for _, what := range shed {
			if state.Workers[i].Name == what.Worker {
				state.Workers[i].Shed, state.Workers[i].Draining = place.Load(what.Shed), false
			}
		}
	}
	return demandOf(s.group.Name, state, s.policy(s.group.Policy.Moves))
}
