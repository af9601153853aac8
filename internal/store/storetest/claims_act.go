package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// actClaims is what holds for Act and Stand.
func actClaims() []claim {
	return []claim{
		{"CancelOfARunningTaskMakesItsLateReportStale", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h) // x with a running row, y known to the node alone
			s.sync(h, x)
			for _, o := range []caller.Handout{x, y} {
				s.changed(task.KindCancelled, o.ID())
				s.wantState(o.ID(), task.Cancelled)
				s.want("late report", s.settle(o.Report(s.clock, task.Finish(nil))),
					[]task.Status{task.Stale})
				s.wantState(o.ID(), task.Cancelled)
			}
			s.want("running row", s.stand(x.ID()).Running, (*store.Running)(nil))
			s.want("counts", s.counts(), task.Counts{Cancelled: 2})
			got, err := s.Sync(s.ctx, store.SyncRequest{
				Holder: h, Watch: []store.Watch{{ID: x.ID(), Seq: x.Seq}},
			})
			s.ok(err)
			s.want("seqs settled by others", got.Settled, []task.ID{x.ID()})
		}},
		{"StandSaysHowTheNewestHandOutEnded", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			s.want("before any", s.stand(id).Kind, task.Kind(0))
			s.recorded(s.takeOne(h).Report(s.clock, task.Snooze(time.Hour)))
			s.want("after a snooze", s.stand(id).Kind, task.KindSnooze)
			s.changed(task.KindCancelled, id)
			s.want("after a cancellation", s.stand(id).Kind, task.KindCancelled)
		}},
		{"RepeatedActionIsAnsweredAsTheFirstTimeAndDoesNothing", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			mark := int64(0)
			act := func(what string, kind task.Kind, changed bool) {
				now := s.clock.Micros()
				got, err := s.Act(s.ctx,
					[]store.Action{{ID: id, Kind: kind, Mark: mark, Rank: now, Due: now}})
				s.ok(err)
				s.want(what+": found", got[0].Found, true)
				s.want(what+": changed", got[0].Changed, changed)
			}
			both := func(kind task.Kind, then func()) {
				mark++
				act(kind.String(), kind, true)
				then()
				before := s.view(id)
				act(kind.String()+" again", kind, true)
				s.want("view", s.view(id), before)
			}
			both(task.KindMoved, func() {})
			s.recorded(s.takeOne(h).Report(s.clock, task.Fail(nil)))
			mark = 0
			act("move of a dead one", task.KindMoved, false) // no mark is nobody's
			mark = 1
			both(task.KindReplayed, func() {
				s.recorded(s.takeOne(h).Report(s.clock, task.Fail(nil))) // dead again, and stays so
			})
			mark++
			act("replay", task.KindReplayed, true)
			mark++
			act("replay by another", task.KindReplayed, false)
			both(task.KindCancelled, func() {})
			mark++
			act("cancel by another", task.KindCancelled, false)
			mark++
			act("removal", task.KindRemoved, true)
			act("removal again", task.KindRemoved, true)
			mark++
			s.want("removal by another", s.act(task.KindRemoved, id), store.Acted{ID: id})
		}},
		{"StandTellsHowTasksEnded", func(s *scene) {
			h := s.join("a")
			ids := append(s.put(6), task.ID{Batch: 4711})
			outs := make([]caller.Handout, 5)
			for i := range outs {
				outs[i] = s.takeOne(h)
			}
			s.recorded(outs[0].Report(s.clock, task.Finish(nil)),
				outs[1].Report(s.clock, task.Fail(nil)), outs[2].Report(s.clock, task.Finish(nil)),
				outs[3].Report(s.clock, task.Next("second", nil)))
			s.changed(task.KindRemoved, outs[2].ID())
			s.changed(task.KindCancelled, outs[4].ID())
			got, err := s.Stand(s.ctx, ids)
			s.ok(err)
			type end struct {
				id           task.ID
				found, final bool
				kind         task.Kind
			}
			want := []end{
				{ids[0], true, true, task.KindDone}, {ids[1], true, true, task.KindFail},
				{ids[2], true, true, task.KindRemoved},
				{ids[3], true, false, task.KindNext}, {ids[4], true, true, task.KindCancelled},
				{ids[5], true, false, 0}, {ids[6], false, false, 0},
			}
			ends := make([]end, len(got))
			for i, g := range got {
				ends[i] = end{g.ID, g.Found, g.Final, g.Kind}
			}
			s.want("ends", ends, want)
		}},
		{"CancelledHandOutTellsWhoseWorkItWas", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			began := s.clock.Micros()
			_, err := s.Act(s.ctx,
				[]store.Action{
					{ID: o.ID(), Kind: task.KindCancelled, By: "somebody", Worker: "w7",
						Started: began, Error: "why"},
				})
			s.ok(err)
			v, err := s.Task(s.ctx, o.ID())
			s.ok(err)
			s.want("the task's worker", v.Worker, "w7")
			s.want("the step's worker and error", []string{v.Steps[0].Worker, v.Steps[0].Error},
				[]string{"w7", "why"})
			s.want("the step's start", v.Steps[0].Started.UnixMicro(), began)
		}},
		{"CancelledTaskIsNotHandedOut", func(s *scene) {
			h := s.join("a")
			lone, ids := s.put(1), s.put(3)
			s.changed(task.KindCancelled, lone[0])
			s.changed(task.KindCancelled, ids[1])
			spans := s.take(h, 10)
			s.want("spans: the lone task's is gone", len(spans), 1)
			s.want("tasks", len(spans[0].Tasks), 2)
			s.want("last task", spans[0].Tasks[1].N, int32(2))
		}},
		{"FinalTasksAreNotCancelled", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.recorded(x.Report(s.clock, task.Finish(nil)), y.Report(s.clock, task.Fail(nil)))
			s.want("cancel of a done task", s.act(task.KindCancelled, x.ID()), store.Acted{
				ID: x.ID(), Queue: "q", Found: true, Was: task.Done,
			})
			s.want("cancel of a dead task", s.act(task.KindCancelled, y.ID()), store.Acted{
				ID: y.ID(), Queue: "q", Found: true, Was: task.Dead,
			})
			s.want("counts", s.counts(), task.Counts{Done: 1, Dead: 1})
		}},
		{"ActionsSayWhatTheTaskWas", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 1)
			b.Due += time.Hour.Microseconds()
			s.submit(store.Holder{}, b)
			s.put(1)
			o := s.takeOne(h)
			s.sync(h, o)
			ready := s.put(1)[0]
			now := s.clock.Micros()
			got, err := s.Act(s.ctx, []store.Action{
				{ID: task.ID{Batch: b.ID}, Kind: task.KindCancelled},
				{ID: o.ID(), Kind: task.KindMoved, Rank: now, Due: now},
				{ID: ready, Kind: task.KindReplayed, Rank: now, Due: now},
				{ID: task.ID{Batch: 7}, Kind: task.KindCancelled},
			})
			s.ok(err)
			s.want("answers, in the order of the actions", got, []store.Acted{
				{ID: task.ID{Batch: b.ID}, Queue: "q", Found: true, Changed: true,
					Was: task.Waiting},
				{ID: o.ID(), Queue: "q", Found: true, Was: task.Running},
				{ID: ready, Queue: "q", Found: true, Was: task.Ready},
				{ID: task.ID{Batch: 7}},
			})
		}},
		{"MoveTakesATaskIntoASpanOfItsOwn", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 3)
			b.Due += time.Hour.Microseconds()
			b.Rank = b.Due
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID, N: 1}
			now := s.clock.Micros()
			got, err := s.Act(s.ctx,
				[]store.Action{{ID: id, Kind: task.KindMoved, Rank: now - 5e6, Due: now}})
			s.ok(err)
			s.want("changed", got[0].Changed, true)
			s.wantState(id, task.Ready)
			s.want("priority", s.view(id).Priority, 5*time.Second)
			s.want("counts", s.counts(), task.Counts{Waiting: 2, Ready: 1})
			st := s.stand(id)
			s.want("owner", withoutIDs([]store.Span{st.Owner}),
				[]store.Span{{Batch: b.ID, Lo: 1, Hi: 1, Seq0: 1, Queue: "q",
					Rank: now - 5e6, Due: now}})
			o := s.takeOne(h)
			s.want("task", o.ID(), id)
			s.want("seq: the move has one of its own", o.Seq, int32(1))
			s.want("attempts charged", o.Attempt, int32(0))
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.clock.Advance(time.Hour)
			rest := s.take(s.join("a"), 10)
			s.want("spans of the rest", len(rest), 1)
			s.want("tasks of the rest", len(rest[0].Tasks), 2)
		}},
		{"ReplayBeginsWhereItSaysWithTheContextOfThatTime", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			o := s.takeOne(h)
			second := task.Next("second", nil)
			second.Context = []byte(`"one"`)
			s.recorded(o.Report(s.clock, second))
			o = s.takeAgain(h, o)
			changed := task.Retry(errors.New("not yet"))
			changed.Context = []byte(`"two"`)
			s.recorded(o.Report(s.clock, changed))
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Next("third", nil)))
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Fail(nil)))
			for _, c := range []struct {
				what       string
				replay     store.Replay
				stage      string
				context    string
				contextSeq int32
			}{
				{"as it is", store.Replay{}, "third", `"two"`, 1},
				{"second stage", store.Replay{Stage: new("second")}, "second", `"one"`, 0},
				{"as it is, after that", store.Replay{}, "second", `"one"`, 0},
				{"third stage", store.Replay{Stage: new("third")}, "third", `"two"`, 1},
				{"whole", store.Replay{Whole: true}, "first", "[0]", -1},
				{"first stage", store.Replay{Stage: new("first")}, "first", "[0]", -1},
			} {
				s.want(c.what, s.replay(id, c.replay), store.Acted{
					ID: id, Queue: "q", Found: true, Changed: true, Was: task.Dead,
				})
				o := s.takeOne(h)
				s.want(c.what+": stage", o.Stage, c.stage)
				s.want(c.what+": context", []any{string(o.Context), o.ContextSeq},
					[]any{c.context, c.contextSeq})
				s.want(c.what+": attempts charged", o.Attempt, int32(0))
				s.recorded(o.Report(s.clock, task.Fail(nil)))
			}
			for _, stage := range []string{"fourth", ""} {
				s.want("to a stage in which it never was",
					s.replay(id, store.Replay{Stage: &stage}), store.Acted{
						ID: id, Queue: "q", Found: true, Was: task.Dead,
					})
			}
			s.wantState(id, task.Dead)
			s.want("counts", s.counts(), task.Counts{Dead: 1})
		}},
		{"MovedTaskCanMoveAgain", func(s *scene) {
			id := s.put(1)[0]
			for range 3 {
				s.changed(task.KindMoved, id)
			}
			spans := s.take(s.join("a"), 10)
			s.want("spans: those moved out of are gone", len(spans), 1)
			s.want("seq", spans[0].Tasks[0].Seq, int32(3))
			s.want("steps", len(s.view(id).Steps), 3)
		}},
		{"FinalAndRunningTasksAreNotMoved", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.recorded(x.Report(s.clock, task.Finish(nil)))
			s.sync(h, y)
			s.want("move of a done task", s.act(task.KindMoved, x.ID()).Changed, false)
			s.want("move of a running task", s.act(task.KindMoved, y.ID()).Changed, false)
			s.recorded(y.Report(s.clock, task.Finish(nil)))
		}},
		{"OnlyFinalTasksAreReplayed", func(s *scene) {
			h := s.join("a")
			ids := s.put(2)
			dead := s.takeOne(h)
			next := task.Next("second", nil)
			next.Context = []byte(`"kept"`)
			s.recorded(dead.Report(s.clock, next))
			s.want("replay of one that goes on", s.act(task.KindReplayed, dead.ID()).Changed, false)
			dead = s.takeAgain(h, dead)
			s.sync(h, dead)
			s.want("replay of a running one", s.act(task.KindReplayed, dead.ID()), store.Acted{
				ID: dead.ID(), Queue: "q", Found: true, Was: task.Running,
			})
			s.recorded(dead.Report(s.clock, task.Fail(nil)))
			s.want("replay of a ready one", s.act(task.KindReplayed, ids[1]).Changed, false)
			s.changed(task.KindReplayed, dead.ID())
			s.wantState(dead.ID(), task.Ready)
			s.want("counts", s.counts(), task.Counts{Ready: 2})
			st := s.stand(dead.ID())
			st.Due = 0
			s.want("where it begins again", st.Loaded, store.Loaded{
				N: dead.N, Standing: progress.Standing{Stage: "second", Seq: 3, Base: 3},
				Context: store.Value(`"kept"`), ContextSeq: 0, ContextBy: "w",
			})
			s.want("replay changed twice", s.act(task.KindReplayed, dead.ID()).Changed, false)
			s.want("late report", s.settle(dead.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
		}},
		{"ReplayOfADoneTaskBeginsAsItWasSubmitted", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			done := func() {
				o := s.takeOne(h)
				s.want("stage, context and attempts",
					[]any{o.Stage, string(o.Context), o.ContextSeq, o.Attempt},
					[]any{"first", "[0]", int32(-1), int32(0)})
				next := task.Next("second", nil)
				next.Context = []byte(`"two"`)
				s.recorded(o.Report(s.clock, next))
				o = s.takeAgain(h, o)
				end := task.Finish("receipt")
				s.recorded(o.Report(s.clock, end))
				s.want("its report once more", s.settle(o.Report(s.clock, end)),
					[]task.Status{task.Repeated})
				s.want("counts", s.counts(), task.Counts{Done: 1})
			}
			done()
			for range 2 {
				s.want("answer", s.act(task.KindReplayed, id), store.Acted{
					ID: id, Queue: "q", Found: true, Changed: true, Was: task.Done,
				})
				s.want("counts", s.counts(), task.Counts{Ready: 1})
				s.want("result", string(s.view(id).Result), "")
				done()
			}
			s.want("to its second stage", s.replay(id, store.Replay{Stage: new("second")}).Changed,
				true)
			o := s.takeOne(h)
			s.want("stage and context", []any{o.Stage, string(o.Context)}, []any{"second", `"two"`})
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1})
		}},
		{"ReplayOfACancelledTaskGoesOnWhereItEnded", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			o := s.takeOne(h)
			next := task.Next("second", nil)
			next.Context = []byte(`"two"`)
			s.recorded(o.Report(s.clock, next))
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Retry(nil)))
			o = s.takeAgain(h, o)
			s.changed(task.KindCancelled, id)
			s.want("counts", s.counts(), task.Counts{Cancelled: 1})
			s.changed(task.KindReplayed, id)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			again := s.takeOne(h)
			s.want("stage, context and attempts",
				[]any{again.Stage, string(again.Context), again.Attempt},
				[]any{"second", `"two"`, int32(0)})
			s.want("the report of the one that was cancelled",
				s.settle(o.Report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.recorded(again.Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1})
		}},
		{"ActionOfAStateIsDoneInNoOther", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			ask := func(kind task.Kind, when task.State, changed bool, was task.State) {
				now := s.clock.Micros()
				got, err := s.Act(s.ctx, []store.Action{
					{ID: id, Kind: kind, Rank: now, Due: now, When: when},
				})
				s.ok(err)
				s.want(fmt.Sprint(kind, " when ", when), got[0], store.Acted{
					ID: id, Queue: "q", Found: true, Changed: changed, Was: was,
				})
			}
			ask(task.KindCancelled, task.Waiting, false, task.Ready)
			s.recorded(s.takeOne(h).Report(s.clock, task.Finish(nil)))
			ask(task.KindReplayed, task.Dead, false, task.Done)
			ask(task.KindReplayed, task.Done, true, task.Done)
			ask(task.KindReplayed, task.Done, false, task.Ready)
			ask(task.KindCancelled, task.Ready, true, task.Ready)
		}},
		{"RemovalLeavesATombstone", func(s *scene) {
			h := s.join("a")
			lone := s.put(1)[0]
			s.changed(task.KindRemoved, lone)
			s.want("spans: the removed task's is gone", len(s.take(h, 1)), 0)
			b := s.batch("q", 2)
			s.submit(store.Holder{}, b)
			running, quiet := s.takeOne(h), s.takeOne(h)
			s.sync(h, running)
			s.want("removal of a running task", s.act(task.KindRemoved, running.ID()),
				store.Acted{ID: running.ID(), Queue: "q",
					Found: true, Was: task.Running})
			s.changed(task.KindRemoved, quiet.ID())
			s.want("late report", s.settle(quiet.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			_, err := s.Task(s.ctx, quiet.ID())
			s.wantErr("view of a removed task", err, store.ErrNotFound)
			s.want("action on a removed task", s.act(task.KindReplayed, quiet.ID()), store.Acted{
				ID: quiet.ID(),
			})
			s.want("counts", s.counts(), task.Counts{Running: 1})
			page, _, err := s.Tasks(s.ctx, store.Filter{}, task.ID{}, 10)
			s.ok(err)
			s.want("tasks listed", len(page), 1)
			s.submit(h, b) // the id is not given again
			s.want("counts", s.counts(), task.Counts{Running: 1})
		}},
		{"StandAnswersInTheOrderOfIDs", func(s *scene) {
			h := s.join("a")
			ids := s.put(3)
			done := s.takeOne(h)
			s.recorded(done.Report(s.clock, task.Finish(nil)))
			got, err := s.Stand(s.ctx, []task.ID{ids[2], {Batch: 3}, ids[0], ids[2]})
			s.ok(err)
			s.want("answers", len(got), 4)
			s.want("found", []bool{got[0].Found, got[1].Found, got[2].Found, got[3].Found},
				[]bool{true, false, true, true})
			s.want("ids", []task.ID{got[0].ID, got[1].ID, got[2].ID, got[3].ID},
				[]task.ID{ids[2], {Batch: 3}, ids[0], ids[2]})
			s.want("final", []bool{got[0].Final, got[2].Final}, []bool{false, true})
			s.want("owner of a final task", got[2].Owner.ID, int64(0))
			s.want("queue", got[0].Queue, "q")
		}},
	}
}
