package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// fact is a task, with what this store reads along with it.
type fact struct {
	rules.Fact
	worker    string      // of the newest hand-out
	ran       bool        // whether a step says which that is
	began     int64       // of one that a mark says is done: its hand-out
	context   store.Value // when it was asked for
	contextBy string      // the worker that wrote it; "" = it was submitted
}

// writerOf is the worker that wrote a task's context, in the step c. Of what the function finish
// wrote nobody has checked whose word it is.
// What an edit wrote is as good as submitted.
const writerOf = `CASE WHEN p.context_seq IS NULL OR c.kind = 14 THEN '' WHEN c.hash = -1 THEN '?'
ELSE coalesce(c.worker, '?') END`

// findFacts reads tasks. Spans of one batch with equal seq0 never overlap, so only the last that
// begins at or before the task can be its own. The worker of a step that was asked for (kind 9 and
// on) while nobody ran the task is who asked.
const findFacts = `SELECT w.i::int, t.batch, t.n, b.queue, b.rank, b.due,
coalesce(e.head_start, b.due - b.rank), b.created, coalesce(p.stage, p.ran, t.stage),
  coalesce(t.key, ''), CASE WHEN e.seq IS NULL THEN coalesce(t.group_key, '') ELSE
  coalesce(e.group_key, '') END, coalesce(e.max_attempts, t.max_attempts, 0),
  coalesce(t.timeout, 0), coalesce(t.meta, ''), e.meta, coalesce(p.seq,
  -1), coalesce(p.kind, 0)::int, coalesce(p.attempt, 0),
  coalesce(p.base, 0), coalesce(p.context_seq, -1), coalesce(p.due, 0), coalesce(p.finished, 0),
  coalesce(p.error, ''),
  coalesce(CASE WHEN p.seq IS NULL THEN b.due + t.start_within
  WHEN e.seq = p.seq THEN e.expires END, 0),
  k.worker,
  coalesce(o.id, 0), coalesce(o.lo, 0), coalesce(o.hi, 0), coalesce(o.rank, 0), coalesce(o.due, 0),
  coalesce(o.holder, ''), coalesce(o.htok, 0),
  coalesce(o.token, 0), coalesce(o.deaths, 0), coalesce(o.linked, 0),
  u.batch IS NOT NULL, coalesce(u.span, 0), coalesce(u.token, 0), coalesce(u.worker, ''),
  coalesce(u.incarnation, ''), coalesce(u.started, 0),
  coalesce(u.until, 0), CASE WHEN $3 THEN CASE WHEN p.context_seq IS NULL THEN t.context
  ELSE c.context END END,
  ` + writerOf + `
FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY w (batch, n, i)
CROSS JOIN LATERAL rota.task(w.batch, w.n) t
JOIN rota.batch b ON b.id = w.batch
LEFT JOIN LATERAL (SELECT * FROM rota.step WHERE batch = w.batch AND n = w.n ORDER BY seq DESC
LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT * FROM rota.edit WHERE batch = w.batch AND n = w.n
AND p.seq IS NOT NULL ORDER BY seq DESC LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT coalesce(worker, '') AS worker FROM rota.step WHERE batch = w.batch AND n = w.n AND (kind < 9
OR started > 0) ORDER BY seq DESC LIMIT 1) k ON p.seq IS NOT NULL
LEFT JOIN LATERAL (SELECT * FROM rota.span WHERE batch = w.batch AND seq0 = coalesce(p.base, 0)
AND lo <= w.n ORDER BY lo DESC LIMIT 1) o
  ON o.hi >= w.n
LEFT JOIN rota.running u ON u.batch = w.batch AND u.n = w.n AND u.seq = coalesce(p.seq, -1) + 1
LEFT JOIN rota.step c ON c.batch = w.batch AND c.n = w.n AND c.seq = p.context_seq`

