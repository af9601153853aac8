package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A list walks candidates, newest first; see package listing. Which table gives the candidates
// depends on the filter, so that a rare state is not looked for among millions of others:
//
//	key               the index on keys
//	dead, cancelled,  the index on final steps that are not done
//	expired
//	running           running rows, and what the filter's memory knows
//	waiting, ready    the tasks of spans that may have some
//	a worker          the steps and marks of all tasks, running rows, and what the filter's memory
//	                  knows
//	else              the tasks of batches that the filter selects
//
// Each of these statements reads at most ?3 rows below (?1, ?2), down to the batch ?4, and says of
// each whether its task may be selected: first by the row itself, which ?11 is for, then by what it
// is compared with (?5 to ?10, and ?12).
var (
	byKey = candidates(`1`, `SELECT batch, n FROM keyed WHERE key = ?11 AND (batch, n) < (?1, ?2)
AND batch >= ?4
ORDER BY batch DESC, n DESC LIMIT ?3`)

	byFinal = candidates(`c.kind <> 12 AND iif(c.kind IN (9, 13), c.kind, 0) = ?11`,
		`SELECT batch, n, kind FROM step INDEXED BY step_not_done WHERE base = -1 AND kind <> 1
AND (batch, n) < (?1, ?2) AND batch >= ?4
ORDER BY batch DESC, n DESC LIMIT ?3`)

	byWait = candidates(`true`, `SELECT batch, n FROM wait WHERE (batch, n) < (?1, ?2)
AND batch >= ?4 ORDER BY batch DESC, n DESC LIMIT ?3`)

	byRunning = candidates(`(?11 = '' OR c.worker = ?11)`, `SELECT batch, n, worker FROM running
WHERE (batch, n) < (?1, ?2) AND batch >= ?4
ORDER BY batch DESC, n DESC LIMIT ?3`)

	byWorker = candidates(`c.worker = ?11`, `SELECT batch, n, worker FROM step
WHERE (batch, n) < (?1, ?2) AND batch >= ?4
ORDER BY batch DESC, n DESC, seq DESC LIMIT ?3`)
)

func candidates(mine, from string) string {
	return `SELECT c.batch, c.n, ` + mine + ` AND ` + compared + ` FROM (` + from + `) c`
}

// compared compares a task with a filter without reading it whole: ?5 queue, ?6 and ?7 since and
// until, ?8 stage, ?9 class, ?10 a worker that one of its steps names, ?12 a meta.
var compared = `(` + ofBatch("c.batch") + `)
AND (?8 = '' OR ?8 = coalesce((SELECT s.stage FROM step s WHERE s.batch = c.batch AND s.n = c.n
  ORDER BY s.seq DESC LIMIT 1), (SELECT pack_stage(p.body, p.has, c.n) FROM pack p
  WHERE p.batch = c.batch AND p.lo BETWEEN c.n & ~63 AND c.n ORDER BY p.lo DESC LIMIT 1)))
AND (?9 = 0 OR CASE coalesce((SELECT iif(s.base <> -1, 2, s.kind = 1) FROM step s
  WHERE s.batch = c.batch AND s.n = c.n ORDER BY s.seq DESC LIMIT 1),
  2 - ` + isMarked("c.batch", "c.n") + `) WHEN ?9 THEN 1 ELSE 0 END)
AND (?10 = '' OR EXISTS (SELECT 1 FROM step w WHERE w.batch = c.batch AND w.n = c.n
  AND w.worker = ?10)
  OR EXISTS (SELECT 1 FROM mark m WHERE m.batch = c.batch AND m.lo = c.n & ~63
  AND mark_workers(m.body, m.lo, ?10) >> (c.n & 63) & 1))
AND (?12 = '' OR coalesce((SELECT meta_has(e.meta, ?12) FROM edit e
  WHERE e.batch = c.batch AND e.n = c.n ORDER BY e.seq DESC LIMIT 1),
  (SELECT pack_meta(p.body, p.has, c.n, ?12) FROM pack p
  WHERE p.batch = c.batch AND p.lo BETWEEN c.n & ~63 AND c.n ORDER BY p.lo DESC LIMIT 1)))`

// ofBatch compares a batch with what a filter says of batches.
func ofBatch(batch string) string {
	return `?5 = '' AND ?6 = 0 AND ?7 = 0 OR EXISTS (SELECT 1 FROM batch b
  WHERE b.id = ` + batch + ` AND (?5 = '' OR b.queue = ?5) AND b.created >= ?6 AND (?7 = 0
  OR b.created < ?7))`
}

