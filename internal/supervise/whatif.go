package supervise

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// Plan thinks a change through to its end, and changes nothing. A *task.InvalidError names workers
// that nobody knows.
func (v *Views) Plan(ctx context.Context, group string, what store.WhatIf) (store.Planned, error) {
	s, err := v.sketch(ctx, group)
	if err != nil {
		return store.Planned{}, err
	}
	before := s.end()
	after, err := s.suppose(before, what)
	if err != nil {
		return store.Planned{}, err
	}
	policy := s.policy(s.group.Policy.Moves)
	policy.Replicas = cmp.Or(what.Replicas, policy.Replicas)
	neighbours, err := v.neighbours(ctx, group)
	if err != nil {
		return store.Planned{}, err
	}
	thinking := after // with what runs now, which is in the answer
	thinking.Current = s.state.Current
	if err := tooMany(&thinking, policy.Replicas); err != nil &&
		weigh(&thinking, policy.Replicas) <= mostThought {
		return store.Planned{}, err
	}
	policy, done, err := v.think.begin(ctx, &thinking, policy)
	if err != nil {
		return store.Planned{}, err
	}
	defer done()
	out, after, err := think(before, after, policy)
	if err != nil {
		return store.Planned{}, err
	}
	out.Budget, err = plannedBudget(s.group.Name, after, policy, what, neighbours)
	return out, err
}

// plannedBudget is how many workers could die after a change, of those that its group shares with
// others.
func plannedBudget(
	group string, after place.State, p place.Policy, what store.WhatIf, neighbours []*sketch,
) (store.JobBudget, error) {
	own, err := demandOf(group, after, p)
	if err != nil {
		return store.JobBudget{}, err
	}
	lost := map[string]bool{}
	for _, list := range [][]string{what.Remove, what.Drain} {
		for _, worker := range list {
			lost[worker] = true
		}
	}
	demands := []place.Demand{own}
	for _, s := range neighbours {
		if s.group.Name == group {
			continue
		}
		d, err := s.demandWith(what.Shed)
		if err != nil {
			return store.JobBudget{}, err
		}
		demands = append(demands, d.Without(lost))
	}
	return budgetOf(&own, &place.SharedBudgets(demands)[0]), nil
}

// end is the group as it is when what ends has ended and what moves has moved.
func (s *sketch) end() place.State {
	end := s.state
	moved := map[replica]bool{} // the successors of these are there
	for _, r := range end.Current {
		if !r.Going && !r.Moving {
			moved[replica{r.Job, r.Replica}] = true
		}
	}
	end.Current = nil
	for _, r := range s.state.Current {
		if !r.Going && !(r.Moving && moved[replica{r.Job, r.Replica}]) {
			r.Moving = false
			end.Current = append(end.Current, r)
		}
	}
	return end
}

// suppose is a group after a change.
func (s *sketch) suppose(before place.State, what store.WhatIf) (place.State, error) {
	after := before
	after.Workers = slices.Clone(before.Workers)
	var wrong task.InvalidError
	index := make(map[string]int, len(after.Workers))
	for i := range after.Workers {
		index[after.Workers[i].Name] = i
	}
	find := func(name, location string) int {
		at, known := index[name]
		if !known {
			wrong.Add(location, "%q is no worker of the group", name)
			return -1
		}
		return at
	}
	for i, name := range what.Drain {
		if at := find(name, fmt.Sprintf("body.drain_workers[%d]", i)); at >= 0 {
			after.Workers[at].Draining = true
		}
	}
	for i, s := range what.Shed {
		if at := find(s.Worker, fmt.Sprintf("body.shed_workers[%d]", i)); at >= 0 {
			after.Workers[at].Shed, after.Workers[at].Draining = place.Load(s.Shed), false
		}
	}
	for i, name := range what.Remove {
		if find(name, fmt.Sprintf("body.remove_workers[%d]", i)) >= 0 {
			delete(index, name) // named again it is none
		}
	}
	after.Workers = slices.DeleteFunc(after.Workers, func(w place.Worker) bool {
		_, stays := index[w.Name]
		return !stays
	})
	if what.Jobs != nil {
		after.Jobs = make([]place.Job, len(*what.Jobs))
		for i, j := range *what.Jobs {
			after.Jobs[i] = place.Job{Name: j.Name, Load: place.Load(j.Load)}
		}
	}
	after.Workers = append(after.Workers, newcomersOf(after.Workers, what.Add)...)
	return after, wrong.Err()
}

// newcomersOf makes workers under names that nobody has.
func newcomersOf(have []place.Worker, add []store.NewSeats) (list []place.Worker) {
	taken := map[string]bool{}
	for i := range have {
		taken[have[i].Name] = true
	}
	n := 0
	for _, kind := range add {
		for range kind.Count {
			for n++; taken[fmt.Sprintf("new-%d", n)]; n++ {
			}
			list = append(list, place.Worker{
				Name: fmt.Sprintf("new-%d", n), Capacity: place.Load(kind.Capacity),
				Labels: kind.Labels, Zone: kind.Zone,
			})
		}
	}
	return list
}

// thinking is how often plans follow each other until one says nothing. With all budgets lifted the
// second one does, but for what waits for room that others leave.
const thinking = 100

