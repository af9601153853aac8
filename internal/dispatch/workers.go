package dispatch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What operators say of workers and queues stands in leases, and every node's beat reads those: a
// word said at one node holds at all of them a beat later.
const (
	remembered  = 365 * 24 * time.Hour // how long the store remembers a word
	drainPrefix = "worker/"            // a worker that is to take nothing new
	// its token grows with each change of a queue's configuration
	queuesWord = "queues/changed"
)

// Words are the prefixes of the leases that HearStore wants to see.
func Words() []string { return []string{drainPrefix, queuesWord} }

// recall takes in what operators said, at any node, as a call of the store found it that was asked
// then.
func (m *memory) recall(asked, now time.Time, words []store.Lease) {
	drained := map[string]bool{}
	for _, l := range words {
		switch name, drain := strings.CutPrefix(l.Name, drainPrefix); {
		case drain && l.Until != 0:
			drained[name] = true
			m.worker(name, time.Time{})
		case l.Name == queuesWord && l.Token > m.configWord:
			m.configWord = l.Token
			m.configRead = time.Time{}
		}
	}
	var news []string
	for name, w := range m.workers {
		if w.draining != drained[name] && asked.After(w.wordAt) {
			news = append(news, name)
		}
	}
	slices.Sort(news)
	for _, name := range news {
		m.workers[name].drain(drained[name], now)
	}
}

// drain lets a worker take nothing new, or take again.
func (w *worker) drain(yes bool, now time.Time) {
	w.draining = yes
	w.reorder()
	w.match(now)
}

// Workers lists what this node knows of workers, by name.
func (d *Dispatcher) Workers(context.Context) ([]task.Worker, error) {
	now := time.Now()
	d.mu.Lock()
	defer d.release()
	return d.mem.listWorkers(now), nil
}

func (m *memory) listWorkers(now time.Time) []task.Worker {
	list := make([]task.Worker, 0, len(m.workers))
	for _, name := range slices.Sorted(maps.Keys(m.workers)) {
		w := m.workers[name]
		state := w.state(now)
		list = append(list, task.Worker{
			Name: w.name, Node: m.conf.Holder.Node, State: state,
			Active:   state == task.WorkerActive || state == task.WorkerDraining,
			Draining: w.draining, Capacity: w.capacity,
			Load: w.shares, Labels: maps.Clone(w.labels), Zone: w.zone, Running: w.hands(),
			Free: max(w.room(), 0), Queues: slices.Sorted(maps.Keys(w.asked)),
			Jobs: w.jobs, Seen: w.seen,
		})
	}
	return list
}

// state is how the worker stands.
func (w *worker) state(now time.Time) task.WorkerState {
	switch {
	case w.left:
		return task.WorkerLeft
	case len(w.waiting) == 0 && now.Sub(w.seen) >= max(limits.DefaultSilence, w.patience):
		return task.WorkerSilent
	case w.draining:
		return task.WorkerDraining
	}
	return task.WorkerActive
}

// DrainWorker makes a worker take nothing new, or lets it take again. It is remembered across
// restarts.
func (d *Dispatcher) DrainWorker(ctx context.Context, name string, drain bool) error {
	d.mu.Lock()
	w := d.mem.workers[name]
	d.release()
	if w == nil { // another node may have been told that it drains, and may be gone
		remembered := false
		if !drain {
			var err error
			if remembered, err = d.forgetDrain(ctx, name); err != nil {
				d.note(err)
				return fmt.Errorf("forget the drain of worker %q: %w", name, err)
			}
		}
		if remembered {
			return nil
		}
		return fmt.Errorf("drain worker %q: %w", name, store.ErrNotFound)
	}
	if err := d.remember(ctx, name, drain); err != nil {
		d.note(err)
		return fmt.Errorf("remember drain of worker %q: %w", name, err)
	}
	now := time.Now()
	d.mu.Lock()
	w.wordAt = now
	w.drain(drain, now)
	d.release()
	return nil
}

// remember writes a drain down, or removes what was written.
func (d *Dispatcher) remember(ctx context.Context, name string, drain bool) error {
	if !drain {
		_, err := d.forgetDrain(ctx, name)
		return err
	}
	_, err := d.store.AcquireAll(ctx, anyNode, []store.Lease{{Name: drainPrefix + name}},
		remembered, math.MaxInt64)
	return err
}

// forgetDrain removes what was written of a worker, at whichever node, and reports whether anything
// was.
func (d *Dispatcher) forgetDrain(ctx context.Context, name string) (found bool, err error) {
	got, err := d.store.Beat(ctx, nil, remembered, drainPrefix+name)
	if err != nil {
		return false, err
	}
	words := slices.DeleteFunc(got.Leases, func(l store.Lease) bool {
		return l.Name != drainPrefix+name
	})
	if len(words) == 0 {
		return false, nil
	}
	return true, d.store.EndAll(ctx, words, true)
}

// DeleteWorker gives back what a worker holds and forgets it.
func (d *Dispatcher) DeleteWorker(ctx context.Context, name string) error {
	d.mu.Lock()
	w := d.mem.workers[name]
	if w == nil {
		d.release()
		return fmt.Errorf("delete worker %q: %w", name, store.ErrNotFound)
	}
	w.drop(time.Now())
	d.release()
	if _, err := d.forgetDrain(ctx, name); err != nil {
		d.note(err)
		return fmt.Errorf("forget worker %q: %w", name, err)
	}
	return nil
}

// drop gives back what a worker holds, and forgets it once it holds nothing.
func (w *worker) drop(now time.Time) {
	w.compare(nil, false, true, now)
	w.retire()
	w.beats = true // what could not be given back is found by its silence
	if w.hands() == 0 {
		delete(w.memory.workers, w.name)
	}
}
