package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const heldSpans = `SELECT ` + spanColumnList +
	` FROM rota.span WHERE holder = $1 AND htok = $2 AND id <> ALL ($3::bigint[])`

// Held answers the spans that h holds beyond the known ones. See contract.Spans.
func (s *spans) Held(
	ctx context.Context, h store.Holder, known []int64,
) (held []store.HeldSpan, err error) {
	if known == nil {
		known = []int64{}
	}
	var list []store.Span
	find := ask(heldSpans, func(r row) error {
		sp, err := scanSpan(r)
		list = append(list, sp)
		return err
	}, h.Node, h.Token, known)
	if err = s.glance(ctx, find); err == nil && len(list) > 0 {
		// almost never: then once more, with what is in them
		err = s.reading(ctx, func(ctx context.Context, r runner) error {
			list = nil
			if err := r.run(ctx, find); err != nil {
				return err
			}
			held, err = load(ctx, r, list)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read spans of node %q: %w", h.Node, err)
	}
	return held, nil
}

const (
	leaseGood = `SELECT now, EXISTS (SELECT FROM rota.lease WHERE name = 'node/' || $2
AND token = $3 AND until > now)
FROM (SELECT rota.micros($1) AS now) clock`

	// withoutRow are those of some hand-outs that have no row, in their order.
	withoutRow = `SELECT w.batch, w.n
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, seq, i)
WHERE NOT EXISTS (SELECT FROM rota.running u WHERE u.batch = w.batch AND u.n = w.n
  AND u.seq = w.seq) ORDER BY w.i`

	settledSeqs = `SELECT w.batch, w.n, w.seq
FROM unnest($1::bigint[], $2::int[], $3::int[]) w (batch, n, seq)
CROSS JOIN LATERAL (SELECT FROM rota.step WHERE batch = w.batch AND n = w.n AND seq = w.seq
LIMIT 1) p`

	// settledFirst are the bits of the marks that say of first hand-outs that they are done.
	settledFirst = `SELECT m.batch, m.lo, m.bits & w.bits, ''::bytea
FROM unnest($1::bigint[], $2::int[], $3::bigint[]) w (batch, lo, bits)
JOIN rota.mark m ON m.batch = w.batch AND m.lo = w.lo AND m.batch BETWEEN $4 AND $5
WHERE m.bits & w.bits <> 0`

	deleteRunning = `DELETE FROM rota.running u USING unnest($1::bigint[], $2::int[],
$3::int[]) r (batch, n, seq)
WHERE u.batch = r.batch AND u.n = r.n AND u.seq = r.seq`
)

// insertRunning is guarded: the lease is good, the span is still the holder's and covers the task,
// and no outcome stands at the seq. Otherwise the hand-out is over already, and a row would make
// its token good again. The span is locked, so that whoever takes it next sees the row; one that is
// being taken just now is passed over.
var insertRunning = `WITH me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
  AND until > (SELECT rota.micros($1)) FOR KEY SHARE),
mine AS MATERIALIZED (
  SELECT id, token, batch, lo, hi, gaps, queue, key FROM rota.span WHERE id = ANY($13::bigint[])
  AND holder = $2 AND htok = $3 AND EXISTS (SELECT FROM me) ORDER BY id FOR SHARE SKIP LOCKED)
INSERT INTO rota.running AS u (batch, n, seq, span, token, worker, incarnation, started, until,
queue, key)
SELECT r.batch, r.n, r.seq, r.span, r.token, r.worker, r.incarnation, r.started, r.until, s.queue,
  coalesce(r.key, s.key)
FROM unnest($4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::bigint[],
$9::text[], $10::text[], $11::bigint[], $12::bigint[], $16::text[])
  r (batch, n, seq, span, token, worker, incarnation, started, until, key)
JOIN mine s ON s.id = r.span AND s.token = r.token AND s.batch = r.batch
AND r.n BETWEEN s.lo AND s.hi
WHERE (NOT s.gaps OR EXISTS (SELECT FROM rota.task(r.batch, r.n)))
AND NOT EXISTS (SELECT FROM rota.step p WHERE p.batch = r.batch AND p.n = r.n AND p.seq = r.seq
  AND p.batch BETWEEN $14 AND $15)
AND NOT (r.seq = 0 AND EXISTS (SELECT FROM rota.mark m WHERE m.batch = r.batch
  AND m.batch BETWEEN $14 AND $15 AND m.lo = (r.n & -64) AND (m.bits >> (r.n & 63)) & 1 = 1))
ORDER BY r.batch, r.n, r.seq
`

// writeDown writes hand-outs down that have no rows.
var writeDown = insertRunning + `ON CONFLICT DO NOTHING`

// written makes the query that writes hand-outs down, by writeDown or letBegin; each is called with
// what that answers. Without keys their spans say them, or nobody does yet: see rowKey.
func written(
	clock any, text string, h store.Holder, list []store.Running, keys []string,
	each func(row) error,
) query {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(list[a].ID.Compare(list[b].ID), cmp.Compare(list[a].Seq, list[b].Seq))
	})
	var groups []*string
	var batches, spans, tokens, started, until []int64
	var ns, seqs []int32
	var workers, incarnations []string
	for _, i := range order {
		r := &list[i]
		var key *string
		if keys != nil && keys[i] != "" {
			key = &keys[i]
		}
		groups = append(groups, key)
		batches = append(batches, r.ID.Batch)
		ns = append(ns, r.ID.N)
		seqs = append(seqs, r.Seq)
		spans = append(spans, r.Span)
		tokens = append(tokens, r.Token)
		workers = append(workers, r.Worker)
		incarnations = append(incarnations, r.Incarnation)
		started = append(started, r.Started)
		until = append(until, r.Until)
	}
	first, last := batches[0], batches[len(batches)-1]
	return ask(text, each, clock, h.Node, h.Token, batches, ns, seqs, spans, tokens, workers,
		incarnations, started, until, distinct(slices.Clone(spans)), first, last, groups)
}

