package model

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// plantedJobs are the verbs about jobs of a planted model.
type plantedJobs struct {
	changeGroup func(context.Context, string, store.Change[task.Group]) (store.Changed[task.Group],
		error)
	deleteGroup func(context.Context, string, bool) error
	changeJobs  func(context.Context, store.JobChange) (store.JobsChanged, error)
	changes     func(context.Context, string, int64) (store.Changes, error)
	assign      func(context.Context, store.Assign) (store.Assigned, error)
	observed    func(context.Context, store.Observed) (store.Observing, error)
	seat        func(context.Context, store.SeatRequest) (store.Seated, error)
	deleteSeat  func(context.Context, string) error
}

func plantJobs(m *Model) plantedJobs {
	return plantedJobs{
		changeGroup: m.ChangeGroup, deleteGroup: m.DeleteGroup, changeJobs: m.ChangeJobs,
		changes: m.Changes, assign: m.Assign, observed: m.Observe,
		seat: m.Seat, deleteSeat: m.DeleteSeat,
	}
}

func (p *planted) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeGroup(ctx, name, change)
}

func (p *planted) DeleteGroup(ctx context.Context, name string, force bool) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteGroup(ctx, name, force)
}

func (p *planted) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeJobs(ctx, c)
}

func (p *planted) Changes(ctx context.Context, group string, after int64) (store.Changes, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changes(ctx, group, after)
}

func (p *planted) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.assign(ctx, a)
}

func (p *planted) Observe(ctx context.Context, o store.Observed) (store.Observing, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.observed(ctx, o)
}

func (p *planted) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.seat(ctx, r)
}

func (p *planted) DeleteSeat(ctx context.Context, worker string) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteSeat(ctx, worker)
}

// group is the model's, nil when there is none.
func (p *planted) group(name string) *jobGroup { return p.jobs.groups[name] }

// place is what the model knows of a job at a worker, nil when it knows nothing.
func (p *planted) place(group, job, worker string) *store.Assignment {
	if g := p.group(group); g != nil {
		return g.places[site{job, worker}]
	}
	return nil
}
