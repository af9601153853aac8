package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// watchClaims is what holds for what becomes of fires, and for how long it is kept.
func watchClaims() []claim {
	return []claim{
		{"OpenFiresTellHowTheirTasksStand", func(s *scene) {
			h := s.join("a")
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			s.fired(s.aside(is, watched(now-9, task.FireFired), watched(now-8, task.FireFired),
				watched(now-7, task.FireFired),
				watched(now-6, task.FireFired), watched(now-5, task.FireFired),
				row(now-4, task.FireQueued), watched(now-3, task.FireMissed),
				row(now-2, task.FireFired), row(now-1, task.FireSkipped)))
			s.clock.Advance(time.Second)
			outs := make([]caller.Handout, 5)
			for i := range outs {
				outs[i] = s.takeOne(h)
			}
			s.recorded(outs[1].Report(s.clock, task.Next("second", nil)),
				outs[2].Report(s.clock, task.Finish(nil)),
				outs[3].Report(s.clock, task.Fail(errors.New("boom"))))
			s.changed(task.KindCancelled, outs[4].ID())
			s.changed(task.KindRemoved, outs[2].ID())
			open := s.open(store.OpenQuery{})
			list := s.fires(store.FireQuery{Schedule: "s"})
			want := []store.OpenFire{
				{Step: -1, Found: true},
				{Found: true, Kind: task.KindNext, Finished: now + 1e6, Worker: "w"},
				{Step: -1},
				{Found: true, Kind: task.KindFail, Final: true, Finished: now + 1e6, Error: "boom",
					Worker: "w"},
				{Found: true, Kind: task.KindCancelled, Final: true, Finished: now + 1e6,
					Worker: "somebody"},
				{Step: -1}, {Step: -1},
			}
			for i := range want {
				want[i].Fire = list[i]
			}
			s.want("open fires", open, want)
		}},
		{"OpenFiresAreListedBySchedule", func(s *scene) {
			now := s.clock.Micros()
			for _, name := range []string{"b", "a", "c"} {
				is := s.schedule(name, store.Never)
				s.fired(s.aside(is, watched(now-1, task.FireFired), row(now-2, task.FireQueued),
					row(now-3, task.FireFired)))
			}
			for _, c := range []struct {
				query store.OpenQuery
				want  string
			}{
				{store.OpenQuery{}, "a2 a1 b2 b1 c2 c1 "},
				{store.OpenQuery{Limit: 3}, "a2 a1 b2 "},
				{store.OpenQuery{After: store.FireKey{Schedule: "a", At: now - 1}, Limit: 2},
					"b2 b1 "},
				{store.OpenQuery{After: store.FireKey{Schedule: "b", At: now - 2}}, "b1 c2 c1 "},
				{store.OpenQuery{Schedules: []string{"c", "none", "a"}}, "a2 a1 c2 c1 "},
				{store.OpenQuery{Schedules: []string{"c", "a"},
					After: store.FireKey{Schedule: "a", At: now - 2}, Limit: 2}, "a1 c2 "},
				{store.OpenQuery{Schedules: []string{"none"}}, ""},
			} {
				got := ""
				for _, f := range s.open(c.query) {
					got += fmt.Sprint(f.Schedule, now-f.At, " ")
				}
				s.want(fmt.Sprintf("%+v", c.query), got, c.want)
			}
		}},
		{"AnEndClosesOnlyTheFireThatItSaw", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			got := s.fired(s.aside(is, watched(now-1, task.FireFired), row(now-2, task.FireFired),
				watched(now-3, task.FireMissed), watched(now-4, task.FireQueued)))
			id := got.Fires[0].Task
			for _, c := range []struct {
				what  string
				at    int64
				task  task.ID
				ended task.Kind
				seq   int32
				want  string // seq:ended of the rows, newest first
			}{
				{"no such row", now - 5, id, task.KindDone, 9, "-1:0 -1:0 -1:0 -1:0 "},
				{"another task", now - 1, task.ID{Batch: id.Batch, N: 7}, task.KindDone, 9,
					"-1:0 -1:0 -1:0 -1:0 "},
				{"no task", now - 1, task.ID{}, task.KindDone, 9, "-1:0 -1:0 -1:0 -1:0 "},
				{"not watched", now - 2, got.Fires[1].Task, task.KindDone, 9,
					"-1:0 -1:0 -1:0 -1:0 "},
				{"not yet", now - 1, id, 0, 3, "3:0 -1:0 -1:0 -1:0 "},
				{"not yet, an older look", now - 1, id, 0, 2, "3:0 -1:0 -1:0 -1:0 "},
				{"ended, an older look", now - 1, id, task.KindFail, 2, "3:0 -1:0 -1:0 -1:0 "},
				{"ended", now - 1, id, task.KindFail, 3, "3:5 -1:0 -1:0 -1:0 "},
				{"ended before", now - 1, id, task.KindDone, 4, "3:5 -1:0 -1:0 -1:0 "},
				{"missed", now - 3, task.ID{}, task.KindCancelled, -1, "3:5 -1:0 -1:9 -1:0 "},
				{"queued", now - 4, task.ID{}, task.KindCancelled, -1, "3:5 -1:0 -1:9 -1:0 "},
			} {
				end := store.FireEnd{
					Schedule: "s", At: c.at, Task: c.task, Ended: c.ended, Seq: c.seq,
				}
				s.fire(store.Firing{Ends: []store.FireEnd{{Schedule: "t", At: c.at}, end}})
				text := ""
				for _, f := range s.fires(store.FireQuery{Schedule: "s", Newest: true}) {
					text += fmt.Sprintf("%d:%d ", f.Seq, f.Ended)
				}
				s.want(c.what, text, c.want)
			}
			s.want("open", len(s.open(store.OpenQuery{})), 1)
		}},
		{"EndsAreWrittenAfterTheParts", func(s *scene) {
			now := s.clock.Micros()
			f := s.firing(s.on(s.schedule("s", now), now, now+1))
			f.Parts[0].Fires[0].Watch = true
			f.Ends = []store.FireEnd{
				{Schedule: "s", At: now, Task: f.Parts[0].Fires[0].Task, Ended: task.KindDone,
					Seq: 0},
			}
			s.fire(f)
			s.want("open", len(s.open(store.OpenQuery{})), 0)
			f.Ends[0].Ended = task.KindFail
			s.want("repeated", s.fire(f).Parts[0].Refused, store.FireMoved)
			s.want("ended", s.fires(store.FireQuery{Schedule: "s"})[0].Ended, task.KindDone)
		}},
		{"AReplayedTaskOpensItsFireAgain", func(s *scene) {
			h := s.join("a")
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			s.fired(s.aside(is, watched(now-2, task.FireFired), row(now-1, task.FireFired)))
			a, b := s.takeOne(h), s.takeOne(h)
			s.recorded(a.Report(s.clock, task.Fail(nil)), b.Report(s.clock, task.Fail(nil)))
			end := store.FireEnd{
				Schedule: "s", At: now - 2, Task: a.ID(), Ended: task.KindFail, Seq: 0,
			}
			other := store.FireEnd{
				Schedule: "s", At: now - 1, Task: b.ID(), Ended: task.KindFail, Seq: 0,
			}
			s.fire(store.Firing{Ends: []store.FireEnd{end, other}})
			s.want("open", len(s.open(store.OpenQuery{})), 0)
			replay := store.Action{
				ID: a.ID(), Kind: task.KindReplayed, Rank: now, Due: now, Mark: 7,
			}
			for _, what := range []string{"replayed", "replayed by the same call"} {
				_, err := s.Act(s.ctx, []store.Action{replay})
				s.ok(err)
				open := s.open(store.OpenQuery{})
				s.want(what, len(open), 1)
				s.want(what, []any{open[0].At, open[0].Ended, open[0].Seq, open[0].Tries},
					[]any{now - 2, task.Kind(0), int32(1), int32(1)})
			}
			s.changed(task.KindReplayed, b.ID())
			s.want("what is not watched stays closed", len(s.open(store.OpenQuery{})), 1)
			s.fire(store.Firing{Ends: []store.FireEnd{end}})
			s.want("an end from before leaves it open", len(s.open(store.OpenQuery{})), 1)
			s.recorded(s.takeOne(h).Report(s.clock, task.Fail(nil)))
			s.changed(task.KindReplayed, a.ID())
			open := s.open(store.OpenQuery{})
			s.want("replayed before anybody looked",
				[]any{open[0].Ended, open[0].Seq, open[0].Tries, open[0].Step},
				[]any{task.Kind(0), int32(3), int32(2), int32(3)})
			s.changed(task.KindCancelled, a.ID())
			end.Seq, end.Ended = 4, task.KindCancelled
			s.fire(store.Firing{Ends: []store.FireEnd{end}})
			s.want("open in the end", len(s.open(store.OpenQuery{})), 0)
		}},
		{"FiresAndErasAreKeptForAWhile", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now)
			is = s.replaced(is, func(p *store.SchedulePut) { p.Since, p.Stage = now-1, "x" })
			s.fired(s.aside(is, row(now-9, task.FireFired), row(now-8, task.FireSkipped),
				row(now-7, task.FireMissed),
				watched(now-6, task.FireFired), row(now-5, task.FireQueued),
				watched(now-4, task.FireMissed)))
			s.clock.Advance(time.Hour)
			is = s.replaced(is, func(p *store.SchedulePut) {
				p.Since, p.Stage, p.Then = is.Next-1, "y", is.Next
			})
			old := s.firing(s.aside(is,
				watched(now-store.FiresKept.Microseconds(), task.FireFired)))
			old.Ends = []store.FireEnd{
				{Schedule: "s", At: old.Parts[0].Fires[0].At, Task: old.Parts[0].Fires[0].Task,
					Ended: task.KindDone},
			}
			s.fire(old)
			for _, step := range []struct {
				after       time.Duration
				fires, eras int
			}{
				{0, 7, 3}, {store.FiresKept - time.Hour - time.Second, 7, 3},
				{2 * time.Second, 4, 1}, {time.Hour, 3, 1}, {store.FiresKept, 3, 1},
			} {
				s.clock.Advance(step.after)
				s.prune()
				left := []int{len(s.fires(store.FireQuery{Schedule: "s"})), len(s.eras("s", 0))}
				s.want(fmt.Sprintf("fires and eras %v later", step.after), left,
					[]int{step.fires, step.eras})
			}
			s.want("open", len(s.open(store.OpenQuery{})), 3)
			s.want("the schedule", s.one("s"), is)
		}},
		{"PruneTakesFewRowsAtATime", func(s *scene) {
			now := s.clock.Micros()
			var fires []store.Fire
			for i := range int64(10) {
				fires = append(fires, row(now-i, task.FireSkipped))
			}
			s.fired(s.aside(s.schedule("s", store.Never), fires...))
			s.fired(s.aside(s.schedule("t", store.Never), fires...))
			s.ok(s.DeleteSchedule(s.ctx, "t"))
			s.clock.Advance(2 * store.FiresKept)
			last := 10
			for range 100 {
				n, err := s.Prune(s.ctx, 3)
				s.ok(err)
				left := len(s.fires(store.FireQuery{Schedule: "s"}))
				if n > 3 || last-left > 3 {
					s.fail("%d rows were pruned at a limit of 3, and %d are said to be", last-left,
						n)
				}
				last = left
			}
			s.want("fires left", last, 0)
		}},
	}
}