// Sync writes down what runs, and says what others settled. See contract.Steps.
func (s *spans) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	s.hints.note(r.Holder)
	var answer store.Synced
	var litter keyColumns
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		answer, litter = store.Synced{}, keyColumns{}
		lives := false
		var queries []query
		if len(r.Insert) > 0 {
			var rows keyColumns
			for i := range r.Insert {
				rows.add(r.Insert[i].ID, r.Insert[i].Seq)
			}
			queries = append(queries, written(s.clock(), writeDown, r.Holder, r.Insert, nil, nil),
				ask(withoutRow, func(r row) error {
					var id task.ID
					err := r.Scan(&id.Batch, &id.N)
					answer.Missing = append(answer.Missing, id)
					return err
				}, rows.batch, rows.n, rows.seq))
		}
		// behind the rows: where the lease is good by now, it was when they were written down
		queries = append(queries, ask(leaseGood, func(r row) error {
			return r.Scan(&answer.Now, &lives)
		}, s.clock(), r.Holder.Node, r.Holder.Token))
		if len(r.Watch) > 0 {
			var watch keyColumns
			var first []task.ID
			for _, w := range r.Watch {
				watch.add(w.ID, w.Seq)
				if w.Seq == 0 {
					first = append(first, w.ID)
				}
			}
			c := packsOf(first)
			from, to := c.bounds()
			queries = append(queries, ask(settledSeqs, func(r row) error {
				var id task.ID
				var seq int32
				err := r.Scan(&id.Batch, &id.N, &seq)
				answer.Settled = append(answer.Settled, id)
				litter.add(id, seq)
				return err
			}, watch.batch, watch.n, watch.seq), ask(settledFirst, func(r row) error {
				var m mark
				err := m.scan(r)
				for n := range m.bits.Numbers(m.lo) {
					id := task.ID{Batch: m.batch, N: n}
					answer.Settled = append(answer.Settled, id)
					litter.add(id, 0)
				}
				return err
			}, c.batch, c.lo, c.bits, from, to))
		}
		err := t.finish(ctx, queries...)
		if answer.LeaseGone = !lives; answer.LeaseGone {
			answer.Settled, answer.Missing = nil, nil
		}
		return err
	})
	if err == nil && len(litter.batch) > 0 && !answer.LeaseGone {
		// rows of hand-outs that are over: readers know them for what they are
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			return t.finish(ctx, tell(deleteRunning, litter.batch, litter.n, litter.seq))
		})
	}
	if err != nil {
		return store.Synced{}, fmt.Errorf("sync %d hand-outs: %w", len(r.Watch), err)
	}
	return answer, nil
}

