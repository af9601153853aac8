package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// forever is the time to live of what stands until somebody takes it back.
const forever = 100 * 365 * 24 * time.Hour

// RefusedError says why something is not done with a node.
type RefusedError struct {
	Verb     string // what was to be done: "drain", …
	Node     string
	Reason   string
	Forcible bool           // with force it is done all the same
	Budget   balance.Budget // of a drain: as it would be with the node drained
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s node %q: %s", e.Verb, e.Node, e.Reason)
}

func undrainable(node, reason string, after balance.Budget) error {
	return &RefusedError{Verb: "drain", Node: node, Reason: reason, Forcible: true, Budget: after}
}

// Drain lets a node take nothing new and give its keys back after their current work, within a
// beat. Without force it is refused (*RefusedError) when it is the last that works, or when the
// cluster could then bear fewer deaths than is promised. There is no such node: store.ErrNotFound.
// Another drain takes too long: store.ErrBusy.
func (d *decisions) Drain(ctx context.Context, node, by string, force bool) error {
	if err := d.drain(ctx, node, by, force); err != nil {
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			return err
		}
		return fmt.Errorf("drain node %q: %w", node, err)
	}
	return nil
}

// drain goes by what stands in the store now, not by what the last round saw, and lets one at a
// time do so: many at once would each find that enough nodes are left.
func (d *decisions) drain(ctx context.Context, node, by string, force bool) error {
	value, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return err
	}
	turn, err := d.drainTurn(ctx)
	if err != nil {
		return err
	}
	defer d.conf.Leases.EndAll(context.WithoutCancel(ctx), turn, true) // else it ends by itself
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	v, err := d.fresh(ctx)
	if err != nil {
		return err
	}
	v.budget = v.fault()
	if v.find(node) == nil {
		return store.ErrNotFound
	}
	if err := v.drainable(node); err != nil && !force {
		return err
	}
	_, err = d.conf.Leases.AcquireAll(ctx, drainPrefix,
		[]store.Lease{{Name: drainPrefix + node, Value: value}}, forever, math.MaxInt64)
	return err
}

// drainTurn waits until nobody else decides about a drain, a few beats at most.
func (d *decisions) drainTurn(ctx context.Context) ([]store.Lease, error) {
	const name = chorePrefix + "drain"
	holder := fmt.Sprintf("%s#%d", holderOf(d.conf.Name, d.conf.Start), d.drains.Add(1))
	for range 20 {
		got, err := d.conf.Leases.AcquireAll(ctx, holder, []store.Lease{{Name: name}}, d.conf.TTL/3,
			math.MaxInt64)
		if err != nil || len(got.Leases) > 0 {
			return got.Leases, err
		}
		select {
		case <-time.After(d.conf.Beat / 5):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("another drain is being decided: %w", store.ErrBusy)
}

// Undrain lets a node take work again, within a beat. One that was not drained stays as it is.
func (d *decisions) Undrain(ctx context.Context, node string) error {
	beat, err := d.conf.Leases.Beat(ctx, nil, d.conf.TTL, drainPrefix+node)
	if err != nil {
		return fmt.Errorf("undrain node %q: %w", node, err)
	}
	for _, row := range beat.Leases {
		if row.Name != drainPrefix+node {
			continue
		}
		if err := d.conf.Leases.EndAll(ctx, []store.Lease{row}, true); err != nil {
			return fmt.Errorf("undrain node %q: %w", node, err)
		}
	}
	return nil
}

// drainable says why a node should not be drained, or nil.
func (v *view) drainable(node string) error {
	was, working := false, 0
	for _, n := range v.snapshots[0].Nodes {
		switch {
		case n.Name == node:
			was = n.Working
		case n.Working:
			working++
		}
	}
	without := *v
	without.snapshots = slices.Clone(v.snapshots)
	for i := range without.snapshots {
		s := &without.snapshots[i]
		s.Nodes = slices.Clone(s.Nodes)
		for k := range s.Nodes {
			s.Nodes[k].Working = s.Nodes[k].Working && s.Nodes[k].Name != node
		}
	}
	after := without.fault()
	switch {
	case !was: // it works no more: draining it takes nothing away
		return nil
	case working == 0:
		return undrainable(node, "it is the last node that works", after)
	case after.Broken() && after.AtOnce < v.budget.AtOnce:
		return undrainable(node, fmt.Sprintf("%d nodes could die at once then, and %d is promised",
			after.AtOnce, after.Tolerance), after)
	}
	return nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
