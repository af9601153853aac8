package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A task that is to be begun within a time says so in its pack, or in its newest edit. The table
// expiry has a row for each batch with such tasks: when to look at it. That is never later than the
// first limit of one that is not begun: who makes an earlier one lowers it in the same transaction,
// and who looks has the row locked until it has written when to look again, so neither overlooks
// what the other does. Nothing else writes there, so it may be earlier: then a look finds nothing.

const (
	insertLooks = `INSERT INTO rota.expiry AS e (batch, look)
SELECT batch, min(look) FROM unnest($1::bigint[], $2::bigint[]) l (batch, look) GROUP BY batch
ORDER BY batch
ON CONFLICT (batch) DO UPDATE SET look = least(e.look, excluded.look)`

	// firstLook is all that there is to it as a rule.
	firstLook = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT now, EXISTS (SELECT FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
AND until > now), coalesce((SELECT look FROM rota.expiry ORDER BY look, batch LIMIT 1), 0)
FROM clock`

	looksDue = `SELECT batch, look FROM rota.expiry WHERE look <= $1 AND (look, batch) > ($3, $4)
ORDER BY look, batch LIMIT $2 FOR UPDATE SKIP LOCKED`
	looksAgain = `UPDATE rota.expiry e SET look = l.look
FROM unnest($1::bigint[], $2::bigint[]) l (batch, look) WHERE e.batch = l.batch`
	looksNoMore = `DELETE FROM rota.expiry WHERE batch = ANY($1::bigint[])`

	// limitedIn are the tasks of batches that have a limit and are not begun: to which nothing has
	// happened, or an edit last, and that have no running row.
	limitedIn = `SELECT t.batch, t.n, 0, t.expires
FROM unnest($1::bigint[]) w (batch)
CROSS JOIN LATERAL (SELECT p.batch, i.n, b.due + p.withins[i.n - p.lo + 1] AS expires
  FROM rota.batch b JOIN rota.pack p ON p.batch = w.batch
  CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n)
  WHERE b.id = w.batch AND p.withins IS NOT NULL AND p.has >> (i.n & 63) & 1 = 1
  AND p.withins[i.n - p.lo + 1] <> 0 OFFSET 0) t
WHERE NOT EXISTS (SELECT FROM rota.step WHERE batch = t.batch AND n = t.n)
AND NOT EXISTS (SELECT FROM rota.running WHERE batch = t.batch AND n = t.n AND seq = 0)
AND NOT EXISTS (SELECT FROM rota.mark WHERE batch = t.batch AND lo = (t.n & -64)
AND (bits >> (t.n & 63)) & 1 = 1)
UNION ALL
SELECT t.batch, t.n, t.seq + 1, t.expires
FROM unnest($1::bigint[]) w (batch)
CROSS JOIN LATERAL (SELECT batch, n, seq, expires FROM rota.edit
  WHERE batch = w.batch AND expires IS NOT NULL OFFSET 0) t
WHERE NOT EXISTS (SELECT FROM rota.step WHERE batch = t.batch AND n = t.n AND seq > t.seq)
AND NOT EXISTS (SELECT FROM rota.running WHERE batch = t.batch AND n = t.n AND seq = t.seq + 1)`

	freeSpansOf = `SELECT ` + spanColumnList + ` FROM rota.span
WHERE batch = ANY($1::bigint[]) AND holder IS NULL`

	// takeThose takes spans, but those that somebody has locked or taken meanwhile.
	takeThose = `WITH me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
  AND until > (SELECT rota.micros($4)) FOR KEY SHARE),
free AS MATERIALIZED (
  SELECT id FROM rota.span WHERE id = ANY($1::bigint[]) AND holder IS NULL
  AND EXISTS (SELECT FROM me) ORDER BY id FOR UPDATE SKIP LOCKED)
UPDATE rota.span s SET holder = $2, htok = $3, token = s.token + 1 FROM free f WHERE s.id = f.id
RETURNING s.id, s.batch, s.lo, s.hi, s.seq0, s.queue, s.rank, s.due, s.holder, s.htok, s.token,
  s.deaths, s.key, s.linked`

	// hasLimit is a condition of recordSteps: that nothing but edits has happened to the task of a
	// report, and that it has a limit. The key of step and its mark see to the rest.
	hasLimit = `CASE WHEN r.seq = 0 THEN EXISTS (SELECT FROM rota.task(($25::bigint[])[r.h], r.n) t
  WHERE t.start_within IS NOT NULL)