// overdue begins each row with the time, so that one statement is enough.
const overdue = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT now, u.batch, u.n, u.seq, u.span, u.token, u.worker, u.incarnation, u.started, u.until
FROM clock CROSS JOIN LATERAL (
  SELECT * FROM rota.running WHERE until <= now AND (started >= $2 OR until <= now - $3)
  AND (until, batch, n, seq) > ($4, $5, $6, $7)
  ORDER BY until, batch, n, seq LIMIT $8) u
ORDER BY u.until, u.batch, u.n, u.seq`

// Overdue lists hand-outs that are past their limit. See contract.Steps.
func (s *spans) Overdue(
	ctx context.Context, q store.OverdueQuery,
) (answer store.Overdue, err error) {
	err = s.glance(ctx, ask(overdue, func(r row) error {
		var u store.Running
		err := r.Scan(&answer.Now, &u.ID.Batch, &u.ID.N, &u.Seq, &u.Span, &u.Token, &u.Worker,
			&u.Incarnation, &u.Started, &u.Until)
		answer.Rows = append(answer.Rows, u)
		return err
	}, s.clock(), q.Steady, q.Late, q.After.Until, q.After.ID.Batch, q.After.ID.N, q.After.Seq,
		max(q.Limit, 0)))
	if err != nil {
		return store.Overdue{}, fmt.Errorf("list overdue hand-outs: %w", err)
	}
	return answer, nil
}

// keyColumns are keys of steps or of running rows.
type keyColumns struct {
	batch  []int64
	n, seq []int32
}

func (c *keyColumns) add(id task.ID, seq int32) {
	c.batch = append(c.batch, id.Batch)
	c.n = append(c.n, id.N)
	c.seq = append(c.seq, seq)
}

const (
	// lockMine also says by which time it found the lease good. What is written down before the
	// spans go is to go by the same.
	lockMine = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now),
me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
  AND until > (SELECT now FROM clock) FOR KEY SHARE)
SELECT s.id, s.queue, (SELECT now FROM clock) FROM unnest($4::bigint[], $5::bigint[]) w (id, token)
JOIN rota.span s ON s.id = w.id AND s.token = w.token
WHERE s.holder = $2 AND s.htok = $3 AND EXISTS (SELECT FROM me)
ORDER BY s.id FOR UPDATE OF s SKIP LOCKED`
	freeMine    = `UPDATE rota.span SET holder = NULL, htok = 0 WHERE id = ANY($1::bigint[])`
	freeMineFor = `UPDATE rota.span s SET holder = NULL, htok = 0, rank = w.rank, due = w.due
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (id, rank, due) WHERE s.id = w.id`
)

// takingColumns are takings as statements take them.
func takingColumns(list []store.Taking) (spans, tokens []int64) {
	spans, tokens = make([]int64, len(list)), make([]int64, len(list))
	for i, t := range list {
		spans[i], tokens[i] = t.Span, t.Token
	}
	return spans, tokens
}

