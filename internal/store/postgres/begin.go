package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A hand-out of a queue that has limits has its running row before anybody sees it. So the rows of
// such a queue are what runs, whoever handed it out. Who writes some has the queue's row of table
// gate for himself: what he counts is all that was written by then, and what ends meanwhile he may
// count, too.

const (
	lockGates = `SELECT FROM rota.gate WHERE queue = ANY($1::text[]) ORDER BY queue FOR UPDATE`

	// gatesOf counts running rows no further than it has to; of a queue that has a rate only, none.
	// The names of queues go by bytes in their own table alone, and an index is of no use to the
	// other way.
	gatesOf = `SELECT ` + queueColumns + `, coalesce(g.level, 0), coalesce(g.at, 0), (SELECT count(*)
  FROM (SELECT FROM rota.running u WHERE u.queue = q.name COLLATE "default"
  LIMIT q.max_running) u)
FROM rota.queue q LEFT JOIN rota.gate g ON g.queue = q.name COLLATE "default"
WHERE (q.max_running > 0 OR q.rate_count > 0 OR q.key_running > 0 OR q.key_rate_count > 0
  OR q.key_rules)
AND ($1::text[] IS NULL OR q.name = ANY($1::text[]))
ORDER BY q.name`
	fullKeys = `SELECT q.name, CASE WHEN EXISTS (SELECT FROM rota.running u
    WHERE u.queue = q.name COLLATE "default" AND u.key IS NULL)
  THEN (SELECT count(*) FROM (SELECT FROM (
      SELECT u.key FROM rota.running u WHERE u.queue = q.name COLLATE "default"
      UNION ALL SELECT ` + rowKey + ` FROM (SELECT key, batch, n FROM rota.running
        WHERE queue = q.name COLLATE "default" AND key IS NULL LIMIT $2) u) u
    WHERE u.key > '' GROUP BY u.key HAVING count(*) >= q.key_running LIMIT 1000) k)
  ELSE (SELECT count(*) FROM (SELECT FROM rota.running u
      WHERE u.queue = q.name COLLATE "default" AND u.key > ''
    GROUP BY u.key HAVING count(*) >= q.key_running LIMIT 1000) k) END
FROM rota.queue q WHERE q.key_running > 0 AND ($1::text[] IS NULL OR q.name = ANY($1::text[]))`
	clockNow = `SELECT rota.micros($1)`

	// writtenAt says of each hand-out that has a row whether the row is its own.
	writtenAt = `SELECT w.i::int, u.span = w.span AND u.token = w.token
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::bigint[]) WITH ORDINALITY
  w (batch, n, seq, span, token, i)
JOIN rota.running u ON u.batch = w.batch AND u.n = w.n AND u.seq = w.seq`

	// freeRunning are free spans of queues with limits that have tasks which run. A task that moved
	// belongs to the span with the last beginning before its hand-out.
	freeRunning = `SELECT s.id, s.hi - s.lo + 1 FROM rota.gate g
JOIN rota.span s ON s.queue = g.queue AND s.holder IS NULL AND s.token > 0
WHERE EXISTS (SELECT FROM rota.running r WHERE r.batch = s.batch AND r.n BETWEEN s.lo AND s.hi
  AND r.seq >= s.seq0 AND NOT EXISTS (
    SELECT FROM rota.span x WHERE x.batch = s.batch AND x.seq0 > s.seq0 AND x.seq0 <= r.seq
    AND r.n BETWEEN x.lo AND x.hi))
ORDER BY s.id LIMIT $1`

	keepBucket = `UPDATE rota.gate SET level = $2, at = $3 WHERE queue = $1`
	// touchGate makes the row of a queue's gate, or waits for whoever has it: who has it next sees
	// the limits that are changed along with it.
	touchGate = `INSERT INTO rota.gate AS g (queue, level, at, since)
SELECT $1, 0, now, now FROM (SELECT rota.micros($2) AS now) clock
ON CONFLICT (queue) DO UPDATE SET level = CASE WHEN $3 THEN 0 ELSE g.level END,
  at = CASE WHEN $3 THEN excluded.at ELSE g.at END,
  since = CASE WHEN $4 THEN excluded.since ELSE g.since END`
	deleteGate = `DELETE FROM rota.gate WHERE queue = $1`
)

// letBegin writes hand-outs down. One that has a row of its own already is with another worker now.
var letBegin = insertRunning + `ON CONFLICT (batch, n, seq) DO UPDATE SET worker = excluded.worker,
  incarnation = excluded.incarnation, started = excluded.started, until = excluded.until
WHERE u.span = excluded.span AND u.token = excluded.token
RETURNING batch, n, seq, u.span, u.token`

