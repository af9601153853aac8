package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules/assign"
)

const (
	// jobsStanding and sitesOfJobs look up one job after the other, whatever the planner thinks of
	// how many there are.
	jobsStanding = `SELECT w.grp, w.job FROM unnest($1::text[], $2::text[]) w (grp, job)
JOIN rota.job_group g ON g.name = w.grp
CROSS JOIN LATERAL (SELECT FROM rota.job WHERE grp = g.id AND job = w.job AND gone = 0 OFFSET 0) j`
	sitesOfJobs = `SELECT w.grp, a.job, a.worker, a.replica, a.token, a.state, a.load, a.since,
a.failed, a.note, a.version, a.quiet
FROM unnest($1::text[], $2::text[]) w (grp, job) JOIN rota.job_group g ON g.name = w.grp
CROSS JOIN LATERAL (SELECT * FROM rota.assignment WHERE grp = g.id AND job = w.job OFFSET 0) a`

	// lockSeats keeps others from assigning to the same workers, whichever group they are for.
	lockSeats = `SELECT worker, state, node, htok, capacity, used FROM rota.seat
WHERE worker = ANY($1::text[]) ORDER BY worker FOR NO KEY UPDATE`

	putSites = `INSERT INTO rota.assignment (grp, ` + siteColumns + `)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
$7::bigint[], $8::bigint[], $9::bigint[],
  $10::text[], $11::bigint[], $12::boolean[])
ON CONFLICT (grp, job, worker)
DO UPDATE SET replica = excluded.replica, token = excluded.token, state = excluded.state,
load = excluded.load,
  since = excluded.since, failed = excluded.failed, note = excluded.note,
  version = excluded.version, quiet = excluded.quiet`
	setVersions = `UPDATE rota.job_group g SET version = w.version
FROM unnest($1::bigint[], $2::bigint[]) w (id, version) WHERE g.id = w.id`
	setUsed = `UPDATE rota.seat s SET used = w.used
FROM unnest($1::text[], $2::bigint[]) w (worker, used) WHERE s.worker = w.worker`
)

// lockedRows is what a transaction knows of the groups and workers that it concerns. They are
// locked: groups in the order of their ids, then seats in the order of their workers.
type lockedRows struct {
	groups map[string]*group
	tables map[string]*assign.Table
	seats  map[string]*assign.Seat
	now    int64
}

// lockKeys says which jobs of which groups, and which workers, a call is about.
type lockKeys struct {
	groups, jobs []string // pairs, no two alike
	workers      []string // no two alike
	known        map[[3]string]bool
}

func (c *lockKeys) add(group, job, worker string) {
	if c.known == nil {
		c.known = map[[3]string]bool{}
	}
	if pair := [3]string{"job", group, job}; !c.known[pair] {
		c.known[pair] = true
		c.groups = append(c.groups, group)
		c.jobs = append(c.jobs, job)
	}
	if one := [3]string{"worker", worker}; !c.known[one] {
		c.known[one] = true
		c.workers = append(c.workers, worker)
	}
}

// lockRows locks and reads the rows of the keys. The queries run between the groups' locks and the
// seats'.
func (t *tx) lockRows(ctx context.Context, c *lockKeys, between ...query) (*lockedRows, error) {
	l := &lockedRows{
		groups: map[string]*group{}, tables: map[string]*assign.Table{},
		seats: map[string]*assign.Seat{},
	}
	for _, name := range c.groups {
		if l.tables[name] == nil { // of one that there is not nothing is wanted
			l.tables[name] = &assign.Table{Group: name, Jobs: map[string]bool{}, Seats: l.seats}
		}
	}
	queries := append([]query{ask(lockGroups, l.addGroup, c.groups)}, between...)
	err := t.run(ctx, append(queries,
		ask(countClock, func(r row) error { return r.Scan(&l.now) }, t.clock()),
		ask(lockSeats, l.addSeat, c.workers),
		ask(jobsStanding, func(r row) error {
			var group, job string
			err := r.Scan(&group, &job)
			l.tables[group].Jobs[job] = true
			return err
		}, c.groups, c.jobs),
		ask(sitesOfJobs, func(r row) error {
			var a store.Assignment
			err := r.Scan(&a.Group, &a.Job, &a.Worker, &a.Replica, &a.Token, &a.State, &a.Load,
				&a.Since, &a.Failed, &a.Note, &a.Version, &a.Quiet)
			l.tables[a.Group].Put(a)
			return err
		}, c.groups, c.jobs))...)
	for _, table := range l.tables {
		table.Now = l.now
	}
	return l, err
}

func (l *lockedRows) addGroup(r row) error {
	g := &group{}
	err := g.scan(r)
	l.groups[g.Name] = g
	l.tables[g.Name].Replicas, l.tables[g.Name].Version = g.Replicas, g.Version
	return err
}

