package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// What tasks have waited for is read along with them: how it ended, and what it left. Most have
// waited for nothing, which the ids of their batches tell.

const (
	// priorsOf reads, of tasks, those that they have waited for, and what those left; as long as
	// that is not more than $3 bytes of one task. What is marked has no step: its mark tells.
	priorsOf = `SELECT p.at, ` + dependencyColumns + `, p.stands, p.stepped, p.size,
  CASE WHEN p.upto <= $3 THEN p.context END, CASE WHEN p.upto <= $3 THEN p.result END, p.upto <= $3
FROM (SELECT d.*, sum(d.size) OVER (PARTITION BY d.at ORDER BY d.i) AS upto FROM (
  SELECT w.at::int AS at, d.*, t.n IS NOT NULL AS stands, s.n IS NOT NULL AS stepped, s.result,
    CASE WHEN s.context_seq IS NULL THEN t.context ELSE c.context END AS context,
    coalesce(octet_length(s.result), 0) + coalesce(octet_length(CASE WHEN s.context_seq IS NULL
      THEN t.context ELSE c.context END), 0) AS size
  FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY w (batch, n, at)
  JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n AND d.state IS NOT NULL
  LEFT JOIN LATERAL rota.task(d.on_batch, d.on_n) t ON d.seq >= 0
  LEFT JOIN rota.step s ON s.batch = d.on_batch AND s.n = d.on_n AND s.seq = d.seq
  LEFT JOIN rota.step c ON c.batch = d.on_batch AND c.n = d.on_n AND c.seq = s.context_seq) d) p
CROSS JOIN LATERAL (SELECT p.i, p.on_batch, p.on_n, p.ref, p.ended, p.state, p.seq, p.address) d
ORDER BY p.at, d.i`

	// leftBy reads what tasks left with their steps.
	leftBy = `SELECT w.at::int, CASE WHEN s.context_seq IS NULL THEN t.context ELSE c.context END,
  s.result
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, seq, at)
CROSS JOIN LATERAL rota.task(w.batch, w.n) t
LEFT JOIN rota.step s ON s.batch = w.batch AND s.n = w.n AND s.seq = w.seq
LEFT JOIN rota.step c ON c.batch = w.batch AND c.n = w.n AND c.seq = s.context_seq`
)

// priors are tasks of which it is to be read what they have waited for.
type priors struct {
	ids   []task.ID
	tasks []*store.Loaded
	found [][]prior
}

// prior is what one of them has waited for.
type prior struct {
	dependency
	stands, stepped, here bool
	size                  int
	context, result       store.Value
}

// add notes a task of a batch.
func (p *priors) add(batch int64, l *store.Loaded) {
	if store.MayDepend(batch) {
		p.ids = append(p.ids, task.ID{Batch: batch, N: l.N})
		p.tasks = append(p.tasks, l)
	}
}

func (p *priors) queries() []query {
	if len(p.ids) == 0 {
		return nil
	}
	p.found = make([][]prior, len(p.ids))
	batches, ns := idColumns(p.ids)
	return []query{ask(priorsOf, func(r row) error {
		var at int
		var one prior
		err := r.Scan(&at, &one.i, &one.On.Batch, &one.On.N, &one.Ref, &one.Ended,
			(*string)(&one.state), &one.seq, &one.address, &one.stands, &one.stepped, &one.size,
			&one.context, &one.result, &one.here)
		p.found[at-1] = append(p.found[at-1], one)
		return err
	}, batches, ns, store.PriorLimit)}
}

// finish reads what the first query did not, and fills the tasks in. r makes other trips: what was
// left at a step does not change.
func (p *priors) finish(ctx context.Context, r runner) error {
	var marked []task.ID
	for _, list := range p.found {
		for i := range list {
			if d := &list[i]; d.stands && !d.stepped {
				marked = append(marked, d.On)
			}
		}
	}
	if len(marked) > 0 {
		m := marks{}
		if err := r.run(ctx, m.reading(marked)); err != nil {
			return err
		}
		for _, list := range p.found {
			for i := range list {
				d := &list[i]
				if !d.stands || d.stepped {
					continue
				}
				done, ok, err := m.find(d.On)
				if err != nil {
					return err
				}
				d.stands = ok
				d.result, d.size = done.Result, d.size+len(done.Result)
			}
		}
	}
	return p.fill(ctx, r)
}

// fill gives out the room that there is, and reads those values that were not read before they
// were known to have some.
func (p *priors) fill(ctx context.Context, r runner) error {
	var late keyColumns
	var to []*store.Prior
	var results []store.Value // of marks
	for k, list := range p.found {
		left := store.PriorLimit
		after := make([]store.Prior, 0, len(list))
		for i := range list {
			d := &list[i]
			one := store.Prior{Dependency: d.Dependency, State: d.state, LeftOut: true}
			if d.stands && rules.PriorRoom(&left, d.size) {
				one.LeftOut, one.Context, one.Result = false, d.context, d.result
			}
			after = append(after, one)
			if d.stands && !one.LeftOut && !d.here {
				late.add(d.On, d.seq)
				to = append(to, &after[i])
				results = append(results, d.result)
			}
		}
		if len(after) > 0 {
			p.tasks[k].After = after
		}
	}
	if len(to) == 0 {
		return nil
	}
	return r.run(ctx, ask(leftBy, func(r row) error {
		var at int
		var context, result store.Value
		err := r.Scan(&at, &context, &result)
		one := to[at-1]
		if one.Context, one.Result = context, results[at-1]; result != nil {
			one.Result = result
		}
		return err
	}, late.batch, late.n, late.seq))
}

// askAfter makes the query that reads what a task waits for, or has waited for, as people see it.
func askAfter(id task.ID, list *[]task.Prior) []query {
	if !store.MayDepend(id.Batch) {
		return nil
	}
	batches, ns := idColumns([]task.ID{id})
	return []query{ask(dependenciesOf, func(r row) error {
		var of task.ID
		var d dependency
		err := d.scan(r, &of.Batch, &of.N)
		*list = append(*list, rules.PriorView(&d.Dependency, d.state))
		return err
	}, batches, ns)}
}