// gates says which tasks of queues with limits begin, and how such queues and their keys stand. The
// tables gate, bucket, key_rule and key_owner are its own; it inserts the rows of running of such
// queues, and counts them.
type gates struct {
	*database
	hints *hints
}

// Begin writes hand-outs down, as many as the limits of their queues allow. See contract.Steps.
func (s *gates) Begin(ctx context.Context, r store.BeginRequest) (answer store.Begun, err error) {
	s.hints.note(r.Holder)
	queues, rows := r.ByQueue()
	queues = append([]string{}, queues...) // none is not all
	for unnamed := true; unnamed && err == nil; {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			b := beginning{BeginRequest: &r, written: make([]rules.Asked, len(r.Rows))}
			if err := b.look(ctx, t, s.database, queues); err != nil {
				return err
			}
			unnamed = b.unnamed && !b.answer.LeaseGone
			if answer = b.answer; answer.LeaseGone || unnamed {
				answer.Gates = nil
				return t.finish(ctx)
			}
			answer.Rows = make([]store.Beginning, len(r.Rows))
			return b.apply(ctx, t, s.database, queues, rows, &answer)
		})
		if unnamed && err == nil {
			err = s.nameAll(ctx, queues...)
		}
	}
	if err != nil {
		return store.Begun{}, fmt.Errorf("begin %d hand-outs: %w", len(r.Rows), err)
	}
	return answer, nil
}

// beginning is one call of Begin in progress.
type beginning struct {
	*store.BeginRequest
	answer  store.Begun
	unnamed bool          // rows may still be without their keys: nothing is decided yet
	written []rules.Asked // what stands where the rows are to be
	keys    []*rules.KeyStand
}

// look has the queues' gates for itself from here on, and reads how they stand.
func (b *beginning) look(ctx context.Context, t *tx, d *database, queues []string) error {
	lives := false
	var keys keyColumns
	spans, tokens := make([]int64, len(b.Rows)), make([]int64, len(b.Rows))
	at := map[keyName][]int{} // rows, by queue and key
	for i := range b.Rows {
		u := &b.Rows[i]
		keys.add(u.ID, u.Seq)
		spans[i], tokens[i] = u.Span, u.Token
		b.written[i].ID, b.written[i].Span = u.ID, u.Span
		if of := (keyName{u.Queue, u.Key}); u.Key != "" {
			at[of] = append(at[of], i)
		}
	}
	of, groups := make([]string, 0, len(at)), make([]string, 0, len(at))
	for k := range at {
		of = append(of, k.queue)
		groups = append(groups, k.key)
	}
	// whoever has a unique key for long is to keep no queue's gate from others
	first := append(b.shareUniques(), tell(lockGates, queues))
	err := t.run(ctx, append(first,
		ask(nameKeys, func(r row) error { return r.Scan(&b.unnamed) }, queues, namedAtOnce),
		ask(leaseGood, func(r row) error {
			return r.Scan(&b.answer.Now, &lives)
		}, d.clock(), b.Holder.Node, b.Holder.Token),
		ask(gatesOf, scanGates(&b.answer.Gates), queues),
		ask(writtenAt, func(r row) error {
			var i int
			var own bool
			err := r.Scan(&i, &own)
			if b.written[i-1].Written = rules.Another; own {
				b.written[i-1].Written = rules.Itself
			}
			return err
		}, keys.batch, keys.n, keys.seq, spans, tokens),
		ask(keyGatesOf, func(r row) error {
			k, err := scanKeyStand(r)
			k.Next = k.first
			b.keys = append(b.keys, &k.KeyStand)
			for _, i := range at[keyName{k.Queue, k.Key}] {
				b.written[i].Key = &k.KeyStand
			}
			return err
		}, of, groups, d.clock(), namedAtOnce, true))...)
	b.answer.LeaseGone = !lives
	return err
}

func scanGates(list *[]store.Gate) func(row) error {
	return func(r row) error {
		var g store.Gate
		q, err := scanQueue(r, &g.Bucket.Level, &g.Bucket.At, &g.Running)
		g.Queue, g.Limits = q.Name, admission.LimitsOf(&q)
		*list = append(*list, g)
		return err
	}
}

