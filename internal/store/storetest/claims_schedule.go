package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// scheduleClaims is what holds for what schedules are, and were.
func scheduleClaims() []claim {
	return []claim{
		{"AScheduleIsAsItWasPut", func(s *scene) {
			now := s.clock.Micros()
			s.calendar(task.Calendar{Name: "feasts", Skip: []string{"2026-12-25", "2026-12-26"}})
			put := store.SchedulePut{
				Schedule: fullSchedule("b"), Since: now - 7, First: now + 5, Then: now + 5,
			}
			plain := store.SchedulePut{
				Schedule: limits.DefaultSchedule("a"), Since: now, Then: store.Never,
			}
			want := store.Schedule{
				Schedule: fullSchedule("b"), Days: &task.Calendar{
					Name: "feasts", Skip: []string{"2026-12-25", "2026-12-26"},
				},
				Version: 1, Since: now - 7, First: now + 5, Next: now + 5, Created: now,
			}
			other := store.Schedule{
				Schedule: limits.DefaultSchedule("a"), Version: 1, Since: now, Next: store.Never,
				Created: now,
			}
			s.want("the answer", s.putAll(put, plain), []store.Schedule{want, other})
			s.want("all", s.listed(store.ScheduleQuery{}), []store.Schedule{other, want})
			s.want("the due ones", s.due(store.DueQuery{Until: now + 5}), []store.Schedule{want})
			s.want("what it was", s.eras("b", 0), []store.Schedule{want})
		}},
		{"ContextsOfSchedulesComeBackByteForByte", func(s *scene) {
			for i, t := range append(caller.Awkward(),
				caller.Text{What: "the longest", JSON: caller.JSON(limits.MaxScheduleContext)}) {
				name := fmt.Sprint(i)
				put := s.newSchedule(name, store.Never)
				put.Context = json.RawMessage(t.JSON)
				s.putAll(put)
				s.wantSame(t.What, s.one(name).Context, t.JSON)
				put.Stage = "other"
				s.replaced(s.one(name), func(p *store.SchedulePut) { p.Stage = "other" })
				s.wantSame(t.What+" after a change", s.one(name).Context, t.JSON)
				s.wantSame(t.What+" in the era before", s.eras(name, 0)[0].Context, t.JSON)
			}
			s.putAll(s.newSchedule("none", store.Never))
			s.want("no context", s.one("none").Context == nil, true)
		}},
		{"WhatAScheduleWasBecomesAnEra", func(s *scene) {
			now := s.clock.Micros()
			first := s.schedule("s", now+10)
			s.clock.Advance(time.Second)
			s.fired(store.FirePart{Schedule: "s", Version: 1, Next: now + 10, Then: now + 3e6})
			second := s.replaced(s.one("s"), func(p *store.SchedulePut) {
				p.Since, p.Stage, p.First, p.Then = now+1e6, "x", now+4e6, now+4e6
			})
			third := s.replaced(second, func(p *store.SchedulePut) {
				p.Since, p.Paused, p.Then = now+2e6, true, now+9e6
			})
			s.want("version, since, created, cursor",
				[]int64{third.Version, third.Since, third.Created, third.Next},
				[]int64{3, now + 2e6, now, now + 9e6})
			first.Next, first.Until = 0, now+1e6
			second.Next, second.Until = 0, now+2e6
			s.want("what it was", s.eras("s", 0), []store.Schedule{first, second, third})
			s.want("what it was until then, and after", s.eras("s", now+1e6-1),
				[]store.Schedule{first, second, third})
			s.want("what it was after that", s.eras("s", now+1e6), []store.Schedule{second, third})
			s.want("what it is", s.eras("s", now+2e6), []store.Schedule{third})
		}},
		{"AScheduleThatIsPutAsItIsStaysAsItIs", func(s *scene) {
			now := s.clock.Micros()
			put := store.SchedulePut{
				Schedule: fullSchedule("s"), Since: now, First: now + 10, Then: now + 10,
			}
			put.Calendar = ""
			first := s.putAll(put)
			s.clock.Advance(time.Second)
			s.want("put again, as a call that is repeated", s.putAll(put), first)
			s.fired(store.FirePart{Schedule: "s", Version: 1, Next: now + 10, Then: now + 5e6})
			first[0].Next = now + 5e6
			s.want("put again after it was fired", s.putAll(put), first)
			put.First = 0
			put.Then = now + 7
			put.Starts = put.Starts.In(time.FixedZone("", 3600)).Add(999)
			s.want("put without the time that was chosen and is handled", s.putAll(put), first)
			s.want("eras", len(s.eras("s", 0)), 1)
			put.Version = 1
			put.Next = now + 5e6
			put.Since = now + 1e6
			put.First = now + 6e6
			put.Then = now + 6e6
			s.want("another time is chosen", s.putAll(put)[0].Version, int64(2))
			put.Version, put.Next, put.First, put.Then = 2, now+6e6, 0, now+5e6
			got := s.putAll(put)[0]
			s.want("the choice is taken back", []int64{got.Version, got.First, got.Next},
				[]int64{3, 0, now + 5e6})
		}},
		{"AScheduleIsReplacedOnlyAsItWasSeen", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now+10)
			other := s.newSchedule("other", now+10)
			for what, put := range map[string]store.SchedulePut{
				"an old version":                  {Version: 0, Next: now + 10, Since: now + 1},
				"a version to come":               {Version: 2, Next: now + 10, Since: now + 1},
				"another cursor":                  {Version: 1, Next: now + 11, Since: now + 1},
				"no cursor":                       {Version: 1, Since: now + 1},
				"something is due":                {Version: 1, Next: now + 10, Since: now + 10},
				"it was due":                      {Version: 1, Next: now + 10, Since: now + 11},
				"it begins before the last began": {Version: 1, Next: now + 10, Since: now - 11},
			} {
				put.Schedule, put.Then = is.Schedule, now+20
				put.Stage = "changed"
				_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
					Puts: []store.SchedulePut{other, put},
				})
				s.wantErr(what, err, store.ErrConflict)
				calendar := &task.Calendar{Name: "c", Keep: []string{"2026-01-01"}}
				_, err = s.ChangeSchedules(s.ctx, store.ScheduleChange{
					Puts: []store.SchedulePut{put, other}, Calendar: calendar,
				})
				s.wantErr(what, err, store.ErrConflict)
			}
			other.Version = 1
			_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{other},
			})
			s.wantErr("a version of one that is not there", err, store.ErrConflict)
			s.want("what is there", s.listed(store.ScheduleQuery{}), []store.Schedule{is})
			s.want("calendars", len(s.calendars()), 0)
			got := s.replaced(is, func(p *store.SchedulePut) {
				p.Since, p.Stage, p.Then = now+9, "changed", now+10
			})
			s.want("as it was seen", []any{got.Version, got.Stage}, []any{int64(2), "changed"})
		}},
		{"AScheduleThatComesAgainIsAnother", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now)
			for i := range 3 {
				is = s.replaced(is, func(p *store.SchedulePut) {
					p.Since, p.Then, p.Stage = now-5, now, fmt.Sprint(i)
				})
			}
			s.fired(s.on(is, now, now+1))
			s.schedule("t", store.Never)
			s.ok(s.DeleteSchedule(s.ctx, "s"))
			s.want("fires of a deleted schedule", len(s.fires(store.FireQuery{Schedule: "s"})), 0)
			s.want("the task of its fire", s.counts().Ready, int64(1))
			is = s.schedule("s", now)
			s.want("version, greater than that of any that is gone", is.Version, int64(5))
			s.want("eras", s.eras("s", 0), []store.Schedule{is})
			s.want("fires", len(s.fires(store.FireQuery{Schedule: "s"})), 0)
			s.want("open fires", len(s.open(store.OpenQuery{})), 0)
			s.want("last",
				s.listed(store.ScheduleQuery{Names: []string{"s"}, Last: true})[0].Last == nil,
				true)
			s.fired(s.on(is, now, now+1))
			s.want("fired again", len(s.fires(store.FireQuery{Schedule: "s"})), 1)
			s.prune()
			s.want("what is pruned is not its own", len(s.fires(store.FireQuery{Schedule: "s"})), 1)
		}},
		{"EachVersionHasOneSetOfDays", func(s *scene) {
			now := s.clock.Micros()
			_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{onDays("c", s.newSchedule("a", now+10))},
			})
			s.wantErr("a calendar that there is not", err, store.ErrNotFound)
			c := task.Calendar{Name: "c", Skip: []string{"2026-12-25"}}
			putA := onDays("c", s.newSchedule("a", now+10))
			got, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{putA}, Calendar: &c,
			})
			s.ok(err)
			s.want("days", got[0].Days, &c)
			b := s.putAll(onDays("c", s.newSchedule("b", now+10)))[0]
			s.schedule("free", now+10)
			s.calendar(c)
			s.want("versions after the calendar was put as it is", s.versions(), "a1 b1 free1")
			d := task.Calendar{Name: "c", Keep: []string{"2026-12-25", "2026-12-26"}}
			putA = caller.Seen(got[0], func(p *store.SchedulePut) {
				p.Since, p.Then = now+1, now+20
			})
			putB := caller.Seen(b, func(p *store.SchedulePut) { p.Since, p.Then = now+2, now+30 })
			_, err = s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{putA}, Calendar: &d,
			})
			s.wantErr("a calendar is replaced behind the back of b", err, store.ErrConflict)
			putB.Calendar = ""
			got, err = s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{putA, putB}, Calendar: &d,
			})
			s.ok(err)
			s.want("days of a", got[0].Days, &d)
			s.want("days of b, which left", got[1].Days == nil, true)
			s.want("versions after it was replaced", s.versions(), "a2 b2 free1")
			s.want("days that a had", s.eras("a", 0)[0].Days, &c)
			s.want("days that b had", s.eras("b", 0)[0].Days, &c)
			s.want("days when it is due", s.due(store.DueQuery{Until: now + 20})[1].Days, &d)
			got, err = s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{putA, putB}, Calendar: &d,
			})
			s.ok(err)
			s.want("the same change again changes nothing", s.versions(), "a2 b2 free1")
			s.want("answer", []any{got[0].Days, got[0].Next}, []any{&d, now + 20})
		}},
		{"APutThatWasMadeByOtherDaysIsRefused", func(s *scene) {
			now := s.clock.Micros()
			old, fresh := task.Calendar{Name: "c", Skip: []string{"2026-12-25"}}, task.Calendar{
				Name: "c", Keep: []string{"2026-12-25"},
			}
			by := func(days *task.Calendar, p store.SchedulePut) store.ScheduleChange {
				p.Days = days
				return store.ScheduleChange{Puts: []store.SchedulePut{onDays("c", p)}}
			}
			is := s.schedule("is", now+10)
			s.calendar(old)
			for what, p := range map[string]store.SchedulePut{"a new one": s.newSchedule("a",
				now+10), "one that stands": caller.Seen(is, func(*store.SchedulePut) {})} {
				_, err := s.ChangeSchedules(s.ctx, by(&fresh, p))
				s.wantErr(what+", by other days", err, store.ErrConflict)
				_, err = s.ChangeSchedules(s.ctx, by(&old, p))
				s.ok(err)
				_, err = s.ChangeSchedules(s.ctx, by(&fresh, p))
				s.ok(err) // it is what it is
			}
			s.want("versions", s.versions(), "a1 is2")
			stage := func(p *store.SchedulePut) { p.Stage = "x" }
			c := by(&fresh, caller.Seen(s.one("is"), stage))
			other := by(&fresh, caller.Seen(s.one("a"), stage))
			c.Puts, c.Calendar = append(c.Puts, other.Puts...), &fresh
			got, err := s.ChangeSchedules(s.ctx, c)
			s.ok(err) // the days are put with it
			s.want("days", got[0].Days, &fresh)
		}},
		{"CalendarsAreListedAndDeletedWhenNoScheduleHasThem", func(s *scene) {
			x, y := task.Calendar{Name: "x", Skip: []string{"2026-01-01"}}, task.Calendar{
				Name: "y", Keep: []string{"2026-01-02"},
			}
			s.calendar(y)
			s.calendar(x)
			s.want("calendars", s.calendars(), []task.Calendar{x, y})
			is := s.putAll(onDays("x", s.newSchedule("s", s.clock.Micros()+10)))[0]
			s.wantErr("delete one that a schedule has", s.DeleteCalendar(s.ctx, "x"),
				store.ErrConflict)
			s.ok(s.DeleteCalendar(s.ctx, "y"))
			s.wantErr("delete it again", s.DeleteCalendar(s.ctx, "y"), store.ErrNotFound)
			s.replaced(is, func(p *store.SchedulePut) { p.Calendar, p.Then = "", is.Next })
			s.ok(s.DeleteCalendar(s.ctx, "x"))
			s.want("calendars", len(s.calendars()), 0)
			s.want("days of the era that had it", s.eras("s", 0)[0].Days, &x)
			z := task.Calendar{Name: "x", Skip: []string{"2027-01-01"}}
			s.calendar(z)
			s.want("days of that era, while another has the name", s.eras("s", 0)[0].Days, &x)
		}},
		{"WhatIsFollowedStays", func(s *scene) {
			follower := func(name, after string) store.SchedulePut {
				p := s.newSchedule(name, store.Never)
				p.Cron, p.After = "", after
				return p
			}
			_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{
				Puts: []store.SchedulePut{follower("b", "a")},
			})
			s.wantErr("to follow one that there is not", err, store.ErrNotFound)
			s.putAll(follower("b", "a"), s.newSchedule("a", s.clock.Micros()), follower("c", "b"))
			s.wantErr("delete one that is followed", s.DeleteSchedule(s.ctx, "a"),
				store.ErrConflict)
			s.want("those that follow",
				names(s.listed(store.ScheduleQuery{Follows: []string{"a", "c", "none"}})),
				[]string{"b"})
			s.want("those that follow",
				names(s.listed(store.ScheduleQuery{Follows: []string{"b", "a"}})),
				[]string{"b", "c"})
			s.want("those that are due", names(s.due(store.DueQuery{Until: store.Never})),
				[]string{"a"})
			s.replaced(s.one("b"), func(p *store.SchedulePut) {
				p.After, p.Cron, p.Then = "", "@hourly", s.clock.Micros()+1
			})
			s.ok(s.DeleteSchedule(s.ctx, "a"))
		}},
		{"NoScheduleComesToFollowItself", func(s *scene) {
			after := func(name, leader string) store.SchedulePut {
				p := s.newSchedule(name, store.Never)
				p.Cron, p.After = "", leader
				return p
			}
			stand := s.putAll(s.newSchedule("a", s.clock.Micros()), after("b", "a"),
				after("c", "b"))
			circle := func(p *store.SchedulePut) { p.Cron, p.After, p.Then = "", "c", store.Never }
			for what, puts := range map[string][]store.SchedulePut{
				"the first follows the last": {caller.Seen(stand[0], circle)},
				"one follows itself":         {after("d", "d")},
				"two follow each other":      {after("d", "e"), after("e", "d")},
				"a circle and what leads there": {after("f", "d"), after("d", "e"),
					after("e", "d")},
				"half of it stands": {s.newSchedule("e", s.clock.Micros()),
					caller.Seen(stand[0], circle)},
			} {
				_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{Puts: puts})
				s.wantErr(what, err, store.ErrConflict)
			}
			s.want("all that there is", names(s.listed(store.ScheduleQuery{})),
				[]string{"a", "b", "c"})
			c := caller.Seen(stand[2], func(p *store.SchedulePut) { p.After = "a" })
			s.putAll(after("d", "c"), after("e", "c"), c)
			s.want("those that follow",
				names(s.listed(store.ScheduleQuery{Follows: []string{"a", "c"}})),
				[]string{"b", "c", "d", "e"})
		}},
		{"SchedulesAreListedByWhatTheyAre", func(s *scene) {
			now := s.clock.Micros()
			s.calendar(task.Calendar{Name: "c", Skip: []string{"2026-01-01"}})
			s.putAll(s.newSchedule("e", now+5), onDays("c", s.newSchedule("b", now+7)),
				s.newSchedule("d", store.Never),
				s.newSchedule("a", now+7), onDays("c", s.newSchedule("c", now+6)))
			for _, c := range []struct {
				query store.ScheduleQuery
				want  []string
			}{
				{store.ScheduleQuery{}, []string{"a", "b", "c", "d", "e"}},
				{store.ScheduleQuery{Limit: 2}, []string{"a", "b"}},
				{store.ScheduleQuery{After: "b", Limit: 2}, []string{"c", "d"}},
				{store.ScheduleQuery{After: "e"}, nil},
				{store.ScheduleQuery{Names: []string{"e", "none", "a", "e"}}, []string{"a", "e"}},
				{store.ScheduleQuery{Names: []string{"a", "b", "c"}, After: "a", Limit: 1},
					[]string{"b"}},
				{store.ScheduleQuery{Calendar: "c"}, []string{"b", "c"}},
				{store.ScheduleQuery{Calendar: "c", Names: []string{"a", "c"}}, []string{"c"}},
			} {
				s.want(fmt.Sprintf("%+v", c.query), names(s.listed(c.query)), c.want)
			}
			for _, c := range []struct {
				query store.DueQuery
				want  []string
			}{
				{store.DueQuery{Until: now + 4}, nil},
				{store.DueQuery{Until: now + 5}, []string{"e"}},
				{store.DueQuery{Until: now + 7}, []string{"e", "c", "a", "b"}},
				{store.DueQuery{Until: now + 7, Limit: 3}, []string{"e", "c", "a"}},
				{store.DueQuery{Until: now + 7, After: store.Cursor{Next: now + 7, Name: "a"}},
					[]string{"b"}},
				{store.DueQuery{Until: now + 7, After: store.Cursor{Next: now + 5, Name: "e"},
					Limit: 1}, []string{"c"}},
				{store.DueQuery{Until: store.Never, After: store.Cursor{Next: now + 6}},
					[]string{"c", "a", "b"}},
			} {
				s.want(fmt.Sprintf("due %+v", c.query), names(s.due(c.query)), c.want)
			}
			for limit, want := range map[int][]string{4: nil, 5: {"a", "b", "c", "d", "e"},
				6: {"a", "b", "c", "d", "e"}} {
				keys, err := s.ScheduleKeys(s.ctx, limit)
				s.ok(err)
				s.want(fmt.Sprintf("keys up to %d", limit),
					[]any{keys.Count, slices.Equal(keys.Names, want)}, []any{int64(5), true})
			}
		}},
		{"WhatIsAskedOfAnUnknownScheduleIsNotFound", func(s *scene) {
			_, err := s.Eras(s.ctx, "s", 0)
			s.wantErr("eras", err, store.ErrNotFound)
			s.wantErr("delete", s.DeleteSchedule(s.ctx, "s"), store.ErrNotFound)
			s.want("fires", len(s.fires(store.FireQuery{Schedule: "s"})), 0)
			s.want("open fires", len(s.open(store.OpenQuery{Schedules: []string{"s"}})), 0)
			keys, err := s.ScheduleKeys(s.ctx, 10)
			s.ok(err)
			s.want("keys", []int{int(keys.Count), len(keys.Names)}, []int{0, 0})
		}},
	}
}

