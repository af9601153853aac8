package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// familyOf counts the children of a task in its present run, whose address goes on behind $3.
const familyOf = `WITH r AS MATERIALIZED (SELECT coalesce((SELECT seq + 1 FROM rota.step
  WHERE batch = $1 AND n = $2 AND kind = 11 ORDER BY seq DESC LIMIT 1), 0) AS run)
` + summed + ` FROM (
  SELECT total, done, dead, cancelled, expired FROM rota.child_count
  WHERE batch = $1 AND n = $2 AND run = (SELECT run FROM r)
  UNION ALL SELECT total, done, dead, cancelled, expired FROM rota.change
  WHERE address = $3::text || (SELECT run FROM r)) s`

// childBatches are the batches of children of a task from one on, in their order, with their packs.
// That the task is a range, and that limit is none, which nobody knows when it is planned, leaves
// the index of parents only: else a planner that knows of large families goes through the batches
// of all, or begins with sorting all of the family.
func childBatches(task, from, where, limit string) string {
	return fmt.Sprintf(`(SELECT parent_batch, parent_n, batch, orphan FROM rota.child_batch
  WHERE (parent_batch, parent_n, batch) >= (%[1]s, %[2]s) AND (parent_batch, parent_n) <= (%[1]s)
  %[3]s ORDER BY parent_batch, parent_n, batch LIMIT nullif(%[4]s::bigint, %[4]s)) c
JOIN rota.pack p ON p.batch = c.batch`, task, from, where, limit)
}

const (
	// eachChild goes on behind childBatches with the children.
	eachChild = ` CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n)
WHERE p.has >> (i.n & 63) & 1 = 1`
	// inTheirOrder sorts them as they come from there.
	inTheirOrder = ` ORDER BY c.parent_batch, c.parent_n, c.batch, i.n LIMIT $5`
)

// childrenOf reads children behind a place, in the order of their ids, and the results of their
// newest steps, but what woke them. What is marked has no step.
var childrenOf = `SELECT t.batch, t.n, p.batch IS NOT NULL, CASE WHEN p.kind <> 15 THEN p.result END
FROM (SELECT c.batch, i.n FROM ` + childBatches("$1, $2", "$3", "", "$5") + eachChild +
	` AND (c.batch > $3 OR i.n > $4)` + inTheirOrder + `) t
LEFT JOIN LATERAL (SELECT batch, kind, result FROM rota.step WHERE batch = t.batch AND n = t.n
  ORDER BY seq DESC LIMIT 1) p ON true
ORDER BY t.batch, t.n`

// family is whose child a task is, and how its own stand.
type family struct {
	parents  map[int64]task.ID
	children *task.Children
}

func (f *family) queries(id task.ID) []query {
	prefix := strings.TrimSuffix(store.ChildrenOf(id, 0).String(), "0")
	return append(askParents([]int64{id.Batch}, f.parents), ask(familyOf, func(r row) error {
		var c task.Children
		err := r.Scan(&c.Total, &c.Done, &c.Dead, &c.Cancelled, &c.Expired)
		if c.Total > 0 {
			f.children = &c
		}
		return err
	}, id.Batch, id.N, prefix))
}

// childrenExamined is how many children one page looks at, at most.
const childrenExamined = 1000

// Children lists the children of a task, oldest first. See contract.Views.
func (s *views) Children(
	ctx context.Context, q store.ChildrenQuery,
) (page []task.View, next task.ID, err error) {
	var results []store.Value
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		l := childList{database: s.database, ChildrenQuery: q}
		err := l.read(ctx, r)
		page, results, next = l.page, l.results, l.next
		return err
	})
	for i := range page {
		if err == nil {
			page[i].Result, err = s.values.Value(ctx, results[i])
		}
	}
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list children of task %s: %w", q.Parent, err)
	}
	return page, next, nil
}

// childList reads one page of children.
type childList struct {
	*database
	store.ChildrenQuery
	page    []task.View
	results []store.Value
	next    task.ID // where to go on
}

// childResult is what a child left as far as its newest step says; stepped: it has one.
type childResult struct {
	id      task.ID
	stepped bool
	value   store.Value
}

func (l *childList) read(ctx context.Context, r runner) error {
	parent := make([]fact, 1)
	var now int64
	var list []childResult
	at := l.After
	if at == (task.ID{}) {
		at.N = -1
	}
	// all of a page, and one more; those that are left out make it longer
	size := min(max(2*l.Limit, 0)+1, childrenExamined)
	if l.State != "" {
		size = childrenExamined
	}
	err := r.run(ctx, append(factsOf([]task.ID{l.Parent}, false, parent),
		ask(countClock, func(r row) error { return r.Scan(&now) }, l.clock()),
		ask(childrenOf, func(r row) error {
			var c childResult
			err := r.Scan(&c.id.Batch, &c.id.N, &c.stepped, &c.value)
			list = append(list, c)
			return err
		}, l.Parent.Batch, l.Parent.N, at.Batch, at.N, size))...)
	if f := &parent[0]; err == nil && (f.ID == (task.ID{}) || f.Removed()) {
		err = store.ErrNotFound
	}
	if err != nil || len(list) == 0 {
		return err
	}
	ids := make([]task.ID, len(list))
	var marked []task.ID
	for i := range list {
		if ids[i] = list[i].id; !list[i].stepped {
			marked = append(marked, ids[i])
		}
	}
	found := make([]fact, len(list))
	done := marks{}
	queries := factsOf(ids, false, found)
	if len(marked) > 0 {
		queries = append(queries, done.reading(marked))
	}
	if err := r.run(ctx, queries...); err != nil {
		return err
	}
	return l.choose(list, found, done, now, len(list) == size)
}

// choose makes the page; more tells that there are children behind the list.
func (l *childList) choose(
	list []childResult, found []fact, done marks, now int64, more bool,
) error {
	for i := range list {
		c, f := &list[i], &found[i]
		if len(l.page) == l.Limit {
			more = true
			break
		}
		l.next = c.id
		if f.ID == (task.ID{}) || f.Removed() {
			continue
		}
		var live *store.Live
		if h, ok := l.Live[c.id]; ok {
			live = &h
		}
		v := f.view(now, live)
		if l.State != "" && v.State != l.State {
			continue
		}
		if !c.stepped {
			d, _, err := done.find(c.id)
			if err != nil {
				return err
			}
			c.value = d.Result
		}
		l.page = append(l.page, v)
		l.results = append(l.results, c.value)
	}
	if !more {
		l.next = task.ID{}
	}
	return nil
}
