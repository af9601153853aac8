package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// minuteClaims is what holds for what happened minute by minute.
func minuteClaims() []claim {
	return []claim{
		{"MinutesTellWhatHappenedInThemWhateverWasDeletedSince", func(s *scene) {
			first := s.clock.Micros() / time.Minute.Microseconds()
			minutes := func(from int64) []string {
				got, err := s.Minutes(s.ctx, from, 0)
				s.ok(err)
				return caller.TellMinutes(got)
			}
			s.want("minutes of an empty store", len(minutes(0)), 0)
			h := s.join("a")
			s.submit(h, s.batch("q", 5), s.batch("r", 1))
			began := s.clock.Micros()
			for _, how := range []task.Outcome{
				task.Finish(nil), task.Fail(nil), {Kind: task.KindRetry},
				{Kind: task.KindLost},
			} {
				o := s.takeOne(h)
				r := o.Report(s.clock, how)
				if r.Step.Started = began; how.Kind == task.KindRetry ||
					how.Kind == task.KindLost {
					r.Step.Base = o.Span.Seq0 // it is not over
				}
				s.recorded(r)
			}
			want := []string{
				"12:00 q: submitted 5, started 4, done 1, retried 2, dead 1, lost 1, " +
					"wait 4: 0s..0s, run 3: 0s..0s",
				"12:00 r: submitted 1",
			}
			s.want("the first minute", minutes(first), want)
			s.clock.Advance(2 * time.Minute)
			second := s.clock.Micros() / time.Minute.Microseconds()
			dead, _, err := s.Tasks(s.ctx, store.Filter{State: task.Dead}, task.ID{}, 10)
			s.ok(err)
			done, _, err := s.Tasks(s.ctx, store.Filter{State: task.Done}, task.ID{}, 10)
			s.ok(err)
			ready, _, err := s.Tasks(s.ctx, store.Filter{Queue: "r"}, task.ID{}, 10)
			s.ok(err)
			acted, err := s.Act(s.ctx, []store.Action{
				{ID: dead[0].ID, Kind: task.KindReplayed, Rank: began, Due: began},
				{ID: done[0].ID, Kind: task.KindRemoved},
				{ID: ready[0].ID, Kind: task.KindCancelled},
			})
			s.ok(err)
			for i, a := range acted {
				s.want("changed", []any{i, a.Changed}, []any{i, true})
			}
			want = append(want, "12:02 r: cancelled 1")
			s.want("both minutes", minutes(first), want)
			_, err = s.Prune(s.ctx, 100) // minutes that are over may be kept elsewhere
			s.ok(err)
			s.want("both minutes later", minutes(0), want)
			s.want("the second minute", minutes(first+1), want[2:])
			s.want("the minutes to come", len(minutes(second+1)), 0)
			got, err := s.Minutes(s.ctx, 0, first+1)
			s.ok(err)
			s.want("with durations from the second on", caller.TellMinutes(got), []string{
				"12:00 q: submitted 5, started 4, done 1, retried 2, dead 1, lost 1",
				want[1], want[2],
			})
			s.clock.Advance(59 * time.Minute)
			_, err = s.Prune(s.ctx, 100)
			s.ok(err)
			s.want("after an hour", minutes(first), want)
			s.ok(s.DeleteQueue(s.ctx, "r", true))
			s.want("with a queue that is no more", minutes(first), want)
		}},
		{"SchedulesAreCountedByQueue", func(s *scene) {
			now := s.clock.Micros()
			put := func(name, queue string, next int64, paused bool) store.SchedulePut {
				p := s.newSchedule(name, next)
				p.Schedule.Queue, p.Schedule.Paused = queue, paused
				p.Schedule.Context = []byte(`{"paused":true,"queue":"x"}`)
				return p
			}
			stands := func(late int64) []store.ScheduleStand {
				got, err := s.ScheduleStands(s.ctx, late)
				s.ok(err)
				slices.SortFunc(got, func(a, b store.ScheduleStand) int {
					return cmp.Compare(a.Queue, b.Queue)
				})
				return got
			}
			s.want("none", len(stands(now)), 0)
			s.putAll(put("a", "q", now+1, false), put("b", "q", now+2, false),
				put("c", "q", now+1, true), put("d", "q", store.Never, false),
				put("e", "r", now+9, false))
			s.want("before all", stands(now+1),
				[]store.ScheduleStand{{Queue: "q", All: 4, Paused: 1}, {Queue: "r", All: 1}})
			s.want("after the first", stands(now+2),
				[]store.ScheduleStand{{Queue: "q", All: 4, Paused: 1, Late: 1},
					{Queue: "r", All: 1}})
			s.want("after all", stands(now+10),
				[]store.ScheduleStand{{Queue: "q", All: 4, Paused: 1, Late: 2},
					{Queue: "r", All: 1, Late: 1}})
		}},
	}
}
