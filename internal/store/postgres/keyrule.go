package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// The table key_rule says what people and handlers have said of single group keys. Whether a queue
// has any stands in its row, so that other queues pay nothing. Who writes rules, or deletes those
// that are over, has the queue's row for himself, and after it takes the gate: so a rule never
// stands in a queue that says it has none. Begin has the gate alone, and reads the rules behind it.

const (
	findKeyRule = `SELECT paused, weight FROM rota.key_rule WHERE queue = $1 AND key = $2`
	putKeyRule  = `INSERT INTO rota.key_rule (queue, key, paused, weight) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue, key) DO UPDATE SET paused = excluded.paused, weight = excluded.weight`
	deleteKeyRule  = `DELETE FROM rota.key_rule WHERE queue = $1 AND key = $2`
	deleteKeyRules = `DELETE FROM rota.key_rule WHERE queue = $1`
	standingRules  = `SELECT count(*) FROM (SELECT FROM rota.key_rule
WHERE queue = $1 AND (weight > 0 OR paused = ` + never + `) LIMIT $2) r`
	pausedKeys = `SELECT q.name, (SELECT count(*) FROM (SELECT FROM rota.key_rule
  WHERE queue = q.name AND paused > (SELECT rota.micros($2)) LIMIT 1000) r)
FROM rota.queue q WHERE q.key_rules AND ($1::text[] IS NULL OR q.name = ANY($1::text[]))`

	// lockRuled locks the rows of queues, and noteRules and forgetRules say in them whether any of
	// their keys has a rule: in later statements, which see what was committed by then. A queue
	// that has rules has a gate, as one with limits.
	lockRuled = `SELECT FROM rota.queue WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE`
	noteRules = `WITH q AS (
  UPDATE rota.queue SET key_rules = true WHERE name = ANY($1::text[]) AND NOT key_rules
    AND EXISTS (SELECT FROM rota.key_rule WHERE queue = name)
  RETURNING name)
INSERT INTO rota.gate (queue, level, at, since)
SELECT q.name, 0, c.now, c.now FROM q CROSS JOIN (SELECT rota.micros($2) AS now) c ORDER BY q.name
ON CONFLICT (queue) DO NOTHING`
	forgetRules = `WITH q AS (
  UPDATE rota.queue SET key_rules = false WHERE name = ANY($1::text[]) AND key_rules
    AND NOT EXISTS (SELECT FROM rota.key_rule WHERE queue = name)
  RETURNING name, max_running, rate_count, key_running, key_rate_count)
DELETE FROM rota.gate g USING q WHERE g.queue = q.name COLLATE "default"
AND q.max_running = 0 AND q.rate_count = 0 AND q.key_running = 0 AND q.key_rate_count = 0`

	// holdKeys pauses the group keys of tasks, each for the longest of the times that are given. It
	// ends no pause that lasts longer.
	holdKeys = `INSERT INTO rota.key_rule AS r (queue, key, paused, weight)
SELECT w.queue, k.key, c.now + max(w.hold), 0
FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[]) w (queue, batch, n, hold)
CROSS JOIN (SELECT rota.micros($5) AS now) c
JOIN rota.queue q ON q.name = w.queue
CROSS JOIN LATERAL rota.task(w.batch, w.n) t
LEFT JOIN LATERAL (SELECT seq, group_key FROM rota.edit WHERE batch = w.batch AND n = w.n
  ORDER BY seq DESC LIMIT 1) e ON true
CROSS JOIN LATERAL (SELECT CASE WHEN e.seq IS NULL THEN t.group_key ELSE e.group_key END AS key) k
WHERE k.key > ''
GROUP BY w.queue, k.key, c.now ORDER BY w.queue COLLATE "C", k.key COLLATE "C"
ON CONFLICT (queue, key) DO UPDATE SET paused = greatest(r.paused, excluded.paused)`

	keyRulesOver = `SELECT EXISTS (SELECT FROM rota.key_rule WHERE weight = 0
AND paused <= (SELECT rota.micros($1)))`
	// lockOver locks the queues of pauses that are over, but for those that somebody changes.
	lockOver = `SELECT name FROM rota.queue WHERE name IN (
  SELECT queue FROM (SELECT queue FROM rota.key_rule WHERE weight = 0 AND paused <= $1
    ORDER BY paused, queue, key LIMIT $2) r)
ORDER BY name FOR UPDATE SKIP LOCKED`
	dropOver = `WITH o AS MATERIALIZED (SELECT queue, key FROM rota.key_rule
  WHERE weight = 0 AND paused <= $1 AND queue = ANY($3::text[])
  ORDER BY paused, queue, key LIMIT $2)
DELETE FROM rota.key_rule r USING o WHERE r.queue = o.queue AND r.key = o.key RETURNING 1`
)

