package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rotahq/rota/internal/store"
)

// spans moves tasks between the store and the nodes that hold them: a node takes runs of tasks,
// writes down what of them runs, and gives back what it does not need; what dead nodes held is
// freed. The tables span, running and expiry are its own. Others insert spans and limits of tasks
// that are submitted or go on by themselves, and delete those of tasks that are over; what runs of
// queues with limits gates writes down.
type spans struct {
	*database
	hints  *hints
	widths widths                 // so that a take locks no more rows than it needs
	stuck  atomic.Pointer[toLook] // behind which TakeExpired looks next; nil = at the front
}

// Take makes a holder hold ready spans. See contract.Spans.
//
// The spans are taken in one trip, and their tasks read in the next: by a later statement than the
// one that waited for locks, so that nothing which was written under the last holder is missed. If
// the second trip fails, the spans are held all the same and the holder finds them (Held).
func (s *spans) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	s.hints.note(r.Holder)
	take := s.take
	if r.Keys != nil {
		take = s.takeByKey
	}
	answer, err := take(ctx, r)
	if err != nil {
		return store.Taken{}, fmt.Errorf("take from queue %q: %w", r.Queue, err)
	}
	return answer, nil
}

// widths remembers how many tasks a span of a queue has: so many rows are locked as are needed, not
// as there are tasks wanted.
type widths struct {
	sync.Mutex
	last map[string]int
}

// spans is how many spans of a queue may have n tasks.
func (w *widths) spans(queue string, n int) int {
	w.Lock()
	defer w.Unlock()
	return min(n/max(w.last[queue], 1)+1, n)
}

func (w *widths) saw(queue string, spans []store.Span) {
	tasks := 0
	for i := range spans {
		tasks += width(&spans[i])
	}
	w.Lock()
	defer w.Unlock()
	if w.last == nil {
		w.last = map[string]int{}
	}
	w.last[queue] = tasks / len(spans)
}

// width is how many numbers a span has.
func width(sp *store.Span) int { return int(sp.Hi-sp.Lo) + 1 }

func (s *spans) take(ctx context.Context, r store.TakeRequest) (answer store.Taken, err error) {
	var spans []store.Span
	for left := max(r.Limit, 0); ; {
		asked := s.widths.spans(r.Queue, left)
		got, ready, err := s.takeSpans(ctx, r, left, asked, &answer, takeSpans)
		if err == nil && len(got) == 0 && ready && left > 0 && len(spans) == 0 {
			if got, err = s.takeWaiting(ctx, r, left, &answer); err == nil && len(got) == 0 &&
				!answer.LeaseGone {
				// others have the locks: there may be something when they let go
				answer.NextDue = answer.Now + takenSoon
			}
		}
		if err != nil && len(spans) == 0 {
			return answer, err
		}
		if err != nil { // what was got is held
			break
		}
		for i := range got {
			left -= width(&got[i])
		}
		spans = append(spans, got...)
		if len(got) > 0 {
			s.widths.saw(r.Queue, got)
		}
		if len(got) < asked || left <= 0 {
			break
		}
	}
	slices.SortFunc(spans, func(a, b store.Span) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	answer.Spans, err = s.loadTaken(ctx, spans)
	return answer, err
}

// loadTaken reads the tasks of spans that are held since a moment.
func (s *spans) loadTaken(
	ctx context.Context, spans []store.Span,
) (held []store.HeldSpan, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	err = s.readOnce(context.WithoutCancel(ctx), func(ctx context.Context, r runner) error {
		held, err = load(ctx, r, spans)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %d spans are held, but reading them: %w", store.ErrUnknown,
			len(spans), err)
	}
	return held, nil
}

const (
	// spanColumnList is what scanSpan reads.
	spanColumnList = `id, batch, lo, hi, seq0, queue, rank, due, coalesce(holder, ''), htok, token, deaths, key,
linked`

	// takeSpans takes whole spans by rank as long as they fit, and of the next one as many as fit
	// then: the free rest keeps its row, so that another taker that waits for the row finds
	// something. Those that have keys are left from a time in which the queue went by keys. Who has
	// no lease ("me"), or asks for a paused queue, gets nothing. Due follows from rank only where
	// priorities differ, so both are asked; rank ends the search before the sleepers.
	takeSpans = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now),
me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $2 AND token = $3 AND until > (SELECT now
  FROM clock) FOR KEY SHARE),
plain AS MATERIALIZED (
  SELECT id, rank, hi - lo + 1 AS width FROM rota.span
  WHERE holder IS NULL AND key IS NULL AND queue = $4 AND rank <= (SELECT now FROM clock)
  AND due <= (SELECT now FROM clock)
    AND NOT EXISTS (SELECT FROM rota.queue WHERE name = $4 AND paused)
  ORDER BY rank, id LIMIT $6 FOR UPDATE SKIP LOCKED),
