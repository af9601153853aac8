package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	standingDays = `SELECT id, days FROM calendar WHERE stands AND name = ?`
	haveDays     = `SELECT name FROM schedule WHERE days = ?`
	insertDays   = `INSERT INTO calendar (name, days, stands) VALUES (?, ?, 1)`
	retireDays   = `UPDATE calendar SET stands = 0 WHERE id = ?`

	scheduleStands = `SELECT 1 FROM schedule WHERE name = ?`
	pastVersion    = `SELECT past FROM schedule_head`
	insertSchedule = `INSERT INTO schedule (id, spec, follows, days, version, since, first, next,
name, created, last)
SELECT ids, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0 FROM schedule_head`
	nextScheduleID = `UPDATE schedule_head SET ids = ids + 1`
	updateSchedule = `UPDATE schedule
SET spec = ?, follows = ?, days = ?, version = ?, since = ?, first = ?, next = ? WHERE id = ?`
	insertEra = `INSERT INTO era (schedule, version, spec, days, since, first, until)
SELECT id, version, spec, days, since, first, ?2 FROM schedule WHERE id = ?1`

	followsWhom     = `SELECT follows FROM schedule WHERE name = ?`
	followerOf      = `SELECT follower FROM follower WHERE leader = ? LIMIT 1`
	unfollow        = `DELETE FROM follower WHERE follower = ?`
	follow          = `INSERT INTO follower (leader, follower) VALUES (?, ?)`
	closeFires      = `UPDATE fire SET open = NULL WHERE open = ?`
	deleteSchedule  = `DELETE FROM schedule WHERE id = ?`
	leaveSchedule   = `INSERT INTO schedule_remains (schedule) VALUES (?)`
	noteScheduleEnd = `UPDATE schedule_head SET past = max(past, ?)`
)

// ChangeSchedules creates or replaces schedules and a calendar. See contract.Schedules.
func (s *scheduleCalls) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) (list []store.Schedule, err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		list, err = t.schedules().changeSchedules(&c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("change %d schedules: %w", len(c.Puts), err)
	}
	return list, nil
}

// changeSchedules decides all before it writes anything, so that a refusal spoils nobody else's
// part of the transaction.
func (t scheduleWrites) changeSchedules(c *store.ScheduleChange) ([]store.Schedule, error) {
	change := change{
		tx: t.tx, almanac: almanac{conn: t.conn}, put: make(map[string]bool, len(c.Puts)),
		standing: map[string]int64{},
	}
	for i := range c.Puts {
		change.put[c.Puts[i].Name] = true
	}
	if err := change.look(c.Calendar); err != nil {
		return nil, err
	}
	if err := change.circles(c.Puts); err != nil {
		return nil, err
	}
	plan := make([]becoming, len(c.Puts))
	for i := range c.Puts {
		var err error
		if plan[i], err = change.decide(&c.Puts[i]); err != nil {
			return nil, err
		}
	}
	if err := t.mayEnd(c.Ends); err != nil {
		return nil, err
	}
	if err := t.endFires(c.Ends); err != nil {
		return nil, err
	}
	if err := change.writeDays(); err != nil {
		return nil, err
	}
	list := make([]store.Schedule, len(plan))
	for i := range plan {
		var err error
		if list[i], err = change.write(&plan[i]); err != nil {
			return nil, fmt.Errorf("schedule %q: %w", c.Puts[i].Name, err)
		}
	}
	return list, nil
}

// change is a change of schedules in progress.
type change struct {
	*tx
	almanac  almanac
	put      map[string]bool  // the names of the schedules that are put
	standing map[string]int64 // ids of calendars, by name; 0 = there is none
	past     int64
	calendar *task.Calendar // that is made or replaced; nil = none is
	days     []byte
	old      int64 // the id of what it replaces; 0 = nothing
}

// becoming is what a put makes of a schedule.
type becoming struct {
	id      int64 // 0 = it is new
	is      store.Schedule
	changed bool
}

// look reads what a change is to be held against: versions that are gone, and the calendar that it
// replaces.
func (c *change) look(calendar *task.Calendar) error {
	_, err := c.one(pastVersion, func(st *sqlite.Stmt) { c.past = st.ColumnInt64(0) })
	if err != nil || calendar == nil {
		return err
	}
	if c.days, err = store.Days(calendar); err != nil {
		return err
	}
	var was string
	_, err = c.one(standingDays, func(st *sqlite.Stmt) {
		c.old, was = st.ColumnInt64(0), st.ColumnText(1)
	}, calendar.Name)
	if err != nil {
		return err
	}
	if c.old != 0 && was == string(c.days) {
		return nil
	}
	c.calendar = calendar
	var behind string
	err = c.each(haveDays, func(st *sqlite.Stmt) bool {
		if name := st.ColumnText(0); !c.put[name] {
			behind = name
		}
		return behind == ""
	}, c.old)
	if err == nil && behind != "" {
		err = fmt.Errorf("schedule %q has calendar %q: %w", behind, calendar.Name,
			store.ErrConflict)
	}
	return err
}

// circles refuses puts by which a schedule would follow itself: two changes that were checked at
// the same time may do so together.
func (c *change) circles(puts []store.SchedulePut) error {
	after := map[string][]string{}
	var open []string
	for i := range puts {
		open = append(open, puts[i].Parents()...)
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if _, known := after[at]; known || c.put[at] {
			continue
		}
		var is task.Schedule
		if _, err := c.one(followsWhom, func(st *sqlite.Stmt) {
			is.After = st.ColumnText(0)
		}, at); err != nil {
			return err
		}
		after[at] = is.Parents()
		open = append(open, after[at]...)
	}
	if circle := store.Circle(puts, after); circle != nil {
		return fmt.Errorf("schedules would follow themselves: %s: %w", store.CircleText(circle),
			store.ErrConflict)
	}
	return nil
}

