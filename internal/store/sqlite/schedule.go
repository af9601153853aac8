package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scheduleCalls keeps schedules and what came of their due times. Its tables are schedule,
// schedule_head, schedule_remains, follower, calendar, era and fire.
type scheduleCalls struct{ *database }

// scheduleReads reads schedules and fires.
type scheduleReads struct{ *conn }

func (c *conn) schedules() scheduleReads { return scheduleReads{c} }

// scheduleWrites changes schedules, and fires them.
type scheduleWrites struct{ *tx }

func (t *tx) schedules() scheduleWrites { return scheduleWrites{t} }

const (
	scheduleColumns = `id, name, spec, days, version, since, first, next, created, last`
	findSchedule    = `SELECT ` + scheduleColumns + ` FROM schedule WHERE name = ?`
	dueSchedules    = `SELECT ` + scheduleColumns + ` FROM schedule
WHERE next BETWEEN ?1 AND ?3 AND (next > ?1 OR name > ?2) ORDER BY next, name LIMIT ?4`

	countSchedules = `SELECT count(*) FROM schedule`
	nameSchedules  = `SELECT name FROM schedule ORDER BY name LIMIT ?`

	erasAfter = `SELECT version, spec, days, since, first, until FROM era WHERE schedule = ?
AND until > ? ORDER BY version`

	allCalendars = `SELECT name, days FROM calendar WHERE stands ORDER BY name`
	daysWithID   = `SELECT name, days FROM calendar WHERE id = ?`
)

// schedule is a row of schedule.
type schedule struct {
	store.Schedule
	id   int64
	days int64 // the id of Days; 0 = all days
	last int64
}

func scanSchedule(st *sqlite.Stmt) (s schedule, err error) {
	s.id, s.Name, s.days = st.ColumnInt64(0), st.ColumnText(1), st.ColumnInt64(3)
	s.Version = st.ColumnInt64(4)
	s.Since = st.ColumnInt64(5)
	s.First = st.ColumnInt64(6)
	s.Next = st.ColumnInt64(7)
	s.Created, s.last = st.ColumnInt64(8), st.ColumnInt64(9)
	return s, s.SetSpec([]byte(st.ColumnText(2)))
}

// schedules runs a query for schedules, without their days.
func (c scheduleReads) schedules(query string, args ...any) (list []schedule, err error) {
	return scanAll(c.conn, scanSchedule, query, args...)
}

// schedule reads a schedule, without its days; store.ErrNotFound.
func (c scheduleReads) schedule(name string) (s schedule, err error) {
	found, err := scanOne(c.conn, scanSchedule, &s, findSchedule, name)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return s, err
}

