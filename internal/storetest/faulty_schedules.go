package storetest

import (
	"context"

	"github.com/rotahq/rota/internal/rows"
)

// The writes of the contract about schedules, each by plan.

func (f *Faulty) ChangeSchedules(ctx context.Context, c rows.ScheduleChange) ([]rows.Schedule, error) {
	return write(f, "change schedules", func() ([]rows.Schedule, error) { return f.Store.ChangeSchedules(ctx, c) })
}

func (f *Faulty) DeleteSchedule(ctx context.Context, name string) error {
	return tell(f, "delete schedule", func() error { return f.Store.DeleteSchedule(ctx, name) })
}

func (f *Faulty) DeleteCalendar(ctx context.Context, name string) error {
	return tell(f, "delete calendar", func() error { return f.Store.DeleteCalendar(ctx, name) })
}

func (f *Faulty) Fire(ctx context.Context, r rows.Firing) (rows.Fired, error) {
	return write(f, "fire", func() (rows.Fired, error) { return f.Store.Fire(ctx, r) })
}