// apply decides, and writes what follows.
func (b *beginning) apply(
	ctx context.Context, t *tx, d *database, queues []string, rows map[string][]int,
	answer *store.Begun,
) error {
	gates := map[string]*admission.Gate{}
	for i := range answer.Gates {
		gates[answer.Gates[i].Queue] = &answer.Gates[i].Gate
	}
	var insert []store.Running
	var groups []string // their keys
	var keep []query
	for _, queue := range queues {
		gate := gates[queue]
		if gate == nil {
			gate = &admission.Gate{}
			gates[queue] = gate
		}
		for k, is := range rules.LetBegin(gate, b.of(rows[queue]), answer.Now) {
			i := rows[queue][k]
			if answer.Rows[i] = is; is == store.Begins {
				insert = append(insert, b.Rows[i].Running)
				groups = append(groups, b.Rows[i].Key)
			}
		}
		if gate.Limits.Rate.Count > 0 {
			keep = append(keep, tell(keepBucket, queue, gate.Bucket.Level, gate.Bucket.At))
		}
	}
	keep = append(keep, b.bucketsKept(answer.Now)...)
	type handout struct {
		store.Watch
		store.Taking
	}
	stands := map[handout]bool{}
	if len(insert) > 0 {
		begins := func(r row) error {
			var at handout
			err := r.Scan(&at.ID.Batch, &at.ID.N, &at.Seq, &at.Span, &at.Token)
			stands[at] = true
			return err
		}
		keep = append(keep, written(d.clock(), letBegin, b.Holder, insert, groups, begins))
		keep = append(keep, b.ownersKept(answer.Rows)...)
	}
	if err := t.finish(ctx, keep...); err != nil {
		return err
	}
	for _, queue := range queues {
		at := rows[queue]
		list := make([]store.Beginning, len(at))
		for k, i := range at {
			list[k] = answer.Rows[i]
		}
		rules.Began(gates[queue], b.of(at), list, func(k int) bool {
			u := &b.Rows[at[k]].Running
			return stands[handout{
				store.Watch{ID: u.ID, Seq: u.Seq}, store.Taking{Span: u.Span, Token: u.Token},
			}]
		})
		for k, i := range at {
			answer.Rows[i] = list[k]
		}
	}
	for _, k := range b.keys {
		answer.Keys = append(answer.Keys, k.KeyGate)
	}
	return nil
}

// bucketsKept makes the queries that keep what keys have left of their rates, and drop some rows of
// others that have all of it again.
func (b *beginning) bucketsKept(now int64) (list []query) {
	var queues, keys []string
	var levels, ats, full []int64
	count := map[string]int{}
	for _, k := range b.keys {
		if k.Limits.Rate.Count == 0 {
			continue
		}
		count[k.Queue]++
		queues = append(queues, k.Queue)
		keys = append(keys, k.Key)
		levels = append(levels, k.Bucket.Level)
		ats = append(ats, k.Bucket.At)
		full = append(full, k.Bucket.FullAt(&k.Limits.Rate))
	}
	if len(queues) == 0 {
		return nil
	}
	list = append(list, tell(keepBuckets, queues, keys, levels, ats, full))
	for _, queue := range slices.Sorted(maps.Keys(count)) {
		list = append(list, tell(dropBuckets, queue, now, 2*count[queue]))
	}
	return list
}

// of is what stands where the rows at some places are to be.
func (b *beginning) of(at []int) []rules.Asked {
	list := make([]rules.Asked, len(at))
	for k, i := range at {
		list[k] = b.written[i]
	}
	return list
}

// Gates says how queues stand beside their limits. See contract.Views.
func (s *gates) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	var asked []string // NULL = all
	if len(queues) > 0 {
		asked = queues
	}
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		gates = nil
		count := func(of func(*store.Gate) *int) func(row) error {
			return func(r row) error {
				var name string
				var n int
				err := r.Scan(&name, &n)
				for i := range gates {
					if gates[i].Queue == name {
						*of(&gates[i]) = n
					}
				}
				return err
			}
		}
		return r.run(ctx, ask(clockNow, func(r row) error { return r.Scan(&now) }, s.clock()),
			ask(gatesOf, scanGates(&gates), asked),
			ask(fullKeys, count(func(g *store.Gate) *int { return &g.FullKeys }), asked,
				namedAtOnce),
			ask(pausedKeys, count(func(g *store.Gate) *int { return &g.PausedKeys }), asked,
				s.clock()))
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read limits of queues: %w", err)
	}
	return now, gates, nil
}

// gateChanged makes the queries that go with a change of a queue's limits: a rate that changes
// begins with an empty bucket.
func (s *gates) gateChanged(before, after *task.Queue) []query {
	was, is := admission.LimitsOf(before), admission.LimitsOf(after)
	wasOfKey, ofKey := admission.KeyLimitsOf(before), admission.KeyLimitsOf(after)
	switch {
	case was == is && wasOfKey == ofKey:
		return nil
	case !admission.Limited(after):
		return []query{tell(deleteGate, after.Name)}
	}
	return []query{tell(touchGate, after.Name, s.clock(), was.Rate != is.Rate,
		wasOfKey.Rate != ofKey.Rate)}
}
