package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// jobCalls keeps groups, their jobs, which worker runs what, and the workers' seats. Its tables are
// job_group, job_head, job_remains, job, assignment and seat.
type jobCalls struct{ *database }

// jobReads reads groups, jobs and seats.
type jobReads struct{ *conn }

func (c *conn) jobs() jobReads { return jobReads{c} }

// jobWrites changes groups, jobs, assignments and seats, with the versions that tell of it.
type jobWrites struct{ *tx }

func (t *tx) jobs() jobWrites { return jobWrites{t} }

const (
	jobStands   = `SELECT 1 FROM job WHERE grp = ? AND job = ? AND gone = 0`
	newestJobs  = `SELECT job, load, spec, gone, version FROM job WHERE grp = ? AND version > ?`
	wantedJobs  = `SELECT job, load, spec, gone, version FROM job WHERE grp = ? AND gone = 0`
	newestSites = `SELECT ` + siteColumns + ` FROM assignment WHERE grp = ? AND version > ?`
	wantedSites = `SELECT ` + siteColumns +
		` FROM assignment WHERE grp = ? AND (state <> 'ended' OR failed > ?)`
)

// Changes reads on in a group's changes. See contract.Assignments.
func (s *jobCalls) Changes(
	ctx context.Context, group string, after int64,
) (c store.Changes, err error) {
	err = s.read(ctx, func(conn *conn) error {
		g, err := conn.jobs().group(group)
		if err != nil {
			return err
		}
		c = store.Changes{
			Now: s.clock(), Version: g.Version, Whole: after == 0 || after < g.horizon ||
				after > g.Version,
		}
		jobs, jobArgs, sites, siteArgs := newestJobs, []any{g.id, after}, newestSites,
			[]any{g.id, after}
		if c.Whole {
			jobs = wantedJobs
			jobArgs = jobArgs[:1]
			sites = wantedSites
			siteArgs = []any{g.id, c.Now - limits.MaxPenalty.Microseconds()}
		} else if after == g.Version {
			return nil
		}
		err = conn.each(jobs, func(st *sqlite.Stmt) bool {
			c.Jobs = append(c.Jobs, store.GroupJob{
				Job: task.Job{
					Name: st.ColumnText(0), Load: task.Units(st.ColumnInt64(1)),
					Spec: bytesOf(st, 2),
				},
				Gone: st.ColumnInt64(3) > 0, Version: st.ColumnInt64(4),
			})
			return true
		}, jobArgs...)
		if err == nil {
			err = conn.each(sites, func(st *sqlite.Stmt) bool {
				c.Assignments = append(c.Assignments, scanAssignment(st, group))
				return true
			}, siteArgs...)
		}
		return err
	})
	if err != nil {
		return store.Changes{},
			fmt.Errorf("read changes of group %q after %d: %w", group, after, err)
	}
	return c, nil
}
