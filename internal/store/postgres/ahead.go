package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// aheadWaiting looks at free spans in the order in which they are taken. Of one that nobody
	// ever held all tasks are ready once it is due, and have its rank.
	aheadWaiting = `SELECT count(*), coalesce(sum(size) FILTER (WHERE token = 0 AND due <= $2
  AND (rank < $3 OR batch < $4 OR batch = $4 AND hi < $5)), 0)::bigint
FROM (
  (SELECT batch, hi, rank, due, token, size FROM rota.span
  WHERE holder IS NULL AND key IS NULL AND queue = $1 AND rank <= $3 ORDER BY rank, id LIMIT $6)
  UNION ALL
  (SELECT batch, hi, rank, due, token, size FROM rota.span
  WHERE holder IS NULL AND key IS NOT NULL AND queue = $1 AND rank <= $3
  ORDER BY rank, id LIMIT $6)) s`

	// aheadUsed lists tasks of spans that are held, or were.
	aheadUsed = `SELECT t.batch, t.n, s.seq0
FROM (
  SELECT * FROM rota.span WHERE holder IS NOT NULL AND queue = $1
  UNION ALL
  SELECT * FROM rota.span WHERE holder IS NULL AND token > 0 AND queue = $1) s
CROSS JOIN LATERAL rota.tasks(s.batch, s.lo, s.hi) t
LIMIT $2`

	// aheadOwn lists the tasks before another one in its span.
	aheadOwn = `SELECT p.batch, i.n, $4::int FROM rota.pack p
CROSS JOIN LATERAL generate_series(greatest(p.lo, $2), least(p.lo | 63, $3 - 1)) i (n)
WHERE p.batch = $1 AND p.lo BETWEEN ($2::int & -64) AND $3::int - 1
AND p.has >> (i.n & 63) & 1 = 1 ORDER BY p.lo, i.n LIMIT $5`

	// aheadHome lists the tasks before another one in the span that it left, if nobody ever held
	// that one and its tasks still have the rank of the task, as after an edit: which of them come
	// first, their numbers say.
	aheadHome = `SELECT s.batch, t.n, 0 FROM (SELECT * FROM rota.span WHERE batch = $1 AND seq0 = 0
  AND lo <= $2 ORDER BY lo DESC LIMIT 1) s CROSS JOIN LATERAL rota.tasks(s.batch, s.lo, $2 - 1) t
WHERE s.hi >= $2 AND s.token = 0 AND s.rank = $3 ORDER BY t.n LIMIT $4`
)

// Ahead counts the ready tasks that come before another one. See contract.Views.
func (s *views) Ahead(ctx context.Context, id task.ID, limit int) (a store.Ahead, err error) {
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		var now int64
		found := make([]fact, 1)
		clock := ask(countClock, func(r row) error { return r.Scan(&now) }, s.clock())
		err := r.run(ctx, append(factsOf([]task.ID{id}, false, found), clock)...)
		if err != nil || found[0].Owner.ID == 0 || found[0].Owner.Parked() {
			return err
		}
		a, err = countAhead(ctx, r, &found[0], now, limit)
		return err
	})
	if err != nil {
		return store.Ahead{}, fmt.Errorf("count what comes before task %s: %w", id, err)
	}
	return a, nil
}

func countAhead(
	ctx context.Context, r runner, f *fact, now int64, limit int,
) (a store.Ahead, err error) {
	var spans int64
	var ids []task.ID
	var seq0s []int32 // of the spans that list them, in the same order
	list := func(r row) error {
		var id task.ID
		var seq0 int32
		err := r.Scan(&id.Batch, &id.N, &seq0)
		ids = append(ids, id)
		seq0s = append(seq0s, seq0)
		return err
	}
	queries := []query{
		ask(aheadWaiting, func(r row) error { return r.Scan(&spans, &a.Tasks) },
			f.Queue, now, f.RankNow(), f.ID.Batch, f.ID.N, limit),
		ask(aheadUsed, list, f.Queue, limit),
	}
	if own := f.Owner; own.Token == 0 {
		queries = append(queries, ask(aheadOwn, list, own.Batch, own.Lo, f.ID.N, own.Seq0, limit))
	}
	if f.Base > 0 {
		queries = append(queries, ask(aheadHome, list, f.ID.Batch, f.ID.N, f.RankNow(), limit))
	}
	if err := r.run(ctx, queries...); err != nil {
		return a, err
	}
	a.More = spans >= int64(limit) || len(ids) >= limit
	if len(ids) == 0 {
		return a, nil
	}
	others := make([]fact, len(ids))
	if err := r.run(ctx, factsOf(ids, false, others)...); err != nil {
		return a, err
	}
	for i := range others {
		other := &others[i]
		if other.ID != (task.ID{}) && other.Base == seq0s[i] &&
			other.State(now, false) == task.Ready && f.Before(&other.Fact) {
			a.Tasks++
		}
	}
	return a, nil
}
