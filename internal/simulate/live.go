package simulate

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// beginLive begins with a copy of a group: its jobs, the workers that serve it, and what runs
// where. What is ending is taken as ended, and what moves as moved.
func beginLive(ctx context.Context, conf Config) (*simulation, error) {
	group := conf.Live
	if !limits.ValidName(group) {
		return nil, usage.Errorf("group %q %s", group, limits.NameRule)
	}
	c, err := conf.Connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	g, err := c.Group(ctx, group)
	if err != nil {
		return nil, err
	}
	jobs, err := c.Jobs(ctx, group)
	if err != nil {
		return nil, err
	}
	s := &simulation{load: place.Unit, placed: true, taken: map[string]bool{}, policy: place.Policy{
		Replicas: g.Replicas, Selector: g.Selector, Zones: g.Spread != task.SpreadWorker,
		Moves: orNone(g.Policy.Moves), New: orNone(g.Policy.New),
	}}
	own := map[string]place.Load{} // load of this group's replicas, by worker
	of := map[string]place.Load{}
	for _, j := range jobs {
		of[j.Name], s.taken[j.Name] = place.Load(j.Load), true
		s.state.Jobs = append(s.state.Jobs, place.Job{Name: j.Name, Load: place.Load(j.Load)})
	}
	for r, err := range client.All(func(cursor string) ([]client.Placement, string, error) {
		return c.Assignments(ctx, group, client.PlacementFilter{}, cursor, limits.MaxHold)
	}) {
		if err != nil {
			return nil, err
		}
		switch r.State {
		case task.JobStarting, task.JobRunning, task.JobFailed:
			own[r.Worker] += of[r.Job]
			s.state.Current = append(s.state.Current, place.Replica{
				Job: r.Job, Replica: r.Replica, Worker: r.Worker,
			})
		}
	}
	// What a change of nothing would come to names the workers that serve the group, and what they
	// carry in all.
	plan, err := c.PlanGroup(ctx, group, client.WhatIf{})
	if err != nil {
		return nil, err
	}
	workers, _, err := c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	return s, s.addServing(workers, plan.Before, own)
}

// addServing adds those of the workers that serve the group: carried is what each of them carries
// in all, and own what of that is the group's.
func (s *simulation) addServing(
	workers []task.Worker, carried map[string]float64, own map[string]place.Load,
) error {
	for _, w := range workers {
		all, serves := carried[w.Name]
		if !serves {
			continue
		}
		capacity, err := place.ParseLoad(w.Capacity)
		if err != nil {
			return err
		}
		carries, err := place.ParseLoad(all)
		if err != nil {
			return err
		}
		s.names, s.taken[w.Name] = append(s.names, w.Name), true
		s.state.Workers = append(s.state.Workers, place.Worker{
			Name: w.Name, Capacity: capacity, Used: max(carries-own[w.Name], 0), Labels: w.Labels,
			Zone: w.Zone, Draining: w.Draining,
		})
	}
	return nil
}
