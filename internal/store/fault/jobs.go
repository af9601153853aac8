package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The calls of the contract about jobs.

func (d *Door) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	return write(ctx, d, "ChangeGroup", func() (store.Changed[task.Group], error) {
		return d.Store.ChangeGroup(ctx, name, change)
	})
}

func (d *Door) Groups(ctx context.Context) ([]store.Group, error) {
	return read(ctx, d, "Groups", func() ([]store.Group, error) { return d.Store.Groups(ctx) })
}

func (d *Door) DeleteGroup(ctx context.Context, name string, force bool) error {
	return tell(ctx, d, "DeleteGroup", func() error {
		return d.Store.DeleteGroup(ctx, name, force)
	})
}

func (d *Door) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	return tell(ctx, d, "AskGroup", func() error {
		return d.Store.AskGroup(ctx, name, refresh, rebalance)
	})
}

func (d *Door) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	return tell(ctx, d, "NoteSource", func() error {
		return d.Store.NoteSource(ctx, group, claim, read)
	})
}

func (d *Door) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	return write(ctx, d, "ChangeJobs", func() (store.JobsChanged, error) {
		return d.Store.ChangeJobs(ctx, c)
	})
}

func (d *Door) Changes(ctx context.Context, group string, after int64) (store.Changes, error) {
	return read(ctx, d, "Changes", func() (store.Changes, error) {
		return d.Store.Changes(ctx, group, after)
	})
}

func (d *Door) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	return write(ctx, d, "Assign", func() (store.Assigned, error) { return d.Store.Assign(ctx, a) })
}

func (d *Door) Observe(ctx context.Context, o store.Observed) (store.Observing, error) {
	return write(ctx, d, "Observe", func() (store.Observing, error) {
		return d.Store.Observe(ctx, o)
	})
}

func (d *Door) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	return write(ctx, d, "Seat", func() (store.Seated, error) { return d.Store.Seat(ctx, r) })
}

func (d *Door) Seats(ctx context.Context, known int64) (store.Seats, error) {
	return read(ctx, d, "Seats", func() (store.Seats, error) { return d.Store.Seats(ctx, known) })
}

func (d *Door) Board(ctx context.Context, known int64) (store.Board, error) {
	return read(ctx, d, "Board", func() (store.Board, error) { return d.Store.Board(ctx, known) })
}

func (d *Door) DeleteSeat(ctx context.Context, worker string) error {
	return tell(ctx, d, "DeleteSeat", func() error { return d.Store.DeleteSeat(ctx, worker) })
}

func (d *Door) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	return tell(ctx, d, "AppendJobLog", func() error {
		return d.Store.AppendJobLog(ctx, group, job, lines)
	})
}

func (d *Door) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	return read(ctx, d, "JobLog", func() (store.LogPage, error) {
		return d.Store.JobLog(ctx, group, job, from, limit)
	})
}
