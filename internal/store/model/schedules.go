package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scheduleTables are the model's schedules and what came of their due times.
type scheduleTables struct {
	schedules map[string]*schedule
	// the greatest version of any schedule that is gone: one that comes under its name begins after
	// it
	past      int64
	calendars map[string]*task.Calendar
	fires     map[store.FireKey]*store.Fire
}

// schedule is a schedule and what it was.
type schedule struct {
	store.Schedule
	eras []store.Schedule // oldest first
}

// cloned is the schedule as it is answered: nothing in it is the model's.
func cloned(s *store.Schedule) store.Schedule {
	c := *s
	c.Context = slices.Clone(c.Context)
	c.Notices.On = slices.Clone(c.Notices.On)
	c.Notices.Origins = slices.Clone(c.Notices.Origins)
	c.Days = cloneCalendar(c.Days)
	return c
}

func cloneCalendar(c *task.Calendar) *task.Calendar {
	if c == nil {
		return nil
	}
	return &task.Calendar{Name: c.Name, Skip: slices.Clone(c.Skip), Keep: slices.Clone(c.Keep)}
}

// ChangeSchedules implements [contract.Schedules].
func (m *Model) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) ([]store.Schedule, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	t := &m.sched
	replaced := ""
	if c.Calendar != nil {
		if old := t.calendars[c.Calendar.Name]; old != nil && !sameDays(old, c.Calendar) {
			replaced = c.Calendar.Name
		}
	}
	list, err := t.plan(&c, replaced, now)
	if err != nil {
		return nil, err
	}
	if err := t.endAll(c.Ends); err != nil {
		return nil, err
	}
	if c.Calendar != nil {
		t.calendars[c.Calendar.Name] = cloneCalendar(c.Calendar)
	}
	for i := range list {
		is := &list[i]
		is.Days = cloneCalendar(t.calendars[is.Calendar])
		s := t.schedules[is.Name]
		if s == nil {
			s = &schedule{}
			t.schedules[is.Name] = s
		} else if is.Version > s.Version {
			era := s.Schedule
			era.Next, era.Until = 0, is.Since
			s.eras = append(s.eras, era)
		}
		s.Schedule = cloned(is)
	}
	return list, nil
}

// plan is what a change makes of the schedules that are put, or why it can't be made.
func (t *scheduleTables) plan(
	c *store.ScheduleChange, replaced string, now int64,
) ([]store.Schedule, error) {
	put := map[string]bool{}
	for i := range c.Puts {
		put[c.Puts[i].Name] = true
	}
	for name, s := range t.schedules {
		if replaced != "" && s.Calendar == replaced && !put[name] {
			return nil, fmt.Errorf("schedule %q has calendar %q: %w", name, replaced,
				store.ErrConflict)
		}
	}
	if err := t.refuseCircle(c.Puts); err != nil {
		return nil, err
	}
	list := make([]store.Schedule, len(c.Puts))
	for i := range c.Puts {
		p := &c.Puts[i]
		if p.Calendar != "" && t.calendars[p.Calendar] == nil &&
			(c.Calendar == nil || c.Calendar.Name != p.Calendar) {
			return nil, fmt.Errorf("calendar %q: %w", p.Calendar, store.ErrNotFound)
		}
		for _, parent := range p.Parents() {
			if t.schedules[parent] == nil && !put[parent] {
				return nil, fmt.Errorf("schedule %q: %w", parent, store.ErrNotFound)
			}
		}
		var was *store.Schedule
		if s := t.schedules[p.Name]; s != nil {
			was = &s.Schedule
		}
		var err error
		days := t.calendars[p.Calendar]
		if c.Calendar != nil && c.Calendar.Name == p.Calendar {
			days = c.Calendar
		}
		if list[i], _, err = p.Become(
			was, days, replaced != "" && p.Calendar == replaced, t.past, now,
		); err != nil {
			return nil, err
		}
		list[i] = cloned(&list[i])
	}
	return list, nil
}

// refuseCircle refuses puts after which a schedule can be reached from itself. It looks at all that
// would stand, and takes away again and again what follows nothing that is left.
func (t *scheduleTables) refuseCircle(puts []store.SchedulePut) error {
	left := map[string][]string{}
	for name, s := range t.schedules {
		left[name] = s.Parents()
	}
	for i := range puts {
		left[puts[i].Name] = puts[i].Parents()
	}
	for again := true; again; {
		again = false
		for name, parents := range left {
			if !slices.ContainsFunc(parents, func(p string) bool { _, is := left[p]; return is }) {
				delete(left, name)
				again = true
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("schedules %v would follow themselves: %w",
		slices.Sorted(maps.Keys(left)), store.ErrConflict)
}

// follows tells whether a schedule follows one of others.
func (s *schedule) follows(others ...string) bool {
	return slices.ContainsFunc(s.Parents(), func(p string) bool {
		return slices.Contains(others, p)
	})
}

func sameDays(a, b *task.Calendar) bool {
	return slices.Equal(a.Skip, b.Skip) && slices.Equal(a.Keep, b.Keep)
}

// DeleteSchedule implements [contract.Schedules].
func (m *Model) DeleteSchedule(ctx context.Context, name string) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	t := &m.sched
	s := t.schedules[name]
	if s == nil {
		return fmt.Errorf("schedule %q: %w", name, store.ErrNotFound)
	}
	for other, f := range t.schedules {
		if f.follows(name) {
			return fmt.Errorf("schedule %q follows %q: %w", other, name, store.ErrConflict)
		}
	}
	t.past = max(t.past, s.Version)
	delete(t.schedules, name)
	maps.DeleteFunc(t.fires, func(k store.FireKey, _ *store.Fire) bool {
		return k.Schedule == name
	})
	return nil
}

// DeleteCalendar implements [contract.Schedules].
func (m *Model) DeleteCalendar(ctx context.Context, name string) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.sched.calendars[name] == nil {
		return fmt.Errorf("calendar %q: %w", name, store.ErrNotFound)
	}
	for other, s := range m.sched.schedules {
		if s.Calendar == name {
			return fmt.Errorf("schedule %q has calendar %q: %w", other, name, store.ErrConflict)
		}
	}
	delete(m.sched.calendars, name)
	return nil
}

// Calendars implements [contract.Schedules].
func (m *Model) Calendars(ctx context.Context) (list []task.Calendar, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.sched.calendars)) {
		list = append(list, *cloneCalendar(m.sched.calendars[name]))
	}
	return list, nil
}

