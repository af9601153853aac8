package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// settleClaims is what holds for Settle: the fence.
func settleClaims() []claim {
	return []claim{
		{"OnlyOneOutcomeStandsAtASeq", func(s *scene) {
			s.put(1)
			o := s.takeOne(s.join("a"))
			done, other := o.report(s.clock, task.Finish(1)), o.report(s.clock, task.Finish(2))
			s.want("verdicts", s.settle(done, done, other), []task.Status{task.Recorded, task.Repeated, task.Stale})
			s.clock.Advance(time.Hour)
			done.Step.Finished = s.clock.Micros() // a repetition may come later; what it says is the same
			s.want("verdicts later", s.settle(other, done), []task.Status{task.Stale, task.Repeated})
			v := s.view(o.id())
			s.want("state", v.State, task.Done)
			s.want("result", string(v.Result), "1")
			s.want("steps", len(v.Steps), 1)
		}},
		{"ReportOfNoTaskIsUnknown", func(s *scene) {
			s.put(1)
			o := s.takeOne(s.join("a"))
			r := o.report(s.clock, task.Finish(nil))
			r.ID.N++
			s.want("number beyond the batch", s.settle(r), []task.Status{task.Unknown})
			r.ID = task.ID{Batch: o.span.Batch + 1}
			s.want("batch that never was", s.settle(r), []task.Status{task.Unknown})
		}},
		{"WrongTokensAreStaleAndSpoilNoOtherReport", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.put(1)
			z := s.takeOne(h)
			wrong := func(t task.Token) rows.Report {
				r := x.report(s.clock, task.Finish(nil))
				r.Token = t
				return r
			}
			t := x.token()
			got := s.settle(
				wrong(task.Token{Span: t.Span, SpanToken: t.SpanToken + 1, Seq: t.Seq}),
				wrong(task.Token{Span: t.Span, SpanToken: t.SpanToken - 1, Seq: t.Seq}),
				wrong(task.Token{Span: t.Span + 1000, SpanToken: t.SpanToken, Seq: t.Seq}),
				wrong(y.token()), // right, but of another span of the batch
				wrong(z.token()), // of another batch's span
				wrong(task.Token{}),
				y.report(s.clock, task.Finish(nil)),
			)
			s.want("verdicts", got, append(slices.Repeat([]task.Status{task.Stale}, 6), task.Recorded))
			s.wantState(x.id(), task.Ready)
			s.wantState(y.id(), task.Done)
			s.recorded(x.report(s.clock, task.Finish(nil)))
		}},
		{"LateReportOfALostHandoutIsStale", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			lost := o.report(s.clock, task.Outcome{Kind: task.KindLost, Error: "silent"})
			s.recorded(lost)
			s.want("verdicts", s.settle(o.report(s.clock, task.Finish(nil)), lost), []task.Status{task.Stale, task.Repeated})
			again := s.takeAgain(h, o)
			s.want("seq of the next hand-out", again.Seq, int32(1))
			s.want("attempts charged", again.Attempt, int32(1))
			s.recorded(again.report(s.clock, task.Finish(nil)))
		}},
		{"OlderTokenIsRefusedAfterARetake", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.die(a, b)
			n := s.takeOne(b)
			s.want("same seq", n.Seq, o.Seq)
			if n.span.Token <= o.span.Token {
				s.fail("span token %d after %d", n.span.Token, o.span.Token)
			}
			s.want("verdict of the older", s.settle(o.report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.recorded(n.report(s.clock, task.Finish(nil)))
		}},
		{"TokenStaysGoodUntilTheRetake", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.die(a, b)
			s.recorded(o.report(s.clock, task.Finish(nil)))
			s.wantState(o.id(), task.Done)
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
			s.want("verdict of the new holder's own token", s.settle(n.report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.recorded(o.report(s.clock, task.Retry(nil)))
			n = s.takeAgain(b, n)
			s.want("running row after the report", n.Running, (*rows.Running)(nil))
			s.want("seq after the report", n.Seq, int32(1))
			s.recorded(n.report(s.clock, task.Finish(nil)))
		}},
		{"AnyNodesReportCounts", func(s *scene) {
			s.put(1)
			h := s.join("a")
			o := s.takeOne(h)
			s.clock.Advance(2 * leaseTime) // no rule LEASE: the token alone decides
			s.recorded(o.report(s.clock, task.Finish(nil)))
		}},
		{"MovedTaskHasASpanOfItsOwn", func(s *scene) {
			h := s.join("a")
			s.put(2)
			sp := s.take(h, 2)[0]
			o := handout{sp.Span, sp.Tasks[0]}
			s.recorded(o.report(s.clock, task.Snooze(time.Hour)))
			s.wantState(o.id(), task.Waiting)
			st := s.stand(o.id())
			due := s.clock.Micros() + time.Hour.Microseconds()
			s.want("owner", withoutIDs([]rows.Span{st.Owner}), []rows.Span{{Batch: sp.Batch, Seq0: 1, Queue: "q", Rank: due, Due: due}})
			s.want("base", st.Base, int32(1))
			s.want("counts", s.counts(), task.Counts{Waiting: 1, Ready: 1})
			s.want("report at the old span", s.settle(o.report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.clock.Advance(time.Hour)
			n := s.takeOne(s.join("a"))
			s.want("task", n.id(), o.id())
			s.want("seq", n.Seq, int32(1))
			s.want("token", n.span.Token, int64(1))
			s.recorded(n.report(s.clock, task.Finish(nil)))
		}},
		{"ShortDelayStaysWithItsSpan", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.report(s.clock, task.RetryAfter(30*time.Second, nil)))
			s.wantState(o.id(), task.Waiting)
			s.want("counts", s.counts(), task.Counts{Waiting: 1})
			s.want("owner", s.stand(o.id()).Owner.ID, o.span.ID)
			s.clock.Advance(30 * time.Second)
			s.wantState(o.id(), task.Ready)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
		}},
		{"SpentSpansAreDeletedWithTheirLastReport", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.wantSpent(h, o, task.Recorded, true)
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			s.recorded(y.report(s.clock, task.Finish(nil)))
			_, err := s.Settle(s.ctx, rows.Settlement{Spent: []int64{y.span.ID}})
			s.ok(err)
			held, err := s.Held(s.ctx, h, nil)
			s.ok(err)
			s.want("held afterwards", len(held), 1)
			s.want("kept", held[0].ID, x.span.ID)
		}},
		{"SpanWithARefusedReportIsNotDeleted", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.report(s.clock, task.Outcome{Kind: task.KindRelease}))
			s.wantSpent(h, o, task.Stale, false)
		}},
		{"SpanWithARepeatedReportIsDeleted", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.report(s.clock, task.Finish(nil)))
			s.wantSpent(h, o, task.Repeated, true)
		}},
		{"ConcurrentReportsRecordOnce", func(s *scene) {
			const n = 8
			s.put(1)
			o := s.takeOne(s.join("a"))
			var got [n]rows.Settled
			var errs [n]error
			var wg sync.WaitGroup
			for i := range n {
				r := o.report(s.clock, task.Finish(i))
				wg.Go(func() { got[i], errs[i] = s.Settle(s.ctx, rows.Settlement{Reports: []rows.Report{r}}) })
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

// wantSpent settles done for a one-task span that is said to be spent, and looks whether it is still there.
func (s *scene) wantSpent(h rows.Holder, o handout, verdict task.Status, deleted bool) {
	got, err := s.Settle(s.ctx, rows.Settlement{Reports: []rows.Report{o.report(s.clock, task.Finish(nil))}, Spent: []int64{o.span.ID}})
	s.ok(err)
	s.want("verdicts", got.Verdicts, []task.Status{verdict})
	held, err := s.Held(s.ctx, h, nil)
	s.ok(err)
	s.want("deleted", !slices.ContainsFunc(held, func(sp rows.HeldSpan) bool { return sp.ID == o.span.ID }), deleted)
}

// holderClaims is what holds for holders that live, die and come back.
func holderClaims() []claim {
	return []claim{
		{"WithoutItsLeaseAHolderChangesNothing", func(s *scene) {
			a := s.join("a")
			s.put(2)
			o := s.takeOne(a)
			for _, gone := range []rows.Holder{a, {Node: "a", Token: a.Token + 1000}, {Node: "nobody", Token: a.Token}, {}} {
				if gone == a {
					s.clock.Advance(2 * leaseTime) // expired, not ended
				} else {
					a = s.join("a")
				}
				t, err := s.Take(s.ctx, rows.TakeRequest{Holder: gone, Queue: "q", Limit: 1})
				s.ok(err)
				s.want("take: lease gone", t.LeaseGone, true)
				s.want("take: spans", len(t.Spans), 0)
				y, err := s.Sync(s.ctx, rows.SyncRequest{Holder: gone, Insert: []rows.Running{o.running(s.clock)}})
				s.ok(err)
				s.want("sync: lease gone", y.LeaseGone, true)
				s.ok(s.Give(s.ctx, rows.GiveRequest{Holder: gone, Spans: []int64{o.span.ID}, Running: []rows.Running{o.running(s.clock)}}))
				s.want("running row", s.stand(o.id()).Running, (*rows.Running)(nil))
				s.want("owner", s.stand(o.id()).Owner, o.span)
			}
		}},
		{"HoldersTokenIsPartOfItsName", func(s *scene) {
			old := s.join("a")
			s.put(1)
			o := s.takeOne(old)
			a := s.join("a") // the same node, started again
			if a.Token <= old.Token {
				s.fail("lease token %d after %d", a.Token, old.Token)
			}
			s.ok(s.Give(s.ctx, rows.GiveRequest{Holder: a, Spans: []int64{o.span.ID}, Running: []rows.Running{o.running(s.clock)}}))
			s.want("owner after another holder gave it", s.stand(o.id()).Owner, o.span)
			s.sync(a, o)
			s.want("running row of another holder", s.stand(o.id()).Running, (*rows.Running)(nil))
			freed, err := s.Free(s.ctx, a)
			s.ok(err)
			s.want("freed", freed, 1)
			s.want("task taken anew", s.takeOne(a).id(), o.id())
		}},
		{"GivenSpansKeepTheirTokensGood", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(3)
			sp := s.take(a, 3)[0]
			x, y := handout{sp.Span, sp.Tasks[0]}, handout{sp.Span, sp.Tasks[1]}
			s.ok(s.Give(s.ctx, rows.GiveRequest{Holder: a, Spans: []int64{sp.ID, sp.ID + 1000}, Running: []rows.Running{x.running(s.clock), y.running(s.clock)}}))
			s.want("counts", s.counts(), task.Counts{Ready: 1, Running: 2})
			got := s.take(b, 3)
			s.want("spans", len(got), 1)
			s.want("span", got[0].ID, sp.ID)
			s.want("deaths", got[0].Deaths, int32(0))
			s.want("token", got[0].Token, sp.Token+1)
			s.recorded(x.report(s.clock, task.Finish(nil)), y.report(s.clock, task.Finish(nil)))
			z := handout{got[0].Span, got[0].Tasks[2]}
			s.want("report under the old token without a row", s.settle(handout{sp.Span, sp.Tasks[2]}.report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
			s.recorded(z.report(s.clock, task.Finish(nil)))
		}},
		{"OnlyOnesOwnSpansAreGivenBack", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.ok(s.Give(s.ctx, rows.GiveRequest{Holder: b, Spans: []int64{o.span.ID}, Running: []rows.Running{o.running(s.clock)}}))
			s.want("owner", s.stand(o.id()).Owner, o.span)
			s.want("running row", s.stand(o.id()).Running, (*rows.Running)(nil))
		}},
		{"FreeEndsExpiredLeasesAndFreesTheirSpansWheneverItLooks", func(s *scene) {
			a := s.join("a")
			s.put(1)
			o := s.takeOne(a)
			s.clock.Advance(2 * leaseTime)
			b := s.join("b")
			freed, err := s.Free(s.ctx, b)
			s.ok(err)
			s.want("freed", freed, 1)
			l, err := s.LeasesOf(s.ctx, nodePrefix+"a")
			s.ok(err)
			if len(l) != 1 || l[0].Token <= a.Token || l[0].Until > s.clock.Micros() {
				s.fail("ended lease: got %+v, its token was %d", l, a.Token)
			}
			st := s.stand(o.id())
			s.want("holder", st.Owner.Holder, rows.Holder{})
			s.want("deaths", st.Owner.Deaths, int32(1))
			freed, err = s.Free(s.ctx, b)
			s.ok(err)
			s.want("freed again", freed, 0)
			s.want("deaths", s.stand(o.id()).Owner.Deaths, int32(1))
			s.takeOne(b)
			s.ok(s.End(s.ctx, nodePrefix+"b", b.Token, true)) // no row at all: found by the level, not by an edge
			freed, err = s.Free(s.ctx, s.join("c"))
			s.ok(err)
			s.want("freed of a holder without a row", freed, 1)
			s.want("deaths", s.stand(o.id()).Owner.Deaths, int32(2))
		}},
		{"FreeRaisesTheTokenSoThatNoLateRenewalRevives", func(s *scene) {
			a := s.join("a")
			s.put(1)
			s.takeOne(a)
			s.clock.Advance(2 * leaseTime)
			_, err := s.Free(s.ctx, s.join("b"))
			s.ok(err)
			renewed, err := s.Renew(s.ctx, []rows.Lease{{Name: nodePrefix + "a", Token: a.Token}}, leaseTime)
			s.ok(err)
			s.want("renewed after the end", len(renewed), 0)
			t, err := s.Take(s.ctx, rows.TakeRequest{Holder: a, Queue: "q", Limit: 1})
			s.ok(err)
			s.want("lease gone", t.LeaseGone, true)
		}},
		{"FreeSparesTheLivingAndItself", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(2)
			x, y := s.takeOne(a), s.takeOne(b)
			s.clock.Advance(2 * leaseTime)
			_, err := s.Renew(s.ctx, []rows.Lease{{Name: nodePrefix + "b", Token: b.Token}}, leaseTime)
			s.ok(err)
			freed, err := s.Free(s.ctx, a) // whose own lease has expired
			s.ok(err)
			s.want("freed", freed, 0)
			s.want("its own span", s.stand(x.id()).Owner, x.span)
			s.want("the living one's span", s.stand(y.id()).Owner, y.span)
		}},
		{"RenewalAfterExpiryResumesWhatWasNotEnded", func(s *scene) {
			a := s.join("a")
			s.put(2)
			o := s.takeOne(a)
			s.clock.Advance(time.Hour)
			renewed, err := s.Renew(s.ctx, []rows.Lease{{Name: nodePrefix + "a", Token: a.Token}}, leaseTime)
			s.ok(err)
			s.want("renewed", len(renewed), 1)
			s.want("token", renewed[0].Token, a.Token)
			s.want("until", renewed[0].Until, s.clock.Micros()+leaseTime.Microseconds())
			freed, err := s.Free(s.ctx, s.join("b"))
			s.ok(err)
			s.want("freed", freed, 0)
			s.sync(a, o)
			s.recorded(o.report(s.clock, task.Finish(nil)), s.takeOne(a).report(s.clock, task.Finish(nil)))
		}},
		{"SyncWritesDownOnlyHandoutsThatStand", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(4)
			x, y, z := s.takeOne(a), s.takeOne(a), s.takeOne(b)
			s.recorded(y.report(s.clock, task.Outcome{Kind: task.KindRelease}))
			older := x
			older.span.Token--
			got, err := s.Sync(s.ctx, rows.SyncRequest{
				Holder: a,
				Insert: []rows.Running{older.running(s.clock), y.running(s.clock), z.running(s.clock)},
				Watch:  []rows.Watch{{ID: x.id(), Seq: 0}, {ID: y.id(), Seq: 0}, {ID: y.id(), Seq: 1}, {ID: task.ID{Batch: 5}, Seq: 0}},
			})
			s.ok(err)
			s.want("now", got.Now, s.clock.Micros())
			s.want("settled", got.Settled, []task.ID{y.id()})
			s.want("counts", s.counts(), task.Counts{Ready: 4})
			first := x.running(s.clock)
			s.sync(a, x)
			s.clock.Advance(time.Second)
			s.sync(a, x) // once more: the first row stays
			s.want("running row", s.stand(x.id()).Running, &first)
			s.want("counts", s.counts(), task.Counts{Ready: 3, Running: 1})
		}},
		{"EndedContextNeverLeavesHalfAWrite", func(s *scene) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			s.put(1)
			b := s.batch("q", 3)
			_, err := s.Submit(ended, rows.Submission{NewQueues: []string{"q"}, Batches: []rows.Batch{b}})
			if err != nil && errors.Is(err, rows.ErrUnknown) {
				s.fail("submission whose context had ended: %v", err)
			}
			want := task.Counts{Ready: 1}
			if err == nil {
				want.Ready = 4
			}
			s.want("counts", s.counts(), want)
			s.submit(rows.Holder{}, b)
			s.want("counts", s.counts(), task.Counts{Ready: 4})
		}},
		{"ClosedStoreSaysSo", func(s *scene) {
			s.ok(s.Close())
			_, err := s.Submit(s.ctx, rows.Submission{Batches: []rows.Batch{s.batch("q", 1)}})
			s.wantErr("submit", err, rows.ErrClosed)
			_, err = s.Take(s.ctx, rows.TakeRequest{Queue: "q", Limit: 1})
			s.wantErr("take", err, rows.ErrClosed)
			_, err = s.Settle(s.ctx, rows.Settlement{})
			s.wantErr("settle", err, rows.ErrClosed)
			_, err = s.Task(s.ctx, task.ID{Batch: 1})
			s.wantErr("view", err, rows.ErrClosed)
		}},
	}
}