// Who deletes tasks locks their packs, so that nobody acts on them meanwhile; who acts on them
// shares the lock, so that nobody deletes them. Deleting passes over packs that are locked and is
// short, one commit, and acting never waits for acting: so packs keep nobody waiting whom single
// tasks would not. Row locks write the row's header, once for each pack, as those of tasks did for
// each task. Advisory locks would write nothing, but stand in a table of some thousands in the
// server's memory: deleting four thousand lone tasks would fill it.
const (
	lockPackRows = `SELECT p.batch, p.lo, p.has, p.keys IS NOT NULL FROM ` + packRowsOf + `
ORDER BY p.batch, p.lo FOR UPDATE OF p SKIP LOCKED`
	sharePackRows = `SELECT FROM ` + packRowsOf + ` ORDER BY p.batch, p.lo FOR KEY SHARE OF p`

	// packRowsOf are the packs of tasks ($1, $2), and which of their bits these are.
	packRowsOf = `(SELECT batch, n & -64 AS page, bit_or(1::bigint << (n & 63)) AS bits
FROM unnest($1::bigint[], $2::int[]) w (batch, n) GROUP BY 1, 2) w
JOIN rota.pack p ON p.batch = w.batch AND p.lo BETWEEN w.page AND w.page + 63
AND p.has & w.bits <> 0`
)

// scanFact scans a row of findFacts.
func scanFact(r row, i *int, f *fact) error {
	var kind int32
	var runs bool
	var u store.Running
	var worker, edited *string
	o := &f.Owner
	err := r.Scan(i, &f.ID.Batch, &f.ID.N, &f.Queue, &f.Rank, &f.Due, &f.HeadStart,
		&f.Created, &f.Stage, &f.Key,
		&f.GroupKey, &f.MaxAttempts, &f.Timeout, (*string)(&f.Meta), &edited,
		&f.Seq, &kind, &f.Attempt, &f.Base, &f.ContextSeq, &f.StepDue, &f.Finished, &f.Error,
		&f.Expires, &worker,
		&o.ID, &o.Lo, &o.Hi, &o.Rank, &o.Due, &o.Holder.Node, &o.Holder.Token, &o.Token, &o.Deaths,
		(*uint8)(&o.Linked),
		&runs, &u.Span, &u.Token, &u.Worker, &u.Incarnation, &u.Started, &u.Until, &f.context,
		&f.contextBy)
	if f.EditedMeta = (*store.Meta)(edited); edited != nil {
		f.Meta = *f.EditedMeta
	}
	f.Kind = task.Kind(kind)
	if f.ran = worker != nil; f.ran {
		f.worker = *worker
	}
	if o.ID != 0 {
		o.Batch, o.Seq0, o.Queue = f.ID.Batch, f.Base, f.Queue
	}
	if runs && f.Base != store.Final {
		u.ID, u.Seq = f.ID, f.Seq+1
		f.Running = &u
	}
	return err
}

// idColumns are task ids as columns.
func idColumns(ids []task.ID) (batches []int64, ns []int32) {
	for _, id := range ids {
		batches = append(batches, id.Batch)
		ns = append(ns, id.N)
	}
	return batches, ns
}

// factsOf makes the queries that read tasks into found; those that are not there stay zero. What
// marks say of them is read behind them, so that it may be newer: then it is what holds by now,
// and no more than one more step stands.
func factsOf(ids []task.ID, context bool, found []fact) []query {
	batches, ns := idColumns(ids)
	c := packsOf(ids)
	from, to := c.bounds()
	return []query{ask(findFacts, func(r row) error {
		var i int
		var f fact
		err := scanFact(r, &i, &f)
		if err == nil {
			found[i-1] = f
		}
		return err
	}, batches, ns, context), ask(marksOf, func(r row) error {
		var m mark
		if err := m.scan(r); err != nil {
			return err
		}
		return marks{m.packID: m}.each(ids, func(i int, d *pack.Done) {
			found[i].marked(d)
		})
	}, c.batch, c.lo, c.bits, from, to)}
}

// locked locks those of some tasks that nobody else has locked, and then reads them. keyed tells
// whether some may have keys.
func (t *tx) locked(ctx context.Context, ids []task.ID) (found []fact, keyed bool, err error) {
	mine, keyed, err := t.lock(ctx, ids)
	if err != nil || len(mine) == 0 {
		return nil, false, err
	}
	found = make([]fact, len(mine))
	return found, keyed, t.run(ctx, factsOf(mine, false, found)...)
}