const (
	batchesBelow = `SELECT b.id, CASE WHEN (?4 = '' OR b.queue = ?4) AND b.created >= ?5 AND (?6 = 0
OR b.created < ?6)
  THEN (SELECT pack_last(p.lo, p.has) FROM pack p WHERE p.batch = b.id ORDER BY p.lo DESC LIMIT 1) END
FROM (SELECT id, queue, created FROM batch WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3) b`
	spansBelow = `SELECT batch FROM span WHERE batch < ?1 AND batch >= ?2 ORDER BY batch DESC
LIMIT ?3`

	// spansThat may have tasks that are waiting (?3) or ready. Of one that nobody ever held and
	// whose tasks have no steps, its time says where its tasks stand; before its time no task of a
	// span is ready. Those of one that is parked are neither.
	spansThat = `SELECT batch, lo, hi FROM span WHERE batch < ?1 AND batch >= ?2
AND iif(?3, due > ?4 OR token > 0 OR seq0 > 0, due <= ?4) AND due < ` + never + `
AND (?5 = '' OR queue = ?5)`
)

// list reads for one page.
type list struct {
	*conn
	store.Filter
	now    int64
	bottom int64
	ranges listing.Stretches
}

// Tasks lists the tasks that a filter selects, newest first. See contract.Views.
func (s *viewCalls) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	err = s.read(ctx, func(c *conn) error {
		l := &list{conn: c, Filter: f, now: s.clock(), bottom: listing.Bottom(f)}
		l.ranges = listing.Stretches{Load: l.batches, Read: l.inStretches}
		if f.State == task.Waiting || f.State == task.Ready {
			l.ranges.Load = l.spans
		}
		var err error
		page, next, err = listing.Walk(ctx, l, listing.From(f, after), limit,
			s.examined)
		return err
	})
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list tasks: %w", err)
	}
	return page, next, nil
}

// Candidates is that of a listing.Reader.
func (l *list) Candidates(
	ctx context.Context, below task.ID, size int,
) (listing.Candidates, error) {
	switch {
	case l.Key != "":
		return l.along(byKey, below, size, l.Key, "")
	case l.State == task.Dead, l.State == task.Cancelled, l.State == task.Expired:
		return l.along(byFinal, below, size, int64(listing.FinalKind(l.State)), l.Worker)
	case l.State == task.Blocked:
		return l.along(byWait, below, size, "", l.Worker)
	case l.State == task.Running:
		running, err := l.along(byRunning, below, size, l.Worker, "")
		return listing.Merge(listing.Live(l.Filter, below), running), err
	case l.Worker != "" && (l.State == "" || l.State == task.Done):
		running, err := l.along(byRunning, below, size, l.Worker, "")
		if err != nil {
			return running, err
		}
		steps, err := l.along(byWorker, below, size, l.Worker, "")
		if err != nil {
			return steps, err
		}
		marks, err := l.byMark(below, size)
		return listing.Merge(listing.Live(l.Filter, below), running, steps, marks), err
	}
	return l.ranges.Candidates(ctx, below, size)
}

// along reads candidates by one statement. The last one is one, too, when it may have rows that
// were not read.
func (l *list) along(
	query string, below task.ID, size int, mine any, worker string,
) (c listing.Candidates, err error) {
	c.Floor = below
	err = l.scan(query, &c, below.Batch, below.N, size, l.bottom, mine, worker)
	if read := c.Cost; read < size {
		c.End = true
	} else if n := len(c.IDs); n == 0 || c.IDs[n-1] != c.Floor {
		c.IDs = append(c.IDs, c.Floor)
	}
	c.IDs = slices.Compact(c.IDs)
	if listing.Compares(l.Filter) {
		c.Cost *= listing.Compare
	}
	return c, err
}

// marksBelow are marks with tasks below (?1, ?2), down to the batch ?3, with the numbers of those
// tasks that a worker ended, if the filter may select any of the batch.
var marksBelow = `SELECT m.batch, m.lo, m.bits, iif(` + ofBatch("m.batch") + `,
  mark_workers(m.body, m.lo, ?8), 0)
FROM mark m WHERE (m.batch, m.lo) < (?1, ?2) AND m.batch >= ?3
ORDER BY m.batch DESC, m.lo DESC LIMIT ?4`

// byMark are the tasks that marks say a worker ended. A mark costs as much as its outcomes.
func (l *list) byMark(below task.ID, size int) (c listing.Candidates, err error) {
	c.Floor, c.End = below, true
	err = l.each(marksBelow, func(st *sqlite.Stmt) bool {
		lo := st.ColumnInt32(1)
		c.Floor = task.ID{Batch: st.ColumnInt64(0), N: lo}
		c.Cost += pack.Bits(st.ColumnInt64(2)).Len()
		at := len(c.IDs)
		for n := range pack.Bits(st.ColumnInt64(3)).Numbers(lo) {
			if id := (task.ID{Batch: c.Floor.Batch, N: n}); id.Compare(below) < 0 {
				c.IDs = append(c.IDs, id)
			}
		}
		slices.Reverse(c.IDs[at:])
		c.End = c.Cost < size
		return c.Cost < size
	}, below.Batch, below.N, l.bottom, size, l.Queue, l.Since, l.Until, l.Worker)
	return c, err
}

