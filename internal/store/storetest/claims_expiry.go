package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// expiryClaims is what holds for tasks that are to be begun within a time.
func expiryClaims() []claim {
	const second = int64(1e6)
	return []claim{
		{"LimitIsShownUntilTheTaskIsBegun", func(s *scene) {
			h := s.join("a")
			b := s.limited(3, 0, 30*second, 40*second)
			due := instant(b.Due)
			wants := []time.Time{{}, due.Add(30 * time.Second), due.Add(40 * time.Second)}
			for i, want := range wants {
				id := task.ID{Batch: b.ID, N: int32(i)}
				s.want("view", s.view(id).Expires, want)
				s.want("stand", instant(s.stand(id).Expires), want)
			}
			page, _, err := s.Tasks(s.ctx, store.Filter{Queue: "q"}, task.ID{}, 10)
			s.ok(err)
			s.want("in lists", []time.Time{page[2].Expires, page[1].Expires, page[0].Expires},
				wants)
			outs := s.takeThose(h, 3)
			for i, o := range outs {
				s.want("as its holder reads it", instant(o.Expires), wants[i])
			}
			s.sync(h, outs[1])
			s.recorded(outs[2].Report(s.clock, task.Release()))
			held, err := s.Held(s.ctx, h, nil)
			s.ok(err)
			for i, l := range held[0].Tasks {
				id := task.ID{Batch: b.ID, N: int32(i)}
				s.want("begun, as its holder reads it", l.Expires, int64(0))
				s.want("begun, stand", s.stand(id).Expires, int64(0))
				s.want("begun, view", s.view(id).Expires, time.Time{})
			}
		}},
		{"HolderExpiresWhatIsNotBegun", func(s *scene) {
			h := s.join("a")
			b := s.limited(1, 30*second)
			o := s.takeOne(h)
			s.clock.Advance(30 * time.Second)
			r := s.expired(o)
			s.recorded(r)
			s.want("once more", s.settle(r), []task.Status{task.Repeated})
			s.want("a late report", s.settle(o.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			v := s.view(o.ID())
			s.want("view", []any{v.State, v.Stage, v.Attempt, v.Worker, v.Error, v.Expires},
				[]any{task.Expired, "first", 0, "", "not begun in time", time.Time{}})
			s.want("steps", s.stepsOf(o.ID()), []string{"expired  not begun in time []"})
			s.want("context", string(v.Context), string(b.Tasks[0].Context))
			s.want("counts", s.counts(), task.Counts{Expired: 1})
			s.want("an edit after that", s.edit(h, o.ID(), store.Edit{Priority: new(second)}).Was,
				task.Expired)
		}},
		{"WhatWasHandedOutNeverExpires", showBegun},
		{"FreeSpansAreFoundWhenTheTimeIsOver", func(s *scene) {
			b := s.limited(3, 0, 30*second)
			other := s.batch("paused", 1)
			other.Due += 10 * second
			other.Tasks[0].StartWithin = 30 * second
			s.submit(store.Holder{}, other)
			_, err := s.ChangeQueue(s.ctx, "paused", func(q *task.Queue, _ bool) error {
				q.Paused = true
				return nil
			})
			s.ok(err)
			s.clock.Advance(30*time.Second - time.Microsecond)
			h := s.join("a")
			got := s.takeExpired(h, 100)
			s.want("before", []any{len(got.Spans), got.More, got.NextDue},
				[]any{0, false, b.Due + 30*second})
			s.clock.Advance(time.Microsecond)
			got = s.takeExpired(h, 100)
			s.want("spans", len(got.Spans), 1)
			sp := got.Spans[0]
			s.want("the span", []any{sp.Batch, sp.Lo, sp.Hi, sp.Holder, sp.Token, len(sp.Tasks)},
				[]any{b.ID, int32(0), int32(2), h, int64(1), 3})
			s.recorded(s.expired(caller.Taken(&sp, 1)))
			s.want("all in its batch, but for one with a limit of its own", s.counts(),
				task.Counts{Ready: 2, Expired: 1})
			s.ok(s.Give(s.ctx,
				store.GiveRequest{Holder: h, Spans: []store.Taking{sp.Taking()}}))
			got = s.takeExpired(h, 100)
			s.want("what is left of it", len(got.Spans), 0)
			s.want("the next one", got.NextDue, b.Due+40*second)
			s.clock.Advance(10 * time.Second)
			h = s.join("a")
			s.want("of a paused queue", s.expireFree(h),
				[]task.ID{{Batch: other.ID}})
			got = s.takeExpired(h, 100)
			s.want("in the end", []any{len(got.Spans), got.More, got.NextDue},
				[]any{0, false, int64(0)})
		}},
		{"SpansOfOthersAreTheirsUntilTheyDie", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limited(1, second)
			o := s.takeOne(a)
			s.clock.Advance(2 * time.Second)
			s.want("held by another", len(s.takeExpired(b, 100).Spans), 0)
			s.want("held by itself", len(s.takeExpired(a, 100).Spans), 0)
			s.die(a, b)
			s.want("by who is dead", s.taken(a, 100).LeaseGone, true)
			s.want("when it is dead", s.expireFree(b), []task.ID{o.ID()})
			s.want("its own report", s.settle(s.expired(o)), []task.Status{task.Stale})
			s.want("counts", s.counts(), task.Counts{Expired: 1})
		}},
		{"WhoDiesWithWhatItTookLeavesItToOthers", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limited(2, second, second)
			s.clock.Advance(time.Second)
			got := s.takeExpired(a, 100)
			s.recorded(s.expired(caller.Taken(&got.Spans[0], 0)))
			s.want("by another", len(s.takeExpired(b, 100).Spans), 0)
			s.die(a, b)
			s.want("when it is dead", s.expireFree(b),
				[]task.ID{{Batch: got.Spans[0].Batch, N: 1}})
			s.want("counts", s.counts(), task.Counts{Expired: 2})
		}},
		{"BegunTasksOfTheDeadDoNotExpire", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limited(2, second, second)
			outs := s.takeThose(a, 2)
			s.sync(a, outs[0])
			s.clock.Advance(time.Second)
			s.die(a, b)
			s.want("what nobody knows to be begun", s.expireFree(b), []task.ID{outs[1].ID()})
			s.recorded(outs[0].Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1, Expired: 1})
		}},
		{"ExpiredOnesAreTakenAFewSpansAtATime", func(s *scene) {
			h := s.join("a")
			for range 5 {
				s.limited(3, second, second, second)
			}
			s.clock.Advance(time.Second)
			for _, want := range []int{2, 2, 1, 0} {
				got := s.takeExpired(h, 4)
				s.want("spans", len(got.Spans), want)
				if want == 2 {
					s.want("more", got.More, true)
				}
			}
			s.want("none wanted", len(s.takeExpired(h, 0).Spans), 0)
		}},
		{"ManyHeldOnesHideNoOthersAndAreNotPutOff", showManyHeld},
		{"LimitsComeBackInAnyCompany", showLimits},
		{"RetentionKeepsExpiredTasksAsDeadOnes", func(s *scene) {
			h := s.join("a")
			s.limited(1, second)
			s.clock.Advance(time.Second)
			s.want("expired", len(s.expireFree(h)), 1)
			s.clock.Advance(limits.DefaultDeadKept - time.Second)
			s.prune()
			s.want("kept", s.counts(), task.Counts{Expired: 1})
			s.clock.Advance(2 * time.Second)
			s.prune()
			s.want("no longer", s.counts(), task.Counts{})
		}},
		{"DeletedTasksAreNotLookedFor", func(s *scene) {
			h := s.join("a")
			s.limited(2, 3600*second, 3600*second)
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			got := s.takeExpired(h, 10)
			s.want("of a queue that is deleted", []any{len(got.Spans), got.NextDue},
				[]any{0, int64(0)})
		}},
		{"ExpiredTasksBeginAgainWithoutALimit", func(s *scene) {
			h := s.join("a")
			b := s.limited(1, second)
			id := task.ID{Batch: b.ID}
			s.clock.Advance(time.Second)
			s.expireFree(h)
			s.changed(task.KindReplayed, id)
			s.want("replayed", []any{s.view(id).State, s.view(id).Stage, s.view(id).Expires},
				[]any{task.Ready, "first", time.Time{}})
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			s.clock.Advance(time.Hour)
			s.want("it waits", len(s.takeExpired(s.join("a"), 10).Spans), 0)
			o := s.nextOne(s.join("a"))
			s.want("handed out", []any{o.ID(), string(o.Context), o.Expires},
				[]any{id, string(b.Tasks[0].Context), int64(0)})
			s.want("it can't expire", s.settle(s.expired(o)), []task.Status{task.Stale})
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.want("counts", s.counts(), task.Counts{Done: 1})
		}},
		{"ExpiredTasksAreCountedListedAndRemoved", func(s *scene) {
			h := s.join("a")
			b := s.limited(4, second, second, second)
			s.clock.Advance(time.Second)
			s.want("expired", len(s.expireFree(h)), 3)
			ids := []task.ID{{Batch: b.ID}, {Batch: b.ID, N: 1}, {Batch: b.ID, N: 2}}
			s.want("by state", s.list(store.Filter{State: task.Expired}), ids)
			s.want("by state and queue",
				s.list(store.Filter{State: task.Expired, Queue: "q"}), ids)
			s.want("of another queue", len(s.list(store.Filter{
				State: task.Expired, Queue: "r",
			})), 0)
			s.want("dead ones", len(s.list(store.Filter{State: task.Dead})), 0)
			s.want("cancelled ones", len(s.list(store.Filter{State: task.Cancelled})), 0)
			s.want("ready ones", len(s.list(store.Filter{State: task.Ready})), 1)
			s.wantHistory("history", history.Series{Queue: "q"}, "12:00 submitted 4, expired 3")
			s.wantHistory("of its stage", history.Series{Queue: "q", Stage: "first"},
				"12:00 submitted 4, expired 3")
			s.changed(task.KindRemoved, ids[1])
			s.want("one is removed", s.counts(), task.Counts{Ready: 1, Expired: 2})
			s.want("by state", s.list(store.Filter{State: task.Expired}),
				[]task.ID{ids[0], ids[2]})
		}},
		{"ExpiredTaskLeavesANoticeWithItsReport", func(s *scene) {
			h := s.join("a")
			s.limited(2, second, second)
			outs := s.takeThose(h, 2)
			s.sync(h, outs[1])
			var reports []store.Report
			for _, o := range outs {
				r, notice := s.expired(o), s.batch("told", 1)
				r.Notice = &notice
				reports = append(reports, r)
			}
			s.want("verdicts", s.settle(reports...), []task.Status{task.Recorded, task.Stale})
			s.view(task.ID{Batch: reports[0].Notice.ID})
			_, err := s.Task(s.ctx, task.ID{Batch: reports[1].Notice.ID})
			s.wantErr("notice of a report that was refused", err, store.ErrNotFound)
		}},
		{"RepeatedSubmissionKeepsItsLimits", func(s *scene) {
			h := s.join("a")
			b := s.limited(2, second, 2*second)
			s.clock.Advance(time.Second)
			s.submit(store.Holder{}, b)
			s.want("expired", s.expireFree(h), []task.ID{{Batch: b.ID}})
			s.submit(store.Holder{}, b)
			s.want("state", s.view(task.ID{Batch: b.ID}).State, task.Expired)
		}},
	}
}

