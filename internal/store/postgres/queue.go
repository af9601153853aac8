package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	queueColumns = `name, timeout, silence, max_attempts, retry_initial, retry_max, retry_factor, retry_jitter, hold_limit, poll_interval,
  context_limit, retention, dead_kept, paused, final_queue, title, owner,
  max_running, rate_count, rate_per, burst,
  key_running, key_rate_count, key_rate_per, key_burst, fair, key_stop, key_rules`
	insertQueue = `INSERT INTO rota.queue (` + queueColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
  $23, $24, $25, $26, $27, $28)
ON CONFLICT DO NOTHING`
	// lockQueue makes a queue or locks the one that stands, whoever else does at the same time.
	lockQueue = `INSERT INTO rota.queue AS q (` + queueColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
  $23, $24, $25, $26, $27, $28)
ON CONFLICT (name)
DO UPDATE SET paused = q.paused
RETURNING ` + queueColumns + `, xmax = 0`
	updateQueue = `UPDATE rota.queue
SET timeout = $2, silence = $3, max_attempts = $4, retry_initial = $5, retry_max = $6,
retry_factor = $7,
  retry_jitter = $8, hold_limit = $9, poll_interval = $10, context_limit = $11, retention = $12,
  dead_kept = $13, paused = $14, final_queue = $15, title = $16, owner = $17,
  max_running = $18, rate_count = $19, rate_per = $20, burst = $21,
  key_running = $22, key_rate_count = $23, key_rate_per = $24, key_burst = $25, fair = $26,
  key_stop = $27, key_rules = $28
WHERE name = $1`
	findQueue = `SELECT FROM rota.queue WHERE name = $1 FOR UPDATE`
	allQueues = `SELECT ` + queueColumns + ` FROM rota.queue ORDER BY name`
)

// scanQueue reads a configuration, and what comes after it.
func scanQueue(r row, more ...any) (q task.Queue, err error) {
	stop := false
	err = r.Scan(append([]any{&q.Name, (*int64)(&q.Timeout), (*int64)(&q.Silence), &q.MaxAttempts,
		(*int64)(&q.Retry.Initial), (*int64)(&q.Retry.Max),
		&q.Retry.Factor, &q.Retry.Jitter, &q.HoldLimit, (*int64)(&q.PollInterval), &q.ContextLimit,
		(*int64)(&q.Retention), (*int64)(&q.DeadKept), &q.Paused, &q.FinalQueue,
		&q.Title, &q.Owner, &q.MaxRunning, &q.Rate.Count, (*int64)(&q.Rate.Per), &q.Burst,
		&q.PerKey.MaxRunning, &q.PerKey.Rate.Count, (*int64)(&q.PerKey.Rate.Per), &q.PerKey.Burst,
		&q.Fair, &stop, &q.KeyRules}, more...)...)
	if stop {
		q.PerKey.OnDead = task.OnDeadStop
	}
	return q, err
}

// writeQueue makes the query that writes a configuration, by insertQueue, lockQueue or updateQueue.
// Durations are stored to the nanosecond.
func writeQueue(text string, q task.Queue) query {
	return tell(text, q.Name, int64(q.Timeout), int64(q.Silence), int64(q.MaxAttempts),
		int64(q.Retry.Initial), int64(q.Retry.Max), q.Retry.Factor,
		q.Retry.Jitter, int64(q.HoldLimit), int64(q.PollInterval), q.ContextLimit,
		int64(q.Retention), int64(q.DeadKept), q.Paused, q.FinalQueue, q.Title, q.Owner,
		int64(q.MaxRunning), q.Rate.Count, int64(q.Rate.Per), int64(q.Burst),
		int64(q.PerKey.MaxRunning), q.PerKey.Rate.Count, int64(q.PerKey.Rate.Per),
		int64(q.PerKey.Burst), q.Fair,
		q.PerKey.OnDead == task.OnDeadStop, q.KeyRules)
}

// newQueues makes queues with defaults unless they exist.
func newQueues(names []string) (list []query) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		list = append(list, writeQueue(insertQueue, limits.DefaultQueue(name)))
	}
	return list
}

