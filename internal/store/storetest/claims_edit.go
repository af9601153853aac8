package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// editClaims is what holds for edits, besides what holds for all actions.
func editClaims() []claim {
	const minute = int64(60e6)
	return []claim{
		{"EditOfAReadyTaskHoldsForItsHandOut", func(s *scene) {
			h := s.join("a")
			ids := s.put(3)
			s.edited(h, ids[1], store.Edit{
				Priority: new(minute), Context: new(store.Value(`{"b": 1}`)),
				GroupKey: new("g"), MaxAttempts: new(int32(3)),
			})
			s.want("counts", s.counts(), task.Counts{Ready: 3})
			v := s.view(ids[1])
			s.want("view", []any{v.State, v.Priority, v.GroupKey, string(v.Context), v.Attempt},
				[]any{task.Ready, time.Minute, "g", `{"b": 1}`, 1})
			s.want("steps", s.stepsOf(ids[1]),
				[]string{"edited somebody [priority, context, group_key, max_attempts]"})
			page, _, err := s.Tasks(s.ctx, store.Filter{Queue: "q"}, task.ID{}, 10)
			s.ok(err)
			s.want("in lists", []any{page[1].GroupKey, page[1].Priority}, []any{"g", time.Minute})
			o := s.nextOne(h)
			s.want("first by its priority", o.ID(), ids[1])
			s.want("handed out", []any{
				string(o.Context), o.ContextBy, o.MaxAttempts, o.HeadStart, o.Attempt, o.Seq,
			}, []any{`{"b": 1}`, "", int32(3), minute, int32(0), int32(1)})
			st := s.stand(ids[1])
			s.want("stand", []any{string(st.Context), st.ContextBy, st.MaxAttempts, st.HeadStart},
				[]any{`{"b": 1}`, "", int32(3), minute})
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			v = s.view(ids[1])
			s.want("when it is done", []any{v.State, v.Priority, v.GroupKey, string(v.Context)},
				[]any{task.Done, time.Minute, "g", `{"b": 1}`})
			s.want("counts", s.counts(), task.Counts{Ready: 2, Done: 1})
		}},
		{"EditLeavesTheMetaOfItsTask", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 2)
			b.Tasks[1].Meta = store.MetaOf(map[string]string{"customer": "7"})
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID, N: 1}
			s.edited(h, id, store.Edit{
				Priority: new(minute), Context: new(store.Value(`2`)), GroupKey: new("g"),
			})
			s.want("view", s.view(id).Meta, map[string]string{"customer": "7"})
			s.want("stand", s.stand(id).Meta, b.Tasks[1].Meta)
			page, _, err := s.Tasks(s.ctx, store.Filter{Queue: "q"}, task.ID{}, 10)
			s.ok(err)
			s.want("in lists", page[0].Meta, map[string]string{"customer": "7"})
			o := s.nextOne(h)
			s.want("handed out", []any{o.ID(), o.Meta}, []any{id, b.Tasks[1].Meta})
		}},
		{"EditedTimeMovesATaskToWaitingAndBack", func(s *scene) {
			h := s.join("a")
			id := s.put(2)[1]
			later := s.clock.Micros() + 60*minute
			s.edited(h, id, store.Edit{Due: &later})
			s.wantState(id, task.Waiting)
			s.want("counts", s.counts(), task.Counts{Ready: 1, Waiting: 1})
			s.want("due", s.view(id).Due, instant(later))
			s.nextOne(h)
			for _, sp := range s.take(h, 10) {
				s.want("tasks of what is left of its span", len(sp.Tasks), 0)
			}
			now := s.clock.Micros()
			s.edited(h, id, store.Edit{Due: &now})
			s.wantState(id, task.Ready)
			s.want("taken", s.nextOne(h).ID(), id)
			s.edited(h, id, store.Edit{Due: &later}) // held by the one that asks
			s.want("counts", s.counts(), task.Counts{Ready: 1, Waiting: 1})
			s.clock.Advance(time.Hour)
			s.want("once it is due", s.nextOne(s.join("a")).ID(), id)
		}},
		{"EditKeepsThePlaceThatItIsNotAbout", func(s *scene) {
			h := s.join("a")
			var ids []task.ID
			for range 3 {
				ids = append(ids, s.put(1)...)
				s.clock.Advance(time.Millisecond)
			}
			s.edited(h, ids[0], store.Edit{Context: new(store.Value(`1`))})
			s.edited(h, ids[0], store.Edit{GroupKey: new("g")})
			s.want("first", s.nextOne(h).ID(), ids[0])
			s.want("second", s.nextOne(h).ID(), ids[1])
			s.want("third", s.nextOne(h).ID(), ids[2])
		}},
		{"EditHoldsWhateverBecomesOfTheTask", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			s.edited(h, id, store.Edit{
				Priority: new(minute), MaxAttempts: new(int32(7)), GroupKey: new("g"),
			})
			look := func(what string) {
				st := s.stand(id)
				s.want(what, []any{st.MaxAttempts, st.HeadStart, s.view(id).GroupKey},
					[]any{int32(7), minute, "g"})
			}
			o := s.nextOne(h)
			s.recorded(o.Report(s.clock, task.Next("second", nil)))
			look("in the second stage")
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Snooze(time.Hour))) // into a span of its own
			look("asleep")
			s.clock.Advance(time.Hour)
			o = s.nextOne(s.join("a"))
			s.want("taken", []any{o.MaxAttempts, o.HeadStart}, []any{int32(7), minute})
			s.recorded(o.Report(s.clock, task.Fail(nil)))
			look("dead")
			s.changed(task.KindReplayed, id)
			look("replayed")
			s.changed(task.KindMoved, id)
			look("moved")
			s.edited(h, id, store.Edit{GroupKey: new(""), MaxAttempts: new(int32(0))})
			st := s.stand(id)
			s.want("taken back", []any{st.MaxAttempts, st.HeadStart, s.view(id).GroupKey},
				[]any{int32(0), minute, ""})
			s.want("steps", s.stepsOf(id)[0],
				"edited somebody [priority, group_key, max_attempts]")
		}},
		{"EditOfATaskThatBacksOffKeepsAttemptsAndError", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			o := s.nextOne(h)
			again := task.RetryAfter(time.Hour, errors.New("no luck"))
			s.recorded(o.Report(s.clock, again))
			due := s.view(id).Due
			s.edited(h, id, store.Edit{Context: new(store.Value(`2`))})
			v := s.view(id)
			s.want("view", []any{v.State, v.Due, v.Attempt, v.Error, string(v.Context)},
				[]any{task.Waiting, due, 2, "no luck", "2"})
			s.want("steps", s.stepsOf(id),
				[]string{"retry w no luck []", "edited somebody [context]"})
			now := s.clock.Micros()
			s.edited(h, id, store.Edit{Due: &now})
			s.want("who failed has no head start", s.view(id).Priority, time.Duration(0))
			s.edited(h, id, store.Edit{Priority: new(minute)})
			s.want("unless it is given one", s.view(id).Priority, time.Minute)
			o = s.nextOne(h)
			s.want("attempts", o.Attempt, int32(1))
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1})
			for _, c := range s.lastHour(history.Series{Queue: "q"}) {
				if c.Cancelled+c.Dead+c.Lost > 0 || c.Done > 1 || c.Retried > 1 {
					s.fail("history counts an edit: %+v", c)
				}
			}
		}},
		{"EditOfWhatRunsOrIsOverChangesNothing", func(s *scene) {
			h := s.join("a")
			ids := s.put(3)
			run, done, gone := s.nextOne(h), s.nextOne(h), s.nextOne(h)
			s.sync(h, run)
			s.recorded(done.Report(s.clock, task.Finish(nil)))
			s.changed(task.KindCancelled, gone.ID())
			for i, was := range []task.State{task.Running, task.Done, task.Cancelled} {
				before := s.view(ids[i])
				s.want(string(was), s.edit(h, ids[i], store.Edit{Priority: new(minute)}),
					store.Acted{ID: ids[i], Queue: "q", Found: true, Was: was})
				s.want("view", s.view(ids[i]), before)
			}
			s.changed(task.KindRemoved, done.ID())
			for _, id := range []task.ID{done.ID(), {Batch: 77}} {
				s.want("what is not there", s.edit(h, id, store.Edit{Priority: new(minute)}),
					store.Acted{ID: id})
			}
			s.recorded(run.Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1, Cancelled: 1})
		}},
		{"EditOfWhatAnotherNodeHoldsSaysWho", func(s *scene) {
			h, other := s.join("a"), s.join("b")
			id := s.put(1)[0]
			o := s.nextOne(other)
			for _, asks := range []store.Holder{h, {}, {Node: "b", Token: other.Token - 1}} {
				s.want("answer", s.edit(asks, id, store.Edit{Priority: new(minute)}), store.Acted{
					ID: id, Queue: "q", Found: true, Was: task.Ready, Held: "b",
				})
			}
			s.want("steps", len(s.view(id).Steps), 0)
			s.ok(s.Give(s.ctx, store.GiveRequest{
				Holder: other, Spans: []store.Taking{o.Span.Taking()},
				Running: []store.Running{o.Row(s.clock)},
			}))
			s.want("given back while it runs",
				s.edit(h, id, store.Edit{Priority: new(minute)}),
				store.Acted{ID: id, Queue: "q", Found: true, Was: task.Running})
			s.recorded(o.Report(s.clock, task.Finish(nil)))
		}},
		{"EditMakesTheHandOutBeforeItStale", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			o := s.nextOne(h) // its node gives it to nobody
			s.edited(h, id, store.Edit{Context: new(store.Value(`"new"`))})
			s.want("report", s.settle(o.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			again := s.nextOne(h)
			s.want("context", string(again.Context), `"new"`)
			s.recorded(again.Report(s.clock, task.Finish(nil)))
			s.want("edit after that", s.edit(h, id, store.Edit{Priority: new(minute)}).Was,
				task.Done)
			s.want("counts", s.counts(), task.Counts{Done: 1})
		}},
		{"RepeatedEditIsOneAndTwoEditsAreTwo", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			a := store.Action{
				ID: id, Kind: task.KindEdited, By: "somebody", Mark: 7, Holder: h,
				Edit: &store.Edit{Context: new(store.Value(`1`))},
			}
			b := a
			b.Mark, b.Edit = 8, &store.Edit{Context: new(store.Value(`2`))}
			got, err := s.Act(s.ctx, []store.Action{a, b})
			s.ok(err)
			s.want("both", []bool{got[0].Changed, got[1].Changed}, []bool{true, true})
			before := s.view(id)
			s.want("context", string(before.Context), `2`)
			got, err = s.Act(s.ctx, []store.Action{a})
			s.ok(err)
			s.want("once more", got[0].Changed, true)
			s.want("view", s.view(id), before)
			s.want("steps", s.stepsOf(id),
				[]string{"edited somebody [context]", "edited somebody [context]"})
		}},
		{"LargeEditedContextsAreKept", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			text := caller.JSON(100_000)
			keep := func() store.Value {
				v, err := s.Keep(s.ctx, []byte(text))
				s.ok(err)
				return v
			}
			first := keep()
			s.edited(h, id, store.Edit{Context: &first})
			s.want("context", string(s.view(id).Context) == text, true)
			s.clock.Advance(48 * time.Hour) // what nobody refers to is swept after a day
			for range 100 {
				_, err := s.Prune(s.ctx, 1000)
				s.ok(err)
			}
			s.want("context, swept", string(s.view(id).Context) == text, true)
			o := s.nextOne(s.join("a"))
			got, err := s.Value(s.ctx, o.Context)
			s.ok(err)
			s.want("handed out", string(got) == text, true)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			second := keep()
			refused := s.edit(h, id, store.Edit{Context: &second})
			s.want("edit of a done task", refused.Changed, false)
			s.want("the first one", string(s.view(id).Context) == text, true)
		}},
		{"ReplayBeginsWithTheContextAsItWasEditedThere", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			s.edited(h, id, store.Edit{Context: new(store.Value(`"typo"`))})
			s.edited(h, id, store.Edit{Context: new(store.Value(`"first"`))})
			o := s.nextOne(h)
			next := task.Next("second", nil)
			next.Context = []byte(`"passed on"`)
			s.recorded(o.Report(s.clock, next))
			s.edited(h, id, store.Edit{Context: new(store.Value(`"second"`))})
			o = s.nextOne(h)
			failed := task.RetryAfter(time.Hour, nil)
			failed.Context = []byte(`"checkpoint"`)
			s.recorded(o.Report(s.clock, failed))
			s.edited(h, id, store.Edit{Context: new(store.Value(`"not of its beginning"`))})
			s.changed(task.KindMoved, id)
			s.recorded(s.nextOne(h).Report(s.clock, task.Fail(nil)))
			for _, c := range []struct {
				replay  store.Replay
				stage   string
				context string
			}{
				{store.Replay{}, "second", `"not of its beginning"`},
				{store.Replay{Stage: new("second")}, "second", `"second"`},
				{store.Replay{Whole: true}, "first", `"first"`},
				{store.Replay{Stage: new("first")}, "first", `"first"`},
			} {
				s.want("replay", s.replay(id, c.replay).Changed, true)
				o := s.nextOne(h)
				s.want(fmt.Sprintf("%+v", c.replay), []any{o.Stage, string(o.Context)},
					[]any{c.stage, c.context})
				s.recorded(o.Report(s.clock, task.Fail(nil)))
			}
		}},
		{"EditedContextMayBeNone", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			s.edited(h, id, store.Edit{Context: new(store.Value(nil))})
			s.want("view", len(s.view(id).Context), 0)
			o := s.nextOne(h)
			s.want("handed out", len(o.Context), 0)
			s.recorded(o.Report(s.clock, task.Fail(nil)))
			s.want("replay", s.replay(id, store.Replay{Whole: true}).Changed, true)
			s.want("handed out again", len(s.nextOne(h).Context), 0)
		}},
		{"WhatIsLeftOfAnEditGoesWithItsTask", func(s *scene) {
			h := s.join("a")
			id := s.put(1)[0]
			s.edited(h, id, store.Edit{Priority: new(minute)})
			s.recorded(s.nextOne(h).Report(s.clock, task.Finish(nil)))
			s.clock.Advance(365 * 24 * time.Hour)
			for range 10 {
				_, err := s.Prune(s.ctx, 1000)
				s.ok(err)
			}
			_, err := s.Task(s.ctx, id)
			s.wantErr("view", err, store.ErrNotFound)
			s.want("edit", s.edit(h, id, store.Edit{Priority: new(minute)}), store.Acted{ID: id})
		}},
	}
}

