package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	lockScheduleHead = `SELECT ids, past, count FROM rota.schedule_head FOR UPDATE`
	putScheduleHead  = `UPDATE rota.schedule_head SET ids = $1, past = $2, count = $3`

	// lockSchedules keeps cursors where they are: of schedules that are to change, and of those
	// that these are to follow. What is fired of such before this change commits is so before there
	// is a follower. All lock schedules in the order of their names.
	lockSchedules = `SELECT ` + scheduleColumns +
		`, s.id FROM rota.schedule s WHERE s.name = ANY($1::text[])
ORDER BY s.name FOR NO KEY UPDATE`
	// calendarsOf finds the calendars that schedules have, and some more.
	calendarsOf = `SELECT name, days FROM rota.calendar WHERE name = ANY($1::text[])
  OR name IN (SELECT calendar FROM rota.schedule WHERE name = ANY($2::text[]))`
	alsoBooked = `SELECT name FROM rota.schedule WHERE calendar = $1 AND calendar <> ''
AND name <> ALL($2::text[]) ORDER BY name LIMIT 1`

	// upFrom follows schedules to the ends of their chains. No chain that stands is a circle, and
	// if one were, it would end.
	upFrom = `WITH RECURSIVE up (name, follows) AS (
  SELECT name, follows FROM rota.schedule WHERE name = ANY($1::text[])
  UNION SELECT s.name, s.follows FROM up
  JOIN rota.schedule s ON s.name = ANY(string_to_array(up.follows, ','))
  WHERE up.follows <> '')
SELECT name, follows FROM up`

	insertEras = `INSERT INTO rota.era (schedule, version, since, first, until, spec, days)
SELECT e.schedule, e.version, e.since, e.first, e.until, e.spec, nullif(e.days, '')
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
$7::text[])
  e (schedule, version, since, first, until, spec, days)`
	putSchedules = `INSERT INTO rota.schedule (id, version, since, first, next, created, name,
calendar, follows, spec)
SELECT p.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
$6::bigint[], $7::text[], $8::text[],
    $9::text[], $10::text[])
  p (id, version, since, first, next, created, name, calendar, follows, spec) ORDER BY p.name
ON CONFLICT (name)
DO UPDATE SET version = excluded.version, since = excluded.since, first = excluded.first,
next = excluded.next,
  calendar = excluded.calendar, follows = excluded.follows, spec = excluded.spec`
	putCalendar = `INSERT INTO rota.calendar (name, days) VALUES ($1, $2) ON CONFLICT (name)
DO UPDATE SET days = excluded.days`
)

// scheduleHead is the row of schedule_head.
type scheduleHead struct{ ids, past, count int64 }

func (h *scheduleHead) lock() query {
	return ask(lockScheduleHead, func(r row) error { return r.Scan(&h.ids, &h.past, &h.count) })
}

func (h *scheduleHead) put() query { return tell(putScheduleHead, h.ids, h.past, h.count) }

// change is a change of schedules in the making: what stands, and what is to be written.
type change struct {
	*store.ScheduleChange
	now      int64
	head     scheduleHead
	ids      map[string]int64
	stand    map[string]*store.Schedule
	leaders  map[string]bool     // of those that others are to follow, who is there
	after    map[string][]string // of those and of whom they follow: whom each follows
	calendar map[string]string   // days as they stand, by name
	text     string              // days of the calendar that is put
	replaced bool                // it stood, and says something else from now on
	booked   string              // a schedule that has it, and is not put
	eras     eraColumns
	puts     putColumns
}

type eraColumns struct {
	schedule, version, since, first, until []int64
	spec, days                             []string
}

type putColumns struct {
	id, version, since, first, next, created []int64
	name, calendar, follows, spec            []string
}

// ChangeSchedules creates or replaces schedules and a calendar. See contract.Schedules.
func (s *schedules) ChangeSchedules(
	ctx context.Context, sc store.ScheduleChange,
) (list []store.Schedule, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		c := change{
			ScheduleChange: &sc, ids: map[string]int64{}, stand: map[string]*store.Schedule{},
			leaders: map[string]bool{},
			after:   map[string][]string{}, calendar: map[string]string{},
		}
		queries, err := c.look(s.database)
		if err == nil {
			err = t.run(ctx, queries...)
		}
		if err == nil {
			list, err = c.decide()
		}
		if err == nil {
			err = c.end(ctx, t)
		}
		if err != nil {
			return err
		}
		return t.finish(ctx, c.queries()...)
	})
	if err != nil {
		return nil, fmt.Errorf("change %d schedules: %w", len(sc.Puts), err)
	}
	return list, nil
}