// takeThose takes n tasks of one span.
func (s *scene) takeThose(h store.Holder, n int) (outs []caller.Handout) {
	for _, sp := range s.take(h, n) {
		for _, l := range sp.Tasks {
			outs = append(outs, caller.Handout{Span: sp.Span, Loaded: l})
		}
	}
	return outs
}

// limited submits n tasks in one free span, of which the first have limits.
func (s *scene) limited(n int, within ...int64) store.Batch {
	b := s.batch("q", n)
	for i, w := range within {
		b.Tasks[i].StartWithin = w
	}
	s.submit(store.Holder{}, b)
	return b
}

// taken is what TakeExpired answers.
func (s *scene) taken(h store.Holder, limit int) store.Taken {
	got, err := s.TakeExpired(s.ctx, h, limit)
	s.ok(err)
	return got
}

// takeExpired is taken by who has its lease.
func (s *scene) takeExpired(h store.Holder, limit int) store.Taken {
	got := s.taken(h, limit)
	if got.LeaseGone || got.Now != s.clock.Micros() {
		s.fail("take what is expired: got %+v", got)
	}
	return got
}

// expired is the report that a task was not begun in time.
func (s *scene) expired(o caller.Handout) store.Report {
	r := o.Report(s.clock, task.Outcome{Kind: task.KindExpired, Error: "not begun in time"})
	r.Step.Started, r.Step.Worker, r.Ready = 0, "", 0
	return r
}

