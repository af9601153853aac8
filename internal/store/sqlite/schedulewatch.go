package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	fireColumns = `at, through, count, origin, outcome, reason, batch, n, node, time, slots, watch, ended, seq, tries, root,
root_at, parents`
	fireAt = `SELECT ` + fireColumns + ` FROM fire WHERE schedule = ? AND at = ?`

	// runsInto is where the first row begins that stands for several due times and reaches into a
	// range.
	runsInto = `SELECT min(at) FROM fire WHERE schedule = ?1 AND count > 1 AND through >= ?2
AND at < ?2`
	firesThat = ` FROM fire WHERE schedule = ?1 AND at BETWEEN ?2 AND ?3 AND through >= ?4
  AND (?5 IS NULL OR outcome IN (SELECT value FROM json_each(?5)))`
	oldestFires = `SELECT ` + fireColumns + firesThat + ` ORDER BY at LIMIT ?6`
	newestFires = `SELECT ` + fireColumns + firesThat + ` ORDER BY at DESC LIMIT ?6`

	openFires = `SELECT ` + fireColumns +
		`, open FROM fire WHERE open >= ?1 AND (open > ?1 OR at > ?2) ORDER BY open, at LIMIT ?3`
	openFiresOf = `SELECT ` + fireColumns +
		`, open FROM fire WHERE open = ?1 AND at > ?2 ORDER BY at LIMIT ?3`
	// openName is the column of the name in these.
	openName = 18

	// runFires is the fire with which a run began, unless it is of another run, and those that say
	// that they are of it.
	runFires = `SELECT ` + fireColumns + `, name FROM (
  SELECT f.*, s.name FROM schedule s JOIN fire f ON f.schedule = s.id
  WHERE s.name = ?1 AND f.at = ?2 AND f.root IS NULL
  UNION ALL
  SELECT f.*, s.name FROM fire f JOIN schedule s ON s.id = f.schedule
  WHERE f.root = ?1 AND f.root_at = ?2)
ORDER BY name, at LIMIT ?3`
)

func scanFire(st *sqlite.Stmt, schedule string) (store.Fire, error) {
	f := store.Fire{
		Schedule: schedule, At: st.ColumnInt64(0), Through: st.ColumnInt64(1),
		Count:  st.ColumnInt64(2),
		Origin: task.Origin(st.ColumnText(3)), Outcome: task.FireOutcome(st.ColumnText(4)),
		Reason: st.ColumnText(5),
		Task:   task.ID{Batch: st.ColumnInt64(6), N: st.ColumnInt32(7)}, Node: st.ColumnText(8),
		Time:  st.ColumnInt64(9),
		Limit: st.ColumnInt32(10), Watch: st.ColumnBool(11), Ended: task.Kind(st.ColumnInt(12)),
		Seq: st.ColumnInt32(13), Tries: st.ColumnInt32(14),
		Run: store.FireKey{Schedule: st.ColumnText(15), At: st.ColumnInt64(16)},
	}
	if st.ColumnIsNull(15) {
		f.Run = store.FireKey{Schedule: schedule, At: f.At}
	}
	var err error
	f.Parents, err = store.ReadParents(st.ColumnText(17))
	return f, err
}

// fireRows runs a query for fires and answers them. name is the column of the schedule's name; the
// schedule's itself when it is 0.
func (c scheduleReads) fireRows(
	query, schedule string, name int, args ...any,
) (list []store.Fire, err error) {
	var bad error
	err = c.each(query, func(st *sqlite.Stmt) bool {
		if name > 0 {
			schedule = st.ColumnText(name)
		}
		var f store.Fire
		f, bad = scanFire(st, schedule)
		list = append(list, f)
		return bad == nil
	}, args...)
	if err == nil {
		err = bad
	}
	return list, err
}

