package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	groupColumns = `g.name, g.id, g.config, g.read, g.refresh, g.rebalance, g.since, g.version, g.horizon, g.jobs`
	allGroups    = `SELECT ` + groupColumns + ` FROM rota.job_group g ORDER BY g.name`
	findGroup    = `SELECT ` + groupColumns + ` FROM rota.job_group g WHERE g.name = $1`

	// lockGroups makes those wait for one another who change the same groups. What they have is
	// read by the statements after it.
	lockGroups = `SELECT ` + groupColumns +
		` FROM rota.job_group g WHERE g.name = ANY($1::text[]) ORDER BY g.id FOR NO KEY UPDATE`

	// A group begins after all that had its name: who knows one of those reads everything.
	nextGroupID = `UPDATE rota.job_head SET ids = ids + 1`
	insertGroup = `INSERT INTO rota.job_group (name, id, config, read, refresh, rebalance, since,
version, horizon, jobs)
SELECT $2, ids, $3, '', 0, 0, rota.micros($1), past + 1, past + 1, 0 FROM rota.job_head
ON CONFLICT (name) DO NOTHING RETURNING name`
	putConfig = `UPDATE rota.job_group SET config = $2, version = version + 1 WHERE id = $1`
	askGroup  = `UPDATE rota.job_group
SET refresh = refresh + $2, rebalance = rebalance + $3, version = version + 1 WHERE id = $1`
	changedGroup = `UPDATE rota.job_group SET version = $2, jobs = $3, read = coalesce($4, read)
WHERE id = $1`

	// freeLoads locks the seats in the order of their workers, as all do who assign.
	freeLoads = `WITH mine AS MATERIALIZED (
  SELECT s.worker, l.load FROM (SELECT worker, sum(load)::bigint AS load FROM rota.assignment
  WHERE grp = $1 AND state <> 'ended' GROUP BY worker) l
  JOIN rota.seat s ON s.worker = l.worker ORDER BY s.worker FOR NO KEY UPDATE OF s)
UPDATE rota.seat s SET used = s.used - m.load FROM mine m WHERE s.worker = m.worker`
	noteRemains = `INSERT INTO rota.job_remains (grp) VALUES ($1)`
	// noteVersion also says that there is something new on the board: what is gone is confirmed as
	// what has come is.
	noteVersion = `UPDATE rota.job_head SET past = greatest(past, $1), seats = seats + 1`
	deleteGroup = `DELETE FROM rota.job_group WHERE id = $1`

	// claimStands locks the lease until the commit: nobody gets the claim before.
	claimStands = `SELECT FROM rota.lease l WHERE name = $2 AND holder = $3 AND token = $4
AND until > (SELECT rota.micros($1)) AND (until <> $5
  OR EXISTS (SELECT FROM rota.lease m WHERE m.name = 'node/' || regexp_replace($3, '@[^@]*$', '')
  AND m.holder = $3 AND m.until > (SELECT rota.micros($1))))
FOR KEY SHARE OF l`
)

// group is a row of job_group.
type group struct {
	store.Group
	id      int64
	horizon int64
}

func (g *group) scan(r row) error {
	var config, read string
	err := r.Scan(&g.Name, &g.id, &config, &read, &g.Refresh, &g.Rebalance, &g.Since, &g.Version,
		&g.horizon, &g.Jobs)
	if err == nil {
		err = g.SetConfig([]byte(config))
	}
	if err == nil {
		err = g.Read.SetText([]byte(read))
	}
	return err
}

// lockGroup makes the query that locks and reads one group; without it g.id stays 0.
func lockGroup(g *group, name string) query {
	*g = group{}
	return ask(lockGroups, g.scan, []string{name})
}

// claimed makes the query that tells whether a claim stands.
func (s *jobs) claimed(claim store.Lease, stands *bool) query {
	*stands = false
	return ask(claimStands, func(row) error {
		*stands = true
		return nil
	}, s.clock(), claim.Name, claim.Holder, claim.Token, int64(store.WhileMember))
}