// Give gives spans back. See contract.Spans. A span that somebody settles just now
// is kept, and found by Held.
func (s *spans) Give(ctx context.Context, g store.GiveRequest) error {
	if len(g.Spans) == 0 && !s.closed.Load() {
		return nil
	}
	ids, tokens := takingColumns(g.Spans)
	queues := map[string]bool{}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		var mine []int64
		var now int64
		clear(queues)
		err := t.run(ctx, ask(lockMine, func(r row) error {
			var id int64
			var queue string
			err := r.Scan(&id, &queue, &now)
			mine = append(mine, id)
			queues[queue] = true
			return err
		}, s.clock(), g.Holder.Node, g.Holder.Token, ids, tokens))
		if err != nil || len(mine) == 0 {
			return err
		}
		var running []store.Running
		for _, r := range g.Running {
			if slices.Contains(mine, r.Span) {
				running = append(running, r)
			}
		}
		queries := []query{tell(freeMine, mine)}
		if len(g.Orders) > 0 {
			ranks, dues := make([]int64, len(mine)), make([]int64, len(mine))
			for i, id := range mine {
				order := g.Orders[slices.Index(ids, id)]
				ranks[i], dues[i] = order.Rank, order.Due
			}
			queries = []query{tell(freeMineFor, mine, ranks, dues)}
		}
		if len(running) > 0 {
			queries = append([]query{
				written(now, writeDown, g.Holder, running, nil, nil),
			}, queries...)
		}
		return t.finish(ctx, queries...)
	})
	if err != nil {
		return fmt.Errorf("give %d spans back: %w", len(g.Spans), err)
	}
	for queue := range queues {
		s.hints.hint(Hint{Queue: queue})
	}
	return nil
}

// restsOfMine cuts spans of a holder's in two. How many tasks either part has is not exact, as it
// was held.
const restsOfMine = `WITH me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
  AND until > (SELECT rota.micros($1)) FOR KEY SHARE),
mine AS MATERIALIZED (
  SELECT s.*, w.i, w.first, w.rest, w.at, w.due_at
  FROM unnest($4::bigint[], $5::bigint[], $6::int[], $7::bigint[], $8::bigint[], $9::bigint[])
    WITH ORDINALITY w (id, token, first, at, due_at, rest, i)
  JOIN rota.span s ON s.id = w.id AND s.token = w.token
  WHERE s.holder = $2 AND s.htok = $3 AND s.lo < w.first AND s.hi >= w.first - 1
  AND EXISTS (SELECT FROM me) ORDER BY s.id FOR UPDATE OF s SKIP LOCKED),
kept AS (
  UPDATE rota.span s SET hi = m.first - 1, size = least(s.size, m.first - m.lo) FROM mine m
  WHERE s.id = m.id AND m.hi >= m.first),
free AS (
  INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths, size, gaps,
  key, linked)
  SELECT rest, batch, first, hi, seq0, queue, at, due_at, 0, token, deaths,
  least(size, hi - first + 1), gaps, key, linked FROM mine WHERE hi >= first)
SELECT i::int, queue FROM mine`

// GiveRest gives the rests of spans back. See contract.Spans. A span that somebody
// settles just now stays as it is.
func (s *spans) GiveRest(ctx context.Context, r store.RestRequest) (given []bool, err error) {
	n := len(r.Rests)
	if n == 0 && !s.closed.Load() {
		return nil, nil
	}
	first, err := s.spanIDs(ctx, loose{s.database}, n)
	if err != nil {
		return nil, err
	}
	ids, tokens, ranks := make([]int64, n), make([]int64, n), make([]int64, n)
	dues, rests, from := make([]int64, n), make([]int64, n), make([]int32, n)
	for i, x := range r.Rests {
		ids[i], tokens[i], from[i] = x.Span, x.Token, x.From
		ranks[i], dues[i], rests[i] = x.Rank, x.Due, first+int64(i)
	}
	queues := map[string]bool{}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		given = make([]bool, n)
		clear(queues)
		return t.finish(ctx, ask(restsOfMine, func(r row) error {
			var i int
			var queue string
			err := r.Scan(&i, &queue)
			if err == nil {
				given[i-1], queues[queue] = true, true
			}
			return err
		}, s.clock(), r.Holder.Node, r.Holder.Token, ids, tokens, from, ranks, dues, rests))
	})
	if err != nil {
		return nil, fmt.Errorf("give the rests of %d spans back: %w", n, err)
	}
	for queue := range queues {
		s.hints.hint(Hint{Queue: queue})
	}
	return given, nil
}

