package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/internal/store/rules/retain"
	"github.com/rotahq/rota/task"
)

// upkeep deletes what is kept no longer, of every table, and has the rest of the housekeeping done:
// partitions made ahead, statistics added up. Other parts delete what is theirs alone; here are
// keys, tasks with all that they have, blobs, and whole partitions.
type upkeep struct {
	*database
	values       *values
	partitioning *partitioning
	gates        *gates
	queues       *queues
	events       *events
	jobs         *jobs
	schedules    *schedules
	statistics   *statistics
	pruner       pruner
}

// pruner remembers how far pruning came. Batches are in order of time, so a walk from the oldest
// meets what can be deleted first and ends at the first batch that is too young; then it rests
// until something can have outlived its retention.
type pruner struct {
	behind atomic.Bool  // there is more to look at or to delete at once
	lag    atomic.Int64 // microseconds: store.Retention.Lag
	called atomic.Int64 // when Prune was called last, by stopwatch; 0 = never

	mu    sync.Mutex
	clock int64  // the store's time at the last call
	kept  string // what the queues keep for how long, when a walk began: another node may change it
	piece retain.Piece
	walk  pruneWalk
	width int    // tasks of a batch that was looked at lately
	rest  int64  // no walk before
	blobs string // the last blob that was looked at
	sweep int64  // no look at blobs before
	ahead int64  // no look for missing partitions before
	retry int64  // no look for partitions that are over before
	// no reading of a partition before, by its suffix: too much of it was to be kept
	later map[string]int64

	retiring chan error // answers the look for partitions that is under way; nil = none is
}

// pruneWalk is a walk in progress; it takes several calls when there is much to look at.
type pruneWalk struct {
	at   task.ID // the last task that was looked at
	seen int     // tasks and batches, so far
	next int64   // when the first of those that were passed over outlives its retention; 0 = never
	some bool    // were deleted
}

// later notes that something that was passed over can be deleted at a time.
func (w *pruneWalk) later(at int64) {
	if w.next == 0 || at < w.next {
		w.next = at
	}
}

const (
	pruneExamined = 10_000 // tasks and batches that one call looks at
	// microseconds of rest after a walk for each of them: walking takes a few percent of a core at
	// most
	prunePace = 100

	othersPrune = 2 * time.Minute // after so long without a call another node does it

	// Nobody waits for what is over, so a piece may be long enough that its trips and its commit
	// cost little beside it.
	// tasks that one transaction deletes at least, when there are as many,
	pruneLeast = 500
	pruneMost  = 4000                   // and at most,
	pruneGoal  = 100 * time.Millisecond // so that it takes about so long
)

// Prune deletes what retention no longer keeps, and sees to it that partitions are there for what
// comes. See contract.Upkeep.
func (s *upkeep) Prune(ctx context.Context, limit int) (pruned int, err error) {
	p := &s.pruner
	p.mu.Lock()
	defer p.mu.Unlock()
	var now, remains, left int64
	jobs, fires, pauses, kept := false, false, false, ""
	p.behind.Store(false)
	p.called.Store(s.stopwatch())
	defer func() { p.behind.Store(err == nil && (pruned > 0 || p.walk.at != task.ID{})) }()
	pruned, err = s.pruneKeys(ctx, limit, &now, s.jobs.askJobs(&jobs, &remains),
		s.schedules.askFires(&fires, &left),
		ask(keyRulesOver, func(r row) error { return r.Scan(&pauses) }, s.clock()),
		ask(keptByQueues, func(r row) error { return r.Scan(&kept) }))
	if err != nil {
		return pruned, fmt.Errorf("prune keys: %w", err)
	}
	for _, of := range []struct {
		what  string
		due   bool
		prune func(limit int) (int, error)
	}{
		{"pauses of keys", pauses, func(limit int) (int, error) {
			return s.gates.pruneKeyRules(ctx, now, limit)
		}},
		{"jobs", jobs, func(limit int) (int, error) { return s.jobs.pruneJobs(ctx, limit) }},
		{"a deleted group", remains > 0, func(limit int) (int, error) {
			return s.jobs.pruneRemains(ctx, remains, limit)
		}},
		{"fires", fires, func(limit int) (int, error) {
			return s.schedules.pruneFires(ctx, limit)
		}},
		{"a deleted schedule", left > 0, func(limit int) (int, error) {
			return s.schedules.pruneLeft(ctx, left, limit)
		}},
	} {
		if of.due {
			if err := pruneMore(&pruned, limit, of.what, of.prune); err != nil {
				return pruned, err
			}
		}
	}
	// What was put off by a clock that was set back since may be put off for years.
	back := now < p.clock
	if p.clock = now; back {
		p.ahead, p.blobs, p.sweep = 0, "", 0
	}
	if back || p.kept != kept {
		p.kept, p.walk, p.rest, p.retry, p.later = kept, pruneWalk{}, 0, 0, nil
	}
	if now >= p.ahead {
		if p.ahead, err = s.partitioning.makeAhead(ctx, now); err != nil {
			return pruned, fmt.Errorf("make partitions: %w", err)
		}
	}
	s.statistics.tidyBeside(ctx, now)
	if now >= p.rest {
		if err := pruneMore(&pruned, limit, "tasks", func(limit int) (int, error) {
			return s.pruneTasks(ctx, now, limit)
		}); err != nil {
			return pruned, err
		}
	}
	if err := pruneMore(&pruned, limit, "events", func(limit int) (int, error) {
		return s.events.pruneEvents(ctx, limit)
	}); err != nil {
		return pruned, err
	}
	if now >= p.sweep {
		if err := s.pruneBlobs(ctx, now); err != nil {
			return pruned, fmt.Errorf("prune blobs: %w", err)
		}
	}
	return pruned, nil
}

