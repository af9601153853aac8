package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
)

// The writes of the contract about schedules, each by plan.

func (f *Store) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) ([]store.Schedule, error) {
	return write(f, "change schedules", func() ([]store.Schedule, error) {
		return f.Store.ChangeSchedules(ctx, c)
	})
}

func (f *Store) DeleteSchedule(ctx context.Context, name string) error {
	return tell(f, "delete schedule", func() error { return f.Store.DeleteSchedule(ctx, name) })
}

func (f *Store) DeleteCalendar(ctx context.Context, name string) error {
	return tell(f, "delete calendar", func() error { return f.Store.DeleteCalendar(ctx, name) })
}

func (f *Store) Fire(ctx context.Context, r store.Firing) (store.Fired, error) {
	return write(f, "fire", func() (store.Fired, error) { return f.Store.Fire(ctx, r) })
}
