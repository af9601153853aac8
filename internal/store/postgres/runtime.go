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

// These look at so many steps, and at marks with so many outcomes, and no more: a queue that is
// seldom used is not searched for among millions of others. The stages of marks are those that
// their tasks were submitted for.
const (
	newestRuns = `SELECT s.batch, s.n, s.seq, s.ran, s.finished - s.started, b.queue = $2
AND s.kind IN (1, 2) AND s.started > 0
FROM (SELECT batch, n, seq, ran, kind, started, finished FROM rota.step
ORDER BY batch DESC, n DESC, seq DESC LIMIT $1) s JOIN rota.batch b ON b.id = s.batch`

	newestMarks = `SELECT m.batch, m.lo, m.bits, CASE WHEN b.queue = $2 THEN m.body ELSE '' END, t.ns,
t.stages
FROM (SELECT batch, lo, bits, body, sum(bit_count(bits::bit(64))) OVER (ORDER BY batch DESC, lo DESC)
  - bit_count(bits::bit(64)) AS before
  FROM (SELECT * FROM rota.mark ORDER BY batch DESC, lo DESC LIMIT $1) k) m
JOIN rota.batch b ON b.id = m.batch
CROSS JOIN LATERAL (SELECT array_agg(n) AS ns, array_agg(stage) AS stages
  FROM rota.tasks(m.batch, m.lo, m.lo + 63)) t
WHERE m.before < $1`
)

// run is an outcome that may tell how long hand-outs take.
type run struct {
	id  task.ID
	seq int32
	store.RunTime
	counts bool // it is of the queue, and ended well
}

// RunTimes lists how long hand-outs took lately. See contract.Views.
func (s *views) RunTimes(
	ctx context.Context, queue string, limit int,
) (list []store.RunTime, err error) {
	var all []run
	err = s.read(ctx, ask(newestRuns, func(r row) error {
		var one run
		err := r.Scan(&one.id.Batch, &one.id.N, &one.seq, &one.Stage, &one.Took, &one.counts)
		all = append(all, one)
		return err
	}, limit, queue), ask(newestMarks, func(r row) error {
		list, err := scanRuns(r)
		all = append(all, list...)
		return err
	}, limit, queue))
	if err != nil {
		return nil, fmt.Errorf("read run times of queue %q: %w", queue, err)
	}
	slices.SortFunc(all, func(a, b run) int {
		return cmp.Or(b.id.Compare(a.id), cmp.Compare(b.seq, a.seq))
	})
	for _, one := range all[:min(limit, len(all))] {
		if one.counts {
			list = append(list, one.RunTime)
		}
	}
	return list, nil
}

// scanRuns scans the runs in a mark. One of another queue has no body: its outcomes only count.
func scanRuns(r row) (list []run, err error) {
	var m mark
	var bits int64
	var ns []int32
	var stages []string
	if err = r.Scan(&m.batch, &m.lo, &bits, &m.body, &ns, &stages); err != nil {
		return nil, err
	}
	if len(m.body) == 0 {
		for n := range pack.Bits(bits).Numbers(m.lo) {
			list = append(list, run{id: task.ID{Batch: m.batch, N: n}})
		}
		return list, nil
	}
	stageOf := make(map[int32]string, len(ns))
	for i, n := range ns {
		stageOf[n] = stages[i]
	}
	err = pack.EachDone(m.body, m.lo, func(d *pack.Done) bool {
		one := run{id: task.ID{Batch: m.batch, N: d.N}}
		stage, stands := stageOf[d.N]
		one.Stage, one.Took = stage, d.Finished-d.Started
		one.counts = d.Started > 0 && stands
		list = append(list, one)
		return true
	})
	return list, err
}
