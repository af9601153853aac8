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
	fireColumns = `at, through, count, origin, outcome, reason, batch, n, node, time, slots, watch, ended, seq, tries`
	fireAt      = `SELECT ` + fireColumns + ` FROM fire WHERE schedule = ? AND at = ?`

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
	newestStep = `SELECT s.seq, s.kind, s.base, s.finished, s.error, s.worker
FROM task t LEFT JOIN step s ON s.batch = t.batch AND s.n = t.n WHERE t.batch = ? AND t.n = ?
ORDER BY s.seq DESC LIMIT 1`
)

func scanFire(st *sqlite.Stmt, schedule string) store.Fire {
	return store.Fire{
		Schedule: schedule, At: st.ColumnInt64(0), Through: st.ColumnInt64(1),
		Count:  st.ColumnInt64(2),
		Origin: task.Origin(st.ColumnText(3)), Outcome: task.FireOutcome(st.ColumnText(4)),
		Reason: st.ColumnText(5),
		Task:   task.ID{Batch: st.ColumnInt64(6), N: st.ColumnInt32(7)}, Node: st.ColumnText(8),
		Time:  st.ColumnInt64(9),
		Limit: st.ColumnInt32(10), Watch: st.ColumnBool(11), Ended: task.Kind(st.ColumnInt(12)),
		Seq: st.ColumnInt32(13), Tries: st.ColumnInt32(14),
	}
}

// fire reads what came of a due time, nil when there is no row.
func (c *conn) fire(s *schedule, at int64) (f *store.Fire, err error) {
	_, err = c.one(fireAt, func(st *sqlite.Stmt) {
		row := scanFire(st, s.Name)
		f = &row
	}, s.id, at)
	return f, err
}

// Fires lists what came of due times. See the contract, storetest.Schedules.
func (s *Store) Fires(ctx context.Context, q store.FireQuery) (list []store.Fire, err error) {
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
		return c.each(query, func(st *sqlite.Stmt) bool {
			list = append(list, scanFire(st, q.Schedule))
			return true
		}, id, first, last, q.From, outcomes, atMost(q.Limit))
	})
	if err != nil {
		return nil, fmt.Errorf("list fires of schedule %q: %w", q.Schedule, err)
	}
	return list, nil
}

// OpenFires lists fires of which something is still to come. See the contract, storetest.Schedules.
func (s *Store) OpenFires(
	ctx context.Context, q store.OpenQuery,
) (list []store.OpenFire, err error) {
	err = s.read(ctx, func(c *conn) error {
		row := func(st *sqlite.Stmt) bool {
			list = append(list, store.OpenFire{Fire: scanFire(st, st.ColumnText(15)), Step: -1})
			return true
		}
		if len(q.Schedules) == 0 {
			err = c.each(openFires, row, q.After.Schedule, q.After.At, atMost(q.Limit))
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
			err = c.each(openFiresOf, row, name, after, left)
		}
		for i := range list {
			if err == nil {
				err = c.follow(&list[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list open fires: %w", err)
	}
	return list, nil
}

// follow says how the task of a fire stands.
func (c *conn) follow(o *store.OpenFire) error {
	if o.Task == (task.ID{}) {
		return nil
	}
	_, err := c.one(newestStep, func(st *sqlite.Stmt) {
		if task.Kind(st.ColumnInt(1)) == task.KindRemoved {
			return
		}
		if o.Found = true; st.ColumnIsNull(0) {
			return
		}
		o.Step = st.ColumnInt32(0)
		o.Kind = task.Kind(st.ColumnInt(1))
		o.Final = st.ColumnInt32(2) == store.Final
		o.Finished, o.Error, o.Worker = st.ColumnInt64(3), st.ColumnText(4), st.ColumnText(5)
	}, o.Task.Batch, o.Task.N)
	return err
}