// daysID is the id of the calendar with a name, as it stands or is put.
func (c *change) daysID(name string) (int64, error) {
	if id, known := c.standing[name]; known || name == "" {
		return id, nil
	}
	var id int64
	_, err := c.one(standingDays, func(st *sqlite.Stmt) { id = st.ColumnInt64(0) }, name)
	c.standing[name] = id
	return id, err
}

// decide says what becomes of a schedule.
func (c *change) decide(p *store.SchedulePut) (b becoming, err error) {
	replaced := c.calendar != nil && p.Calendar == c.calendar.Name
	days := c.calendar
	if p.Calendar != "" && !replaced {
		id, err := c.daysID(p.Calendar)
		switch {
		case err != nil:
			return b, err
		case id == 0:
			return b, fmt.Errorf("calendar %q: %w", p.Calendar, store.ErrNotFound)
		}
		if days, err = c.almanac.days(id); err != nil {
			return b, err
		}
	}
	for _, parent := range p.Parents() {
		if c.put[parent] {
			continue
		}
		if stands, err := c.has(scheduleStands, parent); err != nil {
			return b, err
		} else if !stands {
			return b, fmt.Errorf("schedule %q: %w", parent, store.ErrNotFound)
		}
	}
	var was *store.Schedule
	s, err := c.conn.schedules().schedule(p.Name)
	switch {
	case err == nil:
		b.id, was = s.id, &s.Schedule
	case !errors.Is(err, store.ErrNotFound):
		return b, err
	}
	b.is, b.changed, err = p.Become(was, days, c.old != 0 && replaced, c.past, c.now)
	return b, err
}

// writeDays makes or replaces the calendar.
func (c *change) writeDays() error {
	if c.calendar == nil {
		return nil
	}
	if c.old != 0 {
		if _, err := c.exec(retireDays, c.old); err != nil {
			return err
		}
	}
	_, err := c.exec(insertDays, c.calendar.Name, string(c.days))
	c.standing[c.calendar.Name] = c.LastInsertRowID()
	return err
}

// write makes a schedule what it becomes.
func (c *change) write(b *becoming) (is store.Schedule, err error) {
	is = b.is
	days, err := c.daysID(is.Calendar)
	if err == nil {
		is.Days, err = c.almanac.days(days)
	}
	if err != nil || !b.changed {
		return is, err
	}
	spec, err := store.Spec(&is.Schedule)
	if err != nil {
		return is, err
	}
	columns := []any{
		string(spec), orNull(is.After), idOrNull(days), is.Version, is.Since, is.First, is.Next,
	}
	if b.id == 0 {
		if _, err = c.exec(nextScheduleID); err == nil {
			_, err = c.exec(insertSchedule, append(columns, is.Name, is.Created)...)
		}
	} else if _, err = c.exec(insertEra, b.id, is.Since); err == nil {
		_, err = c.exec(updateSchedule, append(columns, b.id)...)
	}
	if err == nil {
		err = c.writeParents(&is)
	}
	return is, err
}

// writeParents writes whom a schedule follows.
func (c *change) writeParents(is *store.Schedule) error {
	_, err := c.exec(unfollow, is.Name)
	for _, parent := range is.Parents() {
		if err == nil {
			_, err = c.exec(follow, parent, is.Name)
		}
	}
	return err
}

// orNull is a name for a column, NULL when there is none.
func orNull(name string) any {
	if name == "" {
		return nil
	}
	return name
}

// idOrNull is an id for a column, NULL when there is none.
func idOrNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// DeleteSchedule forgets a schedule. What it had is nobody's from then on, and goes with the next
// calls of Prune. See contract.Schedules.
func (s *scheduleCalls) DeleteSchedule(ctx context.Context, name string) error {
	err := s.write(ctx, func(t *tx) error {
		is, err := t.conn.schedules().schedule(name)
		if err != nil {
			return err
		}
		var follower string
		found, err := t.one(followerOf, func(st *sqlite.Stmt) { follower = st.ColumnText(0) }, name)
		if err == nil && found {
			err = fmt.Errorf("schedule %q follows it: %w", follower, store.ErrConflict)
		}
		if err == nil {
			_, err = t.exec(noteScheduleEnd, is.Version)
		}
		if err == nil {
			_, err = t.exec(unfollow, name)
		}
		if err == nil {
			_, err = t.exec(closeFires, name)
		}
		for _, query := range [...]string{leaveSchedule, deleteSchedule} {
			if err == nil {
				_, err = t.exec(query, is.id)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

// DeleteCalendar forgets a calendar. The days stay as long as there are eras that had them.
func (s *scheduleCalls) DeleteCalendar(ctx context.Context, name string) error {
	err := s.write(ctx, func(t *tx) error {
		var id int64
		found, err := t.one(standingDays, func(st *sqlite.Stmt) { id = st.ColumnInt64(0) }, name)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		var schedule string
		found, err = t.one(haveDays, func(st *sqlite.Stmt) { schedule = st.ColumnText(0) }, id)
		if err == nil && found {
			err = fmt.Errorf("schedule %q has it: %w", schedule, store.ErrConflict)
		}
		if err == nil {
			_, err = t.exec(retireDays, id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete calendar %q: %w", name, err)
	}
	return nil
}
