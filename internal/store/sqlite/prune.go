package sqlite

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/internal/store/rules/retain"
	"github.com/rotahq/rota/task"
)

// upkeepCalls deletes what is kept no longer. It has no tables of its own: it lets the others
// delete from theirs, and walks over the tasks.
type upkeepCalls struct {
	*database
	values    *valueCalls
	queues    *queueCalls
	events    *eventCalls
	jobs      *jobCalls
	schedules *scheduleCalls
	history   *historyCalls

	pruner pruner
}

// pruneReads looks for tasks that are kept no longer.
type pruneReads struct{ *conn }

func (c *conn) pruning() pruneReads { return pruneReads{c} }

// pruner remembers how far pruning came. Batches are in order of time, so a walk from the oldest
// meets what can be deleted first and ends at the first batch that is too young; then it rests
// until something can have outlived its retention.
type pruner struct {
	behind atomic.Bool  // there is more to look at or to delete at once
	lag    atomic.Int64 // microseconds: store.Retention.Lag

	mu     sync.Mutex
	piece  retain.Piece
	walk   pruneWalk
	rest   int64 // no walk before
	events int64 // no look at events before
	called int64 // the store's time at the last call
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

	// when what stays because its parent goes on, or who has waited for it, is looked at again
	waitedAgain = 10 * time.Minute

	// There is one writer: others wait while a piece is deleted.
	// tasks that one transaction deletes at least, when there are as many,
	pruneLeast = 50
	pruneMost  = 2000                 // and at most,
	pruneGoal  = 4 * time.Millisecond // so that the writer is at it for about so long
)

// Prune deletes what retention no longer keeps. See contract.Upkeep.
func (s *upkeepCalls) Prune(ctx context.Context, limit int) (pruned int, err error) {
	p := &s.pruner
	p.mu.Lock()
	defer p.mu.Unlock()
	now := s.clock()
	if now < p.called {
		// the clock was set back: what was put off by the time before may be put off for years
		p.walk, p.rest, p.events = pruneWalk{}, 0, 0
		s.values.swept, s.values.sweep = "", 0
	}
	p.called = now
	p.behind.Store(false)
	defer func() { p.behind.Store(err == nil && (pruned > 0 || p.walk.at != task.ID{})) }()
	if s.queues.changed.Swap(false) {
		p.walk, p.rest = pruneWalk{}, 0
	}
	if pruned, err = s.pruneKeys(ctx, limit); err != nil {
		return pruned, fmt.Errorf("prune keys: %w", err)
	}
	if now >= p.events && pruned < limit {
		n, next, err := s.events.pruneEvents(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune events: %w", err)
		}
		p.events = next
	}
	if pruned < limit {
		n, err := s.jobs.pruneJobs(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune jobs: %w", err)
		}
	}
	if pruned < limit {
		n, err := s.schedules.pruneSchedules(ctx, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune schedules: %w", err)
		}
	}
	s.history.tidy(ctx, now)
	if now >= p.rest && pruned < limit {
		n, err := s.pruneTasks(ctx, now, limit-pruned)
		pruned += n
		if err != nil {
			return pruned, fmt.Errorf("prune tasks: %w", err)
		}
	}
	if err := s.values.pruneBlobs(ctx, now); err != nil {
		return pruned, fmt.Errorf("prune blobs: %w", err)
	}
	return pruned, nil
}

// Retention says how far Prune is behind. See contract.Upkeep.
func (s *upkeepCalls) Retention() store.Retention {
	return store.Retention{
		Behind: s.pruner.behind.Load(), Lag: time.Duration(s.pruner.lag.Load()) * time.Microsecond,
	}
}

const (
	expiredKeys = `SELECT queue, key FROM task_key WHERE until <= ? ORDER BY until LIMIT ?`
	deleteKey   = `DELETE FROM task_key WHERE queue = ? AND key = ? AND until <= ?`
)