// ChangeKey changes what is said of a key. See contract.Queues. Who asks whether a
// task of it may begin waits for the gate meanwhile.
func (s *gates) ChangeKey(
	ctx context.Context, c store.KeyChange,
) (rule store.KeyRule, err error) {
	queue := []string{c.Queue}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		var now int64
		stands, standing := false, 0
		before := store.KeyRule{Queue: c.Queue, Key: c.Key}
		if err := t.run(ctx,
			ask(findQueue, func(row) error { stands = true; return nil }, c.Queue),
			tell(lockGates, queue),
			ask(countClock, func(r row) error { return r.Scan(&now) }, s.clock()),
			ask(findKeyRule, func(r row) error {
				return r.Scan(&before.Paused, &before.Weight)
			}, c.Queue, c.Key),
			ask(standingRules, func(r row) error { return r.Scan(&standing) }, c.Queue,
				store.MaxKeyRules)); err != nil {
			return err
		}
		rule = rules.ChangeKeyRule(before, &c, now)
		switch {
		case !stands:
			return store.ErrNotFound
		case rule.Stands() && !before.Stands() && standing >= store.MaxKeyRules:
			return store.ErrKeyRules
		case rules.SaysNothing(&rule):
			return t.finish(ctx, tell(deleteKeyRule, c.Queue, c.Key), tell(forgetRules, queue))
		}
		return t.finish(ctx, tell(putKeyRule, c.Queue, c.Key, rule.Paused, rule.Weight),
			tell(noteRules, queue, s.clock()))
	})
	if err != nil {
		return store.KeyRule{}, fmt.Errorf("change key %q of queue %q: %w", c.Key, c.Queue, err)
	}
	return rule, nil
}

// holds are tasks whose group keys reports pause.
type holds struct {
	queues         []string
	batches, times []int64
	ns             []int32
}

func (h *holds) add(queue string, id task.ID, hold time.Duration) {
	h.queues = append(h.queues, queue)
	h.batches = append(h.batches, id.Batch)
	h.ns = append(h.ns, id.N)
	h.times = append(h.times, hold.Microseconds())
}

// queries makes the queries that pause the keys. They come last in a settlement: it is not to have
// a queue's row for longer than a commit takes.
func (h *holds) queries(clock any) []query {
	if len(h.queues) == 0 {
		return nil
	}
	queues := slices.Compact(slices.Sorted(slices.Values(h.queues)))
	return []query{
		tell(lockRuled, queues),
		tell(holdKeys, h.queues, h.batches, h.ns, h.times, clock),
		tell(noteRules, queues, clock),
	}
}

// pruneKeyRules deletes the rules of keys whose pauses are over.
func (s *gates) pruneKeyRules(ctx context.Context, now int64, limit int) (pruned int, err error) {
	limit = min(limit, piece)
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		pruned = 0
		var queues []string
		if err := t.run(ctx, ask(lockOver, func(r row) error {
			var queue string
			err := r.Scan(&queue)
			queues = append(queues, queue)
			return err
		}, now, limit)); err != nil || len(queues) == 0 {
			return err
		}
		return t.finish(ctx, ask(dropOver, func(row) error {
			pruned++
			return nil
		}, now, limit, queues), tell(lockGates, queues), tell(forgetRules, queues))
	})
	return pruned, err
}