// spot is one replica at one place.
type spot struct {
	replica
	worker string
}

func spotOf(r *place.Replica) spot { return spot{replica{r.Job, r.Replica}, r.Worker} }

// think finds out what a change comes to, and how the group is then.
func think(before, after place.State, policy place.Policy) (store.Planned, place.State, error) {
	wide := policy
	wide.New = -1
	if wide.Moves > 0 {
		wide.Moves = limits.MaxMoves
	}
	why := map[spot]place.Reason{}
	var plan place.Plan
	shown := divided(after) // once: other groups give up their parts meanwhile
	for range thinking {
		var err error
		if plan, err = place.Compute(shown, wide); err != nil {
			return store.Planned{}, place.State{}, err
		}
		if plan.Empty() {
			break
		}
		if err := policy.Stop(); err != nil {
			return store.Planned{}, place.State{}, err
		}
		shown.Current = apply(shown.Current, plan, why)
	}
	after.Current = shown.Current
	out := difference(before.Current, after.Current, why)
	out.Before, out.After = loads(before), loads(after)
	drains := map[string]bool{}
	for _, w := range after.Workers {
		drains[w.Name] = w.Draining
	}
	for _, stay := range plan.Stay {
		if stay.Cause != place.Shed && stay.Cause != place.Drained && !drains[stay.Worker] {
			continue // it is to leave for another reason than a drain
		}
		out.Stay = append(out.Stay, store.Placement{
			Job: stay.Job, Replica: stay.Replica, Worker: stay.Worker, State: task.JobRunning,
			Reason: reasonOf(stay.Reason),
		})
	}
	out.Rounds = rounds(out.Start, out.Moves, policy)
	for _, p := range plan.Pending {
		out.Pending = append(out.Pending, store.Placement{
			Job: p.Job, Replica: p.Replica, State: task.JobPending, Reason: reasonOf(p.Reason),
		})
	}
	return out, after, nil
}

// apply is what runs when a plan is done, and notes why.
func apply(current []place.Replica, plan place.Plan, why map[spot]place.Reason) []place.Replica {
	gone := map[spot]bool{}
	leave := func(job string, n int, worker string, reason place.Reason) {
		at := spot{replica{job, n}, worker}
		gone[at], why[at] = true, reason
	}
	for _, s := range plan.Stop {
		leave(s.Job, s.Replica, s.Worker, s.Reason)
	}
	for _, m := range plan.Move {
		leave(m.Job, m.Replica, m.From, m.Reason)
	}
	var list []place.Replica
	for i := range current {
		if !gone[spotOf(&current[i])] {
			list = append(list, current[i])
		}
	}
	for _, s := range plan.Start {
		list = append(list, place.Replica{Job: s.Job, Replica: s.Replica, Worker: s.Worker})
	}
	for _, m := range plan.Move {
		list = append(list, place.Replica{Job: m.Job, Replica: m.Replica, Worker: m.To})
		why[spot{replica{m.Job, m.Replica}, m.To}] = m.Reason
	}
	return list
}

// difference is what starts and stops between two moments, and how much of it are moves: what stops
// though its worker and its job are there.
func difference(before, after []place.Replica, why map[spot]place.Reason) (out store.Planned) {
	was, is := map[spot]bool{}, map[spot]bool{}
	for i := range before {
		was[spotOf(&before[i])] = true
	}
	for i := range after {
		is[spotOf(&after[i])] = true
	}
	left := map[replica]bool{} // these stop, but not because their worker dies
	for at := range was {
		if !is[at] {
			out.Stop = append(out.Stop, at.placement(store.Ended, why))
			left[at.replica] = why[at].Code != place.Gone
		}
	}
	for at := range is {
		if was[at] {
			continue
		}
		out.Start = append(out.Start, at.placement(task.JobStarting, why))
		if left[at.replica] {
			out.Moves++
		}
	}
	for _, list := range [][]store.Placement{out.Start, out.Stop} {
		slices.SortFunc(list, func(a, b store.Placement) int { return a.Key().Compare(b.Key()) })
	}
	return out
}

func (at spot) placement(state task.JobState, why map[spot]place.Reason) store.Placement {
	p := store.Placement{Job: at.job, Replica: at.n, Worker: at.worker, State: state}
	if r, ok := why[at]; ok {
		p.Reason = reasonOf(r)
	}
	return p
}

// loads is what each worker has in use.
func loads(s place.State) map[string]float64 {
	own := loadsOf(&s)
	out := make(map[string]float64, len(s.Workers))
	for _, w := range s.Workers {
		out[w.Name] = (w.Used + own[w.Name]).Float()
	}
	return out
}

// rounds is how many rounds it takes at least: so many moves and so many new ones a worker are made
// in one.
func rounds(start []store.Placement, moves int, p place.Policy) int {
	n := 0
	if p.Moves > 0 {
		n = (moves + p.Moves - 1) / p.Moves
	}
	gets := map[string]int{}
	for i := range start {
		gets[start[i].Worker]++
	}
	for _, k := range gets {
		if p.New > 0 {
			n = max(n, (k+p.New-1)/p.New)
		}
	}
	return n
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
