package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/internal/store/rules/retain"
	"github.com/rotahq/rota/task"
)

// pruner remembers how far pruning came. Batches are in order of time, so a walk from the oldest
// meets what can be deleted first and ends at the first batch that is too young; then it rests
// until something can have outlived its retention.
type pruner struct {
	behind atomic.Bool  // there is more to look at or to delete at once
	lag    atomic.Int64 // microseconds: store.Retention.Lag
	called atomic.Int64 // when Prune was called last, by stopwatch; 0 = never

	mu    sync.Mutex
	kept  string // what the queues keep for how long, when a walk began: another node may change it
	piece retain.Piece
	walk  pruneWalk
	width int    // tasks of a batch that was looked at lately
	rest  int64  // no walk before
	blobs string // the last blob that was looked at
	sweep int64  // no look at blobs before
	ahead int64  // no look for missing partitions before
	// no adding up of the history before, and none of statistics; owned by whoever adds up
	folded, tidied int64
	// the queues that had ready or running tasks when it was last noted how many there are; owned
	// by whoever adds up
	sampled map[string]bool
	retry   int64 // no look for partitions that are over before
	// no reading of a partition before, by its suffix: too much of it was to be kept
	later map[string]int64

	retiring chan error // answers the look for partitions that is under way; nil = none is
	// closed when the statistics are added up that are being added up; nil = none are
	adding chan struct{}
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
func (s *Store) Prune(ctx context.Context, limit int) (pruned int, err error) {
	p := &s.pruner
	p.mu.Lock()
	defer p.mu.Unlock()
	var now, remains, left int64
	jobs, fires, pauses, kept := false, false, false, ""
	p.behind.Store(false)
	p.called.Store(s.stopwatch())
	defer func() { p.behind.Store(err == nil && (pruned > 0 || p.walk.at != task.ID{})) }()
	pruned, err = s.pruneKeys(ctx, limit, &now, s.askJobs(&jobs, &remains),
		s.askFires(&fires, &left),
		ask(keyRulesOver, func(r row) error { return r.Scan(&pauses) }, s.clock()),
		ask(keptByQueues, func(r row) error { return r.Scan(&kept) }))
	if err != nil {
		return pruned, fmt.Errorf("prune keys: %w", err)
	}
	if pauses && pruned < limit {
		n, err := s.pruneKeyRules(ctx, now, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune pauses of keys: %w", err)
		}
	}
	if jobs && pruned < limit {
		n, err := s.pruneJobs(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune jobs: %w", err)
		}
	}
	if remains > 0 && pruned < limit {
		n, err := s.pruneRemains(ctx, remains, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune a deleted group: %w", err)
		}
	}
	if fires && pruned < limit {
		n, err := s.pruneFires(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune fires: %w", err)
		}
	}
	if left > 0 && pruned < limit {
		n, err := s.pruneLeft(ctx, left, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune a deleted schedule: %w", err)
		}
	}
	if p.kept != kept {
		p.kept, p.walk, p.rest, p.retry, p.later = kept, pruneWalk{}, 0, 0, nil
	}
	if now >= p.ahead {
		if p.ahead, err = s.makeAhead(ctx, now); err != nil {
			return pruned, fmt.Errorf("make partitions: %w", err)
		}
	}
	s.tidyBeside(ctx, now)
	if now >= p.rest && pruned < limit {
		n, err := s.pruneTasks(ctx, now, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune tasks: %w", err)
		}
	}
	if pruned < limit {
		n, err := s.pruneEvents(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune events: %w", err)
		}
	}
	if now >= p.sweep {
		if err := s.pruneBlobs(ctx, now); err != nil {
			return pruned, fmt.Errorf("prune blobs: %w", err)
		}
	}
	return pruned, nil
}

// Retention says how far Prune is behind. See contract.Upkeep.
func (s *Store) Retention() store.Retention {
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
func (s *Store) pruneKeys(
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

// retention is how long the tasks of queues are kept.
type retention struct {
	queues map[string]task.Queue
	linger time.Duration
}

func (s *Store) retention(ctx context.Context) (retention, error) {
	r := retention{map[string]task.Queue{}, s.conf.Linger}
	list, err := s.Queues(ctx)
	for _, q := range list {
		r.queues[q.Name] = q
	}
	return r, err
}

func (r *retention) of(queue string) task.Queue {
	if q, ok := r.queues[queue]; ok {
		return q
	}
	return limits.DefaultQueue(queue)
}

// kept is how long tasks are kept that are to be kept for d: a little longer, when that is little
// beside d, because by then all of them may have gone together, with their partition.
func (r *retention) kept(d time.Duration) time.Duration {
	if d >= 4*r.linger {
		return d + r.linger
	}
	return d
}

// shortest is how long tasks of a queue are kept at least.
func (r *retention) shortest(queue string) time.Duration {
	q := r.of(queue)
	return min(r.kept(q.Retention), r.kept(q.DeadKept))
}

// least is the shortest time that anything is kept.
func (r *retention) least() time.Duration {
	d := min(r.kept(limits.DefaultRetention), r.kept(limits.DefaultDeadKept))
	for _, q := range r.queues {
		d = min(d, r.kept(q.Retention), r.kept(q.DeadKept))
	}
	return d
}

// of a final task: how long it is to be kept.
func (r *retention) due(queue string, kind task.Kind) time.Duration {
	q := r.of(queue)
	if rules.KeptAsDead(kind) {
		return q.DeadKept
	}
	return q.Retention
}

// until is when a final task is kept no longer.
func (r *retention) until(f *fact) int64 {
	return f.Finished + r.kept(r.due(f.Queue, f.Kind)).Microseconds()
}

// pruneTasks goes on with the walk.
func (s *Store) pruneTasks(ctx context.Context, now int64, limit int) (pruned int, err error) {
	p := &s.pruner
	keep, err := s.retention(ctx)
	if err != nil {
		return 0, err
	}
	if now >= p.retry {
		if over, err := s.retireBeside(ctx, &keep, now); err != nil || !over {
			// what is to go whole is not deleted task by task
			return 0, err
		}
	}
	walk := p.walk
	over := false
	for end := walk.seen + pruneExamined; walk.seen < end && pruned < limit && !over; {
		found, passed, err := s.outlived(ctx, &keep, &walk, now, limit-pruned)
		if err != nil {
			return pruned, err
		}
		for len(found) > 0 || len(passed) > 0 {
			n := min(len(found), p.piece.Size(pruneLeast, pruneMost))
			began := time.Now()
			dropped, lag, err := s.dropOutlived(ctx, &keep, found[:n], passed, now)
			p.piece.Took(n, time.Since(began), pruneGoal)
			pruned += dropped
			if dropped > 0 {
				walk.some = true
				p.lag.Store(lag)
			}
			if err != nil {
				return pruned, err
			}
			found, passed = found[n:], nil
		}
		over = walk.at == task.ID{}
	}
	p.walk = walk
	if over {
		if !walk.some {
			p.lag.Store(0)
		}
		walk.later(now + keep.least().Microseconds()) // what ends from now on
		p.rest = max(walk.next, now+int64(walk.seen)*prunePace)
		p.walk = pruneWalk{}
	}
	return pruned, nil
}

const (
	oldBatches = `SELECT id, queue, created FROM rota.batch WHERE id >= $1 ORDER BY id LIMIT 200`
	tasksUpTo  = `SELECT t.batch, t.n, coalesce(p.base, 0), coalesce(p.kind, 0)::int,
coalesce(p.finished, 0)
FROM (
  SELECT t.batch, t.n FROM unnest($3::bigint[]) b (id) CROSS JOIN LATERAL (
    SELECT p.batch, i.n FROM (SELECT CASE WHEN b.id = $1 THEN $2::int + 1 ELSE 0 END AS n) f
    JOIN rota.pack p ON p.batch = b.id AND p.lo >= f.n & -64
    CROSS JOIN LATERAL generate_series(greatest(p.lo, f.n), p.lo | 63) i (n)
    WHERE p.has >> (i.n & 63) & 1 = 1 ORDER BY p.lo, i.n LIMIT $4) t
  ORDER BY t.batch, t.n LIMIT $4) t
LEFT JOIN LATERAL (SELECT base, kind, finished FROM rota.step WHERE batch = t.batch AND n = t.n
ORDER BY seq DESC LIMIT 1) p ON true
ORDER BY t.batch, t.n`
	deleteVacant = `WITH gone AS (DELETE FROM rota.batch b WHERE b.id = ANY($1::bigint[])
  AND NOT EXISTS (SELECT
FROM rota.pack p WHERE p.batch = b.id)
  AND NOT EXISTS (SELECT FROM rota.span s WHERE s.batch = b.id) RETURNING b.id),
kin AS (DELETE FROM rota.child_batch c USING gone g WHERE c.batch = g.id)
DELETE FROM rota.expiry e USING gone g WHERE e.batch = g.id`
)

// head is a batch that the walk comes to.
type head struct {
	id, created int64
	queue       string
}

// upTo is the batches from the front that have so many tasks, as far as is known; the others are
// not looked at yet. Those that queues does not have are passed over.
func (p *pruner) upTo(heads []head, queues map[int64]string, size int) []head {
	some := size/max(p.width, 1) + 1
	for i, h := range heads {
		if queues[h.id] == "" {
			continue
		}
		if some--; some < 0 {
			for _, later := range heads[i:] {
				delete(queues, later.id)
			}
			return heads[:i]
		}
	}
	return heads
}

// outlived goes a stretch of the walk: it looks for tasks that are kept no longer, and answers the
// batches that it has passed. At the end walk.at is zero.
func (s *Store) outlived(
	ctx context.Context, keep *retention, w *pruneWalk, now int64, limit int,
) (found []task.ID, passed []int64, err error) {
	least := keep.least().Microseconds()
	var heads []head
	queues := map[int64]string{}
	young := false
	err = s.glance(ctx, ask(oldBatches, func(r row) error {
		var h head
		if err := r.Scan(&h.id, &h.queue, &h.created); err != nil || young {
			return err
		}
		if young = h.created+least > now; young {
			w.later(h.created + least)
			return nil
		}
		heads = append(heads, h)
		if old := h.created + keep.shortest(h.queue).Microseconds(); old > now {
			// none of its tasks can be over
			w.later(old)
			return nil
		}
		queues[h.id] = h.queue
		return nil
	}, w.at.Batch))
	if err != nil || len(heads) == 0 {
		w.at = task.ID{}
		return nil, nil, err
	}
	size := min(limit, max(2*piece, s.pruner.piece.Size(pruneLeast, pruneMost)))
	seen := 0
	heads = s.pruner.upTo(heads, queues, size)
	last := heads[len(heads)-1].id
	if w.at == (task.ID{}) {
		w.at.N = -1
	}
	var list []fact
	err = s.glance(ctx, ask(tasksUpTo, func(r row) error {
		var f fact
		var kind int32
		err := r.Scan(&f.ID.Batch, &f.ID.N, &f.Base, &kind, &f.Finished)
		seen++
		w.at = f.ID
		f.Kind, f.Queue = task.Kind(kind), queues[f.ID.Batch]
		list = append(list, f)
		return err
	}, w.at.Batch, w.at.N, slices.Sorted(maps.Keys(queues)), size))
	if err == nil {
		err = s.markAll(ctx, list)
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		f := &list[i]
		if f.Base != store.Final {
			continue
		}
		if until := keep.until(f); until > now {
			w.later(until)
		} else {
			found = append(found, f.ID)
		}
	}
	s.pruner.width = seen / max(len(queues), 1)
	if seen < size { // nothing is left up to the last
		w.at = task.ID{Batch: last + 1, N: -1}
	}
	found, waited, err := s.notWaitedFor(ctx, found)
	if waited {
		w.later(now + waitedAgain.Microseconds())
	}
	for _, h := range heads {
		if queues[h.id] != "" && h.id < w.at.Batch {
			passed = append(passed, h.id)
		}
	}
	w.seen += seen + len(heads)
	return found, passed, err
}

// dropOutlived deletes those of the tasks that are still final, and those of the passed batches
// that are empty then.
func (s *Store) dropOutlived(
	ctx context.Context, keep *retention, ids []task.ID, passed []int64, now int64,
) (dropped int, lag int64, err error) {
	var blobs []string
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		dropped, lag, blobs = 0, 0, nil
		all, keyed, err := t.lockedOver(ctx, ids)
		if err != nil {
			return err
		}
		var list []fact
		for i := range all {
			if f := &all[i]; keep.until(f) <= now {
				list = append(list, *f)
				lag = max(lag, now-keep.until(f))
			}
		}
		dropped = len(list)
		var last []query
		if len(passed) > 0 {
			last = append(last, tell(deleteVacant, passed))
		}
		return t.drop(ctx, list, keyed, &blobs, last...)
	})
	if err == nil {
		s.deleteBlobs(ctx, blobs)
	}
	return dropped, lag, err
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
	queries = append(queries, tell(dropMarks, packs.batch, packs.lo))
	return t.finish(ctx, slices.Concat(queries, counts.queries(), ends.queries(nil),
		falls.queries(), over.queries(nil), last)...)
}
