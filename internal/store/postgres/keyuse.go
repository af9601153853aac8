package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
)

const (
	keyRulesOf = `SELECT key, paused, weight FROM rota.key_rule WHERE queue = $1
ORDER BY key LIMIT $2`

	// Spans of a queue that are due: those with a key, those that nobody has looked at, and those
	// of them that somebody holds. Among the latter is no order by id to be had but that of all
	// spans, which a planner that does not know the limit goes through.
	dueColumns = `batch, lo, hi, seq0, due, token, size, key`
	dueSorted  = `SELECT ` + dueColumns + ` FROM rota.span
WHERE key IS NOT NULL AND queue = $1 AND due <= (SELECT rota.micros($2))
ORDER BY key, rank, batch, lo, id LIMIT $3`
	dueUnsorted = `SELECT ` + dueColumns + ` FROM rota.span
WHERE holder IS NULL AND key IS NULL AND queue = $1 AND rank <= (SELECT rota.micros($2))
AND due <= (SELECT rota.micros($2)) ORDER BY rank, id LIMIT $3`
	dueHeld = `SELECT ` + dueColumns + ` FROM (SELECT id, ` + dueColumns + ` FROM rota.span
  WHERE holder IS NOT NULL AND key IS NULL AND queue = $1 AND due <= (SELECT rota.micros($2))
  OFFSET 0) h ORDER BY id LIMIT $3`

	// keysIn counts the tasks of spans by key, pack by pack: those that run, and those that may.
	// See countUsed and keysOf, which know the rest.
	keysIn = `SELECT k.key, k.runs, count(*)
FROM (
  SELECT coalesce(s.key, CASE WHEN e.seq IS NULL THEN t.group_key ELSE e.group_key END, '') AS key,
    u.batch IS NOT NULL AS runs
  FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::bigint[], $6::text[])
    s (batch, lo, hi, seq0, due, key)
  CROSS JOIN LATERAL generate_series(s.lo & -64, s.hi, 64) g (lo)
  LEFT JOIN LATERAL (SELECT bits FROM rota.mark WHERE s.seq0 = 0 AND batch = s.batch
    AND lo = g.lo) m ON true
  CROSS JOIN LATERAL (SELECT batch, n, group_key
    FROM rota.tasks(s.batch, greatest(s.lo, g.lo), least(s.hi, g.lo + 63))
    WHERE (coalesce(m.bits, 0) >> (n & 63)) & 1 = 0 OFFSET 0) t
  LEFT JOIN LATERAL (SELECT seq, base, due FROM rota.step WHERE batch = t.batch AND n = t.n
    ORDER BY seq DESC LIMIT 1) p ON true
  LEFT JOIN LATERAL (SELECT seq, group_key FROM rota.edit WHERE batch = t.batch AND n = t.n
    AND s.seq0 > 0 ORDER BY seq DESC LIMIT 1) e ON true
  LEFT JOIN rota.running u ON u.batch = t.batch AND u.n = t.n AND u.seq = coalesce(p.seq, -1) + 1
  WHERE coalesce(p.base, 0) = s.seq0
  AND (u.batch IS NOT NULL OR greatest(s.due, coalesce(p.due, 0)) <= $7)) k
GROUP BY 1, 2 ORDER BY 1, 2`
)

// Keys says how much work the group keys of a queue have. See contract.Views.
func (s *gates) Keys(ctx context.Context, queue string) (answer store.KeyUses, err error) {
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		var u *rules.KeyUses
		var spans []dueSpan
		list := func(r row) error {
			var sp dueSpan
			err := r.Scan(&sp.batch, &sp.lo, &sp.hi, &sp.seq0, &sp.due, &sp.token, &sp.size,
				&sp.key)
			spans = append(spans, sp)
			return err
		}
		const most = store.KeysExamined + 1
		if err := r.run(ctx, ask(clockNow, func(r row) error {
			var now int64
			err := r.Scan(&now)
			u = rules.NewKeyUses(queue, now)
			return err
		}, s.clock()),
			ask(keyRulesOf, func(r row) error {
				var key string
				var paused int64
				var weight int
				err := r.Scan(&key, &paused, &weight)
				u.Rule(key, paused, weight)
				return err
			}, queue, most),
			ask(dueSorted, list, queue, s.clock(), most),
			ask(dueUnsorted, list, queue, s.clock(), most),
			ask(dueHeld, list, queue, s.clock(), most)); err != nil {
			return err
		}
		if err := countKeys(ctx, r, u, spans); err != nil {
			return err
		}
		answer = u.Answer()
		return nil
	})
	if err != nil {
		return store.KeyUses{}, fmt.Errorf("look at the keys of queue %q: %w", queue, err)
	}
	return answer, nil
}

// dueSpan is what counting the keys of a span's tasks takes.
type dueSpan struct {
	batch, due, token  int64
	lo, hi, seq0, size int32
	key                *string // nil = nobody has looked at them
}

// countKeys counts the tasks of spans by key: one by one where some may be over, or run. Numbers
// that are no tasks count as examined, too.
func countKeys(ctx context.Context, r runner, u *rules.KeyUses, spans []dueSpan) error {
	var batches, dues []int64
	var los, his, seqs []int32
	var keys []*string
	for i := range spans {
		sp := &spans[i]
		left := u.Left()
		if left <= 0 {
			u.Cut()
			break
		}
		if sp.key != nil && sp.token == 0 { // nobody ever held it, so nothing of it is over or runs
			u.Examined()
			u.Ready(*sp.key, int(sp.size))
			continue
		}
		hi := sp.hi
		if int(hi-sp.lo)+1 > left {
			hi = sp.lo + int32(left) - 1
			u.Cut()
		}
		for range hi - sp.lo + 1 {
			u.Examined()
		}
		batches = append(batches, sp.batch)
		dues = append(dues, sp.due)
		los = append(los, sp.lo)
		his = append(his, hi)
		seqs = append(seqs, sp.seq0)
		keys = append(keys, sp.key)
	}
	if len(batches) == 0 {
		return nil
	}
	return r.run(ctx, ask(keysIn, func(r row) error {
		var key string
		var runs bool
		var n int
		err := r.Scan(&key, &runs, &n)
		if runs {
			for range n {
				u.Running(key)
			}
		} else {
			u.Ready(key, n)
		}
		return err
	}, batches, los, his, seqs, dues, keys, u.Now))
}