func (s *upkeepCalls) pruneKeys(ctx context.Context, limit int) (pruned int, err error) {
	err = s.write(ctx, func(t *tx) error {
		pruned = 0
		var keys [][2]string
		err := t.each(expiredKeys, func(st *sqlite.Stmt) bool {
			keys = append(keys, [2]string{st.ColumnText(0), st.ColumnText(1)})
			return true
		}, t.now, min(limit, piece))
		for _, k := range keys {
			if err == nil {
				var n int
				n, err = t.exec(deleteKey, k[0], k[1], t.now)
				pruned += n
			}
		}
		if err == nil {
			var n int
			n, err = t.uniqueKeys().pruneUnique(min(limit, piece) - pruned)
			pruned += n
		}
		if err == nil {
			var n int
			n, err = t.limits().pruneKeyRules(min(limit, piece) - pruned)
			pruned += n
		}
		if err == nil {
			var n int
			n, err = t.exec(pruneSignals, t.now, min(limit, piece)-pruned)
			pruned += n
		}
		return err
	})
	return pruned, err
}

// retention is how long the tasks of a queue are kept.
type retention map[string]task.Queue

func (r retention) of(queue string) task.Queue {
	if q, ok := r[queue]; ok {
		return q
	}
	return limits.DefaultQueue(queue)
}

// shortest is how long tasks of a queue are kept at least.
func (r retention) shortest(queue string) time.Duration {
	q := r.of(queue)
	return min(q.Retention, q.DeadKept)
}

// least is the shortest time that anything is kept.
func (r retention) least() time.Duration {
	d := min(limits.DefaultRetention, limits.DefaultDeadKept)
	for _, q := range r {
		d = min(d, q.Retention, q.DeadKept)
	}
	return d
}

// until is when a final task is kept no longer.
func (r retention) until(f *rules.Fact) int64 {
	q := r.of(f.Queue)
	keep := q.Retention
	if rules.KeptAsDead(f.Kind) {
		keep = q.DeadKept
	}
	return f.Finished + keep.Microseconds()
}