// pruneMore lets prune delete as much as limit leaves beside what is pruned so far, and adds to
// that.
func pruneMore(
	pruned *int, limit int, what string, prune func(limit int) (int, error),
) error {
	if *pruned >= limit {
		return nil
	}
	n, err := prune(limit - *pruned)
	*pruned += n
	if err != nil {
		return fmt.Errorf("prune %s: %w", what, err)
	}
	return nil
}

// Retention says how far Prune is behind. See contract.Upkeep.
func (s *upkeep) Retention() store.Retention {
	p := &s.pruner
	if at := p.called.Load(); at == 0 || s.stopwatch()-at > othersPrune.Microseconds() {
		return store.Retention{} // another node prunes
	}
	return store.Retention{
		Behind: p.behind.Load(), Lag: time.Duration(p.lag.Load()) * time.Microsecond,
	}
}

// keptByQueues is another text when any queue keeps its tasks for another time.
const keptByQueues = `SELECT coalesce(md5(string_agg(name || ' ' || retention || ' ' || dead_kept,
',' ORDER BY name)), '') FROM rota.queue`

// deleteKeys deletes both kinds of keys, and signals whose time is over, not more than the limit
// together.
const deleteKeys = `WITH o AS MATERIALIZED (
  SELECT queue, key FROM rota.task_key WHERE until <= (SELECT rota.micros($1)) ORDER BY until
  LIMIT $2 FOR UPDATE SKIP LOCKED),
u AS MATERIALIZED (
  SELECT queue, key FROM rota.unique_key WHERE until <= (SELECT rota.micros($1)) ORDER BY until
  LIMIT $2 - (SELECT count(*) FROM o) FOR UPDATE SKIP LOCKED),
g AS MATERIALIZED (
  SELECT address, key FROM rota.signal WHERE until > 0 AND until <= (SELECT rota.micros($1))
  ORDER BY until LIMIT $2 - (SELECT count(*) FROM o) - (SELECT count(*) FROM u)
  FOR UPDATE SKIP LOCKED),
keys AS (
  DELETE FROM rota.task_key k USING o WHERE k.queue = o.queue AND k.key = o.key RETURNING 1),
uniques AS (
  DELETE FROM rota.unique_key k USING u WHERE k.queue = u.queue AND k.key = u.key RETURNING 1),
signals AS (
  DELETE FROM rota.signal s USING g WHERE s.address = g.address AND s.key = g.key RETURNING 1)
SELECT 1 FROM keys UNION ALL SELECT 1 FROM uniques
UNION ALL SELECT 1 FROM signals`

// pruneKeys deletes keys and signals whose time is over, and asks what else is to be known in the
// same trip.
func (s *upkeep) pruneKeys(
	ctx context.Context, limit int, now *int64, more ...query,
) (pruned int, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		pruned = 0
		return t.finish(ctx, append(more, ask(countClock, func(r row) error {
			return r.Scan(now)
		}, s.clock()),
			ask(deleteKeys, func(row) error {
				pruned++
				return nil
			}, s.clock(), min(limit, piece)))...)
	})
	return pruned, err
}

