package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What is over stays while its parent goes on, in the run that it belongs to, and while somebody
// goes on who has waited for it: its result is read there. What changes say of children of a task
// that is gone concerns nobody, but for those that fall: they are found without it.

// waitedAgain is when what stays because of others is looked at again.
const waitedAgain = 10 * time.Minute

// waitedBatches are batches of children whose parent stands and is not over, in their run.
var waitedBatches = `SELECT c.batch FROM rota.child_batch c
CROSS JOIN LATERAL rota.task(c.parent_batch, c.parent_n) t
LEFT JOIN LATERAL (SELECT base FROM rota.step WHERE batch = c.parent_batch AND n = c.parent_n
  ORDER BY seq DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT seq + 1 AS run FROM rota.step WHERE batch = c.parent_batch
  AND n = c.parent_n AND kind = 11 ORDER BY seq DESC LIMIT 1) r ON true
WHERE c.run = coalesce(r.run, 0) AND CASE WHEN p.base IS NULL
THEN NOT ` + isMarked("c.parent_batch", "c.parent_n") + ` ELSE p.base <> -1 END`

// needed are tasks for which others wait that are not over, or have waited: what they left is read
// there.
var needed = `SELECT d.on_batch, d.on_n FROM rota.dependency d
CROSS JOIN LATERAL rota.task(d.batch, d.n) t
LEFT JOIN LATERAL (SELECT base FROM rota.step WHERE batch = d.batch AND n = d.n
  ORDER BY seq DESC LIMIT 1) p ON true
WHERE CASE WHEN p.base IS NULL THEN NOT ` + isMarked("d.batch", "d.n") + ` ELSE p.base <> -1 END`

// neededAmong are those of some tasks, whose batches are $3 to $4.
var neededAmong = `SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE (SELECT EXISTS (SELECT FROM rota.dependency WHERE on_batch BETWEEN $3 AND $4))
AND EXISTS (` + needed + ` AND d.on_batch = w.batch AND d.on_n = w.n)`

var waitedAmong = waitedBatches + ` AND c.batch = ANY($1::bigint[])`

// notWaitedFor are those of some tasks that are over which have not to stay for others; waited
// tells whether there are more. It holds from then on: who is over begins no more, but in another
// run.
func (s *upkeep) notWaitedFor(
	ctx context.Context, list []task.ID,
) (left []task.ID, waited bool, err error) {
	var batches []int64
	for _, id := range list {
		if k := len(batches); store.MayBeChildren(id.Batch) &&
			(k == 0 || batches[k-1] != id.Batch) {
			batches = append(batches, id.Batch)
		}
	}
	if len(list) == 0 {
		return list, false, nil
	}
	stay, stays := map[int64]bool{}, map[task.ID]bool{}
	on, ns := idColumns(list)
	queries := []query{ask(neededAmong, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		stays[id] = true
		return err
	}, on, ns, slices.Min(on), slices.Max(on))}
	if len(batches) > 0 {
		queries = append(queries, ask(waitedAmong, func(r row) error {
			var batch int64
			err := r.Scan(&batch)
			stay[batch] = true
			return err
		}, batches))
	}
	err = s.read(ctx, queries...)
	left = slices.DeleteFunc(list, func(id task.ID) bool { return stay[id.Batch] || stays[id] })
	return left, len(stay)+len(stays) > 0, err
}
