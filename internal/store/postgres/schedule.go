package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scheduleColumns are what a schedule is read from. What its calendar means comes by a query of its
// own, once for all schedules that have it.
const scheduleColumns = `s.name, s.version, s.since, s.first, s.next, s.created, s.spec`

// Each of these selects schedules. A page of them is read by several queries: their calendars,
// themselves, their last fires. A schedule whose cursor is store.Never is not in the index that
// finds those that are due.
const (
	everySchedule = ` FROM rota.schedule s WHERE s.name > $1 ORDER BY s.name
LIMIT nullif($2::bigint, 0)`
	namedSchedule = ` FROM rota.schedule s WHERE s.name > $1 AND s.name = ANY($3::text[])
AND ($4::text = '' OR s.calendar = $4)
  AND (cardinality($5::text[]) = 0 OR string_to_array(s.follows, ',') && $5) ORDER BY s.name
  LIMIT nullif($2::bigint, 0)`
	followingSchedule = ` FROM rota.schedule s WHERE s.name > $1
AND string_to_array(s.follows, ',') && $3::text[] AND s.follows <> ''
  AND ($4::text = '' OR s.calendar = $4) ORDER BY s.name LIMIT nullif($2::bigint, 0)`
	bookedSchedule = ` FROM rota.schedule s WHERE s.name > $1 AND s.calendar = $3
AND s.calendar <> ''
ORDER BY s.name LIMIT nullif($2::bigint, 0)`
	dueSchedule = ` FROM rota.schedule s WHERE s.next <= $1 AND s.next < 9223372036854775807
AND (s.next, s.name) > ($2, $3)
ORDER BY s.next, s.name LIMIT nullif($4::bigint, 0)`
)

// page reads the schedules that a selection finds.
type page struct {
	list []store.Schedule
	at   map[string]int // of the list, by name
	days map[string]*task.Calendar
}

// queries read a page in one trip, in which they see the same state.
func (p *page) queries(selection string, last bool, args ...any) []query {
	*p = page{at: map[string]int{}, days: map[string]*task.Calendar{}}
	list := []query{
		ask(`SELECT c.name, c.days FROM rota.calendar c WHERE c.name IN (SELECT s.calendar`+
			selection+`)`, p.addCalendar, args...),
		ask(`SELECT `+scheduleColumns+selection, p.addSchedule, args...),
	}
	if last {
		list = append(list,
			ask(`SELECT s.name, `+fireColumns+` FROM (SELECT *`+selection+`) s `+newestFired,
				p.addLast, args...))
	}
	return list
}

// newestFired finds a schedule's newest fire that has a task.
const newestFired = `CROSS JOIN LATERAL (SELECT * FROM rota.fire WHERE schedule = s.id
AND outcome = 'fired' ORDER BY at DESC LIMIT 1) f`

func (p *page) addCalendar(r row) error {
	var name, text string
	err := r.Scan(&name, &text)
	if err == nil {
		p.days[name], err = store.ReadDays(name, []byte(text))
	}
	return err
}

func (p *page) addSchedule(r row) error {
	s, err := scanSchedule(r)
	s.Days = p.days[s.Calendar]
	p.at[s.Name] = len(p.list)
	p.list = append(p.list, s)
	return err
}

func (p *page) addLast(r row) error {
	var name string
	f, err := scanFire(r, &name, &name)
	if err == nil {
		p.list[p.at[name]].Last = &f
	}
	return err
}

func scanSchedule(r row, more ...any) (s store.Schedule, err error) {
	var spec string
	err = r.Scan(append([]any{&s.Name, &s.Version, &s.Since, &s.First, &s.Next, &s.Created, &spec},
		more...)...)
	if err == nil {
		err = s.SetSpec([]byte(spec))
	}
	return s, err
}

// schedules keeps schedules and calendars, and what came of each due time. The tables schedule,
// era, fire, calendar, schedule_head and schedule_remains are its own. What a schedule fires is
// submitted in the transaction that moves its cursor.
type schedules struct {
	*database
	hints       *hints
	submissions *submissions
}

// Schedules lists the schedules that are selected, by name. See contract.Schedules.
func (s *schedules) Schedules(
	ctx context.Context, q store.ScheduleQuery,
) ([]store.Schedule, error) {
	selection, args := everySchedule, []any{q.After, int64(q.Limit)}
	switch {
	case len(q.Names) > 0:
		selection = namedSchedule
		args = append(args, q.Names, q.Calendar, append([]string{}, q.Follows...))
	case len(q.Follows) > 0:
		selection, args = followingSchedule, append(args, q.Follows, q.Calendar)
	case q.Calendar != "":
		selection, args = bookedSchedule, append(args, q.Calendar)
	}
	var p page
	if err := s.read(ctx, p.queries(selection, q.Last, args...)...); err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return p.list, nil
}