// scan runs a statement that reads candidates. Each row costs one.
func (l *list) scan(
	query string, c *listing.Candidates, batch int64, n int32, size int, bottom int64, mine any,
	worker string,
) error {
	return l.each(query, func(st *sqlite.Stmt) bool {
		c.Floor = task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}
		c.Cost++
		if st.ColumnBool(2) {
			c.IDs = append(c.IDs, c.Floor)
		}
		return true
	}, batch, n, size, bottom, l.Queue, l.Since, l.Until, l.Stage, int(listing.ClassOf(l.Filter)),
		worker, mine, string(l.Meta))
}

// batches are those that the filter selects, as stretches.
func (l *list) batches(_ context.Context, bound int64, size int) (w listing.Window, err error) {
	err = l.each(batchesBelow, func(st *sqlite.Stmt) bool {
		w.Floor = st.ColumnInt64(0)
		w.Cost++
		if !st.ColumnIsNull(1) {
			w.Stretches = append(w.Stretches, listing.Stretch{
				Batch: w.Floor, Hi: st.ColumnInt32(1),
			})
		}
		return true
	}, bound, l.bottom, size, l.Queue, l.Since, l.Until)
	w.Stretches = listing.Apart(w.Stretches)
	w.End = w.Cost < size
	return w, err
}

// spans are those that may have tasks in the filter's state, as stretches. A batch's spans are read
// together.
func (l *list) spans(_ context.Context, bound int64, size int) (w listing.Window, err error) {
	err = l.each(spansBelow, func(st *sqlite.Stmt) bool {
		w.Floor = st.ColumnInt64(0)
		w.Cost++
		return true
	}, bound, l.bottom, size)
	if err != nil || w.Cost == 0 {
		w.End = true
		return w, err
	}
	w.End = w.Cost < size
	err = l.each(spansThat, func(st *sqlite.Stmt) bool {
		w.Stretches = append(w.Stretches, listing.Stretch{
			Batch: st.ColumnInt64(0), Lo: st.ColumnInt32(1), Hi: st.ColumnInt32(2),
		})
		return true
	}, bound, w.Floor, l.State == task.Waiting, l.now, l.Queue)
	w.Stretches = listing.Apart(w.Stretches)
	w.Cost += len(w.Stretches)
	return w, err
}

// Views is that of a listing.Reader.
func (l *list) Views(_ context.Context, ids []task.ID) ([]task.View, error) {
	views := make([]task.View, len(ids))
	for i := 0; i < len(ids); {
		n := 1
		for i+n < len(ids) && ids[i+n].Batch == ids[i].Batch &&
			pack.Lo(ids[i+n].N) == pack.Lo(ids[i].N) {
			n++
		}
		if err := l.viewPack(ids[i:i+n], views[i:i+n]); err != nil {
			return nil, err
		}
		i += n
	}
	return views, nil
}

// together is from how many tasks of a pack on it is read whole.
const together = 3

// viewPack fills in the views of tasks of one pack that the filter selects.
func (l *list) viewPack(ids []task.ID, views []task.View) error {
	facts := make([]rules.Fact, len(ids))
	if len(ids) < together {
		for i, id := range ids {
			f, _, err := l.facts().fact(id)
			if err != nil {
				return err
			}
			facts[i] = f
		}
	} else {
		first, last := ids[len(ids)-1], ids[0]
		at := len(ids) - 1
		if err := l.facts().facts(first.Batch, first.N, last.N, func(f *rules.Fact) bool {
			for at >= 0 && ids[at].N < f.ID.N {
				at--
			}
			if at >= 0 && ids[at] == f.ID {
				facts[at] = *f
			}
			return true
		}); err != nil {
			return err
		}
		for i := range facts {
			if err := l.facts().complete(&facts[i]); err != nil {
				return err
			}
		}
	}
	for i := range facts {
		f := &facts[i]
		if f.ID == (task.ID{}) || f.Removed() {
			continue
		}
		var live *store.Live
		if l, ok := l.Live[f.ID]; ok {
			live = &l
		}
		v, err := l.views().view(f, l.now, live)
		if err != nil {
			return err
		}
		if listing.Selects(&l.Filter, &v) {
			views[i] = v
		}
	}
	return nil
}
