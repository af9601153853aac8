package fault

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// The calls of the contract about leases, upkeep and events.

func (d *Door) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	return write(ctx, d, "Acquire", func() (store.Lease, error) {
		return d.Store.Acquire(ctx, name, holder, ttl, value)
	})
}

func (d *Door) Renew(
	ctx context.Context, leases []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	return write(ctx, d, "Renew", func() ([]store.Lease, error) {
		return d.Store.Renew(ctx, leases, ttl)
	})
}

func (d *Door) End(ctx context.Context, name string, token int64, remove bool) error {
	return tell(ctx, d, "End", func() error { return d.Store.End(ctx, name, token, remove) })
}

func (d *Door) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return write(ctx, d, "AcquireAll", func() (store.Granted, error) {
		return d.Store.AcquireAll(ctx, holder, wants, ttl, judge)
	})
}

func (d *Door) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	return tell(ctx, d, "EndAll", func() error { return d.Store.EndAll(ctx, leases, remove) })
}

func (d *Door) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return write(ctx, d, "Beat", func() (store.Beat, error) {
		return d.Store.Beat(ctx, held, ttl, prefixes...)
	})
}

func (d *Door) LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error) {
	return read(ctx, d, "LeasesOf", func() ([]store.Lease, error) {
		return d.Store.LeasesOf(ctx, prefix)
	})
}

func (d *Door) Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error) {
	return write(ctx, d, "Free", func() (int, error) { return d.Store.Free(ctx, self, judge) })
}

func (d *Door) FreeEnded(ctx context.Context) (freed int, err error) {
	return write(ctx, d, "FreeEnded", func() (int, error) { return d.Store.FreeEnded(ctx) })
}

func (d *Door) Prune(ctx context.Context, limit int) (pruned int, err error) {
	return write(ctx, d, "Prune", func() (int, error) { return d.Store.Prune(ctx, limit) })
}

func (d *Door) Check(ctx context.Context) error {
	_, err := read(ctx, d, "Check", func() (struct{}, error) {
		return struct{}{}, d.Store.Check(ctx)
	})
	return err
}

func (d *Door) Append(ctx context.Context, events []store.Event) (appended int, err error) {
	return write(ctx, d, "Append", func() (int, error) { return d.Store.Append(ctx, events) })
}

func (d *Door) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return read(ctx, d, "Events", func() (store.EventPage, error) { return d.Store.Events(ctx, q) })
}
