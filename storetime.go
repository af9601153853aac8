package rota

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/meter"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
)

// timedStore is a dispatcher's store that measures the calls which tasks wait for. A call takes a
// whole gather of submissions or reports along, so there are a few hundred a second at most.
type timedStore struct {
	dispatch.Store
	meter *meter.Meter
}

func (s timedStore) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	defer s.meter.Call("submit", time.Now())
	return s.Store.Submit(ctx, sub)
}

func (s timedStore) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	defer s.meter.Call("take", time.Now())
	return s.Store.Take(ctx, r)
}

func (s timedStore) Settle(ctx context.Context, set store.Settlement) (store.Settled, error) {
	defer s.meter.Call("settle", time.Now())
	return s.Store.Settle(ctx, set)
}

// timedLeases are a scheduler's leases, and measure its beats.
type timedLeases struct {
	scheduler.Leases
	meter *meter.Meter
}

func (s timedLeases) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	defer s.meter.Call("beat", time.Now())
	return s.Leases.Beat(ctx, held, ttl, prefixes...)
}

// timedFires is a firer's store, and measures what it writes of due times.
type timedFires struct {
	firing.Store
	meter *meter.Meter
}

func (s timedFires) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	defer s.meter.Call("fire", time.Now())
	return s.Store.Fire(ctx, f)
}

// timedRuns is a store that takes what workers say of jobs, and measures that.
type timedRuns struct {
	supervise.Listener
	meter *meter.Meter
}

func (s timedRuns) Observe(ctx context.Context, said store.Observed) (store.Observing, error) {
	defer s.meter.Call("observe", time.Now())
	return s.Listener.Observe(ctx, said)
}

// timedPlans is a store that takes what supervisors decide, and measures that.
type timedPlans struct {
	supervise.Writer
	meter *meter.Meter
}

func (s timedPlans) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	defer s.meter.Call("assign", time.Now())
	return s.Writer.Assign(ctx, a)
}