const (
	dropBlobs = `DELETE FROM rota.blob x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n RETURNING x.name`
	dropSteps = `DELETE FROM rota.step x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n`
	dropEdits = `DELETE FROM rota.edit x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n`
	dropRuns = `DELETE FROM rota.running x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n`
	dropLogs = `DELETE FROM rota.log x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n`
	dropSizes = `DELETE FROM rota.log_size x USING unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE x.batch = w.batch AND x.n = w.n`
	// dropKeyed comes before dropTasks: the keys stand in the packs.
	dropKeyed = `DELETE FROM rota.keyed k USING (SELECT w.batch, w.n, t.key
  FROM unnest($1::bigint[], $2::int[]) w (batch, n) CROSS JOIN LATERAL rota.task(w.batch, w.n) t
  WHERE t.key IS NOT NULL OFFSET 0) w
WHERE k.key = w.key AND k.batch = w.batch AND k.n = w.n`
	// dropTasks also takes what the tasks had out of packs that others are in: what retention
	// deletes is not to stay in the database because of its neighbours.
	dropTasks = `WITH g AS MATERIALIZED (
  SELECT p.batch, p.lo, p.has & ~w.bits AS has FROM ` + packRowsOf + `),
kept AS (
  UPDATE rota.pack p SET has = g.has, contexts = rota.left_of(p.contexts, p.lo, g.has),
    keys = rota.left_of(p.keys, p.lo, g.has), group_keys = rota.left_of(p.group_keys, p.lo, g.has),
    metas = rota.left_of(p.metas, p.lo, g.has)
  FROM g WHERE p.batch = g.batch AND p.lo = g.lo AND g.has <> 0)
DELETE FROM rota.pack p USING g WHERE p.batch = g.batch AND p.lo = g.lo AND g.has = 0`
	// dropMarks deletes the marks of packs none of whose tasks is left. Two who delete the last
	// tasks of a pack at the same time may leave its mark, which then goes with its partition.
	dropMarks = `DELETE FROM rota.mark x USING unnest($1::bigint[], $2::int[]) w (batch, lo)
WHERE x.batch = w.batch AND x.lo = w.lo
AND NOT EXISTS (SELECT FROM rota.pack p WHERE p.batch = x.batch AND p.lo BETWEEN x.lo AND x.lo + 63)`
	markGaps = `UPDATE rota.span x SET gaps = true FROM (
  SELECT o.id FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  CROSS JOIN LATERAL (SELECT id FROM rota.span WHERE batch = w.batch AND lo <= w.n AND hi >= w.n
  AND NOT gaps OFFSET 0) o ORDER BY o.id) g
WHERE x.id = g.id`
)

// drop deletes locked tasks and all that belongs to them alone, as the last thing of its
// transaction. keyed tells whether some may have keys. The names of their blobs are added to blobs,
// to be deleted after the commit: until then the tasks may still be read.
func (t *tx) drop(
	ctx context.Context, list []fact, keyed bool, blobs *[]string, last ...query,
) error {
	if len(list) == 0 {
		return t.finish(ctx, last...)
	}
	counts := newStats()
	ids := make([]task.ID, len(list))
	var ends endings
	var falls fallColumns
	var over ended // though it had not ended
	for i := range list {
		f := &list[i]
		ids[i] = f.ID
		if f.Base != store.Final { // as if it was cancelled
			rules.CountEnd(ends.of(f.ID.Batch), task.Cancelled, 1)
			falls.add(rules.Fall{Parent: f.ID})
			over = append(over, f.ID)
		}
		if f.Removed() { // its removal was counted when it was asked for
			continue
		}
		state := task.State("")
		if f.Base == store.Final {
			state = f.Kind.Leaves()
		}
		counts.Of(f.Queue).Gone(state)
	}
	batches, ns := idColumns(ids)
	queries := append(dropped(ids), ask(dropBlobs, func(r row) error {
		var name string
		err := r.Scan(&name)
		*blobs = append(*blobs, name)
		return err
	}, batches, ns))
	if keyed {
		queries = append(queries, tell(dropKeyed, batches, ns))
	}
	for _, text := range [...]string{dropSteps, dropEdits, dropRuns, dropLogs, dropSizes,
		dropUniquesOf, dropOwners, dropTasks, markGaps} {
		queries = append(queries, tell(text, batches, ns))
	}
	packs := packsOf(ids)
	queries = append(queries, tell(dropMarks, packs.batch, packs.lo),
		tell(overtakeReadings, distinct(slices.Clone(batches))))
	return t.finish(ctx, slices.Concat(queries, counts.queries(), ends.queries(nil),
		falls.queries(), over.queries(nil), last)...)
}

const (
	blobGrace     = 24 * time.Hour // from a blob to the row that refers to it
	blobsExamined = 200            // by one call
)

// pruneBlobs removes blobs that no row refers to, a day after they were written: their process died
// in between. Each is looked at once in a life of the store, because later ones are removed
// together with their task.
func (s *upkeep) pruneBlobs(ctx context.Context, now int64) error {
	p := &s.pruner
	names, err := s.values.blobs.List(ctx, p.blobs, blob.Day(time.UnixMicro(now).Add(-blobGrace)),
		blobsExamined)
	if err != nil {
		return err
	}
	orphans, err := s.values.unknownOf(ctx, names)
	if err != nil {
		return err
	}
	s.values.deleteBlobs(ctx, orphans)
	if len(names) > 0 {
		p.blobs = names[len(names)-1]
	}
	if len(names) < blobsExamined {
		p.sweep = now + time.Hour.Microseconds()
	}
	return nil
}
