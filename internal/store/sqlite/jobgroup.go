package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	groupColumns = `name, id, config, read, refresh, rebalance, since, version, horizon, jobs`
	allGroups    = `SELECT ` + groupColumns + ` FROM job_group ORDER BY name`
	findGroup    = `SELECT ` + groupColumns + ` FROM job_group WHERE name = ?`
	groupWithID  = `SELECT ` + groupColumns + ` FROM job_group WHERE id = ?`

	// A group begins after all that had its name: who knows one of those reads everything.
	insertGroup = `INSERT INTO job_group (name, id, config, refresh, rebalance, since, version,
horizon, jobs)
SELECT ?, ids, ?, 0, 0, ?, past + 1, past + 1, 0 FROM job_head`
	nextGroupID = `UPDATE job_head SET ids = ids + 1`
	putConfig   = `UPDATE job_group SET config = ?, version = version + 1 WHERE id = ?`
	askGroup    = `UPDATE job_group
SET refresh = refresh + ?, rebalance = rebalance + ?, version = version + 1 WHERE id = ?`
	changedGroup = `UPDATE job_group SET version = ?2, jobs = ?3, read = coalesce(?4, read)
WHERE id = ?1`

	loadsOfGroup = `SELECT worker, sum(load) FROM assignment WHERE grp = ? AND state <> 'ended'
GROUP BY worker`
	freeLoad    = `UPDATE seat SET used = used - ? WHERE worker = ?`
	deleteGroup = `DELETE FROM job_group WHERE id = ?`
	noteVersion = `UPDATE job_head SET past = max(past, ?), seats = seats + 1`
	noteRemains = `INSERT INTO job_remains (grp) VALUES (?)`
	claimOf     = `SELECT until FROM lease WHERE name = ? AND holder = ? AND token = ?`
)

// group is a row of job_group.
type group struct {
	store.Group
	id      int64
	horizon int64
}

func scanGroup(st *sqlite.Stmt) (g group, err error) {
	g.Name, g.id = st.ColumnText(0), st.ColumnInt64(1)
	g.Refresh, g.Rebalance, g.Since = st.ColumnInt64(4), st.ColumnInt64(5), st.ColumnInt64(6)
	g.Version, g.horizon, g.Jobs = st.ColumnInt64(7), st.ColumnInt64(8), st.ColumnInt64(9)
	if err = g.SetConfig([]byte(st.ColumnText(2))); err == nil {
		err = g.Read.SetText([]byte(st.ColumnText(3)))
	}
	return g, err
}

// group reads a group; store.ErrNotFound.
func (c jobReads) group(name string) (group, error) { return c.oneGroup(findGroup, name) }

func (c jobReads) oneGroup(query string, arg any) (g group, err error) {
	found, err := scanOne(c.conn, scanGroup, &g, query, arg)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return g, err
}

func (c jobReads) groups() (list []store.Group, err error) {
	var bad error
	err = c.each(allGroups, func(st *sqlite.Stmt) bool {
		var g group
		g, bad = scanGroup(st)
		list = append(list, g.Group)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return list, err
}

// claimed tells whether a claim stands.
func (t leaseWrites) claimed(claim store.Lease) (bool, error) {
	claim.Until = 0
	_, err := t.one(claimOf, func(st *sqlite.Stmt) {
		claim.Until = st.ColumnInt64(0)
	}, claim.Name, claim.Holder, claim.Token)
	if err != nil {
		return false, err
	}
	until, err := t.until(claim)
	return until > t.now, err
}

// ChangeGroup changes a group's configuration, or creates it. See contract.Groups.
func (s *jobCalls) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (changed store.Changed[task.Group], err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		changed, err = t.jobs().changeGroup(name, change)
		return err
	})
	if err != nil {
		return store.Changed[task.Group]{}, fmt.Errorf("change group %q: %w", name, err)
	}
	return changed, nil
}

func (t jobWrites) changeGroup(
	name string, change store.Change[task.Group],
) (changed store.Changed[task.Group], err error) {
	g, err := t.conn.jobs().group(name)
	created := errors.Is(err, store.ErrNotFound)
	if created {
		g.Group.Group, err = limits.DefaultGroup(name), nil
	}
	if err == nil {
		err = change(&g.Group.Group, !created)
	}
	if err != nil {
		return changed, err
	}
	g.Name = name
	config, err := g.Config()
	switch {
	case err != nil:
	case !created:
		_, err = t.exec(putConfig, string(config), g.id)
	default:
		if _, err = t.exec(nextGroupID); err == nil {
			_, err = t.exec(insertGroup, name, string(config), t.now)
		}
	}
	return store.Changed[task.Group]{Is: g.Group.Group, Created: created}, err
}

// Groups lists all groups, by name.
func (s *jobCalls) Groups(ctx context.Context) (list []store.Group, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		list, err = c.jobs().groups()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return list, nil
}

// DeleteGroup forgets a group. What it had is nobody's from then on, and goes with the next calls
// of Prune. See contract.Groups.
func (s *jobCalls) DeleteGroup(ctx context.Context, name string, force bool) error {
	err := s.write(ctx, func(t *tx) error {
		g, err := t.conn.jobs().group(name)
		if err != nil {
			return err
		}
		if g.Jobs > 0 && !force {
			return &store.InUse{Count: g.Jobs, Noun: "job"}
		}
		loads := map[string]int64{}
		err = t.each(loadsOfGroup, func(st *sqlite.Stmt) bool {
			loads[st.ColumnText(0)] = st.ColumnInt64(1)
			return true
		}, g.id)
		for worker, load := range loads {
			if err == nil {
				_, err = t.exec(freeLoad, load, worker)
			}
		}
		if err == nil {
			_, err = t.exec(noteVersion, g.Version)
		}
		for _, query := range [...]string{noteRemains, deleteGroup} {
			if err == nil {
				_, err = t.exec(query, g.id)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete group %q: %w", name, err)
	}
	return nil
}

// AskGroup makes the group's Refresh or Rebalance grow.
func (s *jobCalls) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	err := s.write(ctx, func(t *tx) error {
		g, err := t.conn.jobs().group(name)
		if err == nil && (refresh || rebalance) {
			_, err = t.exec(askGroup, refresh, rebalance, g.id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ask group %q: %w", name, err)
	}
	return nil
}

// NoteSource writes down what came of reading a group's source. See contract.Groups.
func (s *jobCalls) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	err := s.write(ctx, func(t *tx) error {
		_, err := t.jobs().changeJobs(
			&store.JobChange{Group: group, Claim: claim, Read: &read}, jobDiff{},
		)
		return err
	})
	if err != nil {
		return fmt.Errorf("note source of group %q: %w", group, err)
	}
	return nil
}