// ScheduleStands implements [contract.Schedules].
func (m *Model) ScheduleStands(
	ctx context.Context, late int64,
) (list []store.ScheduleStand, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	stands := map[string]*store.ScheduleStand{}
	for _, s := range m.sched.schedules {
		if stands[s.Queue] == nil {
			stands[s.Queue] = &store.ScheduleStand{Queue: s.Queue}
		}
		stand := stands[s.Queue]
		stand.All++
		switch {
		case s.Paused:
			stand.Paused++
		case s.Next < late:
			stand.Late++
		}
	}
	for _, stand := range stands {
		list = append(list, *stand)
	}
	return list, nil
}

// ScheduleKeys implements [contract.Schedules].
func (m *Model) ScheduleKeys(ctx context.Context, limit int) (store.ScheduleKeys, error) {
	if _, err := m.begin(ctx); err != nil {
		return store.ScheduleKeys{}, err
	}
	defer m.mu.Unlock()
	keys := store.ScheduleKeys{Count: int64(len(m.sched.schedules))}
	if len(m.sched.schedules) <= limit {
		keys.Names = slices.Sorted(maps.Keys(m.sched.schedules))
	}
	return keys, nil
}

// Schedules implements [contract.Schedules].
func (m *Model) Schedules(
	ctx context.Context, q store.ScheduleQuery,
) (list []store.Schedule, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.sched.schedules)) {
		s := m.sched.schedules[name]
		if len(q.Names) > 0 && !slices.Contains(q.Names, name) || q.Calendar != "" &&
			s.Calendar != q.Calendar ||
			len(q.Follows) > 0 && !s.follows(q.Follows...) || name <= q.After ||
			q.Limit > 0 && len(list) == q.Limit {
			continue
		}
		c := cloned(&s.Schedule)
		if q.Last {
			c.Last = m.sched.last(name)
		}
		list = append(list, c)
	}
	return list, nil
}

// last is the newest fire of a schedule that has a task.
func (t *scheduleTables) last(schedule string) (last *store.Fire) {
	for k, f := range t.fires {
		if k.Schedule == schedule && f.Outcome == task.FireFired &&
			(last == nil || f.At > last.At) {
			row := *f
			last = &row
		}
	}
	return last
}

// Due implements [contract.Schedules].
func (m *Model) Due(ctx context.Context, q store.DueQuery) (list []store.Schedule, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, s := range m.sched.schedules {
		if s.Next <= q.Until && s.Next != store.Never && before(q.After, s) {
			list = append(list, cloned(&s.Schedule))
		}
	}
	slices.SortFunc(list, func(a, b store.Schedule) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(a.Name, b.Name))
	})
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	return list, nil
}

// before tells whether a schedule's cursor is behind another place.
func before(c store.Cursor, s *schedule) bool {
	return c.Next < s.Next || c.Next == s.Next && c.Name < s.Name
}

// Eras implements [contract.Schedules].
func (m *Model) Eras(
	ctx context.Context, name string, from int64,
) (list []store.Schedule, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	s := m.sched.schedules[name]
	if s == nil {
		return nil, fmt.Errorf("schedule %q: %w", name, store.ErrNotFound)
	}
	for i := range s.eras {
		if s.eras[i].Until > from {
			list = append(list, cloned(&s.eras[i]))
		}
	}
	return append(list, cloned(&s.Schedule)), nil
}

// pruneSchedules forgets what came of due times, and what schedules were, a while after.
func (m *Model) pruneSchedules(now int64, limit int) (pruned int) {
	old := func(since int64) bool {
		if pruned == limit || since+store.FiresKept.Microseconds() > now {
			return false
		}
		pruned++
		return true
	}
	maps.DeleteFunc(m.sched.fires, func(_ store.FireKey, f *store.Fire) bool {
		return !f.Open() && old(f.Time)
	})
	for _, s := range m.sched.schedules {
		s.eras = slices.DeleteFunc(s.eras, func(era store.Schedule) bool { return old(era.Until) })
	}
	return pruned
}
