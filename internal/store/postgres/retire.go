package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A partition is over when all of its time is longer ago than its queues keep what is done. What
// must still be kept of it then, unfinished tasks and dead ones, is little as a rule: it moves into
// small tables that take the place of the large ones, and those are dropped. That costs one reading
// of the partition, where deleting its rows would cost several writings.
//
// What the others have in tables that are not partitioned, as logs and blobs, is deleted after
// that, in pieces: until the tables go, anybody may replay a task, and needs all of it. That it is
// to be deleted is committed with the going, in the table batch_remains.
//
// A queue that keeps its tasks for much longer than others does not hold theirs: what it has moves
// along, when that is the smaller part. When it is the larger, or too much to move, what others
// have is deleted task by task, and the tables stay until all of it is over.

const (
	retireAgain = 10 * time.Minute // between looks for partitions that are over
	// a partition that has more of them is left to be pruned task by task
	survivors   = 100_000
	kept        = "_kept"       // ends the names of tables that took another's place
	swapWait    = "1s"          // for locks: meanwhile who comes later waits, too
	rereadAfter = 6 * time.Hour // a partition of which too much was to be kept is read again
)

// retireBeside drops the partitions that are over: while the caller waits, and beside it when that
// takes longer than ctx allows. What it reads and writes takes as long as it takes, and no beat may
// hang on it. It says whether it is over.
func (s *upkeep) retireBeside(
	ctx context.Context, keep *retention, now int64,
) (over bool, err error) {
	p := &s.pruner
	if p.retiring == nil {
		done := make(chan error, 1)
		p.retiring = done
		if p.later == nil {
			p.later = map[string]int64{}
		}
		later := p.later
		s.works.Go(func() { done <- s.retire(s.life, keep, now, later) })
		select {
		case err := <-done:
			done <- err
		case <-ctx.Done():
		}
	}
	select {
	case err := <-p.retiring:
		p.retiring, p.retry = nil, now+retireAgain.Microseconds()
		return true, err
	default:
		return false, nil
	}
}

