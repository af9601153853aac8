package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	newestJob = `SELECT coalesce(max(version), 0) FROM job WHERE grp = ?`
	findJob   = `SELECT load, spec, gone FROM job WHERE grp = ? AND job = ?`
	jobsThat  = `SELECT job FROM job WHERE grp = ? AND gone = 0`
	removeJob = `UPDATE job SET gone = ?, version = ? WHERE grp = ? AND job = ? AND gone = 0`
	// putJob makes the row, too: Prune may have deleted the tombstone that a diff was found with.
	putJob = `INSERT INTO job (load, spec, version, grp, job, gone) VALUES (?1, ?2, ?3, ?4, ?5, 0)
ON CONFLICT DO UPDATE SET load = ?1, spec = ?2, version = ?3, gone = 0`
)

var newJobs = newInserter("job", []string{"grp", "gone", "version"},
	[]string{"job", "load", "spec"})

// jobDiff is how a change differs from the jobs that a group has. It is found before the write
// begins: there is one writer, and others are not to wait while a hundred thousand jobs are looked
// up. What stands then is what stood, but for tombstones that Prune deleted, unless the group has
// another newest job.
type jobDiff struct {
	grp, newest int64
	// there is no row of them; by name, so that they fill one page after another
	made  []task.Job
	put   []task.Job // their row is another, or a tombstone
	gone  []string   // some may not be there
	added int
}

func (c jobReads) newestJob(grp int64) (version int64, err error) {
	_, err = c.one(newestJob, func(st *sqlite.Stmt) { version = st.ColumnInt64(0) }, grp)
	return version, err
}

func (c jobReads) jobDiff(g *group, change *store.JobChange) (d jobDiff, err error) {
	d = jobDiff{grp: g.id, gone: change.Remove}
	if d.newest, err = c.newestJob(g.id); err != nil {
		return d, err
	}
	put := make(map[string]bool, len(change.Put))
	for _, j := range change.Put {
		put[j.Name] = true
		same, gone := false, false
		found, err := c.one(findJob, func(st *sqlite.Stmt) {
			spec := bytesOf(st, 1)
			gone = st.ColumnInt64(2) > 0
			same = st.ColumnInt64(0) == int64(j.Load) && (spec == nil) == (j.Spec == nil) &&
				bytes.Equal(spec, j.Spec)
		}, g.id, j.Name)
		switch {
		case err != nil:
			return d, err
		case !found:
			d.made = append(d.made, j)
		case gone || !same:
			d.put = append(d.put, j)
		}
		if !found || gone {
			d.added++
		}
	}
	slices.SortFunc(d.made, func(a, b task.Job) int { return cmp.Compare(a.Name, b.Name) })
	if !change.Whole {
		return d, nil
	}
	d.gone = nil
	err = c.each(jobsThat, func(st *sqlite.Stmt) bool {
		if name := st.ColumnText(0); !put[name] {
			d.gone = append(d.gone, name)
		}
		return true
	}, g.id)
	return d, err
}

// ChangeJobs replaces, adds or removes jobs. See contract.Groups.
func (s *jobCalls) ChangeJobs(
	ctx context.Context, c store.JobChange,
) (answer store.JobsChanged, err error) {
	var d jobDiff
	err = s.read(ctx, func(conn *conn) error {
		g, err := conn.jobs().group(c.Group)
		if err == nil {
			d, err = conn.jobs().jobDiff(&g, &c)
		}
		return err
	})
	if err == nil {
		err = s.write(ctx, func(t *tx) (err error) {
			answer, err = t.jobs().changeJobs(&c, d)
			return err
		})
	}
	if err != nil {
		return store.JobsChanged{}, fmt.Errorf("change jobs of group %q: %w", c.Group, err)
	}
	return answer, nil
}

func (t jobWrites) changeJobs(c *store.JobChange, d jobDiff) (answer store.JobsChanged, err error) {
	g, err := t.conn.jobs().group(c.Group)
	if err != nil {
		return answer, err
	}
	if err := c.Refusal(&g.Source); err != nil {
		return answer, err
	}
	if c.Claim.Name != "" {
		stands, err := t.leases().claimed(c.Claim)
		if err != nil {
			return answer, err
		}
		if !stands {
			return answer,
				fmt.Errorf("claim %q of %q does not stand: %w", c.Claim.Name, c.Claim.Holder,
					store.ErrConflict)
		}
	}
	var read []byte
	if c.Read != nil {
		if read, err = c.Read.Text(); err != nil {
			return answer, err
		}
	}
	newest, err := t.conn.jobs().newestJob(g.id)
	if err == nil && (d.grp != g.id || d.newest != newest) {
		d, err = t.conn.jobs().jobDiff(&g, c)
	}
	before := t.changed
	if err == nil {
		answer.Removed, err = t.applyDiff(&d, g.Version+1)
	}
	if err != nil {
		return answer, err
	}
	answer.Added, answer.Kept = d.added, len(c.Put)-d.added
	if answer.Version = g.Version; t.changed == before && c.Read == nil {
		return answer, nil
	}
	answer.Version++
	g.Jobs += int64(answer.Added - answer.Removed)
	if g.Jobs > limits.MaxJobs {
		return answer,
			fmt.Errorf("there would be %d jobs, %d may be: %w", g.Jobs, limits.MaxJobs,
				store.ErrConflict)
	}
	_, err = t.exec(changedGroup, g.id, answer.Version, g.Jobs, textOrNull(read))
	return answer, err
}

// textOrNull is a text for a column, NULL when there is none.
func textOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}

// applyDiff writes a diff down, and says how many jobs it removed.
func (t jobWrites) applyDiff(d *jobDiff, version int64) (removed int, err error) {
	for _, name := range d.gone {
		n, err := t.exec(removeJob, t.now, version, d.grp, name)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	for i := range d.put {
		j := &d.put[i]
		if _, err := t.exec(
			putJob, int64(j.Load), []byte(j.Spec), version, d.grp, j.Name,
		); err != nil {
			return removed, err
		}
	}
	err = newJobs.insert(t.conn, len(d.made), func(st *sqlite.Stmt) {
		st.BindInt64(1, d.grp)
		st.BindInt64(2, 0)
		st.BindInt64(3, version)
	}, func(st *sqlite.Stmt, p, i int) {
		st.BindText(p, d.made[i].Name)
		st.BindInt64(p+1, int64(d.made[i].Load))
		bindBytes(st, p+2, d.made[i].Spec)
	}, nil)
	return removed, err
}