// fire reads what came of a due time, nil when there is no row.
func (c scheduleReads) fire(s *schedule, at int64) (f *store.Fire, err error) {
	list, err := c.fireRows(fireAt, s.Name, 0, s.id, at)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Fires lists what came of due times. See contract.Schedules.
func (s *scheduleCalls) Fires(
	ctx context.Context, q store.FireQuery,
) (list []store.Fire, err error) {
	var outcomes any
	if len(q.Outcomes) > 0 {
		text, err := json.Marshal(q.Outcomes)
		if err != nil {
			return nil, fmt.Errorf("list fires of schedule %q: %w", q.Schedule, err)
		}
		outcomes = string(text)
	}
	err = s.read(ctx, func(c *conn) error {
		var id int64
		found, err := c.one(cursorOf, func(st *sqlite.Stmt) { id = st.ColumnInt64(0) }, q.Schedule)
		if err != nil || !found {
			return err
		}
		first, last := q.From, int64(math.MaxInt64)
		_, err = c.one(runsInto, func(st *sqlite.Stmt) {
			if !st.ColumnIsNull(0) {
				first = st.ColumnInt64(0)
			}
		}, id, q.From)
		if err != nil {
			return err
		}
		if q.To != 0 {
			last = q.To - 1
		}
		query := oldestFires
		switch {
		case q.Newest:
			query = newestFires
			if q.After != 0 {
				last = min(last, q.After-1)
			}
		case q.After != 0:
			first = max(first, q.After+1)
		}
		list, err = c.schedules().fireRows(query, q.Schedule, 0, id, first, last, q.From, outcomes,
			atMost(q.Limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list fires of schedule %q: %w", q.Schedule, err)
	}
	return list, nil
}

// OpenFires lists fires of which something is still to come. See contract.Schedules.
func (s *scheduleCalls) OpenFires(
	ctx context.Context, q store.OpenQuery,
) (list []store.OpenFire, err error) {
	err = s.read(ctx, func(c *conn) error {
		rows := func(query string, args ...any) error {
			fires, err := c.schedules().fireRows(query, "", openName, args...)
			for i := range fires {
				list = append(list, store.OpenFire{Fire: fires[i], Step: -1})
			}
			return err
		}
		if len(q.Schedules) == 0 {
			err = rows(openFires, q.After.Schedule, q.After.At, atMost(q.Limit))
		}
		schedules := slices.Compact(slices.Sorted(slices.Values(q.Schedules)))
		for _, name := range schedules {
			if err != nil || name < q.After.Schedule || q.Limit > 0 && len(list) == q.Limit {
				continue
			}
			after, left := int64(math.MinInt64), -1
			if name == q.After.Schedule {
				after = q.After.At
			}
			if q.Limit > 0 {
				left = q.Limit - len(list)
			}
			err = rows(openFiresOf, name, after, left)
		}
		for i := range list {
			if err == nil {
				err = c.schedules().follow(&list[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list open fires: %w", err)
	}
	return list, nil
}

// RunFires lists the fires of a run. See contract.Schedules.
func (s *scheduleCalls) RunFires(
	ctx context.Context, run store.FireKey, limit int,
) (list []store.Fire, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		list, err = c.schedules().fireRows(runFires, "", openName, run.Schedule, run.At, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the run of %q: %w", run.Schedule, err)
	}
	return list, nil
}

// follow says how the task of a fire stands.
func (c scheduleReads) follow(o *store.OpenFire) error {
	if o.Task == (task.ID{}) {
		return nil
	}
	t, found, err := c.members().task(o.Task)
	if err != nil || !found {
		return err
	}
	n, err := c.members().outcomeOf(o.Task, t.Stage)
	if err != nil || n.Kind == task.KindRemoved {
		return err
	}
	o.Found, o.Step, o.Kind, o.Final = true, n.Seq, n.Kind, n.Base == store.Final
	o.Finished, o.Error, o.Worker = n.Finished, n.Error, n.Worker
	return nil
}
