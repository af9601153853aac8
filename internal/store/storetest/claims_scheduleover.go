package storetest

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// overClaims is what holds of due times that have a row already, and of what is fired beside those.
func overClaims() []claim {
	return []claim{
		{"WhatWasAskedForNowIsLeftWhenAskedAgainOverItToo", func(s *scene) {
			is := s.schedule("s", s.clock.Micros()+5)
			f := s.firing(s.aside(is, row(0, task.FireFired)))
			f.Parts[0].Fires[0].Outcome = task.FireSkipped // so that Over could replace it
			wrote := s.firedAll(f).Fires
			f.Parts[0].Over = true
			s.clock.Advance(time.Second)
			s.want("the answer", s.firedAll(f), store.FiredPart{Left: []int64{wrote[0].At}})
			s.want("the rows", s.fires(store.FireQuery{Schedule: "s"}), wrote)
		}},
		{"ADueTimeThatHasARowIsLeft", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", now)
			first := s.fired(s.aside(is, row(now, task.FireFired), row(now-5, task.FireSkipped)))
			s.clock.Advance(time.Second)
			got := s.fire(s.firing(store.FirePart{Schedule: "s", Version: 1, Next: now,
				Then: now + 9e6, Fires: []store.Fire{
					row(now-5, task.FireFired), row(now, task.FireFired),
					row(now+1, task.FireFired),
					row(now+1, task.FireFired),
				}}))
			s.want("left", got.Parts[0].Left, []int64{now - 5, now, now + 1})
			s.want("written", len(got.Parts[0].Fires), 1)
			s.want("cursor", s.one("s").Next, now+9e6)
			list := s.fires(store.FireQuery{Schedule: "s"})
			s.want("rows", list,
				[]store.Fire{first.Fires[1], first.Fires[0], got.Parts[0].Fires[0]})
			s.want("tasks", s.counts(), task.Counts{Ready: 2})
		}},
		{"WhatWasNotFiredIsFiredOverIt", func(s *scene) {
			now := s.clock.Micros()
			is := s.schedule("s", store.Never)
			s.fired(s.aside(is,
				store.Fire{At: now - 5, Outcome: task.FireSkipped, Reason: "paused"},
				watched(now-4, task.FireMissed),
				store.Fire{At: now - 3, Outcome: task.FireQueued, Limit: 1, Watch: true},
				watched(now-2, task.FireFired),
				store.Fire{At: now - 20, Through: now - 10, Count: 3, Outcome: task.FireMissed}))
			s.clock.Advance(time.Second)
			part := s.aside(is)
			part.Over = true
			for _, at := range []int64{now - 5, now - 4, now - 3, now - 2, now - 20, now - 1} {
				part.Fires = append(part.Fires, store.Fire{
					At: at, Outcome: task.FireFired, Origin: task.OriginBackfill,
				})
			}
			part.Fires = append(part.Fires, store.Fire{
				At: now - 15, Through: now - 10, Count: 2, Outcome: task.FireMissed,
			})
			f := s.firing(part)
			got := s.fire(f).Parts[0]
			s.want("left", got.Left, []int64{now - 2})
			s.want("written", len(got.Fires), 6)
			list := s.fires(store.FireQuery{Schedule: "s"})
			s.want("rows", len(list), 7)
			for _, row := range list {
				switch row.At {
				case now - 15:
					s.want("the rest of the run", []any{row.Through, row.Count, row.Outcome},
						[]any{now - 10, int64(2), task.FireMissed})
				case now - 2:
					s.want("what was fired", []any{row.Time, row.Origin},
						[]any{now, task.Origin("")})
				default:
					want := store.Fire{
						Schedule: "s", At: row.At, Through: row.At, Count: 1,
						Origin: task.OriginBackfill, Outcome: task.FireFired,
						Task: row.Task, Node: "here", Time: now + 1e6, Seq: -1,
						Run: store.FireKey{Schedule: "s", At: row.At},
					}
					s.want(fmt.Sprintf("row %d", row.At-now), row, want)
				}
			}
			s.want("tasks", s.counts(), task.Counts{Ready: 6})
			got = s.fire(s.firing(part)).Parts[0]
			s.want("fired again over it", []int{len(got.Fires), len(got.Left)}, []int{1, 6})
			s.want("open", len(s.open(store.OpenQuery{})), 1)
		}},
		{"AFireForNowHasATimeOfItsOwn", func(s *scene) {
			now := s.clock.Micros() // a whole millisecond
			is := s.schedule("s", now)
			manual := store.Fire{Outcome: task.FireFired, Origin: task.OriginManual}
			first := s.firing(s.aside(is, manual, manual))
			got := s.firedAll(first)
			s.want("written", len(got.Fires), 2)
			s.want("times", []int64{got.Fires[0].At - now, got.Fires[1].At - now}, []int64{1, 2})
			s.want("through", got.Fires[0].Through, got.Fires[0].At)
			again := s.fire(first).Parts[0]
			s.want("repeated", []any{again.Refused, len(again.Fires), again.Left},
				[]any{"", 0, []int64{now + 1, now + 2}})
			s.want("another", s.fired(s.aside(is, manual)).Fires[0].At, now+3)
			s.want("the due time of now is still its own", len(s.fired(s.on(is, now, now+1)).Fires),
				1)
			s.want("counts", s.counts(), task.Counts{Ready: 4})
			s.clock.Advance(5 * time.Microsecond)
			s.want("at any other time", s.fired(s.aside(s.one("s"), manual)).Fires[0].At, now+5)
		}},
		{"AFiringThatIsRepeatedDoesNothingTwice", func(s *scene) {
			now := s.clock.Micros()
			a, b, c := s.schedule("a", now), s.schedule("b", store.Never), s.schedule("c", now+10)
			over := s.aside(b, row(now-1, task.FireFired))
			over.Over = true
			f := s.firing(s.on(a, now, now+1e6),
				s.aside(b, row(now-2, task.FireFired), row(now-3, task.FireSkipped)),
				over, s.on(c, now+10, now+20))
			first := s.fire(f)
			s.want("the last is too early", first.Parts[3].Refused, store.FireEarly)
			left := [][]store.Fire{
				s.fires(store.FireQuery{Schedule: "a"}), s.fires(store.FireQuery{Schedule: "b"}),
			}
			s.clock.Advance(time.Second)
			got := s.fire(f)
			s.want("refused", refusals(got), []string{store.FireMoved, "", "", store.FireMoved})
			s.want("left", [][]int64{got.Parts[1].Left, got.Parts[2].Left},
				[][]int64{{now - 2, now - 3}, {now - 1}})
			s.want("rows",
				[][]store.Fire{
					s.fires(store.FireQuery{Schedule: "a"}), s.fires(store.FireQuery{
						Schedule: "b",
					}),
				}, left)
			s.want("cursors", []int64{s.one("a").Next, s.one("c").Next},
				[]int64{now + 1e6, now + 10})
			s.want("counts", s.counts(), task.Counts{Ready: 3})
			s.want("with a batch of its own", len(s.fired(s.on(c, now+10, now+20)).Fires), 1)
			f.Batches[0].Origin = "elsewhere"
			f.Parts = []store.FirePart{s.aside(b, row(now-9, task.FireSkipped))}
			_, err := s.Fire(s.ctx, f)
			s.wantErr("a batch that stands from elsewhere", err, store.ErrConflict)
			s.want("fires", len(s.fires(store.FireQuery{Schedule: "b"})), 3)
		}},
	}
}
