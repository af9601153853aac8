package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// fireClaims is what holds for what comes of due times.
func fireClaims() []claim {
	return []claim{
		{"EveryDueTimeThatIsPassedOverHasItsRow", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now-50)
			f := s.firing(store.FirePart{Schedule: "s", Version: 1, Next: now - 50, Then: now + 5,
				Fires: []store.Fire{
					{At: now - 50, Through: now - 30, Count: 3, Origin: task.OriginSchedule,
						Outcome: task.FireMissed, Reason: "too late ☃"},
					{At: now - 20, Origin: task.OriginSchedule, Outcome: task.FireQueued, Limit: 2,
						Watch: true},
					{At: now - 10, Origin: task.OriginSchedule, Outcome: task.FireSkipped,
						Reason: "paused"},
					{At: now, Origin: task.OriginSchedule, Outcome: task.FireFired, Watch: true},
				}})
			got := s.fire(f)
			want := f.Parts[0].Fires
			for i := range want {
				w := &want[i]
				w.Schedule, w.Node, w.Time, w.Seq = "s", "here", now, -1
				w.Run = store.FireKey{Schedule: "s", At: w.At}
				w.Through, w.Count = max(w.Through, w.At), max(w.Count, 1)
			}
			s.want("the answer", got, store.Fired{
				Now: now, Parts: []store.FiredPart{{Fires: want}},
			})
			s.want("the rows", s.fires(store.FireQuery{Schedule: "s"}), want)
			is.Next = now + 5
			s.want("the schedule", s.one("s"), is)
			s.want("those that are due", len(s.due(store.DueQuery{Until: now + 4})), 0)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			o := s.takeOne(s.join("a"))
			s.want("the task", o.ID(), want[3].Task)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.wantState(o.ID(), task.Done)
		}},
		{"WhatIsFiredIsWatchedOnceAnotherFollows", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now-30)
			p := s.on(is, now-30, now+5)
			p.Fires = append(p.Fires, store.Fire{
				At: now - 20, Origin: task.OriginSchedule, Outcome: task.FireSkipped,
				Reason: "paused",
			},
				store.Fire{
					At: now - 10, Origin: task.OriginSchedule, Outcome: task.FireQueued, Limit: 1,
				})
			f := s.firing(p) // made while nobody followed
			follower := s.newSchedule("b", store.Never)
			follower.Cron, follower.After = "", "s"
			s.putAll(follower)
			var watched []bool
			for _, row := range s.fire(f).Parts[0].Fires {
				watched = append(watched, row.Watch)
			}
			s.want("watched", watched, []bool{true, false, true})
			s.want("open", len(s.open(store.OpenQuery{})), 2)
		}},
		{"NoMoreTasksRunThanAPartAllows", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now+5)
			fire := func(at int64, most int32) store.FirePart {
				p := s.aside(is, store.Fire{
					At: at, Origin: task.OriginBackfill, Outcome: task.FireFired, Watch: true,
					Limit: most,
				},
					store.Fire{
						At: at + 1, Origin: task.OriginBackfill, Outcome: task.FireQueued,
						Watch: true, Limit: most,
					})
				p.Most = most
				return p
			}
			first := s.firing(fire(now-90, 2))
			id := s.firedAll(first).Fires[0].Task
			s.fired(fire(now-80, 2))
			s.want("the third of two", refusals(s.fire(s.firing(fire(now-70, 2)))),
				[]string{store.FireMoved})
			s.want("the first, said again", len(s.firedAll(first).Left), 2)
			s.want("the third of any number", len(s.fired(fire(now-60, 0)).Fires), 2)
			s.want("one more of three", refusals(s.fire(s.firing(fire(now-50, 3)))),
				[]string{store.FireMoved})
			s.changed(task.KindCancelled, id)
			s.want("one more of three, when one has ended", len(s.fired(fire(now-50, 3)).Fires), 2)
			s.want("rows", len(s.fires(store.FireQuery{Schedule: "s"})), 8)
		}},
		{"APartIsHeldAgainstTheTasksThatRanBeforeTheCall", func(s *scene) {
			is := s.schedule("s", s.clock.Micros()+5)
			now := func(most int32) store.FirePart {
				p := s.aside(is, row(0, task.FireFired))
				p.Fires[0].Watch, p.Most = true, most
				return p
			}
			s.want("two of one, in one call", refusals(s.fire(s.firing(now(1), now(1)))),
				[]string{"", ""})
			s.want("two of two, when two run", refusals(s.fire(s.firing(now(2), now(0), now(2)))),
				[]string{store.FireMoved, "", store.FireMoved})
			s.want("two of four, when three run", refusals(s.fire(s.firing(now(4), now(4)))),
				[]string{"", ""})
			s.want("rows", len(s.fires(store.FireQuery{Schedule: "s"})), 5)
		}},
		{"OfWhatIsRefusedNothingIsDone", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now)
			stale := s.schedule("stale", now)
			s.replaced(stale, func(p *store.SchedulePut) { p.Stage = "other" })
			later := s.schedule("later", now)
			for what, c := range map[string]struct {
				part store.FirePart
				want string
			}{
				"no such schedule": {store.FirePart{Schedule: "none", Version: 1, Next: now,
					Then: now + 1}, store.FireGone},
				"an old version":       {s.on(stale, now, now+1), store.FireMoved},
				"an old version aside": {s.aside(stale, store.Fire{At: now - 5}), store.FireMoved},
				"another cursor": {s.on(store.Schedule{Schedule: is.Schedule, Version: 1,
					Next: now - 1}, now-1, now+1), store.FireMoved},
				"a later cursor": {s.on(store.Schedule{Schedule: is.Schedule, Version: 1,
					Next: now + 1}, now, now+1), store.FireMoved},
				"only Then": {store.FirePart{Schedule: "s", Version: 1, Then: now + 1},
					store.FireMoved},
				"before its time": {s.on(later, now+1, now+2), store.FireEarly},
				"before its time aside": {store.FirePart{Schedule: "later", Version: 1,
					Fires: []store.Fire{
						row(now, task.FireFired), row(now+1, task.FireFired)}}, store.FireEarly},
				"a run that is not over": {store.FirePart{Schedule: "later", Version: 1, Next: now,
					Then: now + 9, Fires: []store.Fire{
						{At: now, Through: now + 1, Count: 2, Outcome: task.FireMissed}}},
					store.FireEarly},
			} {
				f := s.firing(c.part)
				s.want(what, s.fire(f).Parts, []store.FiredPart{{Refused: c.want}})
				s.want(what+", the cursor", s.one("s"), is)
				s.want(what+", fires", len(s.fires(store.FireQuery{Schedule: c.part.Schedule})), 0)
			}
			queues, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("queues", len(queues), 0)
		}},
		{"WhatIsRefusedSpoilsNothingElse", func(s *scene) {
			now := s.clock.Micros()
			a, b, c := s.schedule("a", now), s.schedule("b", now), s.schedule("c", now)
			a.Version = 9
			b.Next = now - 1
			f := s.firing(s.on(a, now, now+1), s.on(c, now, now+1), s.on(b, now, now+1))
			got := s.fire(f)
			s.want("refused", refusals(got), []string{store.FireMoved, "", store.FireMoved})
			s.want("those that are due", names(s.due(store.DueQuery{Until: now})),
				[]string{"a", "b"})
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			spans := s.take(s.join("x"), 10)
			s.want("tasks in hand", []any{len(spans), len(spans[0].Tasks), spans[0].Tasks[0].N},
				[]any{1, 1, int32(1)})
			for _, i := range []int{0, 2} {
				_, err := s.Task(s.ctx, f.Parts[i].Fires[0].Task)
				s.wantErr("the task of what was refused", err, store.ErrNotFound)
			}
		}},
		{"WhatWasRefusedCanBeTriedAgain", func(s *scene) {
			now := s.clock.Micros()
			f := s.firing(s.on(s.schedule("s", now+10), now+10, now+20))
			s.want("early", s.fire(f).Parts[0].Refused, store.FireEarly)
			s.clock.Advance(10 * time.Microsecond)
			s.want("in time", s.fire(f).Parts[0].Refused, "")
			s.want("counts", s.counts(), task.Counts{Ready: 1})
		}},
		{"SpansWithoutTasksAreLeftOut", func(s *scene) {
			now := s.clock.Micros()
			a, b := s.schedule("a", now), s.schedule("b", now)
			b.Version = 9
			f := s.firing(s.on(a, now, now+1), s.on(b, now, now+1))
			f.Batches[0].Spans = []store.NewSpan{{Lo: 0, Hi: 0}, {Lo: 1, Hi: 1}}
			s.fire(f)
			s.want("spans", len(s.take(s.join("x"), 10)), 1)
		}},
		{"ADueTimeIsFiredOnceHoweverManyFireIt", func(s *scene) {
			now := s.clock.Micros()
			s.clock.Advance(time.Second)
			var group sync.WaitGroup
			var firings []store.Firing
			is := s.schedule("s", now)
			for range 8 {
				firings = append(firings, s.firing(s.on(is, now, now+2e6)))
			}
			done := make([]store.Fired, len(firings))
			errs := make([]error, len(firings))
			for i := range firings {
				group.Go(func() { done[i], errs[i] = s.Fire(s.ctx, firings[i]) })
			}
			group.Wait()
			fired := 0
			for i, d := range done {
				s.ok(errs[i])
				switch p := d.Parts[0]; p.Refused {
				case "":
					fired++
				default:
					s.want("refused", p.Refused, store.FireMoved)
				}
			}
			s.want("fired", fired, 1)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			s.want("fires", len(s.fires(store.FireQuery{Schedule: "s"})), 1)
		}},
		{"APartThatIsEarlyIsRefusedAsEarlyWhateverStandsBesideIt", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now+5)
			f := s.firing(s.aside(is, row(now-5, task.FireFired)))
			s.firedAll(f)
			moved := f.Parts[0].Fires[0] // its batch stands by now
			moved.At = now - 4
			early := row(now+1, task.FireSkipped)
			for _, fires := range [][]store.Fire{{moved, early}, {early, moved}} {
				f.Parts[0].Fires = fires
				s.want("refused", refusals(s.fire(f)), []string{store.FireEarly})
			}
		}},
		{"NoRowEndsBeforeItBegins", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now+5)
			s.fired(s.aside(is,
				store.Fire{At: now - 5, Through: now - 9, Outcome: task.FireMissed}))
			rows := s.fires(store.FireQuery{Schedule: "s", From: now - 5})
			s.want("rows from its due time on", len(rows), 1)
			s.want("its end", rows[0].Through, now-5)
		}},
		{"FiresAreListedByTime", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			s.fired(s.aside(s.schedule("other", store.Never), row(now-3, task.FireFired)))
			s.fired(s.aside(is,
				store.Fire{At: now - 90, Through: now - 40, Count: 6, Outcome: task.FireMissed},
				row(now-60, task.FireFired),
				row(now-30, task.FireSkipped), row(now-20, task.FireQueued),
				row(now-10, task.FireFired)))
			for _, c := range []struct {
				query store.FireQuery
				want  []int64
			}{
				{store.FireQuery{}, []int64{-90, -60, -30, -20, -10}},
				{store.FireQuery{Newest: true}, []int64{-10, -20, -30, -60, -90}},
				{store.FireQuery{Limit: 2}, []int64{-90, -60}},
				{store.FireQuery{Newest: true, Limit: 2}, []int64{-10, -20}},
				{store.FireQuery{After: now - 60, Limit: 2}, []int64{-30, -20}},
				{store.FireQuery{After: now - 20, Newest: true, Limit: 2}, []int64{-30, -60}},
				{store.FireQuery{From: now - 30, To: now - 10}, []int64{-30, -20}},
				{store.FireQuery{From: now - 40, To: now - 10}, []int64{-90, -30, -20}},
				{store.FireQuery{From: now - 39, To: now}, []int64{-30, -20, -10}},
				{store.FireQuery{From: now - 89, To: now - 80}, []int64{-90}},
				{store.FireQuery{From: now - 50, Newest: true}, []int64{-10, -20, -30, -90}},
				{store.FireQuery{From: now - 50, After: now - 90, Limit: 1}, []int64{-30}},
				{store.FireQuery{To: now - 90}, nil},
				{store.FireQuery{Outcomes: []task.FireOutcome{task.FireFired}}, []int64{-60, -10}},
				{store.FireQuery{Outcomes: []task.FireOutcome{task.FireQueued, task.FireMissed},
					Newest: true}, []int64{-20, -90}},
				{store.FireQuery{Outcomes: []task.FireOutcome{task.FireFired}, From: now - 30,
					Limit: 1}, []int64{-10}},
			} {
				what := fmt.Sprintf("%+v", c.query)
				c.query.Schedule = "s"
				var got []int64
				for _, f := range s.fires(c.query) {
					got = append(got, f.At-now)
				}
				s.want(what, got, c.want)
			}
		}},
		{"TheLastIsTheNewestThatWasFired", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			last := func(at int64) {
				got := s.listed(store.ScheduleQuery{Names: []string{"s"}, Last: true})[0].Last
				if at == 0 {
					s.want("last", got == nil, true)
				} else if got == nil || got.At != at ||
					!reflect.DeepEqual(*got,
						s.fires(store.FireQuery{Schedule: "s", From: at, To: at + 1})[0]) {
					s.fail("last: got %+v, want the one of %d", got, at)
				}
			}
			last(0)
			s.fired(s.aside(is, row(now-5, task.FireSkipped)))
			last(0)
			s.fired(s.aside(is, watched(now-9, task.FireFired), row(now-8, task.FireMissed)))
			last(now - 9)
			s.fired(s.aside(is, row(now-7, task.FireFired), row(now-10, task.FireFired),
				row(now-1, task.FireQueued)))
			last(now - 7)
			s.fired(s.aside(is, row(now-20, task.FireFired)))
			last(now - 7)
			over := s.aside(is, row(now-5, task.FireFired))
			over.Over = true
			s.fired(over)
			last(now - 5)
			s.clock.Advance(2 * store.FiresKept)
			s.prune()
			last(now - 9) // it is open
			s.want("last, unasked", s.one("s").Last == nil, true)
		}},
	}
}

