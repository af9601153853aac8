package dispatch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// remembered is how long the store remembers a worker's drain.
const remembered = 365 * 24 * time.Hour

const workerPrefix = "worker/"

// recallWorkers reads what operators said of workers, at any node.
func (d *Dispatcher) recallWorkers(ctx context.Context) error {
	d.confMu.Lock()
	defer d.confMu.Unlock()
	got, err := d.store.Beat(ctx, nil, remembered, workerPrefix)
	if err != nil {
		return fmt.Errorf("read workers: %w", err)
	}
	drained := make(map[string]rows.Lease, len(got.Leases))
	for _, l := range got.Leases {
		if l.Until != 0 {
			drained[strings.TrimPrefix(l.Name, workerPrefix)] = l
		}
	}
	now := time.Now()
	var a answers
	d.mu.Lock()
	for name := range drained {
		d.worker(name, time.Time{})
	}
	for name, w := range d.workers {
		l, draining := drained[name]
		if w.lease = l; w.draining == draining {
			continue
		}
		w.draining = draining
		w.reorder()
		d.matchWorker(w, now, &a)
	}
	d.mu.Unlock()
	a.send()
	return nil
}

// Workers lists what this node knows of workers, by name.
func (d *Dispatcher) Workers(context.Context) ([]task.Worker, error) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]task.Worker, 0, len(d.workers))
	for _, name := range slices.Sorted(maps.Keys(d.workers)) {
		w := d.workers[name]
		list = append(list, task.Worker{
			Name: w.name, Node: d.conf.Holder.Node, Active: len(w.waiting) > 0 || now.Sub(w.seen) < max(task.DefaultSilence, w.patience), Draining: w.draining, Capacity: w.capacity,
			Load: w.shares, Labels: maps.Clone(w.labels), Zone: w.zone, Running: len(w.out), Jobs: w.jobs, Seen: w.seen,
		})
	}
	return list, nil
}

// DrainWorker makes a worker take nothing new, or lets it take again. It is remembered across restarts.
func (d *Dispatcher) DrainWorker(ctx context.Context, name string, drain bool) error {
	d.confMu.Lock()
	defer d.confMu.Unlock()
	d.mu.Lock()
	w := d.workers[name]
	d.mu.Unlock()
	if w == nil {
		return fmt.Errorf("drain worker %q: %w", name, rows.ErrNotFound)
	}
	lease, err := d.remember(ctx, w, drain)
	if err != nil {
		d.note(err)
		return fmt.Errorf("remember drain of worker %q: %w", name, err)
	}
	var a answers
	d.mu.Lock()
	w.draining, w.lease = drain, lease
	w.reorder()
	d.matchWorker(w, time.Now(), &a)
	d.mu.Unlock()
	a.send()
	return nil
}

// remember writes a drain down, or removes what was written.
func (d *Dispatcher) remember(ctx context.Context, w *worker, drain bool) (rows.Lease, error) {
	if !drain {
		return rows.Lease{}, d.forgetDrain(ctx, w.lease)
	}
	got, err := d.store.AcquireAll(ctx, anyNode, []rows.Lease{{Name: workerPrefix + w.name}}, remembered, math.MaxInt64)
	if err != nil {
		return rows.Lease{}, err
	}
	if len(got.Leases) == 0 {
		return rows.Lease{}, fmt.Errorf("lease %q is another's: %w", workerPrefix+w.name, rows.ErrConflict)
	}
	return got.Leases[0], nil
}

func (d *Dispatcher) forgetDrain(ctx context.Context, l rows.Lease) error {
	if l.Token == 0 {
		return nil
	}
	return d.store.EndAll(ctx, []rows.Lease{l}, true)
}

// DeleteWorker gives back what a worker holds and forgets it.
func (d *Dispatcher) DeleteWorker(ctx context.Context, name string) error {
	d.confMu.Lock()
	defer d.confMu.Unlock()
	d.mu.Lock()
	w := d.workers[name]
	if w == nil {
		d.mu.Unlock()
		return fmt.Errorf("delete worker %q: %w", name, rows.ErrNotFound)
	}
	d.compare(w, nil, false, true)
	w.retire()
	w.beats = true // what could not be given back is found by its silence
	if len(w.out) == 0 {
		delete(d.workers, name)
	}
	lease := w.lease
	w.lease = rows.Lease{}
	d.mu.Unlock()
	if err := d.forgetDrain(ctx, lease); err != nil {
		d.note(err)
		return fmt.Errorf("forget worker %q: %w", name, err)
	}
	return nil
}
