package dispatch

import (
	"context"
	"fmt"
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

// reloadQueues reads all configurations again.
func (d *Dispatcher) reloadQueues(ctx context.Context) error {
	d.confMu.Lock()
	defer d.confMu.Unlock()
	list, err := d.store.Queues(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	var a answers
	d.mu.Lock()
	d.configRead = now
	for _, conf := range list {
		d.configure(conf, now, &a)
	}
	d.mu.Unlock()
	a.send()
	return nil
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
	d.confMu.Lock()
	defer d.confMu.Unlock()
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
	d.configure(conf, time.Now(), &a)
	d.mu.Unlock()
	a.send()
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
	d.confMu.Lock()
	defer d.confMu.Unlock()
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
	d.confMu.Lock()
	defer d.confMu.Unlock()
	if err := d.store.DeleteQueue(ctx, name, force); err != nil {
		d.note(err)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[name]
	if q == nil {
		return nil
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
	return nil
}
