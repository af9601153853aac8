package storetest

import (
	"context"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// plantedJobs are the verbs about jobs of a planted model.
type plantedJobs struct {
	changeGroup func(context.Context, string, rows.Change[task.Group]) (rows.Changed[task.Group], error)
	deleteGroup func(context.Context, string, bool) error
	changeJobs  func(context.Context, rows.JobChange) (rows.JobsChanged, error)
	changes     func(context.Context, string, int64) (rows.Changes, error)
	assign      func(context.Context, rows.Assign) (rows.Assigned, error)
	observed    func(context.Context, rows.Observed) (rows.Observing, error)
	seat        func(context.Context, rows.SeatRequest) (rows.Seated, error)
	deleteSeat  func(context.Context, string) error
}

func plantJobs(m *Model) plantedJobs {
	return plantedJobs{
		changeGroup: m.ChangeGroup, deleteGroup: m.DeleteGroup, changeJobs: m.ChangeJobs, changes: m.Changes, assign: m.Assign, observed: m.Observe,
		seat: m.Seat, deleteSeat: m.DeleteSeat,
	}
}

func (p *planted) ChangeGroup(ctx context.Context, name string, change rows.Change[task.Group]) (rows.Changed[task.Group], error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeGroup(ctx, name, change)
}

func (p *planted) DeleteGroup(ctx context.Context, name string, force bool) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteGroup(ctx, name, force)
}

func (p *planted) ChangeJobs(ctx context.Context, c rows.JobChange) (rows.JobsChanged, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeJobs(ctx, c)
}

func (p *planted) Changes(ctx context.Context, group string, after int64) (rows.Changes, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changes(ctx, group, after)
}

func (p *planted) Assign(ctx context.Context, a rows.Assign) (rows.Assigned, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.assign(ctx, a)
}

func (p *planted) Observe(ctx context.Context, o rows.Observed) (rows.Observing, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.observed(ctx, o)
}

func (p *planted) Seat(ctx context.Context, r rows.SeatRequest) (rows.Seated, error) {
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
func (p *planted) place(group, job, worker string) *rows.Assignment {
	if g := p.group(group); g != nil {
		return g.places[site{job, worker}]
	}
	return nil
}
