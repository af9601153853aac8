package walk

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// scheduleWalk is what a walk knows of schedules, from the answers alone. It has luck of its own.
// Its schedules are due at all multiples of a number of milliseconds, which stands for an
// expression.
type scheduleWalk struct {
	luck *rand.Rand
	seen map[string]store.Schedule // as somebody saw them last
	made int                       // contexts
}

func newScheduleWalk(seed uint64) scheduleWalk {
	return scheduleWalk{luck: rand.New(rand.NewPCG(seed, 3)), seen: map[string]store.Schedule{}}
}

var (
	walkSchedules = []string{"s0", "s1", "s2", "s3"}
	walkCalendars = []string{"c0", "c1"}
	walkPeriods   = []string{"7000", "61000", "1800000"}
)

func (p *scheduleWalk) any(list []string) string { return list[p.luck.IntN(len(list))] }

// once is true once in n times.
func (p *scheduleWalk) once(n int) bool { return p.luck.IntN(n) == 0 }

// dueAfter is the first due time after a time by what a schedule says.
func dueAfter(s *store.Schedule, after int64) int64 {
	if s.First > after {
		return s.First
	}
	period, err := strconv.ParseInt(s.Cron, 10, 64)
	if err != nil {
		return store.Never
	}
	period *= 1000
	return (after/period + 1) * period
}

// openSchedules begins with a calendar and schedules of which one follows another.
func (w *walk) openSchedules() {
	c := store.ScheduleChange{Calendar: &task.Calendar{Name: "c0", Keep: []string{"2026-12-24"}}}
	for _, name := range walkSchedules[:3] {
		put := w.drawSchedule(name, store.Schedule{})
		put.After = ""
		c.Puts = append(c.Puts, put)
	}
	last := &c.Puts[2]
	last.Cron, last.After, last.Then, last.First = "", "s0", store.Never, 0
	w.change(c)
}

// plan does one thing about schedules.
func (w *walk) plan() {
	p := &w.sched
	switch n := p.luck.IntN(100); {
	case n < 18:
		w.putSchedule()
	case n < 22:
		w.putCalendar()
	case n < 55:
		w.fireDue()
	case n < 65:
		w.fireAside()
	case n < 80:
		w.watchFires()
	case n < 82:
		name := p.any(walkSchedules)
		w.note("delete schedule %s -> %s", name, w.told(w.DeleteSchedule(w.ctx, name)))
	case n < 83:
		name := p.any(walkCalendars)
		w.note("delete calendar %s -> %s", name, w.told(w.DeleteCalendar(w.ctx, name)))
	default:
		w.readFires()
	}
}

// look reads a schedule, mostly; else it goes by what was seen of it before.
func (w *walk) look(name string) store.Schedule {
	p := &w.sched
	if is, known := p.seen[name]; known && p.once(4) {
		return is
	}
	list, err := w.Schedules(w.ctx, store.ScheduleQuery{Names: []string{name}, Last: p.once(3)})
	w.note("schedule %s -> %s %s", name, w.scheduleTexts(list), w.told(err))
	delete(p.seen, name)
	if len(list) == 1 {
		p.seen[name] = list[0]
	}
	return p.seen[name]
}

// putSchedule makes a schedule, or makes it something else.
func (w *walk) putSchedule() {
	p := &w.sched
	name := p.any(walkSchedules)
	is := w.look(name)
	put := w.drawSchedule(name, is)
	c := store.ScheduleChange{Puts: []store.SchedulePut{put}}
	if p.once(6) {
		if other := p.any(walkSchedules); other != name {
			c.Puts = append(c.Puts, w.drawSchedule(other, w.look(other)))
		}
	}
	if put.Version != 0 && p.once(3) {
		w.drawEnd(&c)
	}
	w.change(c)
}

// drawEnd lets a change end a fire of the schedule that is put, which may have ended before.
func (w *walk) drawEnd(c *store.ScheduleChange) {
	p := &w.sched
	rows, err := w.Fires(w.ctx, store.FireQuery{
		Schedule: c.Puts[0].Name, Newest: true, Limit: 4,
		Outcomes: []task.FireOutcome{task.FireFired},
	})
	w.note("fires to end -> %s %s", w.fireTexts(rows), w.told(err))
	if len(rows) > 0 {
		row := rows[p.luck.IntN(len(rows))]
		c.Ends = []store.FireEnd{{
			Schedule: row.Schedule, At: row.At, Task: row.Task, Ended: task.KindFail,
			Seq: row.Seq + int32(p.luck.IntN(3)) - 1,
		}}
	}
}

// drawSchedule makes up what a schedule is to be.
func (w *walk) drawSchedule(name string, is store.Schedule) store.SchedulePut {
	p := &w.sched
	put := store.SchedulePut{
		Schedule: is.Schedule, Version: is.Version, Next: is.Next, First: is.First,
	}
	if is.Version == 0 {
		put.Schedule = limits.DefaultSchedule(name)
		put.Queue, put.Cron = p.any(walkQueues), p.any(walkPeriods)
	}
	switch p.luck.IntN(8) {
	case 0:
		put.Cron, put.After = p.any(walkPeriods), ""
	case 1:
		put.Paused = !put.Paused
	case 2:
		put.Calendar = []string{"", "c0", "c1"}[p.luck.IntN(3)]
	case 3:
		if put.Cron, put.After = "", p.any(walkSchedules); p.once(2) {
			if other := p.any(walkSchedules); other != put.After {
				put.After += "," + other
			}
		}
	case 4:
		p.made++
		put.Context = json.RawMessage(fmt.Sprintf("[ %d ]", p.made))
	case 5:
		put.First = (w.clock.Micros()/1e6 + int64(p.luck.IntN(100))) * 1e6
	}
	if put.Since = w.clock.Micros(); p.once(10) {
		put.Since -= 1e6
	}
	if is.Version != 0 && is.Next <= put.Since && !p.once(4) {
		put.Since = is.Next - 1 // what is due is left to it
	}
	if put.First <= put.Since {
		put.First = 0
	}
	if put.Then = store.Never; put.After == "" {
		put.Then = dueAfter(&store.Schedule{Schedule: put.Schedule, First: put.First}, put.Since)
	}
	return put
}