// expireFree does what a node does: it takes what is free and not begun in time, says so of those
// whose time is over, gives the rest back, and answers which these were.
func (s *scene) expireFree(h store.Holder) (ids []task.ID) {
	for range 100 {
		got := s.takeExpired(h, 10)
		var reports []store.Report
		back := store.GiveRequest{Holder: h}
		for _, sp := range got.Spans {
			for _, l := range sp.Tasks {
				if l.Expires != 0 && l.Expires <= got.Now {
					reports = append(reports, s.expired(caller.Handout{Span: sp.Span, Loaded: l}))
					ids = append(ids, task.ID{Batch: sp.Batch, N: l.N})
				}
			}
			back.Spans = append(back.Spans, sp.Taking())
		}
		s.recorded(reports...)
		s.ok(s.Give(s.ctx, back))
		if !got.More && len(got.Spans) == 0 {
			return ids
		}
	}
	s.fail("it never ends")
	return nil
}

// showBegun tries to let tasks expire that may not.
func showBegun(s *scene) {
	h := s.join("a")
	const second = int64(1e6)
	s.limited(6, second, second, second, second, second)
	outs := s.takeThose(h, 6)
	s.clock.Advance(2 * time.Second)
	wrong := s.expired(outs[4])
	wrong.Token.SpanToken++
	s.want("a wrong token, and none with a limit", s.settle(wrong, s.expired(outs[5])),
		[]task.Status{task.Stale, task.Stale})
	s.sync(h, outs[0])
	s.want("its hand-out is written down", s.settle(s.expired(outs[0])),
		[]task.Status{task.Stale})
	s.recorded(outs[0].Report(s.clock, task.Release()))
	for i, out := range []task.Outcome{
		1: task.Retry(errors.New("no")), 2: task.Snooze(time.Second), 3: task.Next("second", nil),
	} {
		if i > 0 {
			s.recorded(outs[i].Report(s.clock, out))
		}
	}
	held, err := s.Held(s.ctx, h, nil)
	s.ok(err)
	tried := 0
	for _, sp := range held {
		for _, l := range sp.Tasks {
			if l.N > 3 {
				continue
			}
			tried++
			o := caller.Handout{Span: sp.Span, Loaded: l}
			s.want("it was handed out", []any{l.Expires, s.settle(s.expired(o))[0]},
				[]any{int64(0), task.Stale})
			o.Seq--
			s.want("at the seq of its outcome", s.settle(s.expired(o)),
				[]task.Status{task.Stale})
		}
	}
	s.want("tried", tried, 4)
	s.recorded(finishAll(s, outs[4:5])...)
	s.want("what is done", s.settle(s.expired(outs[4])), []task.Status{task.Stale})
	s.want("no task of its span", s.settle(func() store.Report {
		r := s.expired(outs[5])
		r.ID.N = 99
		return r
	}()), []task.Status{task.Unknown})
	s.ok(s.Give(s.ctx, store.GiveRequest{
		Holder: h, Spans: []store.Taking{outs[0].Span.Taking()},
	}))
	s.want("found", len(s.takeExpired(h, 100).Spans), 0)
	s.want("counts", s.counts(), task.Counts{Waiting: 2, Ready: 3, Done: 1})
}

