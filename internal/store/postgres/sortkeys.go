package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
)

// A queue that goes by keys has spans with the tasks of one key each, so that a take finds the next
// key however much is queued of another one. What is submitted, moved or was there before is sorted
// by the first take that comes upon it.

const (
	unsortedSpans = `SELECT ` + spanColumnList + ` FROM rota.span
WHERE holder IS NULL AND key IS NULL AND queue = $1 AND rank <= $2 AND due <= $2
ORDER BY rank, id LIMIT $3 FOR UPDATE SKIP LOCKED`
	setKeys = `UPDATE rota.span s SET hi = w.hi, size = w.size, key = w.key
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[]) w (id, hi, size, key)
WHERE s.id = w.id`
	insertSorted = `INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token,
deaths, size, gaps, key, linked)
SELECT w.id, s.batch, w.lo, w.hi, s.seq0, s.queue, s.rank, s.due, 0, s.token, s.deaths, w.size,
  s.gaps OR w.size <> w.hi - w.lo + 1, w.key, s.linked
FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::text[])
  w (id, of, lo, hi, size, key) JOIN rota.span s ON s.id = w.of`
)

// sort sorts the first of what is ready and not sorted; more tells that there is still some.
func (b *keyTake) sort(ctx context.Context) (more bool, err error) {
	var list []store.Span
	total := 0
	if err := b.run(ctx, ask(unsortedSpans, func(r row) error {
		sp, err := scanSpan(r)
		if total >= rules.SortedAtOnce {
			more = true
			return err
		}
		total += width(&sp)
		list = append(list, sp)
		return err
	}, b.Queue, b.now, rules.SortedAtOnce+1)); err != nil || len(list) == 0 {
		return more, err
	}
	runs := make([]rules.Runs, len(list))
	var of readColumns
	for i := range list {
		runs[i] = rules.RunsOf(&list[i])
		of.add(&list[i])
	}
	if err := b.run(ctx, ask(keysOf, func(r row) error {
		var i int
		var n int32
		var key string
		err := r.Scan(&i, &n, &key)
		runs[i-1].Add(n, key)
		return err
	}, of.batches, of.los, of.his, of.seqs)); err != nil {
		return more, err
	}
	return more, b.writeRuns(ctx, list, runs)
}

// writeRuns makes spans of runs. The first of a span keeps its row, and with it what was handed out
// under its token.
func (b *keyTake) writeRuns(ctx context.Context, list []store.Span, runs []rules.Runs) error {
	var kept, made runColumns
	for i := range list {
		for k, run := range runs[i].List() {
			if k == 0 {
				kept.add(list[i].ID, run)
			} else {
				made.add(list[i].ID, run)
			}
		}
	}
	var queries []query
	if n := len(made.of); n > 0 { // before the others: they are copies
		first, err := b.spanIDs(ctx, b.tx, n)
		if err != nil {
			return err
		}
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = first + int64(i)
		}
		queries = append(queries, tell(insertSorted, ids, made.of, made.lo, made.hi, made.size,
			made.key))
	}
	return b.run(ctx, append(queries, tell(setKeys, kept.of, kept.hi, kept.size, kept.key))...)
}

// runColumns are runs as statements take them.
type runColumns struct {
	of           []int64 // the spans that they are runs of
	lo, hi, size []int32
	key          []string
}

func (c *runColumns) add(of int64, run rules.Run) {
	c.of = append(c.of, of)
	c.lo = append(c.lo, run.Lo)
	c.hi = append(c.hi, run.Hi)
	c.size = append(c.size, int32(run.Size))
	c.key = append(c.key, run.Key)
}
