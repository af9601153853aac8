package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
)

// newestRuns looks at so many steps and no more: a queue that is seldom used is not searched for
// among millions of others.
const newestRuns = `SELECT s.ran, s.finished - s.started
FROM (SELECT batch, ran, kind, started, finished FROM rota.step
ORDER BY batch DESC, n DESC, seq DESC LIMIT $1) s JOIN rota.batch b ON b.id = s.batch
WHERE b.queue = $2 AND s.kind IN (1, 2) AND s.started > 0`

// RunTimes lists how long hand-outs took lately. See the contract, storetest.Views.
func (s *Store) RunTimes(
	ctx context.Context, queue string, limit int,
) (list []store.RunTime, err error) {
	err = s.read(ctx, ask(newestRuns, func(r row) error {
		var t store.RunTime
		err := r.Scan(&t.Stage, &t.Took)
		list = append(list, t)
		return err
	}, limit, queue))
	if err != nil {
		return nil, fmt.Errorf("read run times of queue %q: %w", queue, err)
	}
	return list, nil
}