func (w *walk) change(c store.ScheduleChange) {
	p := &w.sched
	var asked []string
	for _, put := range c.Puts {
		is := store.Schedule{
			Schedule: put.Schedule, Version: put.Version, Since: put.Since, First: put.First,
			Next: put.Next,
		}
		is.Until = put.Then
		asked = append(asked, w.scheduleTexts([]store.Schedule{is})...)
	}
	got, err := w.ChangeSchedules(w.ctx, c)
	w.note("change schedules %v calendar %+v ends %d -> %s %s", asked, c.Calendar, len(c.Ends),
		w.scheduleTexts(got), w.told(err))
	if err != nil {
		return
	}
	if p.once(4) && len(c.Ends) == 0 {
		again, err := w.ChangeSchedules(w.ctx, c)
		if err != nil || !reflect.DeepEqual(again, got) {
			w.breach("repeated change: got %s (%v)", w.scheduleTexts(again), err)
		}
	}
}

// putCalendar replaces a calendar, mostly together with all schedules that have it.
func (w *walk) putCalendar() {
	p := &w.sched
	days := task.Calendar{
		Name: p.any(walkCalendars), Skip: []string{fmt.Sprint("2026-12-1", p.luck.IntN(3))},
	}
	c := store.ScheduleChange{Calendar: &days}
	list, err := w.Schedules(w.ctx, store.ScheduleQuery{Calendar: c.Calendar.Name})
	w.note("schedules of %s -> %s %s", c.Calendar.Name, w.scheduleTexts(list), w.told(err))
	for _, is := range list {
		if !p.once(10) {
			c.Puts = append(c.Puts, caller.Seen(is, func(put *store.SchedulePut) {
				put.Since = min(w.clock.Micros(), is.Next-1)
			}))
		}
	}
	w.change(c)
}

// auditSchedules tells all that can be read, and watches that every due time that was passed over
// has a row.
func (w *walk) auditSchedules() {
	list, err := w.Schedules(w.ctx, store.ScheduleQuery{Last: true})
	w.note("schedules -> %s %s", w.scheduleTexts(list), w.told(err))
	days, err := w.Calendars(w.ctx)
	w.note("calendars -> %v %s", days, w.told(err))
	keys, err := w.ScheduleKeys(w.ctx, 3)
	w.note("keys -> %d %v %s", keys.Count, keys.Names, w.told(err))
	open, err := w.OpenFires(w.ctx, store.OpenQuery{})
	w.note("open fires -> %s %s", w.openTexts(open), w.told(err))
	for i := range list {
		w.auditSchedule(&list[i])
	}
}

func (w *walk) auditSchedule(s *store.Schedule) {
	eras, err := w.Eras(w.ctx, s.Name, 0)
	w.note("what %s was -> %s %s", s.Name, w.scheduleTexts(eras), w.told(err))
	fires, err := w.Fires(w.ctx, store.FireQuery{Schedule: s.Name})
	w.note("fires of %s -> %s %s", s.Name, w.fireTexts(fires), w.told(err))
	rowed := map[int64]bool{}
	var runs []store.Fire
	for _, f := range fires {
		if rowed[f.At] = true; f.Count > 1 {
			runs = append(runs, f)
		}
	}
	for i := range eras {
		era := &eras[i]
		end := s.Next - 1
		if era.Until != 0 {
			end = min(end, era.Until)
		}
		if era.After != "" || end == store.Never-1 {
			continue
		}
		for at := dueAfter(era,
			max(era.Since,
				w.clock.Micros()-store.FiresKept.Microseconds())); at <= end; at = dueAfter(era,
			at) {
			if !rowed[at] && !slices.ContainsFunc(runs, func(f store.Fire) bool {
				return f.At <= at && at <= f.Through
			}) {
				w.breach("schedule %s has no row for %d", s.Name, at-w.start)
			}
		}
	}
}

// closeSchedules lets everything that is over go.
func (w *walk) closeSchedules() {
	w.auditSchedules()
	w.clock.Advance(store.FiresKept + time.Hour)
	w.prune()
	w.auditSchedules()
}

// moment tells of a time that may be none, or never.
func (w *walk) moment(at int64) string {
	switch at {
	case 0:
		return "none"
	case store.Never:
		return "never"
	}
	return fmt.Sprint(at - w.start)
}

func (w *walk) scheduleTexts(list []store.Schedule) (texts []string) {
	for i := range list {
		s := &list[i]
		text := fmt.Sprintf("%s{cron %q after %q calendar %q on %v paused %v context %s version %d since %s first %s next %s created %s until %s",
			s.Name, s.Cron, s.After, s.Calendar, s.Days, s.Paused, s.Context,
			s.Version, w.moment(s.Since), w.moment(s.First), w.moment(s.Next), w.moment(s.Created),
			w.moment(s.Until))
		if s.Last != nil {
			text += fmt.Sprint(" last ", w.fireTexts([]store.Fire{*s.Last}))
		}
		texts = append(texts, text+"}")
	}
	return texts
}
