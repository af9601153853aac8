package dispatch

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// queueConf is a queue's configuration as this node knows it.
func (d *Dispatcher) queueConf(name string) task.Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.queues[name]; q != nil {
		return q.conf
	}
	return task.DefaultQueue(name)
}

// reloadQueues reads all configurations again, unless one is changed here meanwhile: then it is up to the next round.
func (d *Dispatcher) reloadQueues(ctx context.Context) error {
	d.mu.Lock()
	before := d.configs
	d.mu.Unlock()
	list, err := d.store.Queues(ctx)
	if err != nil {
		return fmt.Errorf("read queues: %w", err)
	}
	now := time.Now()
	var a answers
	d.mu.Lock()
	if d.configs == before {
		d.configRead = now
		for _, q := range d.queues {
			q.stored = false
		}
		for _, conf := range list {
			d.configure(conf, now, &a)
		}
		for name, q := range d.queues {
			if !q.stored { // it was deleted, at any node
				q.conf = task.DefaultQueue(name)
			}
		}
	}
	d.mu.Unlock()
	a.send()
	return nil
}

// reconfigured notes that a configuration was changed here. Two changes may have come to the store in the other order than they
// are heard of, so the next round reads them.
func (d *Dispatcher) reconfigured() {
	d.configs++
	d.configRead = time.Time{}
}

// change lets one at a time change queues. It says no when ctx ends before, whose cause it answers; else done must be called.
func (d *Dispatcher) change(ctx context.Context) (done func(), err error) {
	select {
	case d.changing <- struct{}{}:
		return func() { <-d.changing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// spread tells the other nodes, with their next beat, that a configuration has changed. They would find out by themselves, later.
func (d *Dispatcher) spread(ctx context.Context) {
	if _, err := d.store.AcquireAll(ctx, anyNode, []rows.Lease{{Name: queuesWord}}, remembered, math.MaxInt64); err != nil {
		d.note(err)
		d.log.Warn("tell other nodes of a queue's configuration", "error", err)
	}
}

// configure takes a queue's configuration over. A queue that was not known may have ready tasks in the store.
func (d *Dispatcher) configure(conf task.Queue, now time.Time, a *answers) {
	q := d.queues[conf.Name]
	if q == nil {
		q = d.queue(conf.Name)
		q.sign()
		q.backlog = true
	}
	q.stored = true
	if q.conf.Paused && !conf.Paused {
		q.sign()
		q.backlog = true
	}
	q.conf = conf
	d.match(q, now, a)
}

// PutQueue creates or replaces a queue's configuration. *task.InvalidError says what is wrong with it.
func (d *Dispatcher) PutQueue(ctx context.Context, conf task.Queue) (created bool, err error) {
	done, err := d.change(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	return d.putQueue(ctx, conf)
}

func (d *Dispatcher) putQueue(ctx context.Context, conf task.Queue) (created bool, err error) {
	var e task.InvalidError
	if conf.Check(&e, "body"); e.Err() != nil {
		return false, &e
	}
	created, err = d.store.PutQueue(ctx, conf)
	if err != nil {
		d.note(err)
		return false, err
	}
	var a answers
	d.mu.Lock()
	d.reconfigured()
	d.configure(conf, time.Now(), &a)
	d.mu.Unlock()
	a.send()
	d.spread(ctx)
	return created, nil
}

// Queues lists the configurations, by name.
func (d *Dispatcher) Queues(ctx context.Context) ([]task.Queue, error) {
	list, err := d.store.Queues(ctx)
	if err != nil {
		d.note(err)
		return nil, err
	}
	return list, nil
}

// PauseQueue stops handing out a queue's tasks, or goes on. What runs goes on; what is held is given back within a beat.
func (d *Dispatcher) PauseQueue(ctx context.Context, name string, paused bool) error {
	done, err := d.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	list, err := d.Queues(ctx)
	if err != nil {
		return err
	}
	for _, conf := range list {
		if conf.Name == name {
			conf.Paused = paused
			_, err := d.putQueue(ctx, conf)
			return err
		}
	}
	return fmt.Errorf("queue %q: %w", name, rows.ErrNotFound)
}

// DeleteQueue deletes a queue with all its tasks. With unfinished ones and without force: rows.ErrConflict.
func (d *Dispatcher) DeleteQueue(ctx context.Context, name string, force bool) error {
	done, err := d.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.store.DeleteQueue(ctx, name, force); err != nil {
		d.note(err)
		return err
	}
	d.forgetQueue(name)
	d.spread(ctx)
	return nil
}

// forgetQueue drops what memory has of a queue that was deleted.
func (d *Dispatcher) forgetQueue(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reconfigured()
	q := d.queues[name]
	if q == nil {
		return
	}
	for _, it := range d.items {
		if it.queue == q {
			if it.place == out {
				it.worker.changed()
			}
			d.forget(it)
			d.tellWatchers(it.id)
		}
	}
	q.conf, q.stored, q.backlog, q.look = task.DefaultQueue(name), false, false, false
}
