package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
)

const (
	// firesOver says what pruning has to do about schedules: whether there are fires or eras that
	// are kept no longer, and which deleted schedule has left something.
	firesOver = `SELECT EXISTS (SELECT FROM rota.fire WHERE NOT open AND time <= c.over)
OR EXISTS (SELECT FROM rota.era WHERE until <= c.over),
  coalesce((SELECT min(schedule) FROM rota.schedule_remains), 0)
FROM (SELECT rota.micros($1) - $2 AS over) c`

	purgeFires = `WITH o AS MATERIALIZED (
  SELECT schedule, at FROM rota.fire WHERE NOT open AND time <= (SELECT rota.micros($1) - $2)
  ORDER BY time LIMIT $3 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM rota.fire f USING o WHERE f.schedule = o.schedule AND f.at = o.at RETURNING 1)
SELECT count(*) FROM gone`
	purgeEras = `WITH o AS MATERIALIZED (
  SELECT schedule, version FROM rota.era WHERE until <= (SELECT rota.micros($1) - $2) ORDER BY until
  LIMIT $3),
gone AS (DELETE FROM rota.era e USING o WHERE e.schedule = o.schedule AND e.version = o.version
RETURNING 1)
SELECT count(*) FROM gone`
	noneLeft = `DELETE FROM rota.schedule_remains WHERE schedule = $1`
)

// dropLeft deletes a piece of what a deleted schedule has left in one table.
func dropLeft(table string) string {
	return `WITH gone AS (
  DELETE FROM ` + table + ` WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + table + ` WHERE schedule = $1 LIMIT $2)) RETURNING 1)
SELECT count(*) FROM gone`
}

// askFires makes the query that says what pruning has to do about schedules.
func (s *schedules) askFires(over *bool, left *int64) query {
	return ask(firesOver, func(r row) error {
		return r.Scan(over, left)
	}, s.clock(), store.FiresKept.Microseconds())
}

// pruneFires deletes fires that are not open, and eras, when they are kept no longer.
func (s *schedules) pruneFires(ctx context.Context, limit int) (pruned int, err error) {
	kept, limit := store.FiresKept.Microseconds(), min(limit, piece)
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		fires, eras := 0, 0
		err := t.run(ctx, ask(purgeFires, func(r row) error {
			return r.Scan(&fires)
		}, s.clock(), kept, limit))
		if err == nil {
			err = t.finish(ctx, ask(purgeEras, func(r row) error {
				return r.Scan(&eras)
			}, s.clock(), kept, limit-fires))
		}
		pruned = fires + eras
		return err
	})
	return pruned, err
}

// pruneLeft deletes a piece of what a deleted schedule has left. Nobody else looks at it.
func (s *schedules) pruneLeft(
	ctx context.Context, schedule int64, limit int,
) (pruned int, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		fires, eras := 0, 0
		limit := min(limit, piece)
		err := t.run(ctx, ask(dropLeft("rota.fire"), func(r row) error {
			return r.Scan(&fires)
		}, schedule, limit))
		if err == nil {
			err = t.run(ctx, ask(dropLeft("rota.era"), func(r row) error {
				return r.Scan(&eras)
			}, schedule, limit-fires))
		}
		if err != nil {
			return err
		}
		if pruned = fires + eras; pruned == 0 {
			return t.finish(ctx, tell(noneLeft, schedule))
		}
		return t.finish(ctx)
	})
	return pruned, err
}
