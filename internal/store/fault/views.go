package fault

import (
	"context"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The calls of the contract that only people read.

func (d *Door) Task(ctx context.Context, id task.ID) (task.View, error) {
	return read(ctx, d, "Task", func() (task.View, error) { return d.Store.Task(ctx, id) })
}

func (d *Door) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	return readTwo(ctx, d, "Contexts", func() ([]task.StageContext, int32, error) {
		return d.Store.Contexts(ctx, q)
	})
}

func (d *Door) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	return readTwo(ctx, d, "Tasks", func() ([]task.View, task.ID, error) {
		return d.Store.Tasks(ctx, f, after, limit)
	})
}

func (d *Door) Children(
	ctx context.Context, q store.ChildrenQuery,
) (page []task.View, next task.ID, err error) {
	return readTwo(ctx, d, "Children", func() ([]task.View, task.ID, error) {
		return d.Store.Children(ctx, q)
	})
}

func (d *Door) Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error) {
	return read(ctx, d, "Families", func() ([]store.Family, error) {
		return d.Store.Families(ctx, q)
	})
}

func (d *Door) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	return read(ctx, d, "Counts", func() ([]store.QueueCounts, error) {
		return d.Store.Counts(ctx, queues...)
	})
}

func (d *Door) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	return readTwo(ctx, d, "Gates", func() (int64, []store.Gate, error) {
		return d.Store.Gates(ctx, queues...)
	})
}

func (d *Door) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, list []store.KeyGate, err error) {
	return readTwo(ctx, d, "KeyGates", func() (int64, []store.KeyGate, error) {
		return d.Store.KeyGates(ctx, queue, keys)
	})
}

func (d *Door) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	return read(ctx, d, "Keys", func() (store.KeyUses, error) { return d.Store.Keys(ctx, queue) })
}

func (d *Door) Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error) {
	return read(ctx, d, "Minutes", func() ([]history.QueueMinute, error) {
		return d.Store.Minutes(ctx, from, whole)
	})
}

func (d *Door) Ahead(ctx context.Context, id task.ID, limit int) (store.Ahead, error) {
	return read(ctx, d, "Ahead", func() (store.Ahead, error) {
		return d.Store.Ahead(ctx, id, limit)
	})
}

func (d *Door) History(ctx context.Context, q history.Question) ([]history.Period, error) {
	return read(ctx, d, "History", func() ([]history.Period, error) {
		return d.Store.History(ctx, q)
	})
}

func (d *Door) RunTimes(ctx context.Context, queue string, limit int) ([]store.RunTime, error) {
	return read(ctx, d, "RunTimes", func() ([]store.RunTime, error) {
		return d.Store.RunTimes(ctx, queue, limit)
	})
}
