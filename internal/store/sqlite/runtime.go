package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// newestRuns looks at so many steps and no more: a queue that is seldom used is not searched for
// among millions of others.
const newestRuns = `SELECT s.ran, s.finished - s.started
FROM (SELECT batch, ran, kind, started, finished FROM step ORDER BY batch DESC, n DESC, seq DESC
LIMIT ?) s JOIN batch b ON b.id = s.batch
WHERE b.queue = ? AND s.kind IN (1, 2) AND s.started > 0`

// RunTimes lists how long hand-outs took lately. See the contract, storetest.Views.
func (s *Store) RunTimes(
	ctx context.Context, queue string, limit int,
) (list []store.RunTime, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.each(newestRuns, func(st *sqlite.Stmt) bool {
			list = append(list, store.RunTime{Stage: st.ColumnText(0), Took: st.ColumnInt64(1)})
			return true
		}, limit, queue)
	})
	if err != nil {
		return nil, fmt.Errorf("read run times of queue %q: %w", queue, err)
	}
	return list, nil
}
