package sqlite

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// queueCalls keeps the configurations of queues. Its tables are queue and, by queue, stat; with a
// queue it deletes whatever others have of it.
type queueCalls struct {
	*database
	values *valueCalls

	// changed says that a configuration was changed since Prune looked: what it passed over may be
	// old enough now.
	changed atomic.Bool
}

// queueReads reads configurations and sums of counts.
type queueReads struct{ *conn }

func (c *conn) queues() queueReads { return queueReads{c} }

// queueWrites writes configurations.
type queueWrites struct{ *tx }

func (t *tx) queues() queueWrites { return queueWrites{t} }

const (
	queueColumns = `name, timeout, silence, max_attempts, retry_initial, retry_max, retry_factor, retry_jitter, hold_limit, poll_interval,
  context_limit, retention, dead_kept, paused, final_queue, title, owner,
  max_running, rate_count, rate_per, burst,
  key_running, key_rate_count, key_rate_per, key_burst, fair, key_stop, key_rules`
	insertQueue = `INSERT INTO queue (` + queueColumns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING`
	updateQueue = `REPLACE INTO queue (` + queueColumns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	findQueue = `SELECT ` + queueColumns + ` FROM queue WHERE name = ?`
	allQueues = `SELECT ` + queueColumns + ` FROM queue ORDER BY name`
	allNames  = `SELECT name FROM queue ORDER BY name`
)

func scanQueue(st *sqlite.Stmt) task.Queue {
	return task.Queue{
		Name: st.ColumnText(0), Timeout: time.Duration(st.ColumnInt64(1)),
		Silence: time.Duration(st.ColumnInt64(2)), MaxAttempts: st.ColumnInt(3),
		Retry: task.Backoff{
			Initial: time.Duration(st.ColumnInt64(4)), Max: time.Duration(st.ColumnInt64(5)),
			Factor: st.ColumnFloat(6), Jitter: st.ColumnFloat(7),
		},
		HoldLimit: st.ColumnInt(8), PollInterval: time.Duration(st.ColumnInt64(9)),
		ContextLimit: st.ColumnInt64(10),
		Retention:    time.Duration(st.ColumnInt64(11)),
		DeadKept:     time.Duration(st.ColumnInt64(12)),
		Paused:       st.ColumnBool(13),
		FinalQueue:   st.ColumnText(14),
		Title:        st.ColumnText(15), Owner: st.ColumnText(16),
		MaxRunning: st.ColumnInt(17),
		Rate:       task.Rate{Count: st.ColumnInt64(18), Per: time.Duration(st.ColumnInt64(19))},
		Burst:      st.ColumnInt(20),
		PerKey: task.KeyLimits{
			MaxRunning: st.ColumnInt(21),
			Rate: task.Rate{
				Count: st.ColumnInt64(22), Per: time.Duration(st.ColumnInt64(23)),
			},
			Burst:  st.ColumnInt(24),
			OnDead: onDead(st.ColumnBool(26)),
		},
		Fair:     st.ColumnBool(25),
		KeyRules: st.ColumnBool(27),
	}
}

// putQueue writes a configuration by insertQueue or updateQueue. Durations are stored to the
// nanosecond.
func (t queueWrites) putQueue(query string, q task.Queue) (changed int, err error) {
	return t.exec(query, q.Name, int64(q.Timeout), int64(q.Silence), q.MaxAttempts,
		int64(q.Retry.Initial), int64(q.Retry.Max), q.Retry.Factor,
		q.Retry.Jitter, q.HoldLimit, int64(q.PollInterval), q.ContextLimit, int64(q.Retention),
		int64(q.DeadKept), q.Paused,
		q.FinalQueue, q.Title, q.Owner, q.MaxRunning, q.Rate.Count, int64(q.Rate.Per), q.Burst,
		q.PerKey.MaxRunning, q.PerKey.Rate.Count, int64(q.PerKey.Rate.Per), q.PerKey.Burst, q.Fair,
		q.PerKey.OnDead == task.OnDeadStop, q.KeyRules)
}

// onDead is what becomes of a key whose task is dead; the default is none said.
func onDead(stop bool) task.OnDead {
	if stop {
		return task.OnDeadStop
	}
	return ""
}

// ChangeQueue changes a configuration, or creates it. See contract.Queues.
func (s *queueCalls) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (changed store.Changed[task.Queue], err error) {
	err = s.write(ctx, func(t *tx) error {
		q := limits.DefaultQueue(name)
		stands, err := t.one(findQueue, func(st *sqlite.Stmt) { q = scanQueue(st) }, name)
		before := q
		if err == nil {
			err = change(&q, stands)
		}
		if err != nil {
			return err
		}
		q.Name, q.KeyRules = name, before.KeyRules
		changed = store.Changed[task.Queue]{Is: q, Created: !stands}
		if _, err = t.queues().putQueue(updateQueue, q); err != nil {
			return err
		}
		return t.limits().changeGate(&before, &q)
	})
	if err != nil {
		return store.Changed[task.Queue]{}, fmt.Errorf("change queue %q: %w", name, err)
	}
	s.changed.Store(true)
	return changed, nil
}

// Queues lists all configurations, by name.
func (s *queueCalls) Queues(ctx context.Context) ([]task.Queue, error) {
	var list []task.Queue
	err := s.read(ctx, func(c *conn) (err error) {
		list, err = c.queues().queues()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return list, nil
}

func (c queueReads) queues() (list []task.Queue, err error) {
	err = c.each(allQueues, func(st *sqlite.Stmt) bool {
		list = append(list, scanQueue(st))
		return true
	})
	return list, err
}

// names are those of all queues, in order.
func (c queueReads) names() (list []string, err error) {
	err = c.each(allNames, func(st *sqlite.Stmt) bool {
		list = append(list, st.ColumnText(0))
		return true
	})
	return list, err
}

// piece is how many batches or tasks one transaction deletes, so that others need not wait long.
const piece = 500

const (
	deleteQueue     = `DELETE FROM queue WHERE name = ?`
	deleteQueueKeys = `DELETE FROM task_key WHERE queue = ?`
	deleteQueueUniq = `DELETE FROM unique_key WHERE queue = ?`
	deleteKeyOwners = `DELETE FROM key_owner WHERE queue = ?`
	deleteKeyRules  = `DELETE FROM key_rule WHERE queue = ?`
	deleteQueueStat = `DELETE FROM stat WHERE queue = ?`
	forgetTaskKeys  = `DELETE FROM task_key WHERE queue = ?1 AND key IN (SELECT key FROM task_key
WHERE queue = ?1 LIMIT ?2)`
	forgetBuckets = `DELETE FROM bucket WHERE queue = ?1 AND key IN (SELECT key FROM bucket
WHERE queue = ?1 LIMIT ?2)`
	batchOfQueue = `SELECT id FROM batch WHERE queue = ? AND id > ? ORDER BY id LIMIT 1`
)

// DeleteQueue deletes a queue: its tasks and their keys in pieces, then its configuration. When it
// is interrupted, or refused because of tasks that came meanwhile, the rest is still there, to be
// deleted again. See contract.Queues.
func (s *queueCalls) DeleteQueue(ctx context.Context, name string, force bool) error {
	for pass := 0; ; pass++ {
		gone := false
		err := s.write(ctx, func(t *tx) (err error) {
			gone, err = t.queues().deleteQueue(name, force, pass > 0)
			return err
		})
		if err == nil && !gone {
			err = s.emptyQueue(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("delete queue %q: %w", name, err)
		}
		if gone {
			return nil
		}
	}
}

// deleteQueue deletes the configuration, unless there may be tasks; force is to delete unfinished
// ones, too.
func (t queueWrites) deleteQueue(name string, force, emptied bool) (gone bool, err error) {
	stands, err := t.has(findQueue, name)
	if err != nil {
		return false, err
	}
	if !stands {
		return false, store.ErrNotFound
	}
	d, err := t.conn.queues().sum(name)
	if err != nil {
		return false, err
	}
	if n := d.Unfinished(); n > 0 && !force {
		return false, &store.InUse{Count: n, Noun: "unfinished task"}
	}
	if !emptied || d.Submitted > 0 {
		return false, nil
	}
	for _, query := range [...]string{
		deleteQueueKeys, deleteQueueUniq, deleteQueueStat, deleteGate, deleteBuckets,
		deleteKeyOwners, deleteKeyRules, deleteQueue,
	} {
		if _, err := t.exec(query, name); err != nil {
			return false, err
		}
	}
	return true, nil
}

// emptyQueue deletes the tasks of a queue, and the keys that outlive them, a piece in each
// transaction, so that others need not wait long.
func (s *queueCalls) emptyQueue(ctx context.Context, name string) error {
	for batch := int64(0); ; {
		var found bool
		err := s.read(ctx, func(c *conn) (err error) {
			found, err = c.one(batchOfQueue, func(st *sqlite.Stmt) {
				batch = st.ColumnInt64(0)
			}, name, batch)
			return err
		})
		if err == nil && !found {
			return s.forgetKeys(ctx, name)
		}
		if err != nil {
			return err
		}
		for more := true; more; {
			var blobs []string
			err := s.write(ctx, func(t *tx) (err error) {
				blobs, more, err = t.drops().dropBatch(batch, name)
				return err
			})
			if err != nil {
				return err
			}
			s.values.deleteBlobs(ctx, blobs)
		}
	}
}

// forgetKeys deletes what a queue has of keys. There may be millions: idempotency keys are kept for
// a week, as a rule.
func (s *queueCalls) forgetKeys(ctx context.Context, name string) error {
	for _, query := range [...]string{forgetTaskKeys, forgetBuckets} {
		for n := piece; n == piece; {
			if err := s.write(ctx, func(t *tx) (err error) {
				n, err = t.exec(query, name, piece)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
