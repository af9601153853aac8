package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The writes of the contract about jobs, each by plan.

func (f *Store) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	return write(f, "change group", func() (store.Changed[task.Group], error) {
		return f.Store.ChangeGroup(ctx, name, change)
	})
}

func (f *Store) DeleteGroup(ctx context.Context, name string, force bool) error {
	return tell(f, "delete group", func() error { return f.Store.DeleteGroup(ctx, name, force) })
}

func (f *Store) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	return tell(f, "ask group", func() error {
		return f.Store.AskGroup(ctx, name, refresh, rebalance)
	})
}

func (f *Store) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	return tell(f, "note source", func() error {
		return f.Store.NoteSource(ctx, group, claim, read)
	})
}

func (f *Store) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	return write(f, "change jobs", func() (store.JobsChanged, error) {
		return f.Store.ChangeJobs(ctx, c)
	})
}

func (f *Store) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	return write(f, "assign", func() (store.Assigned, error) { return f.Store.Assign(ctx, a) })
}

func (f *Store) Observe(ctx context.Context, o store.Observed) (store.Observing, error) {
	return write(f, "observe", func() (store.Observing, error) { return f.Store.Observe(ctx, o) })
}

func (f *Store) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	return write(f, "seat", func() (store.Seated, error) { return f.Store.Seat(ctx, r) })
}

func (f *Store) DeleteSeat(ctx context.Context, worker string) error {
	return tell(f, "delete seat", func() error { return f.Store.DeleteSeat(ctx, worker) })
}

func (f *Store) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	return tell(f, "append job log", func() error {
		return f.Store.AppendJobLog(ctx, group, job, lines)
	})
}
