package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// keyPatience is how long a submission waits for another one, perhaps in somebody's open
// transaction, that has the same key.
const keyPatience = time.Second

// setLocal changes a setting for the rest of a transaction.
const setLocal = `SELECT set_config($1, $2, true)`

// submitWithCare looks for batches that stand already and for keys, then inserts the rest.
func (s *submissions) submitWithCare(
	ctx context.Context, t *tx, sub *store.Submission,
) (answer store.Submitted, after aftermath, err error) {
	c, err := s.look(ctx, t, sub, limitWait())
	if err != nil {
		return answer, after, err
	}
	answer, err = c.insert(ctx, t, t, t.finish)
	return answer, c.after, err
}

// limitWait limits how long the rest of a transaction waits for others.
func limitWait() query {
	return tell(setLocal, "lock_timeout", fmt.Sprint(keyPatience.Milliseconds()))
}

// usualWait ends limitWait.
func usualWait() query { return tell(setLocal, "lock_timeout", transactions["lock_timeout"]) }

// care is a submission of which it is known what stands already.
type care struct {
	*database
	sub    *store.Submission
	stands map[int64]standing
	owners map[keyName]task.ID // of the keys
	unique *uniques            // nil = no task wants a unique key
	after  aftermath           // whom replacements concern
	kin    map[int64]kinship   // of the batches that are children's
}

// standing is a batch as it was inserted.
type standing struct {
	origin  string
	span    int64
	granted bool
	// tasks that were not inserted because others had their keys
	existing []store.Existing
}

type keyName struct{ queue, key string }

