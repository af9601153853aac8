package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// keyPatience is how long a submission waits for another one, perhaps in somebody's open
// transaction, that has the same key.
const keyPatience = time.Second

// setLocal changes a setting for the rest of a transaction.
const setLocal = `SELECT set_config($1, $2, true)`

// submitWithCare looks for batches that stand already and for keys, then inserts the rest.
func (s *Store) submitWithCare(
	ctx context.Context, t *tx, sub *store.Submission,
) (answer store.Submitted, err error) {
	limit := tell(setLocal, "lock_timeout", fmt.Sprint(keyPatience.Milliseconds()))
	c, err := s.look(ctx, t, sub, limit)
	if err != nil {
		return answer, err
	}
	return c.insert(ctx, t, t.finish)
}

// care is a submission of which it is known what stands already.
type care struct {
	*Store
	sub    *store.Submission
	stands map[int64]standing
	owners map[keyName]task.ID // of the keys
}

// standing is a batch as it was inserted.
type standing struct {
	origin  string
	span    int64
	granted bool
}

type keyName struct{ queue, key string }

const (
	findBatches = `SELECT id, origin, span, granted FROM rota.batch WHERE id = ANY($1)`

	// insertKeys leaves alone what a batch that stands already had to say. What it could not get,
	// another task has; findKeys reads it in a later statement, because it may have been committed
	// while this one waited.
	insertKeys = `INSERT INTO rota.task_key (queue, key, batch, n, until)
SELECT k.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::bigint[]) k (queue, key,
batch, n, until)
WHERE NOT EXISTS (SELECT FROM rota.batch b WHERE b.id = k.batch)
ORDER BY k.queue, k.key
ON CONFLICT (queue, key)
DO UPDATE SET batch = excluded.batch, n = excluded.n, until = excluded.until
WHERE task_key.until <= (SELECT rota.micros($6))`
	findKeys = `SELECT k.queue, k.key, k.batch, k.n
FROM unnest($1::text[], $2::text[]) w (queue, key)
JOIN rota.task_key k ON k.queue = w.queue AND k.key = w.key`
)

// look reads what stands of a submission, and claims its keys.
func (s *Store) look(
	ctx context.Context, r runner, sub *store.Submission, first ...query,
) (*care, error) {
	c := &care{Store: s, sub: sub, stands: map[int64]standing{}, owners: map[keyName]task.ID{}}
	var ids []int64
	for i := range sub.Batches {
		ids = append(ids, sub.Batches[i].ID)
	}
	queries := append(first, ask(findBatches, func(r row) error {
		var id int64
		var b standing
		err := r.Scan(&id, &b.origin, &b.span, &b.granted)
		c.stands[id] = b
		return err
	}, ids))
	if wanted := wantedKeys(sub); len(wanted) > 0 {
		var queues, keys []string
		var batches, untils []int64
		var ns []int32
		for _, k := range wanted {
			queues = append(queues, k.queue)
			keys = append(keys, k.key)
			batches = append(batches, k.id.Batch)
			ns = append(ns, k.id.N)
			untils = append(untils, k.until)
		}
		queries = append(queries, tell(insertKeys, queues, keys, batches, ns, untils, s.clock()),
			ask(findKeys, func(r row) error {
				var k keyName
				var id task.ID
				err := r.Scan(&k.queue, &k.key, &id.Batch, &id.N)
				c.owners[k] = id
				return err
			}, queues, keys))
	}
	if err := r.run(ctx, queries...); err != nil {
		return nil, err
	}
	for i := range sub.Batches {
		b := &sub.Batches[i]
		if old, ok := c.stands[b.ID]; ok && old.origin != b.Origin {
			return nil, fmt.Errorf("batch %d: it stands already, from %q: %w", b.ID, old.origin,
				store.ErrConflict)
		}
	}
	return c, nil
}

// wantedKey is a key that a task of a submission is the first to have.
type wantedKey struct {
	keyName
	id    task.ID
	until int64
}

// wantedKeys lists the keys of a submission, each once, sorted.
func wantedKeys(sub *store.Submission) (list []wantedKey) {
	seen := map[keyName]bool{}
	for i := range sub.Batches {
		b := &sub.Batches[i]
		for k := range b.Tasks {
			t := &b.Tasks[k]
			if name := (keyName{b.Queue, t.Key}); t.Key != "" && !seen[name] {
				seen[name] = true
				list = append(list, wantedKey{name, task.ID{Batch: b.ID, N: t.N}, t.KeyUntil})
			}
		}
	}
	slices.SortFunc(list, func(a, b wantedKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.key, b.key))
	})
	return list
}

// insert inserts what does not stand, and answers for all. ids reserves what is missing of these,
// and last makes the last trip.
func (c *care) insert(
	ctx context.Context, ids runner, last func(context.Context, ...query) error,
) (answer store.Submitted, err error) {
	load := newLoading(nil)
	for i := range c.sub.Batches {
		b := &c.sub.Batches[i]
		left := c.withoutExisting(b, &answer)
		if _, ok := c.stands[b.ID]; !ok {
			load.add(b, left)
		}
	}
	if err := load.name(ctx, c.Store, ids); err != nil {
		return answer, err
	}
	granted := false
	queries := load.queries(c.Store, c.sub, func(r row) error {
		return r.Scan(&answer.Now, &granted)
	})
	if len(c.stands) > 0 {
		queries = append(queries, tell(confirm))
	}
	if err := last(ctx, queries...); err != nil {
		return answer, err
	}
	for i := range load.made {
		c.stands[load.made[i].batch.ID] = standing{span: load.made[i].span, granted: granted}
	}
	for i := range c.sub.Batches {
		b := &c.sub.Batches[i]
		for k, n := range b.Spans {
			answer.Spans = append(answer.Spans,
				newSpan(c.stands[b.ID].span+int64(k), b, n, c.sub.Holder, c.stands[b.ID].granted))
		}
	}
	return answer, nil
}

// withoutExisting leaves out the tasks whose key another one has, and says so.
func (c *care) withoutExisting(b *store.Batch, answer *store.Submitted) (left []store.Task) {
	out := false
	for i := range b.Tasks {
		t, id := &b.Tasks[i], task.ID{Batch: b.ID, N: b.Tasks[i].N}
		if owner, ok := c.owners[keyName{b.Queue, t.Key}]; ok && t.Key != "" && owner != id {
			if !out {
				out, left = true, slices.Clone(b.Tasks[:i])
			}
			answer.Existing = append(answer.Existing, store.Existing{ID: id, First: owner})
			continue
		}
		if out {
			left = append(left, *t)
		}
	}
	if !out {
		return b.Tasks
	}
	return left
}