// queues keeps the configurations of queues, and deletes queues with all that they have. The table
// queue is its own; whoever submits inserts queues that are not known yet, as defaults.
type queues struct {
	*database
	values *values
	gates  *gates
}

// ChangeQueue changes a configuration, or creates it. See contract.Queues.
func (s *queues) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (changed store.Changed[task.Queue], err error) {
	limitsKeys := false
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		look := writeQueue(lockQueue, limits.DefaultQueue(name))
		look.row = func(r row) (err error) {
			changed.Is, err = scanQueue(r, &changed.Created)
			return err
		}
		err := t.run(ctx, look)
		before := changed.Is
		if err == nil {
			err = change(&changed.Is, !changed.Created)
		}
		if err != nil {
			return err
		}
		changed.Is.Name, changed.Is.KeyRules = name, before.KeyRules
		limitsKeys = changed.Is.PerKey.MaxRunning > 0 && before.PerKey.MaxRunning == 0
		return t.finish(ctx, append(s.gates.gateChanged(&before, &changed.Is),
			writeQueue(updateQueue, changed.Is))...)
	})
	if err != nil {
		return store.Changed[task.Queue]{}, fmt.Errorf("change queue %q: %w", name, err)
	}
	if limitsKeys { // what is left, or comes later, the next Begin does
		if err := s.gates.nameAll(ctx, name); err != nil {
			s.conf.Log.Warn("keys of what runs are looked up later", "queue", name, "error", err)
		}
	}
	return changed, nil
}