// showManyHeld lets more batches be held than a store looks at in one call. Nobody looks at them in
// vain for ever while others wait, and when the clock was ahead meanwhile, they are judged in time.
func showManyHeld(s *scene) {
	const many, hour = 1010, int64(3600e6)
	a := s.join("a")
	var list []store.Batch
	for range many + 1 {
		b := s.batch("q", 1)
		b.Tasks[0].StartWithin = hour
		list = append(list, b)
	}
	list[many].Tasks[0].StartWithin += 1
	s.submit(store.Holder{}, list[:many]...)
	back := store.GiveRequest{Holder: a}
	for _, sp := range s.take(a, many) {
		back.Spans = append(back.Spans, sp.Taking())
	}
	s.want("held", len(back.Spans), many)
	s.submit(store.Holder{}, list[many])
	s.clock.Advance(2 * time.Hour)
	b := s.join("b")
	found := 0
	for range 3 {
		found += len(s.takeExpired(b, 2*many).Spans)
	}
	s.want("what nobody holds", found, 1)
	s.clock.Advance(-2 * time.Hour)
	s.ok(s.Give(s.ctx, back))
	s.clock.Advance(time.Hour)
	b = s.join("b")
	for range 3 {
		found += len(s.takeExpired(b, 2*many).Spans)
	}
	s.want("all", found, many+1)
}