const (
	findBatches = `SELECT id, origin, span, granted, existing FROM rota.batch WHERE id = ANY($1)`

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
func (s *submissions) look(
	ctx context.Context, r runner, sub *store.Submission, first ...query,
) (*care, error) {
	c := &care{
		database: s.database, sub: sub,
		stands: map[int64]standing{}, owners: map[keyName]task.ID{},
	}
	var ids []int64
	for i := range sub.Batches {
		ids = append(ids, sub.Batches[i].ID)
	}
	var add *addition
	if sub.Under != nil {
		add = &addition{right: sub.Under}
		first = append(first, add.queries()...)
	}
	queries := append(first, ask(findBatches, func(r row) error {
		var id int64
		var b standing
		var existing []byte
		err := r.Scan(&id, &b.origin, &b.span, &b.granted, &existing)
		if err == nil {
			b.existing, err = store.DecodeExisting(id, existing)
		}
		c.stands[id] = b
		return err
	}, ids))
	// A call that is refused claims no keys, which is known later.
	unique := slices.ContainsFunc(sub.Batches, func(b store.Batch) bool {
		return rules.WantsUnique(&b)
	})
	if !unique {
		queries = append(queries, c.claimKeys()...)
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
	if add != nil && len(c.stands) < len(ids) { // else it is repeated
		if err := add.check(); err != nil {
			return nil, err
		}
		c.kin = add.kin(sub)
	}
	if !unique {
		return c, nil
	}
	var err error
	if c.unique, err = s.chooseUnique(ctx, r, sub, func(batch int64) bool {
		_, stands := c.stands[batch]
		return stands
	}); err != nil {
		return nil, err
	}
	if keys := c.claimKeys(); len(keys) > 0 {
		err = r.run(ctx, keys...)
	}
	return c, err
}

// claimKeys claims the keys of what is not refused, and reads whose they are.
func (c *care) claimKeys() []query {
	wanted := c.wantedKeys()
	if len(wanted) == 0 {
		return nil
	}
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
	return []query{tell(insertKeys, queues, keys, batches, ns, untils, c.clock()),
		ask(findKeys, func(r row) error {
			var k keyName
			var id task.ID
			err := r.Scan(&k.queue, &k.key, &id.Batch, &id.N)
			c.owners[k] = id
			return err
		}, queues, keys)}
}

// wantedKey is a key that a task of a submission is the first to have.
type wantedKey struct {
	keyName
	id    task.ID
	until int64
}

// wantedKeys lists the keys of what is not refused, each once, sorted.
func (c *care) wantedKeys() (list []wantedKey) {
	seen := map[keyName]bool{}
	for i := range c.sub.Batches {
		b := &c.sub.Batches[i]
		if c.unique.refuses(b) {
			continue
		}
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

// missing takes what does not stand of the submission, and answers for the tasks that others' keys
// keep out: of what stands as the first time, whatever became of the keys since.
func (c *care) missing(answer *store.Submitted) *loading {
	load := newLoading(nil, c.kin)
	for i := range c.sub.Batches {
		b := &c.sub.Batches[i]
		if c.unique.refuses(b) {
			continue
		}
		if old, stands := c.stands[b.ID]; stands {
			answer.Existing = append(answer.Existing, old.existing...)
			continue
		}
		before := len(answer.Existing)
		existing := c.unique.existingIn(b)
		answer.Existing = append(answer.Existing, existing...)
		load.add(b, c.withoutExisting(b, existing, answer))
		load.made[len(load.made)-1].existing = answer.Existing[before:]
	}
	load.depend(c.sub.Batches, answer.Existing, c.unique.refuses)
	answer.Look = load.after.lookAt()
	if c.unique != nil {
		answer.Refused = c.unique.Refusals()
	}
	return load
}

// insert inserts what does not stand, and answers for all. ids reserves what is missing of these,
// and last makes the last trip of r.
func (c *care) insert(
	ctx context.Context, r, ids runner, last func(context.Context, ...query) error,
) (answer store.Submitted, err error) {
	load := c.missing(&answer)
	if err := load.name(ctx, c.database, ids); err != nil {
		return answer, err
	}
	granted := false
	queries := load.queries(c.database, c.sub, func(r row) error {
		return r.Scan(&answer.Now, &granted)
	})
	if len(c.stands) > 0 || c.unique != nil {
		queries = append(queries, tell(confirm))
	}
	if c.unique != nil {
		queries = append(queries, c.unique.queries()...)
		if len(c.unique.Replace) > 0 {
			if err = r.run(ctx, queries...); err == nil {
				queries = nil
				c.after, err = c.unique.replace(ctx, c.database, r)
			}
			if err != nil {
				return answer, err
			}
		}
	}
	if err := last(ctx, queries...); err != nil {
		return answer, err
	}
	for i := range load.made {
		c.stands[load.made[i].batch.ID] = standing{span: load.made[i].span, granted: granted}
	}
	for i := range c.sub.Batches {
		b := &c.sub.Batches[i]
		if c.unique.refuses(b) {
			continue
		}
		for k, n := range b.Spans {
			answer.Spans = append(answer.Spans,
				newSpan(c.stands[b.ID].span+int64(k), b, n, c.sub.Holder, c.stands[b.ID].granted))
		}
	}
	return answer, nil
}

// withoutExisting leaves out the tasks whose key another one has, and says so; existing are those,
// in order, of which it is known.
func (c *care) withoutExisting(
	b *store.Batch, existing []store.Existing, answer *store.Submitted,
) (left []store.Task) {
	out := false
	for i := range b.Tasks {
		t, id := &b.Tasks[i], task.ID{Batch: b.ID, N: b.Tasks[i].N}
		if len(existing) > 0 && existing[0].ID == id {
			if !out {
				out, left = true, slices.Clone(b.Tasks[:i])
			}
			existing = existing[1:]
			continue
		}
		if owner, ok := c.owners[keyName{b.Queue, t.Key}]; ok && t.Key != "" && owner != id {
			if !out {
				out, left = true, slices.Clone(b.Tasks[:i])
			}
			answer.Existing = append(answer.Existing, store.Existing{
				ID: id, First: owner, Action: task.SubmittedKept,
			})
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
