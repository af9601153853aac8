package fault

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// The calls of the contract about what people configure.

func (d *Door) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	return write(ctx, d, "ChangeQueue", func() (store.Changed[task.Queue], error) {
		return d.Store.ChangeQueue(ctx, name, change)
	})
}

func (d *Door) ChangeKey(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
	return write(ctx, d, "ChangeKey", func() (store.KeyRule, error) {
		return d.Store.ChangeKey(ctx, c)
	})
}

func (d *Door) Queues(ctx context.Context) ([]task.Queue, error) {
	return read(ctx, d, "Queues", func() ([]task.Queue, error) { return d.Store.Queues(ctx) })
}

func (d *Door) DeleteQueue(ctx context.Context, name string, force bool) error {
	return tell(ctx, d, "DeleteQueue", func() error {
		return d.Store.DeleteQueue(ctx, name, force)
	})
}

func (d *Door) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	return write(ctx, d, "ChangeNotifier", func() (store.Changed[store.Notifier], error) {
		return d.Store.ChangeNotifier(ctx, name, change)
	})
}

func (d *Door) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	return read(ctx, d, "Notifiers", func() ([]store.Notifier, error) {
		return d.Store.Notifiers(ctx)
	})
}

func (d *Door) DeleteNotifier(ctx context.Context, name string) error {
	return tell(ctx, d, "DeleteNotifier", func() error { return d.Store.DeleteNotifier(ctx, name) })
}

func (d *Door) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (ok bool, err error) {
	return write(ctx, d, "Advance", func() (bool, error) {
		return d.Store.Advance(ctx, name, from, to)
	})
}

func (d *Door) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (store.Changed[store.Hook], error) {
	return write(ctx, d, "ChangeHook", func() (store.Changed[store.Hook], error) {
		return d.Store.ChangeHook(ctx, name, change)
	})
}

func (d *Door) Hooks(ctx context.Context) ([]store.Hook, error) {
	return read(ctx, d, "Hooks", func() ([]store.Hook, error) { return d.Store.Hooks(ctx) })
}

func (d *Door) DeleteHook(ctx context.Context, name string) error {
	return tell(ctx, d, "DeleteHook", func() error { return d.Store.DeleteHook(ctx, name) })
}