// Queues lists all configurations, by name.
func (s *queues) Queues(ctx context.Context) (list []task.Queue, err error) {
	err = s.glance(ctx, ask(allQueues, func(r row) error {
		q, err := scanQueue(r)
		list = append(list, q)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return list, nil
}

// piece is how many tasks one transaction deletes, so that others need not wait long.
const piece = 500

const (
	sumOfQueue = `SELECT coalesce(sum(submitted), 0)::bigint, coalesce(sum(done), 0)::bigint,
coalesce(sum(dead), 0)::bigint,
  coalesce(sum(cancelled), 0)::bigint, coalesce(sum(expired), 0)::bigint
FROM rota.stat WHERE queue = $1`
	deleteQueue     = `DELETE FROM rota.queue WHERE name = $1`
	deleteQueueKeys = `DELETE FROM rota.task_key WHERE queue = $1`
	deleteQueueUniq = `DELETE FROM rota.unique_key WHERE queue = $1`
	deleteQueueStat = `WITH gone AS (DELETE FROM rota.stat WHERE queue = $1 RETURNING submitted)
SELECT coalesce(sum(submitted), 0)::bigint FROM gone`
	batchesOfQueue = `SELECT id FROM rota.batch WHERE queue = $1 AND id > $2 ORDER BY id LIMIT 100`
	tasksOfBatch   = `SELECT i.n FROM rota.pack p
CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n)
WHERE p.batch = $1 AND p.has >> (i.n & 63) & 1 = 1 ORDER BY p.lo, i.n LIMIT $2`
	deleteSpansOf = `DELETE FROM rota.span WHERE batch = $1`
	// forgetKeys deletes some rows that a table has for keys of a queue: what others have locked
	// goes with the configuration.
	forgetKeys = `WITH o AS MATERIALIZED (
  SELECT key FROM rota.%[1]s WHERE queue = $1 ORDER BY key LIMIT $2 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM rota.%[1]s k USING o WHERE k.queue = $1 AND k.key = o.key RETURNING 1)
SELECT count(*) FROM gone`
)

// forgottenAtOnce is how many keys of a queue that is deleted one transaction forgets.
const forgottenAtOnce = 5000

// DeleteQueue deletes a queue: its tasks and their keys in pieces, then its configuration. When it
// is interrupted, or refused because of tasks that came meanwhile, the rest is still there, to be
// deleted again. See contract.Queues.
func (s *queues) DeleteQueue(ctx context.Context, name string, force bool) error {
	for pass := 0; ; pass++ {
		gone, err := s.deleteQueue(ctx, name, force, pass > 0)
		if err == nil && !gone {
			err = s.emptyQueue(ctx, name)
		}
		if err = s.confirmedGone(ctx, err); err != nil {
			return fmt.Errorf("delete queue %q: %w", name, err)
		}
		if gone {
			return nil
		}
	}
}

// deleteQueue deletes the configuration, unless there may be tasks; force is to delete unfinished
// ones, too.
func (s *queues) deleteQueue(
	ctx context.Context, name string, force, emptied bool,
) (gone bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		stands := false
		var d counters.Counters
		err := t.run(ctx, ask(findQueue, func(row) error { stands = true; return nil }, name),
			ask(sumOfQueue, func(r row) error {
				return r.Scan(&d.Submitted, &d.Done, &d.Dead, &d.Cancelled, &d.Expired)
			}, name))
		switch n := d.Unfinished(); {
		case err != nil:
			return err
		case !stands:
			return store.ErrNotFound
		case n > 0 && !force:
			return &store.InUse{Count: n, Noun: "unfinished task"}
		}
		if gone = emptied && d.Submitted == 0; !gone {
			return nil
		}
		late := int64(0) // tasks that somebody submitted since
		err = t.run(ctx, tell(deleteQueueKeys, name), tell(deleteQueueUniq, name),
			tell(deleteGate, name), tell(deleteBuckets, name),
			tell(deleteKeyOwners, name), tell(deleteKeyRules, name),
			tell(deleteQueue, name),
			ask(deleteQueueStat, func(r row) error {
				return r.Scan(&late)
			}, name))
		if gone = late == 0; err != nil || !gone {
			return err
		}
		return t.finish(ctx)
	})
	return gone, err
}

// emptyQueue deletes the tasks of a queue, and the keys that outlive them, a piece in each
// transaction.
func (s *queues) emptyQueue(ctx context.Context, name string) error {
	for last := int64(0); ; {
		var batches []int64
		err := s.glance(ctx, ask(batchesOfQueue, func(r row) error {
			var id int64
			err := r.Scan(&id)
			batches = append(batches, id)
			return err
		}, name, last))
		if err == nil && len(batches) == 0 {
			return s.forgetKeys(ctx, name)
		}
		if err != nil {
			return err
		}
		for _, last = range batches {
			for more := true; more; {
				if more, err = s.dropBatch(ctx, last, name); err != nil {
					return err
				}
			}
		}
	}
}

// forgetKeys deletes what a queue has of keys. There may be millions: idempotency keys are kept for
// a week, as a rule.
func (s *queues) forgetKeys(ctx context.Context, name string) error {
	for _, table := range [...]string{"task_key", "unique_key", "bucket"} {
		text := fmt.Sprintf(forgetKeys, table)
		for n := forgottenAtOnce; n == forgottenAtOnce; {
			if err := s.write(ctx, func(ctx context.Context, t *tx) error {
				return t.finish(ctx, ask(text, func(r row) error {
					return r.Scan(&n)
				}, name, forgottenAtOnce))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropBatch deletes a batch, at most a piece of it at once, its waits and spans first: nobody is to
// wake or take what is left.
func (s *queues) dropBatch(ctx context.Context, batch int64, queue string) (more bool, err error) {
	var blobs []string
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		var ids []task.ID
		blobs = nil
		list := ask(tasksOfBatch, func(r row) error {
			id := task.ID{Batch: batch}
			err := r.Scan(&id.N)
			ids = append(ids, id)
			return err
		}, batch, piece)
		err := t.run(ctx, tell(deleteCountsIn, batch), tell(deleteWaitsIn, batch),
			tell(deleteSpansOf, batch), list)
		if err != nil {
			return err
		}
		found, keyed, err := t.locked(ctx, ids)
		if err != nil {
			return err
		}
		more = len(ids) == piece || len(found) < len(ids)
		return t.drop(ctx, found, keyed, &blobs, tell(deleteVacant, []int64{batch}))
	})
	if err == nil {
		s.values.deleteBlobs(ctx, blobs)
	}
	return more, err
}
