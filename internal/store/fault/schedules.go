package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The calls of the contract about schedules.

func (d *Door) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) ([]store.Schedule, error) {
	return write(ctx, d, "ChangeSchedules", func() ([]store.Schedule, error) {
		return d.Store.ChangeSchedules(ctx, c)
	})
}

func (d *Door) DeleteSchedule(ctx context.Context, name string) error {
	return tell(ctx, d, "DeleteSchedule", func() error { return d.Store.DeleteSchedule(ctx, name) })
}

func (d *Door) DeleteCalendar(ctx context.Context, name string) error {
	return tell(ctx, d, "DeleteCalendar", func() error { return d.Store.DeleteCalendar(ctx, name) })
}

func (d *Door) Calendars(ctx context.Context) ([]task.Calendar, error) {
	return read(ctx, d, "Calendars", func() ([]task.Calendar, error) {
		return d.Store.Calendars(ctx)
	})
}

func (d *Door) ScheduleKeys(ctx context.Context, limit int) (store.ScheduleKeys, error) {
	return read(ctx, d, "ScheduleKeys", func() (store.ScheduleKeys, error) {
		return d.Store.ScheduleKeys(ctx, limit)
	})
}

func (d *Door) ScheduleStands(ctx context.Context, late int64) ([]store.ScheduleStand, error) {
	return read(ctx, d, "ScheduleStands", func() ([]store.ScheduleStand, error) {
		return d.Store.ScheduleStands(ctx, late)
	})
}

func (d *Door) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	return read(ctx, d, "Schedules", func() ([]store.Schedule, error) {
		return d.Store.Schedules(ctx, q)
	})
}

func (d *Door) Due(ctx context.Context, q store.DueQuery) ([]store.Schedule, error) {
	return read(ctx, d, "Due", func() ([]store.Schedule, error) { return d.Store.Due(ctx, q) })
}

func (d *Door) Eras(ctx context.Context, schedule string, from int64) ([]store.Schedule, error) {
	return read(ctx, d, "Eras", func() ([]store.Schedule, error) {
		return d.Store.Eras(ctx, schedule, from)
	})
}

func (d *Door) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	return write(ctx, d, "Fire", func() (store.Fired, error) { return d.Store.Fire(ctx, f) })
}

func (d *Door) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	return read(ctx, d, "Fires", func() ([]store.Fire, error) { return d.Store.Fires(ctx, q) })
}

func (d *Door) RunFires(ctx context.Context, run store.FireKey, limit int) ([]store.Fire, error) {
	return read(ctx, d, "RunFires", func() ([]store.Fire, error) {
		return d.Store.RunFires(ctx, run, limit)
	})
}

func (d *Door) OpenFires(ctx context.Context, q store.OpenQuery) ([]store.OpenFire, error) {
	return read(ctx, d, "OpenFires", func() ([]store.OpenFire, error) {
		return d.Store.OpenFires(ctx, q)
	})
}