// listed are schedules as they are answered, with their days.
func (c scheduleReads) listed(found []schedule) ([]store.Schedule, error) {
	list := make([]store.Schedule, len(found))
	almanac := almanac{conn: c.conn}
	for i := range found {
		list[i] = found[i].Schedule
		var err error
		if list[i].Days, err = almanac.days(found[i].days); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// almanac reads each set of days once.
type almanac struct {
	*conn
	known map[int64]*task.Calendar
}

func (a *almanac) days(id int64) (c *task.Calendar, err error) {
	if c = a.known[id]; c != nil || id == 0 {
		return c, nil
	}
	var bad error
	_, err = a.one(daysWithID, func(st *sqlite.Stmt) {
		c, bad = store.ReadDays(st.ColumnText(0), []byte(st.ColumnText(1)))
	}, id)
	if err == nil {
		err = bad
	}
	if a.known == nil {
		a.known = map[int64]*task.Calendar{}
	}
	a.known[id] = c
	return c, err
}

// Schedules lists schedules, by name. See contract.Schedules.
func (s *scheduleCalls) Schedules(
	ctx context.Context, q store.ScheduleQuery,
) (list []store.Schedule, err error) {
	query, args, err := selection(&q)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	err = s.read(ctx, func(c *conn) error {
		found, err := c.schedules().schedules(query, args...)
		if err == nil {
			list, err = c.schedules().listed(found)
		}
		for i := range list {
			if err == nil && q.Last && found[i].last != 0 {
				list[i].Last, err = c.schedules().fire(&found[i], found[i].last)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return list, nil
}

// selection is the statement for a query. There is one for each set of fields that a query may use.
func selection(q *store.ScheduleQuery) (query string, args []any, err error) {
	query, args = `SELECT `+scheduleColumns+` FROM schedule WHERE name > ?`, []any{q.After}
	among := func(head, tail string, list []string) {
		if len(list) > 0 && err == nil {
			var text []byte
			text, err = json.Marshal(list)
			query += ` AND ` + head + ` IN (SELECT value FROM json_each(?)` + tail
			args = append(args, string(text))
		}
	}
	among(`name`, `)`, q.Names)
	among(`name IN (SELECT follower FROM follower WHERE leader`, `))`, q.Follows)
	if q.Calendar != "" {
		query += ` AND days = (SELECT id FROM calendar WHERE stands AND name = ?)`
		args = append(args, q.Calendar)
	}
	return query + ` ORDER BY name LIMIT ?`, append(args, atMost(q.Limit)), err
}

// atMost is a limit as SQLite knows it.
func atMost(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// Due lists schedules whose cursor is not after a time. See contract.Schedules.
func (s *scheduleCalls) Due(
	ctx context.Context, q store.DueQuery,
) (list []store.Schedule, err error) {
	err = s.read(ctx, func(c *conn) error {
		found, err := c.schedules().schedules(dueSchedules, q.After.Next, q.After.Name,
			min(q.Until, store.Never-1), atMost(q.Limit))
		if err == nil {
			list, err = c.schedules().listed(found)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list due schedules: %w", err)
	}
	return list, nil
}

// standSchedules reads of a specification what JSON says before the context, which may be long.
const standSchedules = `SELECT spec ->> 'queue', count(*), coalesce(sum(spec ->> 'paused'), 0),
sum(next < ? AND spec ->> 'paused' IS NULL) FROM schedule GROUP BY 1`

// ScheduleStands counts schedules by their queue. See contract.Schedules.
func (s *scheduleCalls) ScheduleStands(
	ctx context.Context, late int64,
) (list []store.ScheduleStand, err error) {
	err = s.read(ctx, func(c *conn) error {
		list = nil
		return c.each(standSchedules, func(st *sqlite.Stmt) bool {
			list = append(list, store.ScheduleStand{
				Queue: st.ColumnText(0), All: st.ColumnInt64(1), Paused: st.ColumnInt64(2),
				Late: st.ColumnInt64(3),
			})
			return true
		}, late)
	})
	if err != nil {
		return nil, fmt.Errorf("count schedules by queue: %w", err)
	}
	return list, nil
}

// ScheduleKeys counts schedules, and names them if they are at most limit.
func (s *scheduleCalls) ScheduleKeys(
	ctx context.Context, limit int,
) (keys store.ScheduleKeys, err error) {
	err = s.read(ctx, func(c *conn) error {
		_, err := c.one(countSchedules, func(st *sqlite.Stmt) { keys.Count = st.ColumnInt64(0) })
		if err != nil || keys.Count > int64(limit) {
			return err
		}
		return c.each(nameSchedules, func(st *sqlite.Stmt) bool {
			keys.Names = append(keys.Names, st.ColumnText(0))
			return true
		}, limit)
	})
	if err != nil {
		return store.ScheduleKeys{}, fmt.Errorf("count schedules: %w", err)
	}
	return keys, nil
}

// Eras lists what a schedule was, and what it is. See contract.Schedules.
func (s *scheduleCalls) Eras(
	ctx context.Context, name string, from int64,
) (list []store.Schedule, err error) {
	err = s.read(ctx, func(c *conn) error {
		is, err := c.schedules().schedule(name)
		if err != nil {
			return err
		}
		var bad error
		var eras []schedule
		err = c.each(erasAfter, func(st *sqlite.Stmt) bool {
			era := schedule{days: st.ColumnInt64(2), Schedule: store.Schedule{
				Schedule: task.Schedule{Name: name}, Version: st.ColumnInt64(0),
				Since: st.ColumnInt64(3), First: st.ColumnInt64(4),
				Created: is.Created, Until: st.ColumnInt64(5),
			}}
			bad = era.SetSpec([]byte(st.ColumnText(1)))
			eras = append(eras, era)
			return bad == nil
		}, is.id, from)
		if err == nil {
			err = bad
		}
		if err == nil {
			list, err = c.schedules().listed(append(eras, is))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what schedule %q was: %w", name, err)
	}
	return list, nil
}

// Calendars lists all calendars, by name.
func (s *scheduleCalls) Calendars(ctx context.Context) (list []task.Calendar, err error) {
	err = s.read(ctx, func(c *conn) error {
		var bad error
		err := c.each(allCalendars, func(st *sqlite.Stmt) bool {
			var days *task.Calendar
			if days, bad = store.ReadDays(st.ColumnText(0), []byte(st.ColumnText(1))); bad == nil {
				list = append(list, *days)
			}
			return bad == nil
		})
		if err == nil {
			err = bad
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list calendars: %w", err)
	}
	return list, nil
}