// pruneTasks goes on with the walk.
func (s *upkeepCalls) pruneTasks(
	ctx context.Context, now int64, limit int,
) (pruned int, err error) {
	var found []rules.Fact
	var empty []int64
	var over bool
	var keep retention
	p := &s.pruner
	walk := p.walk
	err = s.read(ctx, func(c *conn) error {
		list, err := c.queues().queues()
		if err != nil {
			return err
		}
		keep = retention{}
		for _, q := range list {
			keep[q.Name] = q
		}
		found, empty, over, err = c.pruning().outlived(keep, &walk, now, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	for len(found) > 0 || len(empty) > 0 {
		n := min(len(found), p.piece.Size(pruneLeast, pruneMost))
		dropped, lag, took, err := s.dropOutlived(ctx, keep, found[:n], empty)
		p.piece.Took(n, took, pruneGoal)
		pruned += dropped
		if dropped > 0 {
			walk.some = true
			p.lag.Store(lag)
		}
		if err != nil {
			return pruned, err
		}
		found, empty = found[n:], nil
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
	return pruned, err
}

const (
	nextBatch   = `SELECT id, created, queue FROM batch WHERE id >= ? ORDER BY id LIMIT 1`
	stepsInside = `SELECT 1 FROM step WHERE batch = ?1
UNION ALL SELECT 1 FROM mark WHERE batch = ?1 LIMIT 1`
	tasksInside = `SELECT 1 FROM pack WHERE batch = ? LIMIT 1`
	spansInside = `SELECT 1 FROM span WHERE batch = ? LIMIT 1`
)

// outlived goes on with a walk: it looks for tasks that are kept no longer, and for batches that
// are empty.
func (c pruneReads) outlived(
	keep retention, w *pruneWalk, now int64, limit int,
) (found []rules.Fact, empty []int64, over bool, err error) {
	least := keep.least().Microseconds()
	for end := w.seen + pruneExamined; w.seen < end && len(found) < limit; {
		var batch, created int64
		var queue string
		more, err := c.one(nextBatch, func(st *sqlite.Stmt) {
			batch, created, queue = st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnText(2)
		}, w.at.Batch)
		if err != nil || !more {
			return found, empty, true, err
		}
		if created+least > now {
			w.later(created + least)
			return found, empty, true, nil
		}
		if batch != w.at.Batch {
			w.at = task.ID{Batch: batch, N: -1}
		}
		w.seen++
		if old := created + keep.shortest(queue).Microseconds(); old > now {
			// none of its tasks can be over
			w.later(old)
			w.at = task.ID{Batch: batch + 1, N: -1}
			continue
		}
		stepped, err := c.has(stepsInside, batch)
		waited := false
		if err == nil && stepped {
			waited, err = c.children().waitedFor(batch)
		}
		if err != nil {
			return nil, nil, false, err
		}
		if waited {
			w.later(now + waitedAgain.Microseconds())
			w.at = task.ID{Batch: batch + 1, N: -1}
			continue
		}
		if stepped {
			size := min(end-w.seen+1, limit-len(found))
			old, n, err := c.outlivedIn(keep, w, now, size)
			kept := false
			if err == nil {
				old, kept, err = c.waits().unneeded(old)
			}
			if err != nil {
				return nil, nil, false, err
			}
			if kept {
				w.later(now + waitedAgain.Microseconds())
			}
			if found = append(found, old...); n == size {
				continue // there may be more in this batch
			}
		} else if vacant, err := c.vacant(batch); err != nil {
			return nil, nil, false, err
		} else if vacant {
			empty = append(empty, batch)
		}
		w.at = task.ID{Batch: batch + 1, N: -1}
	}
	return found, empty, false, nil
}

// outlivedIn looks at the next n tasks of the batch that the walk has come to, at most size.
func (c pruneReads) outlivedIn(
	keep retention, w *pruneWalk, now int64, size int,
) (old []rules.Fact, n int, err error) {
	err = c.facts().facts(w.at.Batch, w.at.N+1, math.MaxInt32, func(f *rules.Fact) bool {
		w.at.N = f.ID.N
		w.seen++
		n++
		if f.Base != store.Final {
			return n < size
		}
		if until := keep.until(f); until > now {
			w.later(until)
		} else {
			old = append(old, *f)
		}
		return n < size
	})
	return old, n, err
}

// vacant tells whether a batch has neither tasks nor spans.
func (c pruneReads) vacant(batch int64) (bool, error) {
	tasks, err := c.has(tasksInside, batch)
	if err != nil || tasks {
		return false, err
	}
	spans, err := c.has(spansInside, batch)
	return !spans, err
}

// dropOutlived deletes those of the tasks that are still final, and the batches that are empty
// then. It says how long the writer was at it.
func (s *upkeepCalls) dropOutlived(
	ctx context.Context, keep retention, found []rules.Fact, empty []int64,
) (dropped int, lag int64, took time.Duration, err error) {
	var blobs []string
	err = s.write(ctx, func(t *tx) error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		dropped, lag, blobs = 0, 0, nil
		touched := map[int64]bool{}
		for _, b := range empty {
			touched[b] = true
		}
		for rest := found; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].ID.Batch == rest[0].ID.Batch {
				n++
			}
			gone, behind, err := t.drops().dropOf(keep, rest[:n])
			if err != nil {
				return err
			}
			if len(gone) > 0 {
				blobs, err = t.drops().drop(rest[0].ID.Batch, rest[0].Queue, gone, blobs)
			}
			if err != nil {
				return err
			}
			dropped += len(gone)
			lag = max(lag, behind)
			touched[rest[0].ID.Batch] = true
			rest = rest[n:]
		}
		for b := range touched {
			vacant, err := t.pruning().vacant(b)
			if err == nil && vacant {
				err = t.drops().deleteBatch(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.values.deleteBlobs(ctx, blobs)
	}
	return dropped, lag, took, err
}