// fullSchedule is a schedule that says something of everything.
func fullSchedule(name string) task.Schedule {
	return task.Schedule{
		Name: name, Cron: "0 3 * * * ; ☃", Zone: "Europe/Berlin", Calendar: "feasts",
		Starts: time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
		Ends:   time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC), Paused: true,
		Queue: "q", Stage: "first", Context: json.RawMessage(`{"a": [ 1 ]}`),
		Priority: time.Minute + 1, MaxAttempts: 3, Timeout: time.Hour, Manual: true,
		StartWithin: time.Minute + 3,
		AfterMode:   task.AfterAny, AfterOn: task.AfterFailed, AfterDelay: time.Minute + 2,
		Parallel: 7, OnDead: task.OnDeadStop, Title: "夜间报表 ☃", Responsible: "Ana Ω",
		Overlap: task.OverlapQueue, Misfire: task.MisfireAll, MisfireWindow: 25 * time.Hour,
		Jitter: task.Jitter{Share: 0.1},
		Notices: task.Notices{
			On:      []task.Notice{task.NoticeDead, task.NoticeSlow},
			Origins: []task.Origin{task.OriginManual}, Slow: time.Minute,
		},
	}
}

// newSchedule puts a schedule that was not there, with the cursor at next.
func (s *scene) newSchedule(name string, next int64) store.SchedulePut {
	p := store.SchedulePut{
		Schedule: limits.DefaultSchedule(name), Since: s.clock.Micros() - 10, Then: next,
	}
	p.Cron, p.Queue = "* * * * *", "q"
	return p
}