const (
	// endExpired raises the tokens first: no late renewal revives what is about to be freed. A
	// lease that its holder is using just now is passed over. With a membership ends what stands
	// with it ($4 is the Until of such).
	endExpired = `WITH o AS MATERIALIZED (
  SELECT name, holder FROM rota.lease WHERE until > 0 AND until <= (SELECT rota.micros($1))
  AND NOT (name = 'node/' || $2 AND token = $3)
  AND (SELECT rota.micros($1)) <= $5 ORDER BY name FOR UPDATE SKIP LOCKED),
p AS MATERIALIZED (
  SELECT l.name FROM rota.lease l JOIN o ON o.holder = l.holder
  AND o.name = 'node/' || regexp_replace(o.holder, '@[^@]*$', '')
  WHERE l.until = $4 ORDER BY l.name FOR UPDATE OF l SKIP LOCKED)
UPDATE rota.lease l SET token = l.token + 1, until = 0 WHERE l.name IN (SELECT name FROM o UNION ALL
SELECT name FROM p)`

	// freeDead walks from holder to holder, not from span to span.
	freeDead = `WITH RECURSIVE held AS (
  (SELECT holder, htok FROM rota.span WHERE holder IS NOT NULL ORDER BY holder, htok LIMIT 1)
  UNION ALL
  SELECT n.* FROM held h CROSS JOIN LATERAL (
    SELECT s.holder, s.htok FROM rota.span s WHERE s.holder IS NOT NULL
    AND (s.holder, s.htok) > (h.holder, h.htok) ORDER BY s.holder, s.htok LIMIT 1) n),
dead AS MATERIALIZED (
  SELECT * FROM held h WHERE NOT EXISTS (SELECT FROM rota.lease l WHERE l.name = 'node/' || h.holder
  AND l.token = h.htok)),
free AS MATERIALIZED (
  SELECT s.id FROM dead d JOIN rota.span s ON s.holder = d.holder AND s.htok = d.htok
  ORDER BY s.id FOR UPDATE OF s SKIP LOCKED)
UPDATE rota.span s SET holder = NULL, htok = 0, deaths = deaths + 1 FROM free f WHERE s.id = f.id
RETURNING s.queue`
)

// Free ends expired leases, then frees what no living lease holds. See contract.Upkeep.
func (s *spans) Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error) {
	return s.free(ctx,
		tell(endExpired, s.clock(), self.Node, self.Token, int64(store.WhileMember), judge))
}

// FreeEnded frees what no lease holds any more. See contract.Upkeep.
func (s *spans) FreeEnded(ctx context.Context) (freed int, err error) { return s.free(ctx) }

// free frees what no lease holds after the queries before it, and tells the nodes.
func (s *spans) free(ctx context.Context, before ...query) (freed int, err error) {
	queues, orphans := map[string]bool{}, false
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		freed, orphans = 0, false
		clear(queues)
		return t.finish(ctx, append(slices.Clone(before), ask(freeDead, func(r row) error {
			var queue string
			err := r.Scan(&queue)
			freed++
			queues[queue] = true
			return err
		}), ask(orphanSeats, func(row) error { orphans = true; return nil }, s.clock()))...)
	})
	if err != nil {
		return 0, fmt.Errorf("free spans of dead nodes: %w", err)
	}
	for queue := range queues {
		s.hints.hint(Hint{Queue: queue})
	}
	if orphans {
		s.hints.hint(Hint{Seats: true})
	}
	return freed, nil
}