ELSE EXISTS (SELECT FROM rota.edit e WHERE e.batch = ($25::bigint[])[r.h] AND e.n = r.n
  AND e.seq = r.seq - 1 AND e.expires IS NOT NULL) END`
)

// handedOut are those of some tasks that were handed out, as far as outcomes tell.
var handedOut = `SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE EXISTS (SELECT FROM rota.step WHERE batch = w.batch AND n = w.n AND (kind < 9
OR started > 0)) OR ` + isMarked("w.batch", "w.n")

const (
	looksAtOnce = 1000 // batches that one call looks at, at most
	// tasks of theirs after which it looks at no more, and of those that are looked at together
	lookedThrough, lookedTogether = 20_000, 2000
)

// lookColumns are when to look at batches.
type lookColumns struct{ batch, at []int64 }

// add notes a limit of a batch; 0 = none.
func (c *lookColumns) add(batch, at int64) {
	if at != 0 {
		c.batch = append(c.batch, batch)
		c.at = append(c.at, at)
	}
}

func (c *lookColumns) queries() []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(insertLooks, c.batch, c.at)}
}

// TakeExpired takes free spans with tasks that nobody has begun in time. See
// contract.Spans. As a take, it reads the tasks of what it has taken once that is committed.
func (s *spans) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (answer store.Taken, err error) {
	s.hints.note(h)
	lives := false
	first := ask(firstLook, func(r row) error {
		return r.Scan(&answer.Now, &lives, &answer.NextDue)
	}, s.clock(), h.Node, h.Token)
	if err = s.glance(ctx, first); err == nil && lives && answer.NextDue != 0 &&
		answer.NextDue <= answer.Now {
		var spans []store.Span
		var l looking
		err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
			l = looking{tx: t, h: h, now: answer.Now, left: limit, stuck: s.lookedTo()}
			if err = l.look(ctx); err != nil {
				return err
			}
			spans, answer.More = l.taken, l.more
			return t.finish(ctx, first)
		})
		if err == nil {
			stuck := l.stuck
			s.stuck.Store(&stuck)
			answer.Spans, err = s.loadTaken(ctx, spans)
		}
	}
	if err != nil {
		return store.Taken{}, fmt.Errorf("take what nobody has begun in time: %w", err)
	}
	if answer.LeaseGone = !lives; !lives {
		answer.NextDue = 0
	}
	return answer, nil
}

// lookedTo is behind which the next look begins.
func (s *spans) lookedTo() toLook {
	if at := s.stuck.Load(); at != nil {
		return *at
	}
	return toLook{}
}

// looking is a call of TakeExpired.
type looking struct {
	*tx
	h     store.Holder
	now   int64
	left  int // so many tasks may be taken
	taken []store.Span
	more  bool
	// stuck is the last batch that was looked at and stays due, since somebody holds its tasks. The
	// next call begins behind it when there are more than one looks at
	stuck toLook
}

// toLook is a row of expiry.
type toLook struct{ batch, at int64 }

// look goes through the batches that are to be looked at, few at a time at first: they may be
// large.
func (l *looking) look(ctx context.Context) error {
	var list []toLook
	if err := l.run(ctx, ask(looksDue, func(r row) error {
		var b toLook
		err := r.Scan(&b.batch, &b.at)
		list = append(list, b)
		return err
	}, l.now, looksAtOnce, l.stuck.at, l.stuck.batch)); err != nil {
		return err
	}
	full := len(list) == looksAtOnce
	some := false // something came of it: what others hold is no reason to look again at once
	for size, seen := 1, 0; len(list) > 0; {
		if l.left <= 0 || seen >= lookedThrough {
			full = true
			break
		}
		size = min(size, len(list))
		n, moved, err := l.lookInto(ctx, list[:size])
		if err != nil {
			return err
		}
		some = some || moved
		list = list[size:]
		if seen += n; n < lookedTogether {
			size *= 2
		}
	}
	l.more = l.more || full && (some || len(l.taken) > 0)
	if !full {
		l.stuck = toLook{}
	}
	return nil
}

// lookInto takes what is to be taken of some batches, and notes when to look at them again. It
// answers how many tasks may expire, and whether any batch need not be looked at again for now.
func (l *looking) lookInto(
	ctx context.Context, list []toLook,
) (seen int, moved bool, err error) {
	batches := make([]int64, len(list))
	for i := range list {
		batches[i] = list[i].batch
	}
	limited := map[int64][]rules.Limited{}
	free := map[int64][]store.Span{}
	err = l.run(ctx, ask(limitedIn, func(r row) error {
		var batch int64
		var t rules.Limited
		err := r.Scan(&batch, &t.N, &t.Base, &t.Expires)
		limited[batch] = append(limited[batch], t)
		seen++
		return err
	}, batches), ask(freeSpansOf, func(r row) error {
		sp, err := scanSpan(r)
		free[sp.Batch] = append(free[sp.Batch], sp)
		return err
	}, batches))
	if err != nil {
		return seen, false, err
	}
	var again lookColumns
	var over, ids []int64
	for _, b := range list {
		spans, next := rules.Expired(l.now, limited[b.batch], free[b.batch])
		for i := range spans {
			if l.left <= 0 {
				l.more = true
				break
			}
			l.left -= width(&spans[i])
			ids = append(ids, spans[i].ID)
		}
		if next == 0 || next > l.now {
			moved = true
		} else if l.left > 0 {
			l.stuck = b
		}
		switch next {
		case 0:
			over = append(over, b.batch)
		case b.at:
		default:
			again.add(b.batch, next)
		}
	}
	return seen, moved, l.run(ctx, l.writing(ids, over, again)...)
}

// writing takes spans, and notes when to look again, or that there is nothing to look for.
func (l *looking) writing(ids, over []int64, again lookColumns) (list []query) {
	if len(ids) > 0 {
		list = append(list, ask(takeThose, func(r row) error {
			sp, err := scanSpan(r)
			l.taken = append(l.taken, sp)
			return err
		}, ids, l.h.Node, l.h.Token, l.clock()))
	}
	if len(over) > 0 {
		list = append(list, tell(looksNoMore, over))
	}
	if len(again.batch) > 0 {
		list = append(list, tell(looksAgain, again.batch, again.at))
	}
	return list
}

// noteBegun notes which of the tasks that actions give a limit, or that fall, were handed out
// before.
func (t *tx) noteBegun(
	ctx context.Context, actions []store.Action, round []int, found []fact,
) error {
	at := map[task.ID]*fact{}
	var ids []task.ID
	for k, i := range round {
		e := actions[i].Edit
		_, falls := t.falling[actions[i].ID]
		if (falls || e != nil && e.StartWithin != nil) && found[k].Seq >= 0 {
			ids = append(ids, actions[i].ID)
			at[actions[i].ID] = &found[k]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	return t.run(ctx, ask(handedOut, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		if f := at[id]; f != nil {
			f.Begun = true
		}
		return err
	}, batches, ns))
}
