package storetest

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// upkeepClaims is what holds for Prune and Check.
func upkeepClaims() []claim {
	return []claim{
		{"RetentionKeepsDeadTasksLonger", func(s *scene) {
			h := s.join("a")
			s.put(1)
			done := s.takeOne(h)
			s.recorded(done.Report(s.clock, task.Finish(nil)))
			s.put(1)
			dead := s.takeOne(h)
			s.recorded(dead.Report(s.clock, task.Fail(nil)))
			cancelled := s.put(1)[0]
			s.changed(task.KindCancelled, cancelled)
			waiting := s.put(1)[0]
			_, err := s.Settle(s.ctx, store.Settlement{
				Spent: []store.Taking{done.Span.Taking(), dead.Span.Taking()},
			})
			s.ok(err)
			s.ok(s.AppendLog(s.ctx, done.ID(), caller.LogLines(s.clock.Now(), 0, 1, 1)))
			for _, step := range []struct {
				after time.Duration
				want  task.Counts
			}{
				{limits.DefaultRetention - time.Second, task.Counts{
					Ready: 1, Done: 1, Dead: 1, Cancelled: 1,
				}},
				{2 * time.Second, task.Counts{Ready: 1, Dead: 1}},
				{limits.DefaultDeadKept - limits.DefaultRetention - 2*time.Second, task.Counts{
					Ready: 1, Dead: 1,
				}},
				{2 * time.Second, task.Counts{Ready: 1}},
				{1000 * time.Hour, task.Counts{Ready: 1}},
			} {
				s.clock.Advance(step.after)
				s.prune()
				s.want(fmt.Sprintf("counts %v later", step.after), s.counts(), step.want)
			}
			for _, id := range []task.ID{done.ID(), dead.ID(), cancelled} {
				_, err := s.Task(s.ctx, id)
				s.wantErr("view of a pruned task", err, store.ErrNotFound)
			}
			s.wantState(waiting, task.Ready)
			s.want("late report of a pruned task", s.settle(done.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Unknown})
			s.want("what can still be taken", s.takeOne(s.join("a")).ID(), waiting)
		}},
		{"RetentionIsTheQueuesOwn", func(s *scene) {
			h := s.join("a")
			q := limits.DefaultQueue("q")
			q.Retention = time.Minute
			_, err := s.ChangeQueue(s.ctx, q.Name, store.Whole(q))
			s.ok(err)
			s.put(1)
			o := s.takeOne(h)
			_, err = s.Settle(s.ctx, store.Settlement{
				Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
				Spent:   []store.Taking{o.Span.Taking()},
			})
			s.ok(err)
			s.clock.Advance(2 * time.Minute)
			s.prune()
			s.want("counts", s.counts(), task.Counts{})
		}},
		{"PruneTakesItsBlobsAlong", func(s *scene) {
			h := s.join("a")
			v, err := s.Keep(s.ctx, []byte(caller.JSON(10_000)))
			s.ok(err)
			kept, err := s.Keep(s.ctx, []byte(caller.JSON(20_000)))
			s.ok(err)
			b, other := s.batch("q", 1), s.batch("q", 1)
			b.Tasks[0].Context, other.Tasks[0].Context = v, kept
			s.submit(h, b, other)
			o := s.takeOne(h)
			_, err = s.Settle(s.ctx, store.Settlement{
				Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
				Spent:   []store.Taking{o.Span.Taking()},
			})
			s.ok(err)
			s.clock.Advance(2 * limits.DefaultRetention)
			s.prune()
			s.clock.Advance(2 * limits.DefaultRetention)
			s.prune()
			if _, err := s.Value(s.ctx, v); err == nil {
				s.fail("the blob of a pruned task is still there")
			}
			s.wantText("blob of a task that waits", kept, caller.JSON(20_000))
		}},
		{"PruneDoesAtMostWhatItIsAskedFor", func(s *scene) {
			h := s.join("a")
			for range 5 {
				s.put(1)
				o := s.takeOne(h)
				_, err := s.Settle(s.ctx, store.Settlement{
					Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
					Spent:   []store.Taking{o.Span.Taking()},
				})
				s.ok(err)
			}
			s.clock.Advance(2 * limits.DefaultRetention)
			last := s.counts().Done
			for range 100 {
				n, err := s.Prune(s.ctx, 3)
				s.ok(err)
				if left := s.counts().Done; last-left > 3 {
					s.fail("%d tasks were pruned at a limit of 3 rows", last-left)
				} else {
					last = left
				}
				if n > 3 {
					s.fail("%d rows were pruned at a limit of 3", n)
				}
			}
			s.want("tasks left", last, int64(0))
		}},
		{"PruneTakesFewKeysSeatsAndEventsAtATime", func(s *scene) {
			b := s.batch("q", 10)
			for i := range b.Tasks {
				b.Tasks[i].Key, b.Tasks[i].KeyUntil = fmt.Sprint("k", i), b.Due+int64(i+1)
			}
			h := s.jobScene()
			s.submit(h, b)
			var events []store.Event
			for i := range 10 {
				w := fmt.Sprint("gone", i)
				s.sit(h, w, 1)
				s.away(h, w, store.SeatLeft)
				events = append(events, event(w))
			}
			s.appended(10, events...)
			s.clock.Advance(max(store.SeatsKept, store.EventsKept) + time.Hour)
			all := 0
			for range 100 {
				seats, events := len(s.board(0).Seats.Seats),
					len(s.keys(store.EventQuery{Limit: 20}))
				n, err := s.Prune(s.ctx, 3)
				s.ok(err)
				all += n
				gone := []int{
					n, seats - len(s.board(0).Seats.Seats),
					events - len(s.keys(store.EventQuery{Limit: 20})),
				}
				if max(gone[0], gone[1], gone[2]) > 3 {
					s.fail("rows, seats and events that were pruned at a limit of 3: %v", gone)
				}
			}
			s.want("rows that were pruned", all, 30)
		}},
		{"WhatIsNotBehindHasNothingLeftToPrune", func(s *scene) {
			s.put(20)
			h := s.join("a")
			for range 5 {
				s.put(1)
			}
			for _, span := range s.take(h, 25) {
				for _, loaded := range span.Tasks {
					o := caller.Handout{Span: span.Span, Loaded: loaded}
					if o.ID().Batch > 0 && span.Lo == span.Hi {
						s.recorded(o.Report(s.clock, task.Finish(nil)))
					}
				}
			}
			s.want("done", s.counts().Done, int64(5))
			s.clock.Advance(2 * limits.DefaultRetention)
			for calls := 0; ; calls++ {
				_, err := s.Prune(s.ctx, 3)
				s.ok(err)
				left := s.Retention()
				if !left.Behind {
					break
				}
				if calls > 100 {
					s.fail("it is behind for ever: %+v", left)
				}
			}
			s.want("done, when nothing is left to prune", s.counts().Done, int64(0))
		}},
		{"HealthyStoreChecksOut", func(s *scene) {
			s.ok(s.Check(s.ctx))
			s.put(1)
			s.ok(s.Check(s.ctx))
		}},
	}
}

// prune prunes until nothing is left to prune.
func (s *scene) prune() {
	for range 1000 {
		n, err := s.Prune(s.ctx, 1000)
		s.ok(err)
		if n == 0 {
			return
		}
	}
	s.fail("pruning does not end")
}