// scheduleFaultStory leads schedules through every write and answers what is left of them. It
// repeats what fails.
func (s *scene) scheduleFaultStory() (lines []string) {
	now := s.clock.Micros()
	change := func(c store.ScheduleChange) []store.Schedule {
		return again(s, func() ([]store.Schedule, error) { return s.ChangeSchedules(s.ctx, c) })
	}
	fire := func(parts ...store.FirePart) {
		f := s.firing(parts...)
		again(s, func() (store.Fired, error) { return s.Fire(s.ctx, f) })
	}
	feasts := task.Calendar{Name: "feasts", Skip: []string{"2026-12-25"}}
	a := change(store.ScheduleChange{
		Puts: []store.SchedulePut{
			onDays("feasts", s.newSchedule("a", now)), s.newSchedule("b", now),
			s.newSchedule("c", store.Never),
		},
		Calendar: &feasts,
	})[0]
	fire(s.on(a, now, now+1e6), s.on(s.one("b"), now, now+1e6))
	fire(s.aside(a, row(now-5, task.FireQueued), watched(now-6, task.FireFired)),
		s.aside(s.one("b"), store.Fire{Outcome: task.FireFired, Origin: task.OriginManual}))
	over := s.aside(a, watched(now-5, task.FireFired))
	over.Over = true
	fire(over)
	id := s.fires(store.FireQuery{Schedule: "a"})[0].Task
	f := store.Firing{
		Ends: []store.FireEnd{{Schedule: "a", At: now - 6, Task: id, Ended: task.KindDone}},
	}
	again(s, func() (store.Fired, error) { return s.Fire(s.ctx, f) })
	put := caller.Seen(s.one("a"), func(p *store.SchedulePut) {
		p.Since, p.First, p.Then = now+1, now+3e6, now+3e6
	})
	change(store.ScheduleChange{
		Puts: []store.SchedulePut{put}, Calendar: &task.Calendar{
			Name: "feasts", Keep: []string{"2026-12-26"},
		},
	})
	put = caller.Seen(s.one("a"), func(p *store.SchedulePut) {
		p.Since, p.Calendar, p.Paused = now+2, "", true
	})
	change(store.ScheduleChange{Puts: []store.SchedulePut{put, s.newSchedule("d", store.Never)}})
	s.forget(func() error { return s.DeleteCalendar(s.ctx, "feasts") })
	s.forget(func() error { return s.DeleteSchedule(s.ctx, "c") })
	for _, is := range s.listed(store.ScheduleQuery{Last: true}) {
		lines = append(lines, fmt.Sprintf("schedule %+v last %+v", is.Schedule, is.Last))
		lines = append(lines, fmt.Sprint(is.Version, is.Since, is.First, is.Next, is.Created))
		for _, era := range s.eras(is.Name, 0) {
			lines = append(lines,
				fmt.Sprintf("era %d since %d until %d on %v", era.Version, era.Since, era.Until,
					era.Days))
		}
		for _, f := range s.fires(store.FireQuery{Schedule: is.Name}) {
			lines = append(lines, fmt.Sprintf("fire %+v", f))
		}
	}
	return append(lines, s.left()...)
}

// forget repeats a deletion until it works, or has worked.
func (s *scene) forget(do func() error) {
	for range patience {
		switch err := do(); {
		case err == nil || errors.Is(err, store.ErrNotFound):
			return
		case !errors.Is(err, fault.ErrFault) && !errors.Is(err, store.ErrUnknown):
			s.fail("%v", err)
		}
	}
	s.fail("a deletion failed %d times", patience)
}
