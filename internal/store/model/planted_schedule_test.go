package model

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// plantedSchedules are the verbs about schedules of a planted model.
type plantedSchedules struct {
	changeSchedules func(context.Context, store.ScheduleChange) ([]store.Schedule, error)
	deleteSchedule  func(context.Context, string) error
	deleteCalendar  func(context.Context, string) error
	dueOnes         func(context.Context, store.DueQuery) ([]store.Schedule, error)
	eras            func(context.Context, string, int64) ([]store.Schedule, error)
	schedules       func(context.Context, store.ScheduleQuery) ([]store.Schedule, error)
	fire            func(context.Context, store.Firing) (store.Fired, error)
	fires           func(context.Context, store.FireQuery) ([]store.Fire, error)
	openFires       func(context.Context, store.OpenQuery) ([]store.OpenFire, error)
}

func plantSchedules(m *Model) plantedSchedules {
	return plantedSchedules{
		changeSchedules: m.ChangeSchedules, deleteSchedule: m.DeleteSchedule,
		deleteCalendar: m.DeleteCalendar, dueOnes: m.Due, eras: m.Eras,
		schedules: m.Schedules, fire: m.Fire, fires: m.Fires, openFires: m.OpenFires,
	}
}

func (p *planted) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) ([]store.Schedule, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeSchedules(ctx, c)
}

func (p *planted) DeleteSchedule(ctx context.Context, name string) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteSchedule(ctx, name)
}

func (p *planted) DeleteCalendar(ctx context.Context, name string) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteCalendar(ctx, name)
}

func (p *planted) Due(ctx context.Context, q store.DueQuery) ([]store.Schedule, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.dueOnes(ctx, q)
}

func (p *planted) Eras(ctx context.Context, name string, from int64) ([]store.Schedule, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.eras(ctx, name, from)
}

func (p *planted) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.schedules(ctx, q)
}

func (p *planted) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.fire(ctx, f)
}

func (p *planted) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.fires(ctx, q)
}

func (p *planted) OpenFires(ctx context.Context, q store.OpenQuery) ([]store.OpenFire, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.openFires(ctx, q)
}

// schedule is the model's, nil when there is none.
func (p *planted) schedule(name string) *schedule { return p.sched.schedules[name] }

// rowsThat lists the model's rows of fires that are such ones.
func (p *planted) rowsThat(such func(*store.Fire) bool) (keys []store.FireKey) {
	for k, f := range p.sched.fires {
		if such(f) {
			keys = append(keys, k)
		}
	}
	return keys
}

// fired tells whether a row is fired.
func fired(f *store.Fire) bool { return f.Outcome == task.FireFired }
