package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// retention is how long the tasks of queues are kept.
type retention struct {
	queues map[string]task.Queue
	linger time.Duration
}

func (s *upkeep) retention(ctx context.Context) (retention, error) {
	r := retention{map[string]task.Queue{}, s.conf.Linger}
	list, err := s.queues.Queues(ctx)
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
func (s *upkeep) pruneTasks(ctx context.Context, now int64, limit int) (pruned int, err error) {
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

// headsFrom reads the batches from where the walk is, up to the first that is too young. queues are
// those of the batches whose tasks may be kept no longer.
func (s *upkeep) headsFrom(
	ctx context.Context, keep *retention, w *pruneWalk, now int64,
) (heads []head, queues map[int64]string, err error) {
	least := keep.least().Microseconds()
	queues = map[int64]string{}
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
	return heads, queues, err
}

// outlived goes a stretch of the walk: it looks for tasks that are kept no longer, and answers the
// batches that it has passed. At the end walk.at is zero.
func (s *upkeep) outlived(
	ctx context.Context, keep *retention, w *pruneWalk, now int64, limit int,
) (found []task.ID, passed []int64, err error) {
	heads, queues, err := s.headsFrom(ctx, keep, w, now)
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
func (s *upkeep) dropOutlived(
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
		s.values.deleteBlobs(ctx, blobs)
	}
	return dropped, lag, err
}

// markAll applies to facts, which have no more than how they ended, what marks say of those without
// steps.
func (s *upkeep) markAll(ctx context.Context, list []fact) error {
	var ids []task.ID
	for i := range list {
		if list[i].Kind == 0 {
			ids = append(ids, list[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found := marks{}
	if err := s.glance(ctx, found.reading(ids)); err != nil {
		return err
	}
	at := make(map[task.ID]*fact, len(ids))
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	return found.each(ids, func(i int, d *pack.Done) { at[ids[i]].marked(d) })
}
