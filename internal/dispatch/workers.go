package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// remembered is how long the store remembers a worker's drain.
const remembered = 365 * 24 * time.Hour

// recallWorkers reads what operators said of workers before this process started.
func (d *Dispatcher) recallWorkers(ctx context.Context) error {
	leases, err := d.store.LeasesOf(ctx, "worker/")
	if err != nil {
		return fmt.Errorf("read workers: %w", err)
	}
	for _, l := range leases {
		w := d.worker(strings.TrimPrefix(l.Name, "worker/"), time.Time{})
		w.lease = l
		var said struct{ Draining bool }
		if err := json.Unmarshal(l.Value, &said); err != nil {
			return fmt.Errorf("read %q: %w", l.Name, err)
		}
		w.draining = said.Draining
	}
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
		if w.lease.Token == 0 {
			return rows.Lease{}, nil
		}
		return rows.Lease{}, d.store.End(ctx, w.lease.Name, w.lease.Token, true)
	}
	value, err := json.Marshal(struct{ Draining bool }{true})
	if err != nil {
		return rows.Lease{}, err
	}
	return d.store.Acquire(ctx, "worker/"+w.name, d.conf.Holder.Node, remembered, value)
}

// DeleteWorker gives back what a worker holds and forgets it.
func (d *Dispatcher) DeleteWorker(ctx context.Context, name string) error {
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
	if lease.Token == 0 {
		return nil
	}
	if err := d.store.End(ctx, lease.Name, lease.Token, true); err != nil {
		d.note(err)
		return fmt.Errorf("forget worker %q: %w", name, err)
	}
	return nil
}
