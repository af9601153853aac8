package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// All of these look up one job after the other, whatever the planner thinks of how many there
	// are: the group is locked, so a row stays where it is.
	jobsKept = `SELECT count(*) FROM unnest($2::text[]) w (job) CROSS JOIN (SELECT id
FROM rota.job_group WHERE name = $1) g
CROSS JOIN LATERAL (SELECT FROM rota.job WHERE grp = g.id AND job = w.job AND gone = 0 OFFSET 0) j`
	removeJobs   = removing + `unnest($4::text[])` + removed
	removeOthers = removing +
		`(SELECT job FROM rota.job WHERE grp = $2 AND gone = 0 EXCEPT SELECT unnest($4::text[]))` +
		removed
	removing = `WITH gone AS (UPDATE rota.job SET gone = rota.micros($1), version = $3
WHERE ctid = ANY(ARRAY(SELECT j.ctid FROM `
	removed = ` w (job) CROSS JOIN LATERAL (SELECT ctid FROM rota.job WHERE grp = $2
AND job = w.job AND gone = 0 OFFSET 0) j)) RETURNING 1)
SELECT count(*) FROM gone`

	// putJobs leaves a job as it is that is put as it is.
	putJobs = `WITH put AS (
  INSERT INTO rota.job AS j (grp, job, load, spec, gone, version)
  SELECT $1, w.job, w.load, w.spec, 0, $2
  FROM unnest($3::text[], $4::bigint[], $5::bytea[]) w (job, load, spec)
  ON CONFLICT (grp, job)
  DO UPDATE SET load = excluded.load, spec = excluded.spec, gone = 0, version = excluded.version
  WHERE j.gone > 0 OR (j.load, j.spec) IS DISTINCT FROM (excluded.load, excluded.spec) RETURNING 1)
SELECT count(*) FROM put`

	jobColumns = `SELECT job, load, spec, gone > 0, version FROM rota.job WHERE grp = (SELECT id
FROM rota.job_group WHERE name = $1)`
	newestJobs  = jobColumns + ` AND version > $2`
	wantedJobs  = jobColumns + ` AND gone = 0`
	siteColumns = `job, worker, replica, token, state, load, since, failed, note, version, quiet`
	sitesOf     = `SELECT ` + siteColumns +
		` FROM rota.assignment WHERE grp = (SELECT id FROM rota.job_group WHERE name = $1)`
	newestSites = sitesOf + ` AND version > $2`
	wantedSites = sitesOf + ` AND (state <> 'ended' OR failed > rota.micros($2) - $3)`
)

func scanAssignment(r row, group string) (a store.Assignment, err error) {
	a.Group = group
	err = r.Scan(&a.Job, &a.Worker, &a.Replica, &a.Token, &a.State, &a.Load, &a.Since, &a.Failed,
		&a.Note, &a.Version, &a.Quiet)
	return a, err
}

// jobs keeps groups, their jobs, and which worker has which replica. The tables job_group, job,
// job_head, job_remains, seat and assignment are its own. Who changes a group locks its row first
// and gives what changed its next version.
type jobs struct {
	*database
	hints *hints
}

// ChangeJobs replaces, adds or removes jobs. See contract.Groups.
func (s *jobs) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	answer, err := s.changeJobs(ctx, &c)
	if err != nil {
		return store.JobsChanged{}, fmt.Errorf("change jobs of group %q: %w", c.Group, err)
	}
	return answer, nil
}

// jobLists are jobs by columns.
type jobLists struct {
	names []string
	loads []int64
	specs [][]byte
}

func listJobs(put []task.Job) jobLists {
	l := jobLists{make([]string, len(put)), make([]int64, len(put)), make([][]byte, len(put))}
	for i := range put {
		l.names[i], l.loads[i], l.specs[i] = put[i].Name, int64(put[i].Load), put[i].Spec
	}
	return l
}