// look makes the queries that lock and read what is to change.
func (c *change) look(d *database) ([]query, error) {
	names := make([]string, 0, len(c.Puts)) // nil would be NULL
	changes := make(map[string]bool, len(c.Puts))
	var leaders, calendars []string
	for i := range c.Puts {
		p := &c.Puts[i]
		names = append(names, p.Name)
		changes[p.Name] = true
		leaders = append(leaders, p.Parents()...)
		calendars = append(calendars, p.Calendar)
	}
	list := []query{c.head.lock(), ask(countClock, func(r row) error {
		return r.Scan(&c.now)
	}, d.clock()), ask(lockSchedules, func(r row) error {
		var id int64
		is, err := scanSchedule(r, &id)
		if c.leaders[is.Name] = true; changes[is.Name] {
			c.ids[is.Name], c.stand[is.Name] = id, &is
		}
		return err
	}, distinct(slices.Concat(names, leaders))), ask(upFrom, func(r row) error {
		var name string
		var is task.Schedule
		err := r.Scan(&name, &is.After)
		c.after[name] = is.Parents()
		return err
	}, leaders)}
	if c.Calendar != nil {
		text, err := store.Days(c.Calendar)
		if err != nil {
			return nil, err
		}
		c.text = string(text)
		calendars = append(calendars, c.Calendar.Name)
		list = append(list, ask(alsoBooked, func(r row) error {
			return r.Scan(&c.booked)
		}, c.Calendar.Name, names))
	}
	return append(list, ask(calendarsOf, func(r row) error {
		var name, text string
		err := r.Scan(&name, &text)
		c.calendar[name] = text
		return err
	}, distinct(calendars), names)), nil
}