sorted AS MATERIALIZED (
  SELECT id, rank, hi - lo + 1 AS width FROM rota.span
  WHERE holder IS NULL AND key IS NOT NULL AND queue = $4 AND rank <= (SELECT now FROM clock)
  AND due <= (SELECT now FROM clock)
    AND NOT EXISTS (SELECT FROM rota.queue WHERE name = $4 AND paused)
  ORDER BY rank, id LIMIT $6 FOR UPDATE SKIP LOCKED),
free AS MATERIALIZED (
  SELECT * FROM plain UNION ALL SELECT * FROM sorted ORDER BY rank, id LIMIT $6),
fit AS MATERIALIZED (
  SELECT id, width, sum(width) OVER (ORDER BY rank, id) AS upto FROM free f WHERE EXISTS (SELECT
  FROM me WHERE f.id > 0)),
whole AS (
  UPDATE rota.span s SET holder = $2, htok = $3, token = s.token + 1 FROM fit f WHERE s.id = f.id
  AND f.upto <= $5
  RETURNING s.*),
rest AS (
  UPDATE rota.span s SET lo = s.lo + k.n
  FROM fit f CROSS JOIN LATERAL (SELECT ($5 - f.upto + f.width)::int AS n) k
  WHERE s.id = f.id AND f.upto > $5 AND f.upto - f.width < $5
  RETURNING s.*, k.n AS taken),
part AS (
  INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths,
  size, gaps, key, linked)
  SELECT $7, batch, lo - taken, lo - 1, seq0, queue, rank, due, $2, $3, token + 1, deaths,
  taken, gaps, key, linked FROM rest
  RETURNING *)
SELECT ` + spanColumnList + ` FROM whole UNION ALL SELECT ` + spanColumnList + ` FROM part`

	// countRest takes the tasks of the part $1 from the size of the rest. It is a statement of its
	// own behind the one that may have waited for the row: it sees what went before it did.
	countRest = `UPDATE rota.span s SET size = greatest(s.size - k.size, 0)
FROM (SELECT r.id, CASE WHEN r.gaps OR r.size <> r.hi - p.lo + 1
    THEN (SELECT count(*)::int FROM rota.tasks(p.batch, p.lo, p.hi) t
    WHERE coalesce((SELECT base FROM rota.step WHERE batch = t.batch AND n = t.n
    ORDER BY seq DESC LIMIT 1), 0) = p.seq0) ELSE p.hi - p.lo + 1 END AS size
  FROM rota.span p
  JOIN rota.span r ON r.batch = p.batch AND r.seq0 = p.seq0 AND r.lo = p.hi + 1
  WHERE p.id = $1) k
WHERE s.id = k.id`

	// whatIsLeft is asked after it: whether the lease is good, what is ready all the same, and when
	// the next sleeper wakes. What is parked is sorted by no key, and is not due.
	whatIsLeft = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT now, EXISTS (SELECT FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
AND until > now),
  EXISTS (SELECT FROM rota.queue WHERE name = $4 AND paused),
  least(
    (SELECT rank FROM rota.span WHERE holder IS NULL AND key IS NULL AND queue = $4
    AND rank <= (SELECT now FROM clock) AND due <= (SELECT now FROM clock)
      ORDER BY rank, id LIMIT 1),
    (SELECT rank FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = $4
    AND rank <= (SELECT now FROM clock) AND due <= (SELECT now FROM clock)
      ORDER BY rank, id LIMIT 1)),
  coalesce(least(
    (SELECT due FROM rota.span WHERE holder IS NULL AND key IS NULL AND queue = $4
    AND rank > (SELECT now FROM clock) AND rank < ` + never + ` AND rank = due
      ORDER BY rank LIMIT 1),
    (SELECT due FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = $4
    AND rank > (SELECT now FROM clock) AND rank = due ORDER BY rank LIMIT 1),
    (SELECT due FROM rota.span WHERE holder IS NULL AND queue = $4 AND rank <> due
    AND due > (SELECT now FROM clock) ORDER BY due LIMIT 1)), 0)
FROM clock`
)

// takeSpansWaiting is takeSpans for who waits.
var takeSpansWaiting = strings.ReplaceAll(takeSpans, " SKIP LOCKED", "")

// scanSpan reads a span, and what comes before it.
func scanSpan(r row, first ...any) (sp store.Span, err error) {
	var key *string
	err = r.Scan(append(first, &sp.ID, &sp.Batch, &sp.Lo, &sp.Hi, &sp.Seq0, &sp.Queue, &sp.Rank,
		&sp.Due, &sp.Holder.Node, &sp.Holder.Token, &sp.Token, &sp.Deaths, &key,
		(*uint8)(&sp.Linked))...)
	if sp.Sorted = key != nil; sp.Sorted {
		sp.Key = *key
	}
	return sp, err
}

