package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// A list walks candidates, newest first, and examines each. Which table gives the candidates depends on the filter, so that a
// rare state is not looked for among millions of others:
//
//	key               the index on keys
//	dead, cancelled   the index on final steps that are not done
//	running           running rows, and what the filter's memory knows
//	waiting, ready    the tasks of batches that have spans
//	else              all tasks
const (
	byKey = `SELECT batch, n FROM task WHERE key = ?1 AND (batch, n) < (?2, ?3) ORDER BY batch DESC, n DESC LIMIT ?4`

	byFinal = `SELECT DISTINCT batch, n FROM step INDEXED BY step_not_done WHERE base = -1 AND kind <> 1 AND (batch, n) < (?1, ?2)
ORDER BY batch DESC, n DESC LIMIT ?3`

	byRunning = `SELECT DISTINCT batch, n FROM running WHERE (batch, n) < (?1, ?2) ORDER BY batch DESC, n DESC LIMIT ?3`

	inBatch = `SELECT batch, n FROM task WHERE batch = ?1 AND n < ?2 ORDER BY n DESC LIMIT ?3`

	allBatches  = `SELECT id, queue, created FROM batch WHERE id < ?1 ORDER BY id DESC LIMIT 1`
	openBatches = `SELECT b.id, b.queue, b.created FROM batch b
WHERE b.id = (SELECT s.batch FROM span s WHERE s.batch < ?1 ORDER BY s.batch DESC LIMIT 1)`
)

// walk is a list in progress.
type walk struct {
	*conn
	rows.Filter
	now    int64
	limit  int
	page   []task.View
	at     task.ID // the last candidate that was looked at, or where the walk begins
	budget int     // rows that may still be examined
	over   bool    // nothing is left
}

// Tasks lists the tasks that a filter selects, newest first. See the contract, storetest.Views.
func (s *Store) Tasks(ctx context.Context, f rows.Filter, after task.ID, limit int) (page []task.View, next task.ID, err error) {
	w := &walk{Filter: f, now: s.clock(), limit: limit, at: after, budget: max(s.examined, 2*limit)}
	if after == (task.ID{}) {
		w.at = task.ID{Batch: math.MaxInt64, N: math.MaxInt32}
	}
	err = s.read(ctx, func(c *conn) error {
		w.conn = c
		return w.run()
	})
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list tasks: %w", err)
	}
	if !w.over {
		next = w.at
	}
	return w.page, next, nil
}

// open tells whether the walk should go on.
func (w *walk) open() bool { return !w.over && len(w.page) < w.limit && w.budget > 0 }

func (w *walk) run() error {
	switch {
	case w.Key != "":
		return w.along(byKey, w.Key)
	case w.State == task.Dead || w.State == task.Cancelled:
		return w.along(byFinal)
	case w.State == task.Running:
		return w.alongRunning()
	case w.State == task.Waiting || w.State == task.Ready:
		return w.alongBatches(openBatches)
	}
	return w.alongBatches(allBatches)
}

// along examines what a query answers, which takes its own arguments, where to begin, and how many.
func (w *walk) along(query string, args ...any) error {
	for w.open() {
		ids, size, err := w.candidates(query, args...)
		if err == nil {
			err = w.examine(ids)
		}
		if err != nil {
			return err
		}
		if len(ids) < size && (len(ids) == 0 || w.at == ids[len(ids)-1]) {
			w.over = true
		}
	}
	return nil
}

// candidates reads the next ids, at most size.
func (w *walk) candidates(query string, args ...any) (ids []task.ID, size int, err error) {
	size = min(w.budget, w.limit-len(w.page)+1)
	err = w.each(query, func(st *sqlite.Stmt) bool {
		ids = append(ids, task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)})
		return true
	}, append(args, w.at.Batch, w.at.N, size)...)
	return ids, size, err
}

// alongRunning examines the hand-outs that are written down and those that only memory knows: as many as run, no more.
func (w *walk) alongRunning() error {
	ids, size, err := w.candidates(byRunning)
	if err != nil {
		return err
	}
	horizon := task.ID{} // below it there may be running rows that were not read
	if len(ids) == size {
		horizon = ids[size-1]
	}
	for id := range w.Live {
		if id.Compare(w.at) < 0 && id.Compare(horizon) >= 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
	ids = slices.Compact(ids)
	if err := w.examine(ids); err != nil {
		return err
	}
	if horizon == (task.ID{}) && (len(ids) == 0 || w.at == ids[len(ids)-1]) {
		w.over = true
	} else if w.open() {
		return w.alongRunning()
	}
	return nil
}

// alongBatches examines the tasks of batches, and passes over whole batches that the filter does not select.
func (w *walk) alongBatches(query string) error {
	batch, bound := w.at.Batch, w.at.N // the batch that the last page ended in goes on
	for w.open() {
		if bound > 0 {
			done, err := w.alongBatch(batch, bound)
			if err != nil || !done {
				return err
			}
		}
		w.at, bound = task.ID{Batch: batch}, 0
		var queue string
		var created int64
		found, err := w.one(query, func(st *sqlite.Stmt) {
			batch, queue, created = st.ColumnInt64(0), st.ColumnText(1), st.ColumnInt64(2)
		}, batch)
		if err != nil {
			return err
		}
		if !found {
			w.over = true
			return nil
		}
		w.budget--
		if w.selectsBatch(queue, created) {
			bound = math.MaxInt32
		}
	}
	return nil
}

// alongBatch examines the tasks of a batch below bound; done says that there are no more.
func (w *walk) alongBatch(batch int64, bound int32) (done bool, err error) {
	for w.open() {
		size := min(w.budget, w.limit-len(w.page)+1)
		var ids []task.ID
		err := w.each(inBatch, func(st *sqlite.Stmt) bool {
			ids = append(ids, task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)})
			return true
		}, batch, bound, size)
		if err == nil {
			err = w.examine(ids)
		}
		if err != nil {
			return false, err
		}
		if len(ids) > 0 {
			bound = w.at.N
		}
		if len(ids) < size && (len(ids) == 0 || w.at == ids[len(ids)-1]) {
			return true, nil
		}
	}
	return false, nil
}

func (w *walk) selectsBatch(queue string, created int64) bool {
	return cmp.Or(w.Queue, queue) == queue && created >= w.Since && (w.Until == 0 || created < w.Until)
}

// examine adds to the page those of ids that the filter selects, until it is full.
func (w *walk) examine(ids []task.ID) error {
	for _, id := range ids {
		if len(w.page) == w.limit {
			return nil
		}
		w.at = id
		w.budget--
		f, found, err := w.fact(id)
		if err != nil {
			return err
		}
		if !found || f.removed() || !w.selectsBatch(f.queue, f.created) {
			continue
		}
		var live *rows.Live
		if l, ok := w.Live[id]; ok {
			live = &l
		}
		if w.State != "" && f.state(w.now, live != nil) != w.State || w.Stage != "" && f.stage != w.Stage || w.Key != "" && f.key != w.Key {
			continue
		}
		v, err := w.view(&f, w.now, live)
		if err != nil {
			return err
		}
		if w.Worker == "" || v.Worker == w.Worker {
			w.page = append(w.page, v)
		}
	}
	return nil
}