// distinct puts a list in order, each of it once.
func distinct[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// decide says what is to be written, and what stands then.
func (c *change) decide() ([]store.Schedule, error) {
	if c.Calendar != nil {
		old, known := c.calendar[c.Calendar.Name]
		if c.replaced = known && old != c.text; c.replaced && c.booked != "" {
			return nil, fmt.Errorf("schedule %q has calendar %q: %w", c.booked, c.Calendar.Name,
				store.ErrConflict)
		}
	}
	for i := range c.Puts {
		c.leaders[c.Puts[i].Name] = true
	}
	if circle := store.Circle(c.Puts, c.after); circle != nil {
		return nil, fmt.Errorf("schedules would follow themselves: %s: %w",
			store.CircleText(circle), store.ErrConflict)
	}
	days := map[string]*task.Calendar{"": nil}
	list := make([]store.Schedule, len(c.Puts))
	for i := range c.Puts {
		p, is := &c.Puts[i], &list[i]
		for _, parent := range p.Parents() {
			if !c.leaders[parent] {
				return nil, fmt.Errorf("schedule %q: %w", parent, store.ErrNotFound)
			}
		}
		_, read := days[p.Calendar]
		var err error
		if !read {
			days[p.Calendar], err = c.daysOf(p.Calendar)
		}
		changed := false
		if err == nil {
			*is, changed, err = p.Become(c.stand[p.Name], days[p.Calendar], c.replaced &&
				p.Calendar == c.Calendar.Name, c.head.past, c.now)
		}
		if err == nil && changed {
			err = c.write(is)
		}
		if err != nil {
			return nil, err
		}
		is.Days = days[is.Calendar]
	}
	return list, nil
}

// daysOf are the days of a calendar from now on.
func (c *change) daysOf(calendar string) (*task.Calendar, error) {
	text, known := c.calendar[calendar]
	if c.Calendar != nil && c.Calendar.Name == calendar {
		text, known = c.text, true
	}
	if !known {
		return nil, fmt.Errorf("calendar %q: %w", calendar, store.ErrNotFound)
	}
	return store.ReadDays(calendar, []byte(text))
}

// write makes the rows of a put: what the schedule was, with the days that its calendar had, and
// what it is.
func (c *change) write(is *store.Schedule) error {
	if was := c.stand[is.Name]; was != nil {
		spec, err := store.Spec(&was.Schedule)
		if err != nil {
			return err
		}
		e := &c.eras
		e.schedule = append(e.schedule, c.ids[is.Name])
		e.version = append(e.version, was.Version)
		e.since = append(e.since, was.Since)
		e.first = append(e.first, was.First)
		e.until = append(e.until, is.Since)
		e.spec = append(e.spec, string(spec))
		e.days = append(e.days, c.calendar[was.Calendar])
	} else {
		c.head.ids++
		c.head.count++
		c.ids[is.Name] = c.head.ids
	}
	spec, err := store.Spec(&is.Schedule)
	u := &c.puts
	u.id = append(u.id, c.ids[is.Name])
	u.version = append(u.version, is.Version)
	u.since = append(u.since, is.Since)
	u.first = append(u.first, is.First)
	u.next = append(u.next, is.Next)
	u.created = append(u.created, is.Created)
	u.name = append(u.name, is.Name)
	u.calendar = append(u.calendar, is.Calendar)
	u.follows = append(u.follows, is.After)
	u.spec = append(u.spec, string(spec))
	return err
}

// end writes down what became of fires, or refuses: who saw a fire open may be late.
func (c *change) end(ctx context.Context, t *tx) error {
	for i := range c.Ends {
		e := &c.Ends[i]
		open := false
		err := t.run(ctx, ask(putEnds+` RETURNING 1`, func(row) error {
			open = true
			return nil
		}, []int64{c.ids[e.Schedule]}, []int64{e.At}, []int64{e.Task.Batch}, []int32{e.Task.N},
			[]int32{int32(e.Ended)}, []int32{e.Seq}))
		if err == nil && !open {
			err = fmt.Errorf("the fire of %q at %d has ended: %w", e.Schedule, e.At,
				store.ErrConflict)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queries write what was decided.
func (c *change) queries() (list []query) {
	if c.Calendar != nil && c.calendar[c.Calendar.Name] != c.text {
		list = append(list, tell(putCalendar, c.Calendar.Name, c.text))
	}
	if e := &c.eras; len(e.schedule) > 0 {
		list = append(list,
			tell(insertEras, e.schedule, e.version, e.since, e.first, e.until, e.spec, e.days))
	}
	if u := &c.puts; len(u.id) > 0 {
		list = append(list, c.head.put(),
			tell(putSchedules, u.id, u.version, u.since, u.first, u.next, u.created, u.name,
				u.calendar, u.follows, u.spec))
	}
	if len(list) == 0 {
		list = append(list, tell(confirm))
	}
	return list
}

const (
	followerOf = `SELECT name FROM rota.schedule
WHERE string_to_array(follows, ',') @> ARRAY[$1::text] AND follows <> '' ORDER BY name LIMIT 1`
	deleteSchedule = `DELETE FROM rota.schedule WHERE id = $1`
	// noteLeft remembers what is to be pruned of a schedule.
	noteLeft = `INSERT INTO rota.schedule_remains (schedule) VALUES ($1)`

	bookedBy = `SELECT name FROM rota.schedule WHERE calendar = $1 AND calendar <> ''
ORDER BY name LIMIT 1`
	deleteCalendar = `DELETE FROM rota.calendar WHERE name = $1 RETURNING 1`
)

// DeleteSchedule forgets a schedule. Its eras and fires are nobody's from then on, and go with the
// next calls of Prune. See contract.Schedules.
func (s *schedules) DeleteSchedule(ctx context.Context, name string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		var head scheduleHead
		var old store.Schedule
		var id int64
		follower := ""
		err := t.run(ctx, head.lock(), ask(lockSchedules, func(r row) (err error) {
			old, err = scanSchedule(r, &id)
			return err
		}, []string{name}), ask(followerOf, func(r row) error { return r.Scan(&follower) }, name))
		switch {
		case err != nil:
			return err
		case id == 0:
			return store.ErrNotFound
		case follower != "":
			return fmt.Errorf("schedule %q follows it: %w", follower, store.ErrConflict)
		}
		head.past, head.count = max(head.past, old.Version), head.count-1
		return t.finish(ctx, head.put(), tell(noteLeft, id), tell(deleteSchedule, id))
	})
	if err = s.confirmedGone(ctx, err); err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

// DeleteCalendar forgets a calendar that no schedule has. See contract.Schedules.
func (s *schedules) DeleteCalendar(ctx context.Context, name string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		var head scheduleHead
		booked, found := "", false
		err := t.run(ctx, head.lock(), ask(bookedBy, func(r row) error {
			return r.Scan(&booked)
		}, name))
		if err == nil && booked != "" {
			err = fmt.Errorf("schedule %q has it: %w", booked, store.ErrConflict)
		}
		if err == nil {
			err = t.run(ctx, ask(deleteCalendar, func(row) error {
				found = true
				return nil
			}, name))
		}
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return t.finish(ctx)
	})
	if err = s.confirmedGone(ctx, err); err != nil {
		return fmt.Errorf("delete calendar %q: %w", name, err)
	}
	return nil
}