// takeSpans takes at most n tasks in at most asked spans. ready says that there are more than it
// got.
func (s *spans) takeSpans(
	ctx context.Context, r store.TakeRequest, n, asked int, answer *store.Taken, statement string,
	first ...query,
) (got []store.Span, ready bool, err error) {
	id, err := s.spanIDs(ctx, loose{s.database}, 1)
	if err != nil {
		return nil, false, err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		got = nil
		lives, paused := false, false
		var next *int64
		queries := append(first, ask(statement, func(r row) error {
			sp, err := scanSpan(r)
			got = append(got, sp)
			return err
		}, s.clock(), r.Holder.Node, r.Holder.Token, r.Queue, n, asked, id),
			tell(countRest, id),
			ask(whatIsLeft, func(r row) error {
				return r.Scan(&answer.Now, &lives, &paused, &next, &answer.NextDue)
			}, s.clock(), r.Holder.Node, r.Holder.Token, r.Queue))
		err := t.finish(ctx, queries...)
		answer.LeaseGone = err == nil && !lives && len(got) == 0
		if answer.LeaseGone || paused {
			answer.NextDue, next = 0, nil
		}
		answer.More, answer.NextRank = next != nil, 0
		if ready = next != nil; ready {
			answer.NextRank = *next
		}
		return err
	})
	return got, ready, err
}

const readyOf = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT q.name, s.rank FROM clock CROSS JOIN unnest($2::text[]) q (name) CROSS JOIN LATERAL (
  SELECT least(
    (SELECT rank FROM rota.span WHERE holder IS NULL AND key IS NULL AND queue = q.name
    AND rank <= now AND due <= now ORDER BY rank, id LIMIT 1),
    (SELECT rank FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = q.name
    AND rank <= now AND due <= now ORDER BY rank, id LIMIT 1)) AS rank
  WHERE NOT EXISTS (SELECT FROM rota.queue WHERE name = q.name AND paused)) s
WHERE s.rank IS NOT NULL`

// Ready says which queues have ready spans that nobody holds. See contract.Spans.
func (s *spans) Ready(ctx context.Context, queues []string) (list []store.Ready, err error) {
	err = s.glance(ctx, ask(readyOf, func(r row) error {
		var ready store.Ready
		err := r.Scan(&ready.Queue, &ready.Rank)
		list = append(list, ready)
		return err
	}, s.clock(), queues))
	if err != nil {
		return nil, fmt.Errorf("look which of %d queues have ready tasks: %w", len(queues), err)
	}
	return list, nil
}

// takenSoon is when to look again at what others have locked, in microseconds.
const takenSoon = 50_000

// takerPatience is how long a taker waits for others that hold the locks of all that is ready.
const takerPatience = "50ms"

// takeWaiting takes when something is ready but locked: it waits for whoever has the locks, and
// takes what that one leaves.
func (s *spans) takeWaiting(
	ctx context.Context, r store.TakeRequest, n int, answer *store.Taken,
) (got []store.Span, err error) {
	got, _, err = s.takeSpans(ctx, r, n, 1, answer, takeSpansWaiting,
		tell(setLocal, "lock_timeout", takerPatience))
	if errors.Is(err, store.ErrBusy) {
		return nil, nil
	}
	return got, err
}

// TakeRunning takes free spans of queues with limits that have tasks which run. See
// contract.Spans. As a take, it reads the tasks of what it has taken once that is committed.
func (s *spans) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (answer store.Taken, err error) {
	s.hints.note(h)
	lives := false
	good := ask(leaseGood, func(r row) error {
		return r.Scan(&answer.Now, &lives)
	}, s.clock(), h.Node, h.Token)
	var ids []int64
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		ids, answer.More = nil, false
		left := limit
		return r.run(ctx, good, ask(freeRunning, func(r row) error {
			var id int64
			var width int
			err := r.Scan(&id, &width)
			if left > 0 {
				ids = append(ids, id)
			} else {
				answer.More = true
			}
			left -= width
			return err
		}, max(limit, 0)+1))
	})
	if answer.LeaseGone = !lives; err == nil && lives && len(ids) > 0 {
		var spans []store.Span
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			spans = nil
			return t.finish(ctx, good, ask(takeThose, func(r row) error {
				sp, err := scanSpan(r)
				spans = append(spans, sp)
				return err
			}, ids, h.Node, h.Token, s.clock()))
		})
		if err == nil {
			answer.Spans, err = s.loadTaken(ctx, spans)
		}
	}
	if err != nil {
		return store.Taken{}, fmt.Errorf("take what runs and nobody holds: %w", err)
	}
	if answer.LeaseGone = !lives; !lives {
		answer.More = false
	}
	return answer, nil
}
