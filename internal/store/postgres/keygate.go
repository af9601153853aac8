package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// namedAtOnce is how many rows get their keys in one transaction, and how many one count looks for.
const namedAtOnce = 2000

const (
	// rowKey is the key of the task of running row u. Who writes a row down without asking whether
	// the task may begin does not look for its key, if its span has tasks of several.
	rowKey = `coalesce(u.key, (SELECT CASE WHEN e.seq IS NULL THEN t.group_key ELSE e.group_key END
  FROM rota.task(u.batch, u.n) t
  LEFT JOIN LATERAL (SELECT seq, group_key FROM rota.edit WHERE batch = u.batch AND n = u.n
    ORDER BY seq DESC LIMIT 1) e ON true), '')`
	// nameKeys keeps keys that are still to be looked for, before they are counted: a queue that
	// begins to limit each key has rows without. Those that others have just now are passed over,
	// and counted all the same. It answers whether there may be more.
	nameKeys = `WITH o AS MATERIALIZED (
  SELECT u.batch, u.n, u.seq FROM rota.queue q
  JOIN rota.running u ON u.queue = q.name COLLATE "default" AND u.key IS NULL
  WHERE q.name = ANY($1::text[]) AND (q.key_running > 0 OR q.key_rate_count > 0 OR q.key_rules)
  LIMIT $2 FOR UPDATE OF u SKIP LOCKED),
named AS (UPDATE rota.running u SET key = ` + rowKey + ` FROM o
  WHERE u.batch = o.batch AND u.n = o.n AND u.seq = o.seq RETURNING u.batch)
SELECT count(*) = $2 FROM named`

	// keyGatesOf reads how keys stand, of those queues that limit each key, or have rules of some.
	// While a queue has more rows without keys than it looks up, any of them may be of any key: for
	// who decides by it what begins ($5) each key is full then. A bucket from before the rate was
	// set is none. Of keys that go in order it reads which task began last, how that stands, and
	// the spans that it is in and that comes first.
	keyGatesOf = `WITH unnamed AS MATERIALIZED (SELECT u.queue, ` + rowKey + ` AS key
  FROM rota.queue q
  CROSS JOIN LATERAL (SELECT queue, key, batch, n FROM rota.running
    WHERE queue = q.name COLLATE "default" AND key IS NULL LIMIT $4) u
  WHERE q.name = ANY($1::text[]) AND q.key_running > 0)
SELECT k.queue, k.key, q.key_running, q.key_rate_count, q.key_rate_per, q.key_burst,
  coalesce(b.level, 0), coalesce(b.at, g.since), CASE WHEN
    $5 AND (SELECT count(*) FROM unnamed n WHERE n.queue = k.queue) = $4 THEN q.key_running
  ELSE (SELECT count(*) FROM (
    SELECT 1 FROM rota.running u WHERE u.queue = k.queue AND u.key = k.key
    UNION ALL SELECT 1 FROM unnamed n WHERE n.queue = k.queue AND n.key = k.key
    LIMIT q.key_running) u) END,
  q.key_stop, coalesce(o.batch, 0), coalesce(o.n, 0), coalesce(o.base, 0), coalesce(o.kind, 0),
  coalesce(o.span, 0), coalesce(o.free, false), coalesce(f.id, 0), coalesce(f.free, false),
  coalesce(r.paused, 0), coalesce(r.weight, 0)
FROM unnest($1::text[], $2::text[]) k (queue, key)
CROSS JOIN (SELECT rota.micros($3) AS now) c
JOIN rota.queue q ON q.name = k.queue
AND (q.key_running > 0 OR q.key_rate_count > 0 OR q.key_rules)
JOIN rota.gate g ON g.queue = k.queue
LEFT JOIN rota.bucket b ON b.queue = k.queue AND b.key = k.key AND b.at >= g.since
LEFT JOIN rota.key_rule r ON q.key_rules AND r.queue = k.queue AND r.key = k.key
LEFT JOIN LATERAL (` + ownerOfKey + `) o ON q.key_running = 1
LEFT JOIN LATERAL (SELECT id, holder IS NULL AS free FROM rota.span
  WHERE key IS NOT NULL AND queue = k.queue AND key = k.key AND rank <= c.now AND due <= c.now
  ORDER BY rank, batch, lo, id LIMIT 1) f ON q.key_running = 1
ORDER BY k.queue COLLATE "C", k.key COLLATE "C"`
	keepBuckets = `INSERT INTO rota.bucket (queue, key, level, at, full_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
ON CONFLICT (queue, key) DO UPDATE SET level = excluded.level, at = excluded.at,
  full_at = excluded.full_at`
	dropBuckets = `DELETE FROM rota.bucket WHERE queue = $1 AND key = ANY (ARRAY(
  SELECT key FROM rota.bucket WHERE queue = $1 AND full_at <= $2 ORDER BY full_at LIMIT $3))`
	deleteBuckets = `DELETE FROM rota.bucket WHERE queue = $1`
)

// nameAll gives what runs of queues that limit each key their keys, in transactions of their own.
func (s *gates) nameAll(ctx context.Context, queues ...string) error {
	for more := true; more; {
		if err := s.write(ctx, func(ctx context.Context, t *tx) error {
			return t.finish(ctx, ask(nameKeys, func(r row) error {
				return r.Scan(&more)
			}, queues, namedAtOnce))
		}); err != nil {
			return fmt.Errorf("name the keys of what runs of queues %q: %w", queues, err)
		}
	}
	return nil
}

// KeyGates says how keys of a queue stand beside the limits of each key. See contract.Views.
func (s *gates) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, list []store.KeyGate, err error) {
	names := slices.Compact(slices.Sorted(slices.Values(keys)))
	names = slices.DeleteFunc(names, func(key string) bool { return key == "" })
	queues := slices.Repeat([]string{queue}, len(names))
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		list = nil
		return r.run(ctx, ask(clockNow, func(r row) error { return r.Scan(&now) }, s.clock()),
			ask(keyGatesOf, func(r row) error {
				s, err := scanKeyStand(r)
				list = append(list, s.KeyGate)
				return err
			}, queues, names, s.clock(), namedAtOnce, false))
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read limits of %d keys of queue %q: %w", len(keys), queue, err)
	}
	return now, list, nil
}
