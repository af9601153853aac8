package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

const (
	endedSites = `SELECT grp, job, worker, version FROM assignment WHERE state = 'ended'
AND since <= ? ORDER BY since LIMIT ?`
	goneJobs = `SELECT grp, job, version FROM job WHERE gone > 0 AND gone <= ? ORDER BY gone
LIMIT ?`
	dropSite   = `DELETE FROM assignment WHERE grp = ? AND job = ? AND worker = ?`
	dropJob    = `DELETE FROM job WHERE grp = ? AND job = ?`
	dropLog    = `DELETE FROM job_log WHERE grp = ? AND job = ?`
	dropSize   = `DELETE FROM job_log_size WHERE grp = ? AND job = ?`
	setHorizon = `UPDATE job_group SET horizon = max(horizon, ?2) WHERE id = ?1`

	vacantSeats = `SELECT worker FROM seat WHERE state <> 'taken' AND since <= ? AND used = 0
ORDER BY since LIMIT ?`

	oneRemains = `SELECT grp FROM job_remains LIMIT 1`
	noRemains  = `DELETE FROM job_remains WHERE grp = ?`
)

// dropRemains deletes a piece of what a deleted group has left.
var dropRemains = [...]string{
	`DELETE FROM assignment WHERE grp = ?1 AND (job, worker) IN (SELECT job, worker FROM assignment
WHERE grp = ?1 LIMIT ?2)`,
	`DELETE FROM job WHERE grp = ?1 AND job IN (SELECT job FROM job WHERE grp = ?1 LIMIT ?2)`,
	`DELETE FROM job_log WHERE grp = ?1 AND (job, line) IN (SELECT job, line FROM job_log
WHERE grp = ?1 LIMIT ?2)`,
	`DELETE FROM job_log_size WHERE grp = ?1 AND job IN (SELECT job FROM job_log_size WHERE grp = ?1
LIMIT ?2)`,
}

// pruneJobs deletes tombstones, seats of workers that are long gone, and what deleted groups have
// left.
func (s *jobCalls) pruneJobs(ctx context.Context, limit int) (pruned int, err error) {
	err = s.write(ctx, func(t *tx) error {
		pruned = 0
		left := min(limit, piece)
		jobs := t.jobs()
		for _, step := range [...]func(int) (int, error){
			jobs.pruneSites, jobs.pruneGone, jobs.pruneSeats, jobs.pruneRemains,
		} {
			n, err := step(left)
			if err != nil {
				return err
			}
			pruned, left = pruned+n, left-n
		}
		return nil
	})
	return pruned, err
}

// tombstone is a row that says of something that it is over.
type tombstone struct {
	grp         int64
	job, worker string
	version     int64
}

func (t jobWrites) pruneSites(limit int) (pruned int, err error) {
	var old []tombstone
	err = t.each(endedSites, func(st *sqlite.Stmt) bool {
		old = append(old,
			tombstone{st.ColumnInt64(0), st.ColumnText(1), st.ColumnText(2), st.ColumnInt64(3)})
		return true
	}, t.now-store.EndedKept.Microseconds(), limit)
	for _, o := range old {
		if err == nil {
			_, err = t.exec(dropSite, o.grp, o.job, o.worker)
		}
		if err == nil {
			_, err = t.exec(setHorizon, o.grp, o.version)
		}
	}
	return len(old), err
}

func (t jobWrites) pruneGone(limit int) (pruned int, err error) {
	var old []tombstone
	err = t.each(goneJobs, func(st *sqlite.Stmt) bool {
		old = append(old, tombstone{
			grp: st.ColumnInt64(0), job: st.ColumnText(1), version: st.ColumnInt64(2),
		})
		return true
	}, t.now-store.EndedKept.Microseconds(), limit)
	for _, o := range old {
		for _, query := range [...]string{dropJob, dropLog, dropSize} {
			if err == nil {
				_, err = t.exec(query, o.grp, o.job)
			}
		}
		if err == nil {
			_, err = t.exec(setHorizon, o.grp, o.version)
		}
	}
	return len(old), err
}

func (t jobWrites) pruneSeats(limit int) (pruned int, err error) {
	var old []string
	err = t.each(vacantSeats, func(st *sqlite.Stmt) bool {
		old = append(old, st.ColumnText(0))
		return true
	}, t.now-store.SeatsKept.Microseconds(), limit)
	for _, worker := range old {
		if err == nil {
			_, err = t.exec(deleteSeat, worker)
		}
	}
	if err == nil && len(old) > 0 {
		_, err = t.exec(seatsChanged)
	}
	return len(old), err
}

func (t jobWrites) pruneRemains(limit int) (pruned int, err error) {
	var grp int64
	found, err := t.one(oneRemains, func(st *sqlite.Stmt) { grp = st.ColumnInt64(0) })
	if err != nil || !found {
		return 0, err
	}
	for _, query := range dropRemains {
		n, err := t.exec(query, grp, limit-pruned)
		if err != nil {
			return pruned, err
		}
		pruned += n
	}
	if pruned == 0 && limit > 0 {
		_, err = t.exec(noRemains, grp)
	}
	return pruned, err
}
