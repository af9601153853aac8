package postgres

import (
	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// The table key_owner says which task of a key began last, where keys go in order. Whether the key
// still has to wait for it follows from how it stands. It is written by whoever has the gate of the
// queue for himself.

const (
	// ownerOfKey is part of keyGatesOf: the task of key k that began last, with its newest step, or
	// what its mark says, and the span that it is in. A task that is not over is in a span.
	ownerOfKey = `SELECT w.batch, w.n, w.base, w.kind, s.id AS span,
  s.holder IS NULL AND s.key = k.key AND s.rank <= c.now AND s.due <= c.now AS free
FROM (SELECT o.batch, o.n, coalesce(e.base, m.base, 0) AS base, coalesce(e.kind, m.kind, 0) AS kind
  FROM rota.key_owner o
  LEFT JOIN LATERAL (SELECT base, kind FROM rota.step WHERE batch = o.batch AND n = o.n
    ORDER BY seq DESC LIMIT 1) e ON true
  LEFT JOIN LATERAL (SELECT -1 AS base, 1 AS kind FROM rota.mark WHERE batch = o.batch
    AND lo = (o.n & -64) AND (bits >> (o.n & 63)) & 1 = 1) m ON true
  WHERE o.queue = k.queue AND o.key = k.key) w
LEFT JOIN LATERAL (SELECT x.* FROM (SELECT id, hi, holder, key, rank, due FROM rota.span
    WHERE batch = w.batch AND seq0 = w.base AND lo <= w.n ORDER BY lo DESC LIMIT 1) x
  WHERE x.hi >= w.n) s ON true
WHERE w.base = -1 OR s.id IS NOT NULL`

	// putOwners gives keys to hand-outs that have rows: those that began.
	putOwners = `INSERT INTO rota.key_owner (queue, key, batch, n)
SELECT w.queue, w.key, w.batch, w.n
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::int[], $6::bigint[], $7::bigint[])
  w (queue, key, batch, n, seq, span, token)
JOIN rota.running u ON u.batch = w.batch AND u.n = w.n AND u.seq = w.seq AND u.span = w.span
  AND u.token = w.token
ON CONFLICT (queue, key) DO UPDATE SET batch = excluded.batch, n = excluded.n`
	// A row that somebody has locked is about to be given to another task.
	dropOwners = `WITH o AS MATERIALIZED (SELECT k.queue, k.key
  FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  JOIN rota.key_owner k ON k.batch = w.batch AND k.n = w.n
  ORDER BY k.queue, k.key FOR UPDATE OF k SKIP LOCKED)
DELETE FROM rota.key_owner u USING o WHERE u.queue = o.queue AND u.key = o.key`
	deleteKeyOwners = `DELETE FROM rota.key_owner WHERE queue = $1`
)

// movedKeys are tasks whose group keys are others from now on.
type movedKeys []task.ID

func (m movedKeys) queries() []query {
	if len(m) == 0 {
		return nil
	}
	batches, ns := idColumns(m)
	return []query{tell(dropOwners, batches, ns)}
}

// keyStand is how a key stands, and of one that goes in order what it has.
type keyStand struct {
	rules.KeyStand
	own, first         int64 // the spans that its owner is in, and that comes first; 0 = none
	ownFree, firstFree bool  // nobody has it, and it may be taken
	weight             int   // of its turn, as it is said
}

// taken is the span that may be taken of a key in order; 0 = none.
func (k *keyStand) taken() int64 {
	switch {
	case k.Stopped:
		return 0
	case k.Owner != (task.ID{}) && k.ownFree:
		return k.own
	case k.Owner == (task.ID{}) && k.firstFree:
		return k.first
	}
	return 0
}

func scanKeyStand(r row) (k keyStand, err error) {
	var q task.Queue
	var o rules.OwnerRow
	stop, onDead := false, task.OnDeadContinue
	err = r.Scan(&k.Queue, &k.Key, &q.PerKey.MaxRunning, &q.PerKey.Rate.Count,
		(*int64)(&q.PerKey.Rate.Per), &q.PerKey.Burst, &k.Bucket.Level, &k.Bucket.At, &k.Running,
		&stop, &o.ID.Batch, &o.ID.N, &o.Base, &o.Kind, &k.own, &k.ownFree, &k.first, &k.firstFree,
		&k.Paused, &k.weight)
	if k.Limits = admission.KeyLimitsOf(&q); stop {
		onDead = task.OnDeadStop
	}
	k.SetOwner(o, onDead)
	return k, err
}

// ownersKept makes the queries that keep which tasks own their keys from now on: those of the rows
// that began.
func (b *beginning) ownersKept(rows []store.Beginning) []query {
	var queues, names []string
	var keys keyColumns
	var spans, tokens []int64
	for i := range b.Rows {
		u, k := &b.Rows[i], b.written[i].Key
		if rows[i] == store.Begins && k != nil && k.Begun(u.ID) {
			queues = append(queues, u.Queue)
			names = append(names, u.Key)
			keys.add(u.ID, u.Seq)
			spans = append(spans, u.Span)
			tokens = append(tokens, u.Token)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	return []query{tell(putOwners, queues, names, keys.batch, keys.n, keys.seq, spans, tokens)}
}
