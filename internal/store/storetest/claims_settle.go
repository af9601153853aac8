package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// settleClaims is what holds for Settle: the fence.
func settleClaims() []claim {
	return []claim{
		{"OnlyOneOutcomeStandsAtASeq", func(s *scene) {
			s.put(1)
			o := s.takeOne(s.join("a"))
			done, other := o.Report(s.clock, task.Finish(1)), o.Report(s.clock, task.Finish(2))
			s.want("verdicts", s.settle(done, done, other),
				[]task.Status{task.Recorded, task.Repeated, task.Stale})
			s.clock.Advance(time.Hour)
			// a repetition may come later; what it says is the same
			done.Step.Finished = s.clock.Micros()
			s.want("verdicts later", s.settle(other, done),
				[]task.Status{task.Stale, task.Repeated})
			v := s.view(o.ID())
			s.want("state", v.State, task.Done)
			s.want("result", string(v.Result), "1")
			s.want("steps", len(v.Steps), 1)
		}},
		{"WhatATransactionHasRecordedIsNotRecordedAgain", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			done := x.Report(s.clock, task.Finish(1)) // as the function finish records it
			done.Step.Hash = store.CommittedHash
			s.recorded(done)
			said := func(o caller.Handout) store.Report {
				r := o.Report(s.clock, task.Retry(errors.New("not committed")))
				r.Step.Hash = store.UncommittedHash
				return r
			}
			s.want("verdicts", s.settle(said(x), y.Report(s.clock, task.Finish(2)), said(x)),
				[]task.Status{task.Repeated, task.Recorded, task.Repeated})
			s.wantState(x.ID(), task.Done)
			s.put(1)
			z := s.takeOne(h)
			s.want("verdicts when none was recorded", s.settle(said(z), said(z)),
				[]task.Status{task.Recorded, task.Stale})
			s.want("verdict after that", s.settle(said(z)), []task.Status{task.Stale})
			v := s.view(z.ID())
			s.want("steps", len(v.Steps), 1)
			s.want("step", v.Steps[0].Kind, task.KindRetry)
			s.put(2)
			z, w := s.takeOne(h), s.takeOne(h)
			s.want("verdicts when one of two was recorded",
				s.settle(said(z), w.Report(s.clock, task.Finish(3)), said(x)),
				[]task.Status{task.Recorded, task.Recorded, task.Repeated})
			s.wantState(w.ID(), task.Done)
			s.want("steps", len(s.view(z.ID()).Steps), 1)
		}},
		{"ReportOfNoTaskIsUnknown", func(s *scene) {
			s.put(1)
			o := s.takeOne(s.join("a"))
			r := o.Report(s.clock, task.Finish(nil))
			r.ID.N++
			s.want("number beyond the batch", s.settle(r), []task.Status{task.Unknown})
			r.ID = task.ID{Batch: o.Span.Batch + 1}
			s.want("batch that never was", s.settle(r), []task.Status{task.Unknown})
		}},
		{"WrongTokensAreStaleAndSpoilNoOtherReport", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.put(1)
			z := s.takeOne(h)
			wrong := func(t task.Token) store.Report {
				r := x.Report(s.clock, task.Finish(nil))
				r.Token = t
				return r
			}
			t := x.Token()
			got := s.settle(
				wrong(task.Token{Span: t.Span, SpanToken: t.SpanToken + 1, Seq: t.Seq}),
				wrong(task.Token{Span: t.Span, SpanToken: t.SpanToken - 1, Seq: t.Seq}),
				wrong(task.Token{Span: t.Span + 1000, SpanToken: t.SpanToken, Seq: t.Seq}),
				wrong(y.Token()), // right, but of another span of the batch
				wrong(z.Token()), // of another batch's span
				wrong(task.Token{}),
				y.Report(s.clock, task.Finish(nil)),
			)
			s.want("verdicts", got,
				append(slices.Repeat([]task.Status{task.Stale}, 6), task.Recorded))
			s.wantState(x.ID(), task.Ready)
			s.wantState(y.ID(), task.Done)
			s.recorded(x.Report(s.clock, task.Finish(nil)))
		}},
		{"LateReportOfALostHandoutIsStale", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			lost := o.Report(s.clock, task.Outcome{Kind: task.KindLost, Error: "silent"})
			s.recorded(lost)
			s.want("verdicts", s.settle(o.Report(s.clock, task.Finish(nil)), lost),
				[]task.Status{task.Stale, task.Repeated})
			again := s.takeAgain(h, o)
			s.want("seq of the next hand-out", again.Seq, int32(1))
			s.want("attempts charged", again.Attempt, int32(1))
			s.recorded(again.Report(s.clock, task.Finish(nil)))
		}},
		{"NoticeOfARecordedReportIsSubmittedWithIt", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			withNotice := func(o caller.Handout, out task.Outcome) store.Report {
				r, b := o.Report(s.clock, out), s.batch("told", 1)
				b.Tasks[0].Context, b.Tasks[0].MaxAttempts = store.Value(out.Error), 7
				r.Notice = &b
				return r
			}
			dead, late := withNotice(x, task.Fail(errors.New("dead"))),
				withNotice(x, task.Retry(errors.New("late")))
			forged := withNotice(y, task.Fail(errors.New("forged")))
			forged.Token.SpanToken++
			got := s.settle(dead, late, forged, y.Report(s.clock, task.Finish(nil)))
			s.want("verdicts", got,
				[]task.Status{task.Recorded, task.Stale, task.Stale, task.Recorded})
			s.want("verdicts of a repetition", s.settle(dead), []task.Status{task.Repeated})
			for _, b := range []*store.Batch{late.Notice, forged.Notice} {
				s.want("a notice of what was not recorded", s.stand(task.ID{Batch: b.ID}).Found,
					false)
			}
			s.wantState(task.ID{Batch: dead.Notice.ID}, task.Ready)
			list, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("the queue came to be", slices.ContainsFunc(list, func(q task.Queue) bool {
				return q.Name == "told"
			}), true)
			spans, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "told", Limit: 10})
			s.ok(err)
			s.want("spans of notices", len(spans.Spans), 1)
			n := spans.Spans[0].Tasks
			s.want("notices", len(n), 1)
			s.want("its context", string(n[0].Context), "dead")
			s.want("its attempts", n[0].MaxAttempts, int32(7))
			counts, err := s.Counts(s.ctx, "told")
			s.ok(err)
			s.want("counted", counts[0].Counts, task.Counts{Ready: 1})
		}},
		{"OlderTokenIsRefusedAfterARetake", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.die(a, b)
			n := s.takeOne(b)
			s.want("same seq", n.Seq, o.Seq)
			if n.Span.Token <= o.Span.Token {
				s.fail("span token %d after %d", n.Span.Token, o.Span.Token)
			}
			s.want("verdict of the older", s.settle(o.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			s.recorded(n.Report(s.clock, task.Finish(nil)))
		}},
		{"TokenStaysGoodUntilTheRetake", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.die(a, b)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.wantState(o.ID(), task.Done)
		}},
		{"RunningRowsTokenStaysGoodAfterARetake", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.sync(a, o)
			s.die(a, b)
			n := s.takeOne(b)
			if n.Running == nil {
				s.fail("the hand-out that was written down is not loaded")
			}
			s.want("verdict of the new holder's own token",
				s.settle(n.Report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.recorded(o.Report(s.clock, task.Retry(nil)))
			n = s.takeAgain(b, n)
			s.want("running row after the report", n.Running, (*store.Running)(nil))
			s.want("seq after the report", n.Seq, int32(1))
			s.recorded(n.Report(s.clock, task.Finish(nil)))
		}},
		{"AnyNodesReportCounts", func(s *scene) {
			s.put(1)
			h := s.join("a")
			o := s.takeOne(h)
			s.clock.Advance(2 * caller.LeaseTime) // no rule LEASE: the token alone decides
			s.recorded(o.Report(s.clock, task.Finish(nil)))
		}},
		{"MovedTaskHasASpanOfItsOwn", func(s *scene) {
			h := s.join("a")
			s.put(2)
			sp := s.take(h, 2)[0]
			o := caller.Taken(&sp, 0)
			s.recorded(o.Report(s.clock, task.Snooze(time.Hour)))
			s.wantState(o.ID(), task.Waiting)
			st := s.stand(o.ID())
			due := s.clock.Micros() + time.Hour.Microseconds()
			s.want("owner", withoutIDs([]store.Span{st.Owner}),
				[]store.Span{{Batch: sp.Batch, Seq0: 1, Queue: "q", Rank: due, Due: due}})
			s.want("base", st.Base, int32(1))
			s.want("counts", s.counts(), task.Counts{Waiting: 1, Ready: 1})
			s.want("report at the old span", s.settle(o.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			s.clock.Advance(time.Hour)
			n := s.takeOne(s.join("a"))
			s.want("task", n.ID(), o.ID())
			s.want("seq", n.Seq, int32(1))
			s.want("token", n.Span.Token, int64(1))
			s.recorded(n.Report(s.clock, task.Finish(nil)))
		}},
		{"ShortDelayStaysWithItsSpan", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.Report(s.clock, task.RetryAfter(30*time.Second, nil)))
			s.wantState(o.ID(), task.Waiting)
			s.want("counts", s.counts(), task.Counts{Waiting: 1})
			s.want("owner", s.stand(o.ID()).Owner.ID, o.Span.ID)
			s.clock.Advance(30 * time.Second)
			s.wantState(o.ID(), task.Ready)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
		}},
		{"SpentSpansAreDeletedWithTheirLastReport", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.wantSpent(h, o, task.Recorded, true)
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.recorded(y.Report(s.clock, task.Finish(nil)))
			_, err := s.Settle(s.ctx, store.Settlement{Spent: []store.Taking{y.Span.Taking()}})
			s.ok(err)
			held, err := s.Held(s.ctx, h, nil)
			s.ok(err)
			s.want("held afterwards", len(held), 1)
			s.want("kept", held[0].ID, x.Span.ID)
		}},
		{"SpanWithARefusedReportIsNotDeleted", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.Report(s.clock, task.Outcome{Kind: task.KindRelease}))
			s.wantSpent(h, o, task.Stale, false)
		}},
		{"SpanThatIsHeldAgainIsNotDeleted", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.ok(s.Give(s.ctx, store.GiveRequest{
				Holder: a, Spans: []store.Taking{o.Span.Taking()},
			}))
			again := s.takeOne(b)
			_, err := s.Settle(s.ctx, store.Settlement{Spent: []store.Taking{o.Span.Taking()}})
			s.ok(err)
			s.want("owner", s.stand(o.ID()).Owner.Token, again.Span.Token)
			s.recorded(again.Report(s.clock, task.Finish(nil)))
		}},
		{"SpanWithARepeatedReportIsDeleted", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.wantSpent(h, o, task.Repeated, true)
		}},
		{"ConcurrentReportsRecordOnce", func(s *scene) {
			const n = 8
			s.put(1)
			o := s.takeOne(s.join("a"))
			var got [n]store.Settled
			var errs [n]error
			var wg sync.WaitGroup
			for i := range n {
				r := o.Report(s.clock, task.Finish(i))
				wg.Go(func() {
					got[i], errs[i] = s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
				})
			}
			wg.Wait()
			recorded := 0
			for i := range n {
				s.ok(errs[i])
				if got[i].Verdicts[0] == task.Recorded {
					recorded++
				}
			}
			s.want("reports recorded", recorded, 1)
			s.want("counts", s.counts(), task.Counts{Done: 1})
		}},
	}
}

// wantSpent settles done for a one-task span that is said to be spent, and looks whether it is
// still there.
func (s *scene) wantSpent(h store.Holder, o caller.Handout, verdict task.Status, deleted bool) {
	got, err := s.Settle(s.ctx, store.Settlement{
		Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
		Spent:   []store.Taking{o.Span.Taking()},
	})
	s.ok(err)
	s.want("verdicts", got.Verdicts, []task.Status{verdict})
	held, err := s.Held(s.ctx, h, nil)
	s.ok(err)
	s.want("deleted", !slices.ContainsFunc(held, func(sp store.HeldSpan) bool {
		return sp.ID == o.Span.ID
	}), deleted)
}