// showLimits puts tasks with and without limits beside all else that a task may have, and lets
// retention take some out of their packs.
func showLimits(s *scene) {
	h := s.join("a")
	const n = 200
	b := s.batch("q", n)
	within := []int64{0, 1, 30e6, 0, 1000e6, 365 * 24 * 3600e6}
	for i := range b.Tasks {
		k := &b.Tasks[i]
		k.StartWithin = within[i%len(within)]
		if i%5 == 0 { // what else a task may have, and a row that ends early
			k.Meta, k.GroupKey, k.Timeout = `{"a":"b"}`, strings.Repeat("g", 256), 5
			k.Context = store.Value(caller.JSON(store.InlineLimit))
		}
		if i%7 == 0 {
			k.Stage, k.MaxAttempts, k.Context = "other", 7, nil
		}
	}
	b.Tasks = append(b.Tasks[:70], b.Tasks[90:]...) // a gap
	s.submit(store.Holder{}, b)
	at := map[int32]*store.Task{}
	for i := range b.Tasks {
		at[b.Tasks[i].N] = &b.Tasks[i]
	}
	outs := s.takeThose(h, n)
	s.want("taken", len(outs), len(b.Tasks))
	for _, o := range outs {
		k := at[o.N]
		s.want("as loaded", []any{o.Expires, o.Meta, o.Timeout, o.Stage, o.MaxAttempts},
			[]any{k.Expires(b.Due), k.Meta, k.Timeout, k.Stage, k.MaxAttempts})
	}
	var over, done []caller.Handout
	for i, o := range outs {
		switch {
		case i%3 == 0:
			done = append(done, o)
		case o.Expires != 0 && i%2 == 0:
			over = append(over, o)
		}
	}
	s.recorded(finishAll(s, done)...)
	var reports []store.Report
	for _, o := range over {
		reports = append(reports, s.expired(o))
	}
	s.recorded(reports...)
	s.want("expired ones", s.counts().Expired, int64(len(over)))
	s.clock.Advance(limits.DefaultRetention + time.Hour)
	s.prune()
	s.want("done ones are gone", s.counts(), task.Counts{
		Ready: int64(len(outs) - len(over) - len(done)), Expired: int64(len(over)),
	})
	for _, o := range outs {
		id := o.ID()
		v, err := s.Task(s.ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		s.ok(err)
		want := instant(at[o.N].Expires(b.Due))
		if v.State.Final() {
			want = time.Time{}
		}
		s.want("what is left", v.Expires, want)
	}
}
