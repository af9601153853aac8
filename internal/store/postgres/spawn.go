package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// spawning is what a settlement submits along with its reports: final notices and children.
type spawning struct {
	batches []store.Batch
	kin     map[int64]kinship // of the batches that are children's
	reports []int32           // that have children
}

// add takes what a recorded report submits, the i-th, whose task is in a run.
func (w *spawning) add(r *store.Report, i, run int32) {
	if r.Notice != nil {
		w.batches = append(w.batches, *r.Notice)
	}
	if len(r.Spawn) == 0 {
		return
	}
	w.reports = append(w.reports, i)
	if w.kin == nil {
		w.kin = map[int64]kinship{}
	}
	for k := range r.Spawn {
		w.kin[r.Spawn[k].ID] = kinship{parent: r.ID, run: run, seq: r.Token.Seq}
	}
	w.batches = append(w.batches, r.Spawn...)
}

// submission is sorted by the keys of its batches, as all are.
func (w *spawning) submission() *store.Submission {
	slices.SortFunc(w.batches, func(a, b store.Batch) int { return cmp.Compare(a.ID, b.ID) })
	sub := &store.Submission{Batches: w.batches}
	for i := range w.batches {
		if !slices.Contains(sub.NewQueues, w.batches[i].Queue) {
			sub.NewQueues = append(sub.NewQueues, w.batches[i].Queue)
		}
	}
	return sub
}

// readRuns reads in which runs the tasks are of which a report submits children, or awaits them.
// What never was replayed is in the first, 0, as is every task at its first two hand-outs.
func (d *settlement) readRuns(ctx context.Context, t *tx) error {
	var keys keyColumns
	var at []int32
	for i := range d.reports {
		r := &d.reports[i]
		if r.Token.Seq > 1 && (len(r.Spawn) > 0 || r.Await != nil && r.Await.Address.Children()) {
			keys.add(r.ID, r.Token.Seq)
			at = append(at, int32(i))
		}
	}
	if len(at) == 0 {
		return nil
	}
	d.runs = map[int32]int32{}
	return t.run(ctx, ask(runsOf, func(r row) error {
		var i int
		var run int32
		err := r.Scan(&i, &run)
		d.runs[at[i-1]] = run
		return err
	}, keys.batch, keys.n, keys.seq))
}

// finish makes the last trip of a settlement; two before it where children have keys, which are
// claimed behind everything else that may wait for others.
func (d *settlement) finish(
	ctx context.Context, t *tx, queries []query, follow consequences,
) error {
	queries = append(queries, follow.list...)
	w := &follow.spawn
	if len(w.batches) == 0 {
		return t.finish(ctx, append(queries, follow.last...)...)
	}
	sub := w.submission()
	d.told = sub.NewQueues
	if keyed(sub.Batches) {
		if err := t.run(ctx, queries...); err != nil {
			return err
		}
		c, err := d.submissions.look(ctx, t, sub, limitWait())
		if err != nil {
			return err
		}
		c.kin = w.kin
		answer, err := c.insert(ctx, t, t, func(ctx context.Context, queries ...query) error {
			return t.finish(ctx, append(queries, follow.last...)...)
		})
		d.existed = len(answer.Existing) > 0
		d.spawns(w, answer.Existing)
		return err
	}
	load := newLoading(sub.Batches, w.kin)
	if err := load.name(ctx, d.database, t); err != nil {
		return err
	}
	d.spawns(w, nil)
	queries = append(queries, load.queries(d.database, sub, func(row) error { return nil })...)
	return t.finish(ctx, append(queries, follow.last...)...)
}

// spawns notes what came of the children of recorded reports.
func (d *settlement) spawns(w *spawning, existing []store.Existing) {
	first := make(map[task.ID]task.ID, len(existing))
	for _, e := range existing {
		first[e.ID] = e.First
	}
	for _, i := range w.reports {
		r := &d.reports[i]
		d.spawned = append(d.spawned, spawnedOf(r, i, func(id task.ID) task.ID {
			if other, exists := first[id]; exists {
				return other
			}
			return id
		}))
		d.changed = append(d.changed, store.ChildrenOf(r.ID, d.runs[i]).String())
	}
}

// spawnedOf says what became of the children of the i-th report, in the order of their numbers.
func spawnedOf(r *store.Report, i int32, became func(task.ID) task.ID) store.Spawned {
	s := store.Spawned{Report: int(i)}
	for k := range r.Spawn {
		b := &r.Spawn[k]
		for n := range b.Tasks {
			s.IDs = append(s.IDs, task.ID{Batch: b.ID, N: b.Tasks[n].N})
		}
	}
	slices.SortFunc(s.IDs, func(a, b task.ID) int { return cmp.Compare(a.N, b.N) })
	for k, id := range s.IDs {
		s.IDs[k] = became(id)
	}
	return s
}

// spawnedBy finds the children that reports had when they were recorded: the packs of their
// batches, and what these say of tasks that existed.
const spawnedBy = `SELECT w.i::int, c.batch, b.existing, coalesce(p.lo, 0), coalesce(p.has, 0)
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, seq, i)
JOIN rota.child_batch c ON c.parent_batch = w.batch AND c.parent_n = w.n AND c.seq = w.seq
AND NOT c.added
JOIN rota.batch b ON b.id = c.batch LEFT JOIN rota.pack p ON p.batch = c.batch`

// askSpawned makes the query that finds the children of repeated reports, which may come by other
// ids than the first time; those that were deleted are zero. It comes behind what this settlement
// submits: it may have recorded the same report.
func (d *settlement) askSpawned() []query {
	var keys keyColumns
	for _, i := range d.order {
		if r := &d.reports[i]; d.verdicts[i] == task.Repeated && len(r.Spawn) > 0 {
			keys.add(r.ID, r.Token.Seq)
			d.repeated = append(d.repeated, repeatedSpawn{report: i, ids: map[int32]task.ID{}})
		}
	}
	if len(d.repeated) == 0 {
		return nil
	}
	return []query{ask(spawnedBy, func(r row) error {
		var i int
		var batch, has int64
		var existing []byte
		var lo int32
		if err := r.Scan(&i, &batch, &existing, &lo, &has); err != nil {
			return err
		}
		ids := d.repeated[i-1].ids
		for n := range pack.Bits(has).Numbers(pack.Lo(lo)) {
			ids[n] = task.ID{Batch: batch, N: n}
		}
		others, err := store.DecodeExisting(batch, existing)
		for _, e := range others {
			ids[e.ID.N] = e.First
		}
		return err
	}, keys.batch, keys.n, keys.seq)}
}

// repeatedSpawn are the children of a repeated report, by their numbers.
type repeatedSpawn struct {
	report int32
	ids    map[int32]task.ID
}

// answer is what came of the settlement.
func (d *settlement) answer() (store.Settled, error) {
	answer := store.Settled{Now: d.now, Verdicts: d.verdicts, Spawned: d.spawned}
	for _, s := range d.repeated {
		then := func(id task.ID) task.ID { return s.ids[id.N] }
		answer.Spawned = append(answer.Spawned,
			spawnedOf(&d.reports[s.report], s.report, then))
	}
	slices.SortFunc(answer.Spawned, func(a, b store.Spawned) int {
		return cmp.Compare(a.Report, b.Report)
	})
	slices.Sort(d.changed)
	for _, text := range slices.Compact(d.changed) {
		a, err := store.ParseAddress(text)
		if err != nil {
			return store.Settled{}, fmt.Errorf("read where a settlement changed something: %w", err)
		}
		answer.Look = append(answer.Look, a)
	}
	return answer, nil
}