// row says what came of a due time.
func row(at int64, outcome task.FireOutcome) store.Fire {
	return store.Fire{At: at, Outcome: outcome}
}

// watched is a row of which somebody wants to know what becomes of the task.
func watched(at int64, outcome task.FireOutcome) store.Fire {
	return store.Fire{At: at, Outcome: outcome, Watch: true}
}

// on is the part that fires a schedule from where it was seen: at, and nothing else.
func (s *scene) on(is store.Schedule, at, then int64) store.FirePart {
	return store.FirePart{Schedule: is.Name, Version: is.Version, Next: is.Next, Then: then,
		Fires: []store.Fire{
			{At: at, Origin: task.OriginSchedule, Outcome: task.FireFired},
		}}
}

// aside is a part that leaves the cursor alone.
func (s *scene) aside(is store.Schedule, fires ...store.Fire) store.FirePart {
	return store.FirePart{Schedule: is.Name, Version: is.Version, Fires: fires}
}

// firing gives every fire of the parts that is fired a task in queue q, all in one batch.
func (s *scene) firing(parts ...store.FirePart) store.Firing {
	f := store.Firing{Node: "here", NewQueues: []string{"q"}}
	b := s.batch("q", 0)
	for _, p := range parts {
		p.Fires = slices.Clone(p.Fires)
		for i := range p.Fires {
			if p.Fires[i].Outcome == task.FireFired {
				t := store.Task{N: int32(len(b.Tasks)), Stage: "first"}
				p.Fires[i].Task = task.ID{Batch: b.ID, N: t.N}
				b.Tasks = append(b.Tasks, t)
			}
		}
		f.Parts = append(f.Parts, p)
	}
	if b.Spans[0].Hi = int32(len(b.Tasks)) - 1; len(b.Tasks) > 0 {
		f.Batches = []store.Batch{b}
	}
	return f
}

func (s *scene) fire(f store.Firing) store.Fired {
	got, err := s.Fire(s.ctx, f)
	s.ok(err)
	s.want("parts", len(got.Parts), len(f.Parts))
	s.want("now", got.Now, s.clock.Micros())
	return got
}

// fired fires one part, which must not be refused.
func (s *scene) fired(p store.FirePart) store.FiredPart { return s.firedAll(s.firing(p)) }

func (s *scene) firedAll(f store.Firing) store.FiredPart {
	got := s.fire(f).Parts[0]
	s.want("refused", got.Refused, "")
	return got
}

// refusals say which parts were refused.
func refusals(f store.Fired) (list []string) {
	for _, p := range f.Parts {
		list = append(list, p.Refused)
	}
	return list
}

func (s *scene) fires(q store.FireQuery) []store.Fire {
	list, err := s.Fires(s.ctx, q)
	s.ok(err)
	return list
}

func (s *scene) open(q store.OpenQuery) []store.OpenFire {
	list, err := s.OpenFires(s.ctx, q)
	s.ok(err)
	return list
}