// ChangeGroup changes a group's configuration, or creates it. See contract.Groups.
func (s *jobs) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (changed store.Changed[task.Group], err error) {
	for done := false; !done && err == nil; {
		err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
			changed, done, err = t.configure(ctx, name, change)
			return err
		})
	}
	if err != nil {
		return store.Changed[task.Group]{}, fmt.Errorf("change group %q: %w", name, err)
	}
	s.hints.hint(Hint{Group: name})
	return changed, nil
}

// configure is done, unless somebody else made the group after it was looked for. What he made is
// to be changed then.
func (t *tx) configure(
	ctx context.Context, name string, change store.Change[task.Group],
) (changed store.Changed[task.Group], done bool, err error) {
	var g group
	if err := t.run(ctx, lockGroup(&g, name)); err != nil {
		return changed, false, err
	}
	created := g.id == 0
	if created {
		g.Group.Group = limits.DefaultGroup(name)
	}
	if err := change(&g.Group.Group, !created); err != nil {
		return changed, false, err
	}
	g.Name = name
	changed = store.Changed[task.Group]{Is: g.Group.Group, Created: created}
	config, err := g.Config()
	switch {
	case err != nil:
		return changed, false, err
	case !created:
		return changed, true, t.finish(ctx, tell(putConfig, g.id, string(config)))
	}
	err = t.run(ctx, tell(nextGroupID), ask(insertGroup, func(row) error {
		done = true
		return nil
	}, t.clock(), name, string(config)))
	if err != nil || !done {
		return changed, false, err
	}
	return changed, true, t.finish(ctx)
}

// Groups lists all groups, by name.
func (s *jobs) Groups(ctx context.Context) (list []store.Group, err error) {
	err = s.glance(ctx, ask(allGroups, func(r row) error {
		var g group
		err := g.scan(r)
		list = append(list, g.Group)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return list, nil
}

// DeleteGroup forgets a group. What it had is nobody's from then on, and goes with the next calls
// of Prune. See contract.Groups.
func (s *jobs) DeleteGroup(ctx context.Context, name string, force bool) error {
	err := s.changeGroup(ctx, name, func(ctx context.Context, t *tx, g *group) error {
		if g.Jobs > 0 && !force {
			return &store.InUse{Count: g.Jobs, Noun: "job"}
		}
		// The head comes before the row goes: who has the head, to make a group of that name, waits
		// for no row that is only locked.
		return t.finish(ctx, tell(freeLoads, g.id), tell(noteRemains, g.id),
			tell(noteVersion, g.Version), tell(deleteGroup, g.id))
	})
	if err = s.confirmedGone(ctx, err); err != nil {
		return fmt.Errorf("delete group %q: %w", name, err)
	}
	return nil
}

// changeGroup lets do change a group, which is locked.
func (s *jobs) changeGroup(
	ctx context.Context, name string, do func(context.Context, *tx, *group) error,
) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		var g group
		if err := t.run(ctx, lockGroup(&g, name)); err != nil {
			return err
		}
		if g.id == 0 {
			return store.ErrNotFound
		}
		return do(ctx, t, &g)
	})
	if err == nil {
		s.hints.hint(Hint{Group: name})
	}
	return err
}

// AskGroup makes the group's Refresh or Rebalance grow.
func (s *jobs) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	err := s.changeGroup(ctx, name, func(ctx context.Context, t *tx, g *group) error {
		if !refresh && !rebalance {
			return nil
		}
		return t.finish(ctx, tell(askGroup, g.id, one(refresh), one(rebalance)))
	})
	if err != nil {
		return fmt.Errorf("ask group %q: %w", name, err)
	}
	return nil
}

// one is 1 for true.
func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// NoteSource writes down what came of reading a group's source. See contract.Groups.
func (s *jobs) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	_, err := s.changeJobs(ctx, &store.JobChange{Group: group, Claim: claim, Read: &read})
	if err != nil {
		return fmt.Errorf("note source of group %q: %w", group, err)
	}
	return nil
}
