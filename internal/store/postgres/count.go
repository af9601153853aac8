package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/store"
)

// What is final and how many are not comes from the statistics; who waits among the others, and who
// is blocked, from spans: a queue all of whose tasks are over has none. Only the tasks of spans
// that somebody holds or held are looked at one by one: they may be over, be backing off, or run;
// there are no more of them than nodes hold.
const (
	countClock = `SELECT rota.micros($1)`

	countQueues = `SELECT q.name,
  d.Submitted::bigint, d.Done::bigint, d.Dead::bigint, d.Cancelled::bigint,
  d.expired::bigint,
  coalesce(l.size, 0)::bigint + coalesce(k.size, 0)::bigint + coalesce(a.size, 0)::bigint,
  coalesce(w.size, 0)::bigint,
  coalesce(CASE WHEN d.open THEN least(
    (SELECT due FROM rota.span WHERE holder IS NULL AND key IS NULL AND queue = q.name
    AND rank <= $2 AND rank = due AND due <= $2 AND token = 0 AND size > 0
      ORDER BY rank LIMIT 1),
    (SELECT due FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = q.name
    AND rank <= $2 AND rank = due AND due <= $2 AND token = 0 AND size > 0
      ORDER BY rank LIMIT 1),
    (SELECT due FROM rota.span WHERE holder IS NULL AND queue = q.name AND rank <> due AND due <= $2
    AND token = 0 AND size > 0
      ORDER BY due LIMIT 1)) END, 0)
FROM unnest($1::text[]) q (name)
CROSS JOIN LATERAL (SELECT coalesce(sum(submitted), 0) AS submitted, coalesce(sum(done), 0) AS done,
coalesce(sum(dead), 0) AS dead,
  coalesce(sum(cancelled), 0) AS cancelled,
  coalesce(sum(expired), 0) AS expired,
  coalesce(sum(submitted - done - dead - cancelled - expired), 0) <> 0 AS open
FROM rota.stat WHERE queue = q.name) d
CROSS JOIN LATERAL (SELECT sum(size) AS size FROM rota.span
  WHERE d.open AND holder IS NULL AND key IS NULL AND queue = q.name AND rank > $2 AND due > $2
  AND rank < ` + never + ` AND token = 0) l
CROSS JOIN LATERAL (SELECT sum(size) AS size FROM rota.span
  WHERE d.open AND holder IS NULL AND key IS NULL AND queue = q.name AND rank = ` + never + `) w
CROSS JOIN LATERAL (SELECT sum(size) AS size FROM rota.span
  WHERE d.open AND holder IS NULL AND key IS NOT NULL AND queue = q.name AND rank > $2 AND due > $2
  AND token = 0) k
CROSS JOIN LATERAL (SELECT sum(size) AS size FROM rota.span
  WHERE d.open AND holder IS NULL AND queue = q.name AND rank <> due AND rank <= $2 AND due > $2
  AND token = 0) a`

	// countUsed looks at the tasks of spans that are held, or were, pack by pack: whether they run,
	// and when they may. What a mark says is done is of no span with seq0 = 0, whatever follows.
	// No index has what is held by queue: the names are hashed, as spans would be compared with all
	// names of an array that the planner does not know. IS TRUE keeps them from being joined.
	countUsed = `SELECT s.queue, (u.batch IS NOT NULL), greatest(s.due, coalesce(p.due, 0)),
count(*)
FROM (
  SELECT * FROM rota.span WHERE holder IS NOT NULL
  AND (queue IN (SELECT unnest($1::text[]))) IS TRUE
  UNION ALL
  SELECT * FROM rota.span WHERE holder IS NULL AND token > 0 AND queue = ANY($1::text[])) s
CROSS JOIN LATERAL generate_series(s.lo & -64, s.hi, 64) g (lo)
LEFT JOIN LATERAL (SELECT bits FROM rota.mark WHERE s.seq0 = 0 AND batch = s.batch
AND lo = g.lo) m ON true
CROSS JOIN LATERAL (SELECT batch, n
FROM rota.tasks(s.batch, greatest(s.lo, g.lo), least(s.hi, g.lo + 63))
WHERE (coalesce(m.bits, 0) >> (n & 63)) & 1 = 0 OFFSET 0) t
LEFT JOIN LATERAL (SELECT seq, base, due FROM rota.step WHERE batch = t.batch AND n = t.n
ORDER BY seq DESC LIMIT 1) p ON true
LEFT JOIN rota.running u ON u.batch = t.batch AND u.n = t.n AND u.seq = coalesce(p.seq, -1) + 1
WHERE coalesce(p.base, 0) = s.seq0
GROUP BY 1, 2, 3`
)

// Counts counts tasks by state, exactly, without looking at each. See contract.Views.
func (s *statistics) Counts(
	ctx context.Context, queues ...string,
) (list []store.QueueCounts, err error) {
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		names := queues
		var now int64
		queries := []query{ask(countClock, func(r row) error { return r.Scan(&now) }, s.clock())}
		if len(queues) == 0 {
			queries = append(queries, ask(allQueues, func(r row) error {
				q, err := scanQueue(r)
				names = append(names, q.Name)
				return err
			}))
		}
		if err := r.run(ctx, queries...); err != nil {
			return err
		}
		list, err = count(ctx, r, names, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count tasks: %w", err)
	}
	return list, nil
}

func count(ctx context.Context, r runner, names []string, now int64) ([]store.QueueCounts, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list := make([]store.QueueCounts, len(names))
	at := make(map[string][]int, len(names)) // a queue may be asked for twice
	for i, name := range names {
		list[i].Queue = name
		at[name] = append(at[name], i)
	}
	left := make(map[string]int64, len(names))
	next := 0
	err := r.run(ctx, ask(countQueues, func(r row) error {
		q := &list[next]
		next++
		var d counters.Counters
		var waiting, blocked, oldest int64
		if err := r.Scan(
			&q.Queue, &d.Submitted, &d.Done, &d.Dead, &d.Cancelled, &d.Expired, &waiting,
			&blocked, &oldest,
		); err != nil {
			return err
		}
		for _, i := range at[q.Queue] {
			c := &list[i].Counts
			c.Done = d.Done
			c.Dead = d.Dead
			c.Cancelled = d.Cancelled
			c.Expired = d.Expired
			c.Waiting = waiting
			c.Blocked = blocked
			list[i].OldestReady = oldest
		}
		left[q.Queue] = d.Unfinished()
		return nil
	}, names, now), ask(countUsed, func(r row) error {
		var queue string
		var runs bool
		var due, n int64
		if err := r.Scan(&queue, &runs, &due, &n); err != nil {
			return err
		}
		for _, i := range at[queue] {
			switch q := &list[i]; {
			case runs:
				q.Counts.Running += n
			case due > now:
				q.Counts.Waiting += n
			case q.OldestReady == 0 || due < q.OldestReady:
				q.OldestReady = due
			}
		}
		return nil
	}, names))
	for i := range list {
		c := &list[i].Counts
		c.Ready = left[list[i].Queue] - c.Blocked - c.Waiting - c.Running
	}
	return list, err
}