// nextOne takes one task. Spans that tasks have left may be left over, with none.
func (s *scene) nextOne(h store.Holder) caller.Handout {
	for range 10 {
		for _, sp := range s.take(h, 1) {
			for _, l := range sp.Tasks {
				return caller.Handout{Span: sp.Span, Loaded: l}
			}
		}
	}
	s.fail("nothing to take")
	panic("unreachable")
}

// edit asks for a task to be changed.
func (s *scene) edit(h store.Holder, id task.ID, e store.Edit) store.Acted {
	got, err := s.Act(s.ctx, []store.Action{
		{ID: id, Kind: task.KindEdited, By: "somebody", Holder: h, Edit: &e},
	})
	s.ok(err)
	return got[0]
}

// edited is edit that must change something.
func (s *scene) edited(h store.Holder, id task.ID, e store.Edit) {
	if got := s.edit(h, id, e); !got.Changed {
		s.fail("edit %v: nothing changed: %+v", id, got)
	}
}

// stepsOf tells a task's steps.
func (s *scene) stepsOf(id task.ID) (list []string) {
	for _, p := range s.view(id).Steps {
		text := fmt.Sprint(p.Kind, " ", p.Worker)
		if p.Error != "" {
			text += " " + p.Error
		}
		list = append(list, fmt.Sprintf("%s [%s]", text, p.Changed))
	}
	return list
}
