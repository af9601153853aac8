package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	// presentRuns are tasks, each with the run that it is in.
	presentRuns = ` FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY i (batch, n, i)
CROSS JOIN LATERAL (SELECT coalesce((SELECT seq + 1 FROM rota.step
  WHERE batch = i.batch AND n = i.n AND kind = 11 ORDER BY seq DESC LIMIT 1), 0) AS run) r
`

	// firstHandouts is when tasks began in their present runs, and how their children stand, whose
	// addresses are $3 and the run.
	firstHandouts = `SELECT i.i::int, coalesce((SELECT started FROM rota.step
  WHERE batch = i.batch AND n = i.n AND seq >= r.run AND started > 0 ORDER BY seq LIMIT 1), 0),
  s.total, s.done, s.dead, s.cancelled, s.expired` + presentRuns + `CROSS JOIN LATERAL (` +
		summed + ` FROM (
  SELECT total, done, dead, cancelled, expired FROM rota.child_count
  WHERE batch = i.batch AND n = i.n AND run = r.run
  UNION ALL SELECT total, done, dead, cancelled, expired FROM rota.change
  WHERE address = ($3::text[])[i.i] || r.run) s) s`

	// waitedFor is what tasks wait for, or have waited for.
	waitedFor = `SELECT w.i::int, ` + dependencyColumns + `
FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY w (batch, n, i)
JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n ORDER BY w.i, d.i LIMIT $3`
)

// childPacks has at least one child in each row, and so at most $3 rows of a task, and in all.
var childPacks = `SELECT i.i::int, p.batch, p.lo, p.has` + presentRuns + `CROSS JOIN LATERAL (
  SELECT p.batch, p.lo, p.has FROM ` + childBatches("i.batch, i.n", "0", "AND run = r.run", "$3") + `
  WHERE p.has <> 0 ORDER BY c.parent_batch, c.parent_n, c.batch, p.lo LIMIT $3) p
ORDER BY i.i, p.batch, p.lo LIMIT $3`

// Families reads tasks and the ids of their children. See contract.Views.
func (s *views) Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error) {
	found := make([]fact, len(q.IDs))
	list := make([]store.Family, len(q.IDs))
	batches, ns := idColumns(q.IDs)
	addresses := make([]string, len(q.IDs))
	for i, id := range q.IDs {
		addresses[i] = strings.TrimSuffix(store.ChildrenOf(id, 0).String(), "0")
	}
	var now int64
	queries := append(factsOf(q.IDs, false, found),
		ask(countClock, func(r row) error { return r.Scan(&now) }, s.clock()),
		ask(firstHandouts, func(r row) error {
			var i int
			var began int64
			var c task.Children
			err := r.Scan(&i, &began, &c.Total, &c.Done, &c.Dead, &c.Cancelled, &c.Expired)
			if err != nil {
				return err
			}
			list[i-1].Began = instant(began)
			if c.Total > 0 {
				list[i-1].Task.Children = &c
			}
			return nil
		}, batches, ns, addresses))
	room := q.Children
	if room > 0 {
		queries = append(queries, ask(childPacks, func(r row) error {
			var i int
			var id task.ID
			var has int64
			if err := r.Scan(&i, &id.Batch, &id.N, &has); err != nil {
				return err
			}
			for id.N = range pack.Bits(has).Numbers(pack.Lo(id.N)) {
				if room == 0 {
					break
				}
				room--
				list[i-1].Children = append(list[i-1].Children, id)
			}
			return nil
		}, batches, ns, room))
	}
	after := make([][]task.Prior, len(q.IDs))
	queries = append(queries, askAfters(&q, after)...)
	if err := s.read(ctx, queries...); err != nil {
		return nil, fmt.Errorf("read %d tasks and their children: %w", len(q.IDs), err)
	}
	for i := range list {
		var live *store.Live
		if h, ok := q.Live[q.IDs[i]]; ok {
			live = &h
		}
		complete(&list[i], &found[i], now, live)
		if list[i].Task.ID != (task.ID{}) {
			list[i].Task.After = after[i]
		}
	}
	return list, nil
}

// askAfters makes the query that reads what tasks wait for, until so many were read.
func askAfters(q *store.FamilyQuery, after [][]task.Prior) []query {
	var ids []task.ID
	var places []int
	for i, id := range q.IDs {
		if store.MayDepend(id.Batch) {
			ids = append(ids, id)
			places = append(places, i)
		}
	}
	if len(ids) == 0 || q.After <= 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	before, at := 0, 0 // how many the tasks before the one at this place have
	return []query{ask(waitedFor, func(r row) error {
		var i int
		var d dependency
		if err := d.scan(r, &i); err != nil {
			return err
		}
		if i != at {
			if at > 0 {
				before += len(after[places[at-1]])
			}
			at = i
		}
		if to := &after[places[i-1]]; before < q.After {
			*to = append(*to, rules.PriorView(&d.Dependency, d.state))
		}
		return nil
	}, batches, ns, q.After+store.MaxAfter)}
}

// complete fills in what a fact says of a task.
func complete(to *store.Family, f *fact, now int64, live *store.Live) {
	if f.ID == (task.ID{}) || f.Removed() {
		*to = store.Family{}
		return
	}
	counts := to.Task.Children
	to.Task = f.view(now, live)
	to.Task.Children, to.Finished = counts, instant(f.Finished)
	switch {
	case !to.Began.IsZero():
	case f.began > 0:
		to.Began = instant(f.began)
	default:
		to.Began = to.Task.Started
	}
}