// onDays is a put of a schedule that has a calendar.
func onDays(calendar string, p store.SchedulePut) store.SchedulePut {
	p.Calendar = calendar
	return p
}

// putAll puts schedules.
func (s *scene) putAll(puts ...store.SchedulePut) []store.Schedule {
	got, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{Puts: puts})
	s.ok(err)
	return got
}

// schedule makes a schedule with the cursor at next.
func (s *scene) schedule(name string, next int64) store.Schedule {
	return s.putAll(s.newSchedule(name, next))[0]
}

// replaced replaces a schedule.
func (s *scene) replaced(is store.Schedule, edit func(*store.SchedulePut)) store.Schedule {
	return s.putAll(caller.Seen(is, edit))[0]
}

func (s *scene) calendar(c task.Calendar) {
	_, err := s.ChangeSchedules(s.ctx, store.ScheduleChange{Calendar: &c})
	s.ok(err)
}

func (s *scene) calendars() []task.Calendar {
	list, err := s.Calendars(s.ctx)
	s.ok(err)
	return list
}

func (s *scene) listed(q store.ScheduleQuery) []store.Schedule {
	list, err := s.Schedules(s.ctx, q)
	s.ok(err)
	return list
}

// one is a schedule as it stands.
func (s *scene) one(name string) store.Schedule {
	list := s.listed(store.ScheduleQuery{Names: []string{name}})
	if len(list) != 1 {
		s.fail("schedule %q: got %+v", name, list)
	}
	return list[0]
}

func (s *scene) due(q store.DueQuery) []store.Schedule {
	list, err := s.Due(s.ctx, q)
	s.ok(err)
	return list
}

func (s *scene) eras(name string, from int64) []store.Schedule {
	list, err := s.Eras(s.ctx, name, from)
	s.ok(err)
	return list
}

func names(list []store.Schedule) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// versions tells all schedules' versions.
func (s *scene) versions() (text string) {
	for i, is := range s.listed(store.ScheduleQuery{}) {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprint(is.Name, is.Version)
	}
	return text
}
