package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
)

const (
	// jobsOver says what pruning has to do about jobs: whether there are tombstones or seats of
	// workers long gone, and which deleted group has left something.
	jobsOver = `SELECT EXISTS (SELECT FROM rota.assignment WHERE state = 'ended'
AND since <= c.ended)
  OR EXISTS (SELECT FROM rota.job WHERE gone > 0 AND gone <= c.ended)
  OR EXISTS (SELECT FROM rota.seat WHERE state <> 'taken' AND since <= c.vacant
  AND used = 0), coalesce((SELECT min(grp) FROM rota.job_remains), 0)
FROM (SELECT now - $2 AS ended, now - $3 AS vacant FROM (SELECT rota.micros($1) AS now) n) c`

	// groupsOver locks the groups of those tombstones that come next. All statements here ask for
	// the time once, apart: beside a row they would ask for it again, and so read all that stay.
	groupsOver = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) - $2 AS ended),
over AS MATERIALIZED (
  (SELECT grp FROM rota.assignment WHERE state = 'ended' AND since <= (SELECT ended FROM clock)
  ORDER BY since LIMIT $3)
  UNION
  (SELECT grp FROM rota.job WHERE gone > 0 AND gone <= (SELECT ended FROM clock)
  ORDER BY gone LIMIT $3))
SELECT g.id FROM over o JOIN rota.job_group g ON g.id = o.grp ORDER BY g.id
FOR NO KEY UPDATE OF g`

	// Who reads less far than the tombstones that go reads everything.
	purgeSites = `WITH o AS MATERIALIZED (
  SELECT grp, job, worker FROM rota.assignment WHERE state = 'ended'
  AND since <= (SELECT rota.micros($1)) - $2 AND grp = ANY($3::bigint[])
  ORDER BY since LIMIT $4),
gone AS (
  DELETE FROM rota.assignment a USING o
  WHERE a.grp = o.grp AND a.job = o.job AND a.worker = o.worker RETURNING a.grp, a.version),
raised AS (
  UPDATE rota.job_group g SET horizon = greatest(g.horizon, m.version)
  FROM (SELECT grp, max(version) AS version FROM gone GROUP BY grp) m WHERE g.id = m.grp)
SELECT count(*) FROM gone`
	purgeJobs = `WITH o AS MATERIALIZED (
  SELECT grp, job FROM rota.job WHERE gone > 0 AND gone <= (SELECT rota.micros($1)) - $2
  AND grp = ANY($3::bigint[]) ORDER BY gone LIMIT $4),
gone AS (
  DELETE FROM rota.job j USING o
  WHERE j.grp = o.grp AND j.job = o.job RETURNING j.grp, j.job, j.version),
lines AS (DELETE FROM rota.job_log l USING gone g WHERE l.grp = g.grp AND l.job = g.job),
sizes AS (DELETE FROM rota.job_log_size z USING gone g WHERE z.grp = g.grp AND z.job = g.job),
raised AS (
  UPDATE rota.job_group g SET horizon = greatest(g.horizon, m.version)
  FROM (SELECT grp, max(version) AS version FROM gone GROUP BY grp) m WHERE g.id = m.grp)
SELECT count(*) FROM gone`
	purgeSeats = `WITH o AS MATERIALIZED (
  SELECT worker FROM rota.seat WHERE state <> 'taken' AND since <= (SELECT rota.micros($1)) - $2
  AND used = 0 ORDER BY worker LIMIT $3 FOR UPDATE),
gone AS (DELETE FROM rota.seat s USING o WHERE s.worker = o.worker RETURNING 1),
changed AS (UPDATE rota.job_head SET seats = seats + 1 WHERE EXISTS (SELECT FROM gone))
SELECT count(*) FROM gone`
	noRemains = `DELETE FROM rota.job_remains WHERE grp = $1`
)

// dropRemains deletes a piece of what a deleted group has left in one table.
func dropRemains(table string) string {
	return `WITH gone AS (DELETE FROM ` + table + ` WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + table + ` WHERE grp = $1 LIMIT $2)) RETURNING 1)
SELECT count(*) FROM gone`
}

// askJobs makes the query that says what pruning has to do about jobs.
func (s *jobs) askJobs(over *bool, remains *int64) query {
	return ask(jobsOver, func(r row) error {
		return r.Scan(over, remains)
	}, s.clock(), store.EndedKept.Microseconds(), store.SeatsKept.Microseconds())
}

// pruneJobs deletes tombstones of jobs and assignments, and seats of workers that are long gone.
func (s *jobs) pruneJobs(ctx context.Context, limit int) (pruned int, err error) {
	ended, limit := store.EndedKept.Microseconds(), min(limit, piece)
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		pruned = 0
		var ids []int64
		err := t.run(ctx, ask(groupsOver, func(r row) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		}, s.clock(), ended, limit))
		if err != nil {
			return err
		}
		for _, purge := range [...]struct {
			text string
			args []any
		}{
			{purgeSites, []any{s.clock(), ended, ids}},
			{purgeJobs, []any{s.clock(), ended, ids}},
			{purgeSeats, []any{s.clock(), store.SeatsKept.Microseconds()}},
		} {
			n := 0
			if err := t.run(ctx, ask(purge.text, func(r row) error {
				return r.Scan(&n)
			}, append(purge.args, limit-pruned)...)); err != nil {
				return err
			}
			pruned += n
		}
		return t.finish(ctx)
	})
	return pruned, err
}

// pruneRemains deletes a piece of what a deleted group has left. Nobody else looks at it.
func (s *jobs) pruneRemains(ctx context.Context, grp int64, limit int) (pruned int, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		pruned = 0
		for _, table := range [...]string{"rota.assignment", "rota.job", "rota.job_log",
			"rota.job_log_size"} {
			n := 0
			if err := t.run(ctx, ask(dropRemains(table), func(r row) error {
				return r.Scan(&n)
			}, grp, min(limit, piece)-pruned)); err != nil {
				return err
			}
			pruned += n
		}
		if pruned == 0 {
			return t.finish(ctx, tell(noRemains, grp))
		}
		return t.finish(ctx)
	})
	return pruned, err
}