func (l *lockedRows) addSeat(r row) error {
	var worker string
	seat := &assign.Seat{}
	err := r.Scan(&worker, &seat.State, &seat.Node.Node, &seat.Node.Token, &seat.Capacity,
		&seat.Used)
	l.seats[worker] = seat
	return err
}

// changes makes the queries that write down what changed, none when nothing did, and says in which
// groups.
func (l *lockedRows) changes() (queries []query, groups []string) {
	var grps, replicas, tokens, loads, since, failed, versions []int64
	var jobs, workers, states, notes []string
	var quiet []bool
	var ids, newest []int64
	for name, table := range l.tables {
		changed := table.Close()
		for _, a := range changed {
			grps = append(grps, l.groups[name].id)
			jobs = append(jobs, a.Job)
			workers = append(workers, a.Worker)
			replicas = append(replicas, int64(a.Replica))
			tokens = append(tokens, a.Token)
			states = append(states, string(a.State))
			loads = append(loads, int64(a.Load))
			since = append(since, a.Since)
			failed = append(failed, a.Failed)
			notes = append(notes, printable(a.Note))
			versions = append(versions, a.Version)
			quiet = append(quiet, a.Quiet)
		}
		if len(changed) > 0 {
			groups = append(groups, name)
			ids = append(ids, l.groups[name].id)
			newest = append(newest, table.Version)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	queries = append(queries,
		tell(putSites, grps, jobs, workers, replicas, tokens, states, loads, since, failed, notes,
			versions, quiet),
		tell(setVersions, ids, newest))
	var names []string
	var used []int64
	for worker, seat := range l.seats {
		if seat.Changed {
			names = append(names, worker)
			used = append(used, int64(seat.Used))
		}
	}
	if len(names) > 0 {
		queries = append(queries, tell(setUsed, names, used))
	}
	return queries, groups
}

// writeRows writes down what changed, and says in which groups.
func (t *tx) writeRows(ctx context.Context, l *lockedRows) (groups []string, err error) {
	queries, groups := l.changes()
	if len(groups) == 0 {
		return nil, nil
	}
	return groups, t.finish(ctx, queries...)
}

// Assign does what a supervisor decided. See contract.Assignments.
func (s *jobs) Assign(ctx context.Context, a store.Assign) (answer store.Assigned, err error) {
	var c lockKeys
	c.add(a.Group, "", "")
	for _, list := range [...][]store.Place{a.Drop, a.End, a.Move, a.Start} {
		for _, p := range list {
			c.add(a.Group, p.Job, p.Worker)
		}
	}
	var changed []string
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		stands := false
		answer, changed = store.Assigned{}, nil
		l, err := t.lockRows(ctx, &c, s.claimed(a.Claim, &stands))
		if err != nil {
			return err
		}
		if l.groups[a.Group] == nil {
			return store.ErrNotFound
		}
		table := l.tables[a.Group]
		if answer = (store.Assigned{Now: l.now, ClaimGone: !stands,
			Version: table.Version}); !stands {
			return nil
		}
		answer.Refused = table.Assign(&a)
		changed, err = t.writeRows(ctx, l)
		answer.Version = table.Version
		return err
	})
	if err != nil {
		return store.Assigned{},
			fmt.Errorf("assign %d parts of group %q: %w",
				len(a.Drop)+len(a.End)+len(a.Move)+len(a.Start), a.Group, err)
	}
	s.hints.hintGroups(changed)
	return answer, nil
}

// Observe writes down what workers said. See contract.Assignments.
func (s *jobs) Observe(ctx context.Context, o store.Observed) (answer store.Observing, err error) {
	var c lockKeys
	for _, list := range [...][]store.Observation{o.States, o.Adopt} {
		for i := range list {
			c.add(list[i].Group, list[i].Job, list[i].Worker)
		}
	}
	var changed []string
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		lives := false
		answer, changed = store.Observing{}, nil
		l, err := t.lockRows(ctx, &c, t.living(o.Holder, &lives))
		if answer.Now, answer.LeaseGone = l.now, !lives; err != nil || !lives {
			return err
		}
		answer.Refused = assign.Observe(&o, l.tables)
		changed, err = t.writeRows(ctx, l)
		return err
	})
	if err != nil {
		return store.Observing{},
			fmt.Errorf("observe %d assignments: %w", len(o.States)+len(o.Adopt), err)
	}
	s.hints.hintGroups(changed)
	return answer, nil
}

// nodeLives is claimStands for a node's membership.
const nodeLives = `SELECT FROM rota.lease WHERE name = 'node/' || $2 AND token = $3
AND until > (SELECT rota.micros($1)) FOR KEY SHARE`

// living makes the query that tells whether a node has its lease.
func (t *tx) living(h store.Holder, lives *bool) query {
	*lives = false
	return ask(nodeLives, func(row) error { *lives = true; return nil }, t.clock(), h.Node, h.Token)
}
