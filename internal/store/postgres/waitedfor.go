package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What is over stays while its parent goes on, in the run that it belongs to: its result is read
// there. What changes say of children of a task that is gone concerns nobody, but for those that
// fall: they are found without it.

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

var waitedAmong = waitedBatches + ` AND c.batch = ANY($1::bigint[])`

// notWaitedFor are those of some tasks that are over which have not to stay for others; waited
// tells whether there are more. It holds from then on: who is over begins no more, but in another
// run.
func (s *Store) notWaitedFor(
	ctx context.Context, list []task.ID,
) (left []task.ID, waited bool, err error) {
	var batches []int64
	for _, id := range list {
		if k := len(batches); store.MayBeChildren(id.Batch) &&
			(k == 0 || batches[k-1] != id.Batch) {
			batches = append(batches, id.Batch)
		}
	}
	if len(batches) == 0 {
		return list, false, nil
	}
	stay := map[int64]bool{}
	err = s.glance(ctx, ask(waitedAmong, func(r row) error {
		var batch int64
		err := r.Scan(&batch)
		stay[batch] = true
		return err
	}, batches))
	left = slices.DeleteFunc(list, func(id task.ID) bool { return stay[id.Batch] })
	return left, len(stay) > 0, err
}