// lock locks those of the tasks that stand and that nobody else has locked.
func (t *tx) lock(ctx context.Context, ids []task.ID) (mine []task.ID, keyed bool, err error) {
	if len(ids) == 0 {
		return nil, false, nil
	}
	batches, ns := idColumns(ids)
	has := map[task.ID]pack.Bits{} // by the first number of a page
	err = t.run(ctx, ask(lockPackRows, func(r row) error {
		var page task.ID
		var bits int64
		var keys bool
		err := r.Scan(&page.Batch, &page.N, &bits, &keys)
		page.N = pack.Lo(page.N)
		has[page] |= pack.Bits(bits)
		keyed = keyed || keys
		return err
	}, batches, ns))
	for _, id := range ids {
		if has[task.ID{Batch: id.Batch, N: pack.Lo(id.N)}].Has(id.N) {
			mine = append(mine, id)
		}
	}
	return mine, keyed, err
}

// findEnds reads what is to be known of tasks that are deleted: whether they are over, and how. It
// costs a third of findFacts.
const findEnds = `SELECT w.batch, w.n, b.queue, coalesce(p.base, 0), p.kind::int,
coalesce(p.finished, 0)
FROM unnest($1::bigint[], $2::int[]) w (batch, n) JOIN rota.batch b ON b.id = w.batch
LEFT JOIN LATERAL (SELECT base, kind, finished FROM rota.step WHERE batch = w.batch AND n = w.n
ORDER BY seq DESC LIMIT 1) p ON true
WHERE coalesce(p.base, -1) = -1`

// lockedOver locks tasks and answers those that are over. keyed tells whether some may have keys.
func (t *tx) lockedOver(
	ctx context.Context, ids []task.ID,
) (over []fact, keyed bool, err error) {
	mine, keyed, err := t.lock(ctx, ids)
	if err != nil || len(mine) == 0 {
		return nil, false, err
	}
	batches, ns := idColumns(mine)
	first := marks{}
	err = t.run(ctx, first.reading(mine), ask(findEnds, func(r row) error {
		f := fact{}
		var kind *int32
		err := r.Scan(&f.ID.Batch, &f.ID.N, &f.Queue, &f.Base, &kind, &f.Finished)
		if err != nil {
			return err
		}
		if kind != nil {
			f.Kind = task.Kind(*kind)
		} else if d, ok, err := first.find(f.ID); err != nil {
			return err
		} else if ok {
			f.marked(&d)
		}
		if f.Base == store.Final {
			over = append(over, f)
		}
		return nil
	}, batches, ns))
	return over, keyed, err
}

// Stand answers where tasks stand, in the order of ids.
func (s *views) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	found := make([]fact, len(ids))
	list := make([]store.Stood, len(ids))
	unique := make(map[task.ID]bool)
	parents := map[int64]task.ID{}
	batches, ns := idColumns(ids)
	queries := append(factsOf(ids, true, found), askParents(batches, parents)...)
	if err := s.read(ctx, append(queries, ask(uniquesIn, func(r row) error {
		var i int
		err := r.Scan(&i, new(int32))
		unique[ids[i-1]] = true
		return err
	}, batches, ns, ns))...); err != nil {
		return nil, fmt.Errorf("read where %d tasks stand: %w", len(ids), err)
	}
	var w waking
	var after priors
	for i := range found {
		if f := &found[i]; f.ID != (task.ID{}) {
			list[i] = f.Stood(f.context, f.contextBy)
			list[i].Unique, list[i].Parent = unique[f.ID], parents[f.ID.Batch]
			w.add(f.ID.Batch, f.Owner.Linked, &list[i].Loaded)
			after.add(f.ID.Batch, &list[i].Loaded)
		}
		list[i].ID = ids[i]
	}
	if queries := append(w.queries(), after.queries()...); len(queries) > 0 {
		err := s.readOnce(ctx, func(ctx context.Context, r runner) error {
			err := r.run(ctx, queries...)
			if err == nil {
				err = after.finish(ctx, r)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read what %d tasks have waited for: %w", len(ids), err)
		}
	}
	if err := s.confirmed(ctx); err != nil {
		return nil, fmt.Errorf("confirm where %d tasks stand: %w", len(ids), err)
	}
	return list, nil
}
