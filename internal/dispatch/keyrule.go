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
// it goes on. It answers when every node asks about the queue's keys, or names those that do not
// yet. store.ErrNotFound without the queue; *task.InvalidError says what is wrong.
func (qc *queueCalls) ChangeKey(
	ctx context.Context, c store.KeyChange,
) (changed store.Changed[store.KeyRule], err error) {
	c.Queue = names.Canonical(c.Queue)
	if err := checkKeyChange(&c); err != nil {
		return changed, err
	}
	word := int64(0)
	if changed.Is, word, err = qc.changeKey(ctx, c); err != nil {
		return changed, err
	}
	changed.Unheard = qc.everywhere(ctx, word)
	return changed, nil
}

// changeKey changes what is said of a key in the store, and takes it in. word is that of the
// change.
func (qc *queueCalls) changeKey(
	ctx context.Context, c store.KeyChange,
) (rule store.KeyRule, word int64, err error) {
	done, err := qc.change(ctx)
	if err != nil {
		return rule, 0, err
	}
	defer done()
	rule, err = qc.store.ChangeKey(ctx, c)
	if err != nil {
		qc.note(err)
		return store.KeyRule{}, 0, err
	}
	word = qc.hearRules(ctx)
	qc.mu.Lock()
	qc.mem.ruled(c.Queue, time.Now())
	qc.release()
	return rule, word, nil
}

// hearHolds takes in, here and at the other nodes, that reports have paused keys of queues of which
// nothing was said of single keys before.
func (qc *queueCalls) hearHolds(ctx context.Context, s *settlement) {
	var queues []string
	for i := range s.reports {
		if r := &s.reports[i]; r.row.HoldKey > 0 && r.status == task.Recorded {
			queues = append(queues, r.row.Queue)
		}
	}
	if slices.ContainsFunc(queues, func(name string) bool { return !qc.queueConf(name).KeyRules }) {
		qc.hearRules(ctx)
		if qc.conf.Changed != nil {
			qc.conf.Changed()
		}
	}
}

// hearRules reads which queues have rules of single keys, and lets the other nodes do so. What was
// stored stands, also when that fails: each node's next round reads them. It answers as spread.
func (qc *queueCalls) hearRules(ctx context.Context) (word int64) {
	if _, err := qc.reloadQueues(ctx); err != nil {
		qc.note(err)
	}
	return qc.spread(ctx)
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
func (cs *configs) ruled(queue string, now time.Time) {
	q := cs.memory.queues[queue]
	if q == nil {
		return
	}
	q.keysFreed(now)
	q.match(now)
	cs.memory.do.ends(queue)
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