func (s *jobs) changeJobs(
	ctx context.Context, c *store.JobChange,
) (answer store.JobsChanged, err error) {
	put := listJobs(c.Put)
	var read *string
	if c.Read != nil {
		text, err := c.Read.Text()
		if err != nil {
			return answer, err
		}
		read = new(string(text))
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		var g group
		answer = store.JobsChanged{}
		stands := true
		queries := []query{lockGroup(&g, c.Group), ask(jobsKept, func(r row) error {
			return r.Scan(&answer.Kept)
		}, c.Group, put.names)}
		if c.Claim.Name != "" {
			queries = append(queries, s.claimed(c.Claim, &stands))
		}
		switch err := t.run(ctx, queries...); {
		case err != nil:
			return err
		case g.id == 0:
			return store.ErrNotFound
		case !stands:
			return fmt.Errorf("claim %q of %q does not stand: %w", c.Claim.Name, c.Claim.Holder,
				store.ErrConflict)
		}
		if err := c.Refusal(&g.Source); err != nil {
			return err
		}
		changed := 0
		gone := ask(removeJobs, func(r row) error {
			return r.Scan(&answer.Removed)
		}, s.clock(), g.id, g.Version+1, c.Remove)
		if c.Whole {
			gone.text, gone.args[3] = removeOthers, put.names
		}
		if err := t.run(ctx, gone,
			ask(putJobs, func(r row) error {
				return r.Scan(&changed)
			}, g.id, g.Version+1, put.names, put.loads, put.specs)); err != nil {
			return err
		}
		answer.Added, answer.Version = len(put.names)-answer.Kept, g.Version
		if changed+answer.Removed == 0 && read == nil {
			return t.finish(ctx) // the group's lock has it confirmed that they stand: see confirm
		}
		answer.Version++
		g.Jobs += int64(answer.Added - answer.Removed)
		if g.Jobs > limits.MaxJobs {
			return fmt.Errorf("there would be %d jobs, %d may be: %w", g.Jobs, limits.MaxJobs,
				store.ErrConflict)
		}
		return t.finish(ctx, tell(changedGroup, g.id, answer.Version, g.Jobs, read))
	})
	if err == nil {
		s.hints.hint(Hint{Group: c.Group})
	}
	return answer, err
}

// Changes reads on in a group's changes. See contract.Assignments.
func (s *jobs) Changes(
	ctx context.Context, group string, after int64,
) (c store.Changes, err error) {
	if after > 0 { // almost always: what is new, in one trip
		err = s.readOnce(ctx, func(ctx context.Context, r runner) error {
			return changes(ctx, s.database, r, group, after, &c)
		})
	}
	if err == nil && (after == 0 || c.Whole) {
		err = s.readOnce(ctx, func(ctx context.Context, r runner) error {
			return changes(ctx, s.database, r, group, 0, &c)
		})
	}
	gone := errors.Is(err, store.ErrNotFound)
	if gone || err == nil && c.Version != after {
		if e := s.confirmed(ctx); e != nil {
			err = e
		}
	}
	if err != nil {
		return store.Changes{},
			fmt.Errorf("read changes of group %q after %d: %w", group, after, err)
	}
	return c, nil
}

// changes reads what is new after a version or, after 0, everything.
func changes(
	ctx context.Context, d *database, r runner, name string, after int64, c *store.Changes,
) error {
	*c = store.Changes{}
	var g group
	jobs, jobArgs, sites, siteArgs := newestJobs, []any{name, after}, newestSites,
		[]any{name, after}
	if after == 0 {
		jobs = wantedJobs
		jobArgs = jobArgs[:1]
		sites = wantedSites
		siteArgs = []any{name, d.clock(), limits.MaxPenalty.Microseconds()}
	}
	err := r.run(ctx, ask(countClock, func(r row) error {
		return r.Scan(&c.Now)
	}, d.clock()), ask(findGroup, g.scan, name),
		ask(jobs, func(r row) error {
			var j store.GroupJob
			err := r.Scan(&j.Name, &j.Load, (*[]byte)(&j.Spec), &j.Gone, &j.Version)
			c.Jobs = append(c.Jobs, j)
			return err
		}, jobArgs...),
		ask(sites, func(r row) error {
			a, err := scanAssignment(r, name)
			c.Assignments = append(c.Assignments, a)
			return err
		}, siteArgs...))
	if err == nil && g.id == 0 {
		err = store.ErrNotFound
	}
	c.Version, c.Whole = g.Version, after < g.horizon || after > g.Version
	return err
}
