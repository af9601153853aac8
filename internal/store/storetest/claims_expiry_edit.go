package storetest

import (
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// editedLimitClaims is what edits and actions make of limits.
func editedLimitClaims() []claim {
	const second = int64(1e6)
	return []claim{
		{"EditedTimeMovesTheLimitAlong", func(s *scene) {
			h := s.join("a")
			b := s.limited(3, 30*second, 30*second)
			id := task.ID{Batch: b.ID, N: 1}
			later := b.Due + 3600*second
			s.edited(h, id, store.Edit{Due: &later})
			s.want("limit", s.view(id).Expires, instant(later+30*second))
			s.edited(h, id, store.Edit{Priority: new(second)})
			s.want("after another edit", s.view(id).Expires, instant(later+30*second))
			sooner := b.Due + 60*second
			s.edited(h, id, store.Edit{Due: &sooner})
			s.want("and back", s.stand(id).Expires, sooner+30*second)
			s.clock.Advance(30 * time.Second)
			h = s.join("a")
			s.want("its neighbour", s.expireFree(h), []task.ID{{Batch: b.ID}})
			s.clock.Advance(time.Minute - time.Microsecond)
			h = s.join("a")
			s.want("not yet", len(s.expireFree(h)), 0)
			s.clock.Advance(time.Microsecond)
			s.want("then", s.expireFree(h), []task.ID{id})
			s.want("steps", s.stepsOf(id), []string{"edited somebody [due]",
				"edited somebody [priority]", "edited somebody [due]",
				"expired  not begun in time []"})
			without := task.ID{Batch: b.ID, N: 2}
			s.edited(h, without, store.Edit{Due: &later})
			s.want("of one without", s.view(without).Expires, time.Time{})
		}},
		{"EditSetsALimitOrTakesItAway", func(s *scene) {
			h := s.join("a")
			b := s.limited(2, 0, 30*second)
			set, gone := task.ID{Batch: b.ID}, task.ID{Batch: b.ID, N: 1}
			s.edited(h, set, store.Edit{StartWithin: new(5 * second)})
			s.edited(h, gone, store.Edit{StartWithin: new(int64(0))})
			s.want("limits", []time.Time{s.view(set).Expires, s.view(gone).Expires},
				[]time.Time{instant(b.Due + 5*second), {}})
			s.want("steps", s.stepsOf(set), []string{"edited somebody [start_within]"})
			later := b.Due + 60*second
			s.edited(h, set, store.Edit{Due: &later, StartWithin: new(7 * second)})
			s.want("from the time that it leaves", s.view(set).Expires, instant(later+7*second))
			s.clock.Advance(2 * time.Minute)
			h = s.join("a")
			o := s.nextOne(h)
			s.want("handed out", []any{o.ID(), o.Expires}, []any{gone, int64(0)})
			s.want("its report", s.settle(s.expired(o)), []task.Status{task.Stale})
			s.want("expired", s.expireFree(h), []task.ID{set})
		}},
		{"EditedTaskExpiresInItsHoldersHands", func(s *scene) {
			h := s.join("a")
			b := s.limited(1)
			s.edited(h, task.ID{Batch: b.ID}, store.Edit{StartWithin: new(5 * second)})
			o := s.nextOne(h)
			s.want("limit", o.Expires, b.Due+5*second)
			old := o
			s.edited(h, o.ID(), store.Edit{StartWithin: new(6 * second)})
			s.want("what it held", s.settle(s.expired(old)), []task.Status{task.Stale})
			o = s.nextOne(h)
			s.want("limit", o.Expires, b.Due+6*second)
			s.recorded(s.expired(o))
			s.wantState(o.ID(), task.Expired)
		}},
		{"EditGivesNoLimitToWhatWasHandedOut", func(s *scene) {
			h := s.join("a")
			s.limited(2, 30*second, 30*second)
			outs := s.takeThose(h, 2)
			s.recorded(outs[0].Report(s.clock, task.Release()),
				outs[1].Report(s.clock, task.Fail(nil)))
			s.changed(task.KindReplayed, outs[1].ID())
			for _, o := range outs {
				id := o.ID()
				s.edited(h, id, store.Edit{StartWithin: new(5 * second)})
				s.want("limit", s.view(id).Expires, time.Time{})
				s.edited(h, id, store.Edit{Priority: new(second), StartWithin: new(second)})
				s.want("limit", s.stand(id).Expires, int64(0))
			}
			s.clock.Advance(time.Minute)
			s.want("expired", len(s.expireFree(s.join("a"))), 0)
		}},
		{"MovedTasksHaveNoLimitUntilTheyGetAnother", func(s *scene) {
			h := s.join("a")
			b := s.limited(2, 30*second, 30*second)
			moved, edited := task.ID{Batch: b.ID}, task.ID{Batch: b.ID, N: 1}
			s.changed(task.KindMoved, moved)
			s.changed(task.KindMoved, edited)
			s.want("limit", s.view(edited).Expires, time.Time{})
			s.edited(h, edited, store.Edit{Priority: new(second)})
			s.want("after an edit of something else", s.view(edited).Expires, time.Time{})
			s.edited(h, edited, store.Edit{StartWithin: new(5 * second)})
			s.want("another limit", s.view(edited).Expires, instant(s.clock.Micros()+5*second))
			s.changed(task.KindCancelled, edited)
			s.changed(task.KindReplayed, edited)
			s.want("after a replay", s.view(edited).Expires, time.Time{})
			s.edited(h, edited, store.Edit{StartWithin: new(5 * second)})
			s.clock.Advance(time.Minute)
			s.want("expired", s.expireFree(s.join("a")), []task.ID{edited})
			s.wantState(moved, task.Ready)
		}},
		{"LimitOfARemovedOrCancelledTaskIsOver", func(s *scene) {
			h := s.join("a")
			b := s.limited(2, second, second)
			s.changed(task.KindCancelled, task.ID{Batch: b.ID})
			s.changed(task.KindRemoved, task.ID{Batch: b.ID, N: 1})
			s.clock.Advance(time.Second)
			got := s.takeExpired(h, 10)
			s.want("taken", []any{len(got.Spans), got.NextDue}, []any{0, int64(0)})
			s.wantState(task.ID{Batch: b.ID}, task.Cancelled)
		}},
	}
}
