package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ChangeKey pauses a group key of a queue, lets it go on, or gives its turn a weight. What runs of
// it goes on. store.ErrNotFound without the queue; *task.InvalidError says what is wrong.
func (d *Dispatcher) ChangeKey(
	ctx context.Context, c store.KeyChange,
) (store.KeyRule, error) {
	done, err := d.change(ctx)
	if err != nil {
		return store.KeyRule{}, err
	}
	defer done()
	c.Queue = names.Canonical(c.Queue)
	if err := checkKeyChange(&c); err != nil {
		return store.KeyRule{}, err
	}
	rule, err := d.store.ChangeKey(ctx, c)
	if err != nil {
		d.note(err)
		return store.KeyRule{}, err
	}
	d.hearRules(ctx)
	d.mu.Lock()
	d.mem.ruled(c.Queue, time.Now())
	d.release()
	return rule, nil
}

// hearHolds takes in, here and at the other nodes, that reports have paused keys of queues of which
// nothing was said of single keys before.
func (d *Dispatcher) hearHolds(ctx context.Context, s *settlement) {
	var queues []string
	for i := range s.reports {
		if r := &s.reports[i]; r.row.HoldKey > 0 && r.status == task.Recorded {
			queues = append(queues, r.row.Queue)
		}
	}
	if slices.ContainsFunc(queues, func(name string) bool { return !d.queueConf(name).KeyRules }) {
		d.hearRules(ctx)
	}
}

// hearRules reads which queues have rules of single keys, and lets the other nodes do so. What was
// stored stands, also when that fails: each node's next round reads them.
func (d *Dispatcher) hearRules(ctx context.Context) {
	if err := d.reloadQueues(ctx); err != nil {
		d.note(err)
	}
	d.spread(ctx)
}

func checkKeyChange(c *store.KeyChange) error {
	var e task.InvalidError
	pause, weight := c.Pause, 0
	if pause == store.Forever {
		pause = 0
	}
	if c.Weight != nil {
		weight = *c.Weight
	}
	limits.CheckKey(c.Key, pause, weight, &e)
	return e.Err()
}

// ruled notes that something else is said of a key of a queue: it may have room here, and at other
// nodes.
func (m *memory) ruled(queue string, now time.Time) {
	q := m.queues[queue]
	if q == nil {
		return
	}
	q.keysFreed(now)
	q.match(now)
	m.do.ends(queue)
}

// Keys says how much work the group keys of a queue have, and what is said of them.
func (d *Dispatcher) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	uses, err := d.store.Keys(ctx, names.Canonical(queue))
	d.note(err)
	return uses, err
}

// setTurns takes in how many tasks a turn has of the keys of which a take brought something. While
// the store may have more of them, what runs low here is looked for: a key that weighs much has
// gone through what is here before others have.
func (q *queue) setTurns(got *store.Taken) {
	ls := q.ready.lanes
	if ls == nil {
		return
	}
	for i := range got.Spans {
		sp := &got.Spans[i]
		if !sp.Sorted {
			continue
		}
		turn := max(got.Turns[sp.Key], 1)
		if turn == 1 {
			delete(ls.weights, sp.Key)
		} else {
			ls.weights[sp.Key] = turn
		}
		if l := ls.by[sp.Key]; l != nil {
			l.weight = turn
			if q.conf.KeyRules && q.conf.Fair && got.More {
				l.scarce, l.floor = true, max(l.heap.count/2, min(turn, l.heap.count-1))
			}
		}
	}
}