// retire drops the partitions that are over. later is its own as long as it runs: before which time
// which partition is not read again.
func (s *upkeep) retire(
	ctx context.Context, keep *retention, now int64, later map[string]int64,
) error {
	if err := s.dropRemains(ctx); err != nil {
		return fmt.Errorf("delete what retired partitions left: %w", err)
	}
	var stand []partition
	err := s.reading(ctx, func(ctx context.Context, r runner) (err error) {
		stand, err = partitions(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range stand {
		if store.BatchTime(p.to) > now {
			break
		}
		if now < later[p.suffix] {
			continue
		}
		err := s.retireOne(ctx, keep, p, now, later)
		if errors.Is(err, store.ErrBusy) { // somebody reads or writes it: another time
			s.conf.Log.Info("partition stays for now", "partition", p.suffix, "error", err)
		} else if err != nil {
			return fmt.Errorf("retire partition %s: %w", p.suffix, err)
		}
	}
	return nil
}

// sifted is what a partition has, by whether it is to be kept.
type sifted struct {
	tasks  []task.ID // that are to be kept
	gone   stats     // of the others
	others int64     // how many those are
	row    int64     // that says that it is read: see overtaken.go
}

func (s *upkeep) retireOne(
	ctx context.Context, keep *retention, p partition, now int64, later map[string]int64,
) error {
	state, err := s.isOver(ctx, keep, p, now)
	small := strings.HasSuffix(p.suffix, kept)
	if err != nil || state == notOver || state == partlyOver && small {
		return err
	}
	began := time.Now()
	rest, err := s.sift(ctx, keep, p, now)
	if err != nil {
		return err
	}
	n := len(rest.tasks)
	pointless := n > 0 && (rest.others == 0 || small)
	costly := n > survivors || state == partlyOver && int64(n) > rest.others
	if pointless || costly {
		later[p.suffix] = now + rereadAfter.Microseconds()
		return s.forgetReading(ctx, p)
	}
	s.conf.Log.Info("partition is over: it goes", "partition", p.suffix, "kept tasks",
		len(rest.tasks))
	if err := s.swap(ctx, p, rest); err != nil {
		return err
	}
	s.conf.Log.Info("partition is gone", "partition", p.suffix, "took", time.Since(began))
	return s.dropRemains(ctx)
}

// How much of what is done in a partition is kept no longer.
const (
	notOver = iota
	// that of some queues; that of others is kept for so long that it need not be waited for
	partlyOver
	allOver
)

// isOver tells how much of what is done in a partition is kept no longer. Of an empty one all is.
// Where nothing may linger, tasks go one by one, to the moment, and only empty partitions are
// dropped.
func (s *upkeep) isOver(
	ctx context.Context, keep *retention, p partition, now int64,
) (state int, err error) {
	age := now - store.BatchTime(p.to)
	tasks := false
	err = s.glance(ctx, ask(`SELECT EXISTS (SELECT FROM rota.pack`+p.suffix+`)`, func(r row) error {
		return r.Scan(&tasks)
	}))
	if err != nil || !tasks {
		if err == nil && age > s.conf.Partition.Microseconds() {
			state = allOver
		}
		return state, err
	}
	if s.conf.Linger <= 0 {
		return notOver, nil
	}
	over, soon, later := 0, 0, 0
	err = s.glance(ctx, ask(`SELECT DISTINCT queue FROM rota.batch`+p.suffix, func(r row) error {
		var queue string
		err := r.Scan(&queue)
		switch left := keep.of(queue).Retention.Microseconds() - age; {
		case left < 0:
			over++
		case left <= s.conf.Linger.Microseconds():
			soon++
		default:
			later++
		}
		return err
	}))
	switch {
	case err != nil || over == 0 || soon > 0:
		return notOver, err
	case later > 0:
		return partlyOver, nil
	}
	return allOver, nil
}

// standingOf joins the tasks of a partition with their newest step, or their mark, and says which
// of them are kept no longer. Of a mark it goes by the last outcome, so a few stay that might go.
// It reads all of it, so the planner is let loose.
var (
	waitedIn = `WITH waited AS MATERIALIZED (` + waitedBatches +
		` AND c.batch >= $7 AND c.batch < $8),
needed AS MATERIALIZED (` + needed + ` AND d.on_batch >= $7 AND d.on_batch < $8) `
	standingOf = `FROM (SELECT p.batch, i.n FROM rota.pack%[1]s p
  CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n) WHERE p.has >> (i.n & 63) & 1 = 1) t
JOIN rota.batch%[1]s b ON b.id = t.batch
LEFT JOIN (SELECT DISTINCT ON (batch, n) batch, n, base, kind, finished FROM rota.step%[1]s
ORDER BY batch, n, seq DESC) p ON p.batch = t.batch AND p.n = t.n
LEFT JOIN rota.mark%[1]s m ON p.n IS NULL AND m.batch = t.batch AND m.lo = (t.n & -64)
AND (m.bits >> (t.n & 63)) & 1 = 1
LEFT JOIN unnest($1::text[], $2::bigint[], $3::bigint[]) k (queue, done, dead) ON k.queue = b.queue
WHERE coalesce(coalesce(p.base, CASE WHEN m.lo IS NOT NULL THEN -1 END) = -1
AND coalesce(p.finished, m.last) + CASE WHEN coalesce(p.kind, 1) IN (1, 9, 12) THEN coalesce(k.done, $4)
ELSE coalesce(k.dead, $5) END <= $6 AND (t.batch IN (SELECT batch FROM waited)) IS NOT TRUE
AND ((t.batch, t.n) IN (SELECT on_batch, on_n FROM needed)) IS NOT TRUE, false)`
	countGone = waitedIn + `SELECT b.queue, coalesce(p.kind, 1)::int, count(*) ` + standingOf +
		` GROUP BY 1, 2`
	listKept = waitedIn + `SELECT t.batch, t.n ` + standingOf + ` IS FALSE ORDER BY 1, 2 LIMIT $9`
)

// sift reads a partition. What happens to its tasks that are over from then on, swap finds.
func (s *upkeep) sift(
	ctx context.Context, keep *retention, p partition, now int64,
) (rest sifted, err error) {
	var names []string
	var done, dead []int64
	for name, q := range keep.queues {
		names = append(names, name)
		done = append(done, q.Retention.Microseconds())
		dead = append(dead, q.DeadKept.Microseconds())
	}
	args := []any{
		names, done, dead, limits.DefaultRetention.Microseconds(),
		limits.DefaultDeadKept.Microseconds(), now, p.from, p.to,
	}
	rest.gone = newStats()
	if rest.row, err = s.noteReading(ctx, p); err != nil {
		return rest, err
	}
	err = s.readLong(ctx, func(ctx context.Context, r runner) error {
		var loose []query
		for _, setting := range [...]string{"enable_seqscan", "enable_hashjoin",
			"enable_mergejoin"} {
			loose = append(loose, tell(setLocal, setting, "on"))
		}
		loose = append(loose, tell(setLocal, "max_parallel_workers_per_gather", "2"))
		return r.run(ctx, append(loose, ask(fmt.Sprintf(countGone, p.suffix), func(r row) error {
			var queue string
			var kind int32
			var n int64
			if err := r.Scan(&queue, &kind, &n); err != nil {
				return err
			}
			rest.others += n
			if d := rest.gone.Of(queue); task.Kind(kind) != task.KindRemoved {
				// those were counted when they were removed
				d.Submitted -= n
				*d.Final(task.Kind(kind).Leaves()) -= n
			}
			return nil
		}, args...), ask(fmt.Sprintf(listKept, p.suffix), func(r row) error {
			var id task.ID
			err := r.Scan(&id.Batch, &id.N)
			rest.tasks = append(rest.tasks, id)
			return err
		}, append(args, survivors+1)...))...)
	})
	return rest, err
}

const (
	// keepPacks keeps the packs in which any of the tasks are, without the others of theirs.
	keepPacks = `INSERT INTO rota.pack%[2]s (` + insertedColumns + `, metas, withins)
SELECT p.batch, p.has & w.bits, p.lo, p.stage, rota.left_of(p.contexts, p.lo, p.has & w.bits),
  p.stages, rota.left_of(p.keys, p.lo, p.has & w.bits),
  rota.left_of(p.group_keys, p.lo, p.has & w.bits), p.max_attempts, p.timeouts,
  rota.left_of(p.metas, p.lo, p.has & w.bits), p.withins
FROM ` + packRowsOf + ` ORDER BY p.batch, p.lo`
	keepKeyed = `INSERT INTO rota.keyed%[2]s (key, batch, n) SELECT k.key, p.batch, p.lo + k.i - 1
FROM rota.pack%[2]s p CROSS JOIN LATERAL unnest(p.keys) WITH ORDINALITY k (key, i)
WHERE k.key <> ''`
	keepSteps = `INSERT INTO rota.step%[2]s SELECT x.*
FROM unnest($1::bigint[], $2::int[]) w (batch, n) JOIN rota.step%[1]s x ON x.batch = w.batch
AND x.n = w.n`
	// keepMarks keeps marks whole, also where some of their tasks are gone.
	keepMarks = `INSERT INTO rota.mark%[2]s SELECT x.* FROM (SELECT DISTINCT batch, lo & -64 AS lo
FROM rota.pack%[2]s) w JOIN rota.mark%[1]s x ON x.batch = w.batch AND x.lo = w.lo`
	// keepBatches keeps those of the kept tasks. Spans may be left of others: their holders find
	// them empty.
	keepBatches = `INSERT INTO rota.batch%[2]s SELECT x.* FROM (SELECT DISTINCT batch
FROM rota.pack%[2]s) w JOIN rota.batch%[1]s x ON x.id = w.batch`
	// lockSpansIn comes before the tables: whoever reports on a task that is kept waits for its
	// span then, and has nothing by that time that the swap needs.
	lockSpansIn = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.span WHERE batch >= $1 AND batch < $2 ORDER BY id FOR UPDATE)
SELECT count(*) FROM o`
	markAllGaps = `UPDATE rota.span SET gaps = true WHERE id IN (
  SELECT id FROM rota.span WHERE batch >= $1 AND batch < $2 AND NOT gaps ORDER BY id FOR UPDATE)`
	dropAllRuns = `DELETE FROM rota.running u WHERE batch >= $1 AND batch < $2
AND NOT EXISTS (SELECT FROM rota.task(u.batch, u.n))`
	dropAllKin = `DELETE FROM rota.child_batch c WHERE batch >= $1 AND batch < $2
AND NOT EXISTS (SELECT FROM rota.batch WHERE id = c.batch)`
	dropAllLooks = `DELETE FROM rota.expiry e WHERE batch >= $1 AND batch < $2
AND NOT EXISTS (SELECT FROM rota.batch WHERE id = e.batch)`
)

// swap puts small tables into the place of a partition, or nothing when nothing is kept.
func (s *upkeep) swap(ctx context.Context, p partition, rest sifted) error {
	return s.writeLong(ctx, func(ctx context.Context, t *tx) error {
		if err := t.run(ctx, tell(setLocal, "lock_timeout", swapWait),
			tell(lockPartitions, int64(partitionLock)),
			tell(lockSpansIn, p.from, p.to)); err != nil {
			return err
		}
		for _, x := range partitioned { // from here on nothing is added to it; reading goes on
			if err := t.define(
				ctx, "LOCK TABLE rota.%s%s IN SHARE ROW EXCLUSIVE MODE", x.table, p.suffix,
			); err != nil {
				return err
			}
		}
		if err := t.asItWasRead(ctx, p, rest); err != nil {
			return err
		}
		if len(rest.tasks) > 0 {
			if err := t.keep(ctx, p, rest.tasks); err != nil {
				return err
			}
		}
		for _, x := range partitioned {
			if err := t.define(
				ctx, "ALTER TABLE rota.%s DETACH PARTITION rota.%s%s", x.table, x.table, p.suffix,
			); err != nil {
				return err
			}
		}
		if len(rest.tasks) > 0 {
			if err := t.attach(ctx, p.bounds, p.suffix+kept); err != nil {
				return err
			}
		}
		for _, x := range partitioned {
			if err := t.define(ctx, "DROP TABLE rota.%s%s", x.table, p.suffix); err != nil {
				return err
			}
		}
		return t.finish(ctx,
			append(rest.gone.queries(), tell(markAllGaps, p.from, p.to),
				tell(dropAllRuns, p.from, p.to), tell(dropAllLooks, p.from, p.to),
				tell(dropAllKin, p.from, p.to), tell(noteBeside, p.from, p.to),
				tell(forgetReading, p.readingKey()))...)
	})
}

// keep copies tasks into tables of their own.
func (t *tx) keep(ctx context.Context, p partition, tasks []task.ID) error {
	if err := t.makeTables(ctx, p.suffix+kept); err != nil {
		return err
	}
	batches, ns := idColumns(tasks)
	return t.run(ctx, tell(fmt.Sprintf(keepPacks, p.suffix, p.suffix+kept), batches, ns),
		tell(fmt.Sprintf(keepKeyed, p.suffix, p.suffix+kept)),
		tell(fmt.Sprintf(keepSteps, p.suffix, p.suffix+kept), batches, ns),
		tell(fmt.Sprintf(keepMarks, p.suffix, p.suffix+kept)),
		tell(fmt.Sprintf(keepBatches, p.suffix, p.suffix+kept)))
}