// Due lists schedules whose cursor is not after a time. See contract.Schedules.
func (s *schedules) Due(ctx context.Context, q store.DueQuery) ([]store.Schedule, error) {
	var p page
	if err := s.read(ctx,
		p.queries(dueSchedule, false, q.Until, q.After.Next, q.After.Name,
			int64(q.Limit))...); err != nil {
		return nil, fmt.Errorf("list schedules that are due: %w", err)
	}
	return p.list, nil
}

const (
	countSchedules = `SELECT count FROM rota.schedule_head`
	scheduleNames  = `SELECT name FROM rota.schedule WHERE (SELECT count
FROM rota.schedule_head) <= $1 ORDER BY name`
)

// standSchedules parses each specification once.
const standSchedules = `SELECT spec ->> 'queue', count(*), count(*) FILTER (WHERE spec ? 'paused'),
  count(*) FILTER (WHERE next < $1 AND NOT spec ? 'paused')
FROM (SELECT spec::jsonb AS spec, next FROM rota.schedule OFFSET 0) s GROUP BY 1`

// ScheduleStands counts schedules by their queue. See contract.Schedules.
func (s *schedules) ScheduleStands(
	ctx context.Context, late int64,
) (list []store.ScheduleStand, err error) {
	err = s.glance(ctx, ask(standSchedules, func(r row) error {
		var q store.ScheduleStand
		err := r.Scan(&q.Queue, &q.All, &q.Paused, &q.Late)
		list = append(list, q)
		return err
	}, late))
	if err != nil {
		return nil, fmt.Errorf("count schedules by queue: %w", err)
	}
	return list, nil
}

// ScheduleKeys counts schedules, and names them if they are at most limit.
func (s *schedules) ScheduleKeys(
	ctx context.Context, limit int,
) (keys store.ScheduleKeys, err error) {
	err = s.read(ctx, ask(countSchedules, func(r row) error {
		return r.Scan(&keys.Count)
	}), ask(scheduleNames, func(r row) error {
		var name string
		err := r.Scan(&name)
		keys.Names = append(keys.Names, name)
		return err
	}, limit))
	if err != nil {
		return store.ScheduleKeys{}, fmt.Errorf("list keys of schedules: %w", err)
	}
	return keys, nil
}

const (
	scheduleStanding = `SELECT ` + scheduleColumns + `, coalesce(c.days, '')
FROM rota.schedule s LEFT JOIN rota.calendar c ON c.name = s.calendar WHERE s.name = $1`
	erasOf = `SELECT s.name, e.version, e.since, e.first, 0, s.created, e.spec, coalesce(e.days,
''), e.until
FROM rota.schedule s JOIN rota.era e ON e.schedule = s.id WHERE s.name = $1 AND e.until > $2
ORDER BY e.version`
)

// Eras lists what a schedule was, and is. See contract.Schedules.
func (s *schedules) Eras(
	ctx context.Context, schedule string, from int64,
) (list []store.Schedule, err error) {
	stands := false
	err = s.read(ctx, ask(erasOf, func(r row) error {
		var until int64
		e, err := scanEra(r, &until)
		e.Until = until
		list = append(list, e)
		return err
	}, schedule, from), ask(scheduleStanding, func(r row) error {
		stands = true
		is, err := scanEra(r)
		list = append(list, is)
		return err
	}, schedule))
	if err == nil && !stands {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("list eras of schedule %q: %w", schedule, err)
	}
	return list, nil
}

// scanEra scans a schedule and the days that it had, and what comes after them.
func scanEra(r row, more ...any) (store.Schedule, error) {
	var text string
	e, err := scanSchedule(r, append([]any{&text}, more...)...)
	if err == nil && text != "" {
		e.Days, err = store.ReadDays(e.Calendar, []byte(text))
	}
	return e, err
}

const allCalendars = `SELECT name, days FROM rota.calendar ORDER BY name`

// Calendars lists all calendars, by name.
func (s *schedules) Calendars(ctx context.Context) (list []task.Calendar, err error) {
	err = s.glance(ctx, ask(allCalendars, func(r row) error {
		var name, text string
		if err := r.Scan(&name, &text); err != nil {
			return err
		}
		c, err := store.ReadDays(name, []byte(text))
		if err == nil {
			list = append(list, *c)
		}
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list calendars: %w", err)
	}
	return list, nil
}
