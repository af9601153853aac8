package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules/assign"
	"github.com/rotahq/rota/task"
)

const (
	siteColumns = `job, worker, replica, token, state, load, since, failed, note, version,
quiet`
	sitesOfJob = `SELECT ` + siteColumns + ` FROM assignment WHERE grp = ? AND job = ?`
	putSite    = `REPLACE INTO assignment (grp, ` + siteColumns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	setVersion = `UPDATE job_group SET version = ? WHERE id = ?`

	seatOf  = `SELECT state, node, htok, capacity, used FROM seat WHERE worker = ?`
	setUsed = `UPDATE seat SET used = ? WHERE worker = ?`
)

func scanAssignment(st *sqlite.Stmt, group string) store.Assignment {
	return store.Assignment{
		Group: group, Job: st.ColumnText(0), Worker: st.ColumnText(1), Replica: st.ColumnInt(2),
		Token: st.ColumnInt64(3),
		State: task.JobState(st.ColumnText(4)), Load: task.Units(st.ColumnInt64(5)),
		Since: st.ColumnInt64(6), Failed: st.ColumnInt64(7),
		Note: st.ColumnText(8), Version: st.ColumnInt64(9), Quiet: st.ColumnInt64(10) != 0,
	}
}

// set is a set of names.
type set map[string]bool

// table puts what concerns the named jobs on a table. seats are those that other tables of the
// transaction have read already.
func (t jobWrites) table(
	g *group, jobs, workers set, seats map[string]*assign.Seat,
) (*assign.Table, error) {
	table := &assign.Table{
		Now: t.now, Group: g.Name, Replicas: g.Replicas, Version: g.Version,
		Jobs: map[string]bool{}, Seats: seats,
	}
	for job := range jobs {
		stands, err := t.has(jobStands, g.id, job)
		if err == nil {
			table.Jobs[job] = stands
			err = t.each(sitesOfJob, func(st *sqlite.Stmt) bool {
				table.Put(scanAssignment(st, g.Name))
				return true
			}, g.id, job)
		}
		if err != nil {
			return nil, err
		}
	}
	for worker := range workers {
		if seats[worker] != nil {
			continue
		}
		_, err := t.one(seatOf, func(st *sqlite.Stmt) {
			seats[worker] = &assign.Seat{
				State: store.SeatState(st.ColumnText(0)), Node: store.Holder{
					Node: st.ColumnText(1), Token: st.ColumnInt64(2),
				},
				Capacity: task.Units(st.ColumnInt64(3)), Used: task.Units(st.ColumnInt64(4)),
			}
		}, worker)
		if err != nil {
			return nil, err
		}
	}
	return table, nil
}

// clear writes down what changed on a table.
func (t jobWrites) clear(g *group, table *assign.Table) error {
	changed := table.Close()
	for _, a := range changed {
		_, err := t.exec(putSite, g.id, a.Job, a.Worker, a.Replica, a.Token, string(a.State),
			int64(a.Load), a.Since, a.Failed, a.Note, a.Version, a.Quiet)
		if err != nil {
			return err
		}
	}
	if len(changed) > 0 {
		_, err := t.exec(setVersion, table.Version, g.id)
		return err
	}
	return nil
}

// clearSeats writes down how much of the seats is in use.
func (t jobWrites) clearSeats(seats map[string]*assign.Seat) error {
	for worker, s := range seats {
		if !s.Changed {
			continue
		}
		if _, err := t.exec(setUsed, int64(s.Used), worker); err != nil {
			return err
		}
	}
	return nil
}

// Assign does what a supervisor decided. See contract.Assignments.
func (s *jobCalls) Assign(ctx context.Context, a store.Assign) (answer store.Assigned, err error) {
	jobs, workers := set{}, set{}
	for _, list := range [...][]store.Place{a.Drop, a.End, a.Move, a.Start} {
		for _, p := range list {
			jobs[p.Job], workers[p.Worker] = true, true
		}
	}
	err = s.write(ctx, func(t *tx) error {
		answer = store.Assigned{Now: t.now}
		g, err := t.conn.jobs().group(a.Group)
		if err != nil {
			return err
		}
		stands, err := t.leases().claimed(a.Claim)
		if answer.Version, answer.ClaimGone = g.Version, !stands; err != nil || !stands {
			return err
		}
		seats := map[string]*assign.Seat{}
		table, err := t.jobs().table(&g, jobs, workers, seats)
		if err != nil {
			return err
		}
		answer.Refused = table.Assign(&a)
		err = t.jobs().clear(&g, table)
		answer.Version = table.Version
		if err == nil {
			err = t.jobs().clearSeats(seats)
		}
		return err
	})
	if err != nil {
		return store.Assigned{},
			fmt.Errorf("assign %d parts of group %q: %w",
				len(a.Drop)+len(a.End)+len(a.Move)+len(a.Start), a.Group, err)
	}
	return answer, nil
}

// Observe writes down what workers said. See contract.Assignments.
func (s *jobCalls) Observe(
	ctx context.Context, o store.Observed,
) (answer store.Observing, err error) {
	groups, workers := map[string]set{}, set{}
	for _, list := range [...][]store.Observation{o.States, o.Adopt} {
		for i := range list {
			seen := &list[i]
			if groups[seen.Group] == nil {
				groups[seen.Group] = set{}
			}
			groups[seen.Group][seen.Job], workers[seen.Worker] = true, true
		}
	}
	err = s.write(ctx, func(t *tx) error {
		answer = store.Observing{Now: t.now}
		lives, err := t.leases().lives(o.Holder)
		if answer.LeaseGone = !lives; err != nil || !lives {
			return err
		}
		answer.Refused, err = t.jobs().observe(&o, groups, workers)
		return err
	})
	if err != nil {
		return store.Observing{},
			fmt.Errorf("observe %d assignments: %w", len(o.States)+len(o.Adopt), err)
	}
	return answer, nil
}

func (t jobWrites) observe(
	o *store.Observed, jobs map[string]set, workers set,
) (refused []store.Observation, err error) {
	seats, tables, groups := map[string]*assign.Seat{}, map[string]*assign.Table{},
		map[string]*group{}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		g, err := t.conn.jobs().group(name)
		if errors.Is(err, store.ErrNotFound) {
			g.Name = name // of such a group nothing is wanted
		} else if err != nil {
			return nil, err
		}
		groups[name] = &g
		if tables[name], err = t.table(&g, jobs[name], workers, seats); err != nil {
			return nil, err
		}
	}
	refused = assign.Observe(o, tables)
	for name, table := range tables {
		if err := t.clear(groups[name], table); err != nil {
			return nil, err
		}
	}
	return refused, t.clearSeats(seats)
}
