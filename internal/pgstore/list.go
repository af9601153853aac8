package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

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
	byKey = `SELECT batch, n FROM rota.task WHERE key = $4 AND (batch, n) < ($1, $2) ORDER BY batch DESC, n DESC LIMIT $3`

	byFinal = `SELECT DISTINCT batch, n FROM rota.step WHERE base = -1 AND kind <> 1 AND (batch, n) < ($1, $2) ORDER BY batch DESC, n DESC LIMIT $3`

	byRunning = `SELECT DISTINCT batch, n FROM rota.running WHERE (batch, n) < ($1, $2) ORDER BY batch DESC, n DESC LIMIT $3`

	inBatches = `SELECT t.batch, t.n FROM unnest($4::bigint[]) w (batch)
CROSS JOIN LATERAL (SELECT batch, n FROM rota.task WHERE batch = w.batch AND (batch, n) < ($1, $2) ORDER BY n DESC LIMIT $3) t
ORDER BY t.batch DESC, t.n DESC LIMIT $3`

	allBatches  = `SELECT id, queue, created FROM rota.batch WHERE id < $1 ORDER BY id DESC LIMIT $2`
	openBatches = `SELECT b.id, b.queue, b.created
FROM (SELECT DISTINCT batch FROM rota.span WHERE batch < $1 ORDER BY batch DESC LIMIT $2) s JOIN rota.batch b ON b.id = s.batch ORDER BY b.id DESC`
)

// walk is a list in progress.
type walk struct {
	runner
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
	w := &walk{Filter: f, limit: limit, at: after, budget: max(s.examined, 2*limit)}
	if after == (task.ID{}) {
		w.at = task.ID{Batch: math.MaxInt64, N: math.MaxInt32}
	}
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		w.runner = r
		if err := r.run(ctx, ask(countClock, func(r row) error { return r.Scan(&w.now) }, s.clock())); err != nil {
			return err
		}
		return w.walk(ctx)
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

func (w *walk) walk(ctx context.Context) error {
	switch {
	case w.Key != "":
		return w.along(ctx, byKey, w.Key)
	case w.State == task.Dead || w.State == task.Cancelled:
		return w.along(ctx, byFinal)
	case w.State == task.Running:
		return w.alongRunning(ctx)
	case w.State == task.Waiting || w.State == task.Ready:
		return w.alongBatches(ctx, openBatches)
	}
	return w.alongBatches(ctx, allBatches)
}

// along examines what a query answers, which takes where to begin, how many, and its own arguments.
func (w *walk) along(ctx context.Context, text string, args ...any) error {
	for w.open() {
		ids, size, err := w.candidates(ctx, text, w.at, args...)
		if err == nil {
			err = w.examine(ctx, ids)
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

// stride is how many candidates are read at once; at least as many as the page lacks.
const stride = 100

// candidates reads the next ids below one, at most size.
func (w *walk) candidates(ctx context.Context, text string, below task.ID, args ...any) (ids []task.ID, size int, err error) {
	size = max(min(w.budget, max(w.limit-len(w.page)+1, stride)), 1)
	err = w.run(ctx, ask(text, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		ids = append(ids, id)
		return err
	}, append([]any{below.Batch, below.N, size}, args...)...))
	return ids, size, err
}

// alongRunning examines the hand-outs that are written down and those that only memory knows: as many as run, no more.
func (w *walk) alongRunning(ctx context.Context) error {
	for {
		ids, size, err := w.candidates(ctx, byRunning, w.at)
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
		if err := w.examine(ctx, ids); err != nil {
			return err
		}
		if horizon == (task.ID{}) && (len(ids) == 0 || w.at == ids[len(ids)-1]) {
			w.over = true
		}
		if !w.open() {
			return nil
		}
	}
}

// head is a batch that a list comes to.
type head struct {
	id, created int64
	queue       string
}

// alongBatches examines the tasks of batches, and passes over whole batches that the filter does not select.
func (w *walk) alongBatches(ctx context.Context, text string) error {
	if w.at.N > 0 && w.at.Batch != math.MaxInt64 { // the batch that the last page ended in goes on
		if done, err := w.inside(ctx, []int64{w.at.Batch}); err != nil || !done {
			return err
		}
		w.at.N = 0
	}
	for w.open() {
		var heads int
		var last int64
		var chosen []int64
		err := w.run(ctx, ask(text, func(r row) error {
			var h head
			err := r.Scan(&h.id, &h.queue, &h.created)
			heads++
			last = h.id
			if w.selectsBatch(h.queue, h.created) {
				chosen = append(chosen, h.id)
			}
			return err
		}, w.at.Batch, stride))
		if err != nil {
			return err
		}
		if heads == 0 {
			w.over = true
			return nil
		}
		w.budget -= heads
		if len(chosen) > 0 {
			if done, err := w.inside(ctx, chosen); err != nil || !done {
				return err
			}
		}
		w.at = task.ID{Batch: last}
	}
	return nil
}

// inside examines the tasks of some batches below w.at; done says that there are no more.
func (w *walk) inside(ctx context.Context, batches []int64) (done bool, err error) {
	for first := true; first || w.open(); first = false {
		ids, size, err := w.candidates(ctx, inBatches, w.at, batches)
		if err == nil {
			err = w.examine(ctx, ids)
		}
		if err != nil {
			return false, err
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
func (w *walk) examine(ctx context.Context, ids []task.ID) error {
	if len(ids) == 0 {
		return nil
	}
	found := make([]fact, len(ids))
	if err := w.run(ctx, factsOf(ids, false, found)); err != nil {
		return err
	}
	for i, id := range ids {
		if len(w.page) == w.limit {
			return nil
		}
		w.at = id
		w.budget--
		f := &found[i]
		if f.id == (task.ID{}) || f.removed() || !w.selectsBatch(f.queue, f.created) {
			continue
		}
		var live *rows.Live
		if l, ok := w.Live[id]; ok {
			live = &l
		}
		if w.State != "" && f.state(w.now, live != nil) != w.State || w.Stage != "" && f.stage != w.Stage || w.Key != "" && f.key != w.Key {
			continue
		}
		if v := f.view(w.now, live); w.Worker == "" || v.Worker == w.Worker {
			w.page = append(w.page, v)
		}
	}
	return nil
}
