package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// togetherClaims are what holds for outcomes that come together: a store may keep many of them in
// one row, and nobody may notice.
func togetherClaims() []claim {
	return []claim{
		{"OutcomesThatComeTogetherStandAsEachAlone", func(s *scene) {
			h := s.join("a")
			outs := s.takeMany(h, 150)
			want := make([]task.Status, len(outs))
			for i := range want {
				want[i] = task.Recorded
			}
			// What stands already refuses its report, and no other.
			s.recorded(outs[3].Report(s.clock, task.Retry(errors.New("no"))),
				outs[72].Report(s.clock, task.Finish(nil)),
				outs[71].Report(s.clock, task.Next("second", nil)))
			s.changed(task.KindCancelled, outs[5].ID())
			s.changed(task.KindRemoved, outs[64].ID())
			want[3], want[71], want[5], want[64] = task.Stale, task.Stale, task.Stale, task.Stale
			want[72] = task.Repeated
			reports := finishAll(s, outs)
			reports[10].Token.SpanToken++
			want[10] = task.Stale
			s.want("verdicts", s.settle(reports...), want)
			for i, v := range want {
				if v == task.Recorded {
					want[i] = task.Repeated
				}
			}
			slices.Reverse(reports)
			slices.Reverse(want)
			s.want("verdicts again", s.settle(reports...), want)
			s.want("counts", s.counts(), task.Counts{
				Waiting: 1, Ready: 2, Done: 145, Cancelled: 1,
			})
			for _, i := range []int{0, 63, 65, 149} {
				v := s.view(outs[i].ID())
				s.want("state", v.State, task.Done)
				s.want("steps", len(v.Steps), 1)
				s.want("worker", v.Steps[0].Worker+v.Worker, "ww")
				s.want("stage", v.Steps[0].Stage+v.Stage, "firstfirst")
				s.want("end", v.Steps[0].Finished.UnixMicro(), s.clock.Micros())
				s.want("context", string(v.Context), fmt.Sprintf("[%d]", i))
				s.want("result", string(v.Result), map[bool]string{true: fmt.Sprint(i)}[i%5 == 0])
			}
			s.wantState(outs[10].ID(), task.Ready)
		}},
		{"EachOfManyOutcomesIsSeenByWhoWatchesIt", func(s *scene) {
			h := s.join("a")
			outs := s.takeMany(h, 80)
			s.recorded(finishAll(s, outs[:70])...)
			s.sync(h, outs...) // what is over is not written down
			req := store.SyncRequest{Holder: h}
			for _, o := range outs {
				req.Watch = append(req.Watch, store.Watch{ID: o.ID(), Seq: o.Seq})
			}
			got, err := s.Sync(s.ctx, req)
			s.ok(err)
			s.want("settled", len(got.Settled), 70)
			over, err := s.Overdue(s.ctx, store.OverdueQuery{Limit: 100})
			s.ok(err)
			s.want("overdue", len(over.Rows), 0)
			s.clock.Advance(time.Hour)
			over, err = s.Overdue(s.ctx, store.OverdueQuery{Limit: 100})
			s.ok(err)
			s.want("overdue after an hour", len(over.Rows), 10)
			s.want("done", len(s.list(store.Filter{State: task.Done, Worker: "w"})), 70)
		}},
		{"OneOfManyDoneBeginsAgainAlone", func(s *scene) {
			h := s.join("a")
			outs := s.takeMany(h, 70)
			s.recorded(finishAll(s, outs)...)
			if !s.replay(outs[66].ID(), store.Replay{}).Changed {
				s.fail("nothing was replayed")
			}
			s.want("counts", s.counts(), task.Counts{Ready: 1, Done: 69})
			again := s.takeOnly(h, outs[66].ID())
			s.want("seq", again.Seq, int32(2))
			s.want("late report of the first hand-out",
				s.settle(outs[66].Report(s.clock, task.Fail(nil))), []task.Status{task.Stale})
			s.recorded(again.Report(s.clock, task.Fail(errors.New("no"))))
			s.wantState(outs[66].ID(), task.Dead)
			s.want("steps", len(s.view(outs[66].ID()).Steps), 3)
			s.wantState(outs[65].ID(), task.Done)
		}},
		{"ManyThatEndTogetherGoWhenEachIsOldEnough", func(s *scene) {
			h := s.join("a")
			outs := s.takeMany(h, 130)
			for _, i := range []int{1, 66} {
				s.recorded(outs[i].Report(s.clock, task.Fail(errors.New("no"))))
			}
			reports := finishAll(s, outs)
			s.recorded(slices.Delete(slices.Delete(reports, 66, 67), 1, 2)[:100]...)
			s.clock.Advance(limits.DefaultRetention + time.Hour)
			s.prune()
			s.want("left", len(s.list(store.Filter{})), 30) // dead ones are kept longer
			s.want("counts", s.counts(), task.Counts{Ready: 28, Dead: 2})
			late := outs[2].Report(s.clock, task.Finish(nil))
			s.want("report on one that is gone", s.settle(late), []task.Status{task.Unknown})
			s.recorded(finishAll(s, outs[102:])...)
			s.clock.Advance(limits.DefaultDeadKept + time.Hour)
			s.prune()
			s.want("left at last", len(s.list(store.Filter{})), 0)
		}},
	}
}

// takeMany submits n tasks and takes all of them, in one span.
func (s *scene) takeMany(h store.Holder, n int) (outs []caller.Handout) {
	s.put(n)
	for _, sp := range s.take(h, n) {
		for _, l := range sp.Tasks {
			outs = append(outs, caller.Handout{Span: sp.Span, Loaded: l})
		}
	}
	if len(outs) != n {
		s.fail("take of %d tasks: got %d", n, len(outs))
	}
	return outs
}

// finishAll reports that all hand-outs ended well; every fifth has a result.
func finishAll(s *scene, outs []caller.Handout) (list []store.Report) {
	for _, o := range outs {
		out := task.Finish(nil)
		if o.N%5 == 0 {
			out = task.Finish(o.N)
		}
		list = append(list, o.Report(s.clock, out))
	}
	return list
}
