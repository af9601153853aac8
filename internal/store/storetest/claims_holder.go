package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// holderClaims is what holds for holders that live, die and come back.
func holderClaims() []claim {
	return []claim{
		{"WithoutItsLeaseAHolderChangesNothing", func(s *scene) {
			a := s.join("a")
			s.put(2)
			o := s.takeOne(a)
			for _, gone := range []store.Holder{a, {Node: "a", Token: a.Token + 1000},
				{Node: "nobody", Token: a.Token}, {}} {
				if gone == a {
					s.clock.Advance(2 * caller.LeaseTime) // expired, not ended
				} else {
					a = s.join("a")
				}
				t, err := s.Take(s.ctx, store.TakeRequest{Holder: gone, Queue: "q", Limit: 1})
				s.ok(err)
				s.want("take: lease gone", t.LeaseGone, true)
				s.want("take: spans", len(t.Spans), 0)
				y, err := s.Sync(s.ctx, store.SyncRequest{
					Holder: gone, Insert: []store.Running{o.Row(s.clock)},
				})
				s.ok(err)
				s.want("sync: lease gone", y.LeaseGone, true)
				s.ok(s.Give(s.ctx,
					store.GiveRequest{
						Holder: gone, Spans: []store.Taking{o.Span.Taking()},
						Running: []store.Running{o.Row(s.clock)},
					}))
				s.want("running row", s.stand(o.ID()).Running, (*store.Running)(nil))
				s.want("owner", s.stand(o.ID()).Owner, o.Span)
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
			s.ok(s.Give(s.ctx,
				store.GiveRequest{
					Holder: a, Spans: []store.Taking{o.Span.Taking()},
					Running: []store.Running{o.Row(s.clock)},
				}))
			s.want("owner after another holder gave it", s.stand(o.ID()).Owner, o.Span)
			s.sync(a, o)
			s.want("running row of another holder", s.stand(o.ID()).Running, (*store.Running)(nil))
			freed, err := s.Free(s.ctx, a, math.MaxInt64)
			s.ok(err)
			s.want("freed", freed, 1)
			s.want("task taken anew", s.takeOne(a).ID(), o.ID())
		}},
		{"GivenSpansKeepTheirTokensGood", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(3)
			sp := s.take(a, 3)[0]
			x, y := caller.Taken(&sp, 0), caller.Taken(&sp, 1)
			out := []store.Running{x.Row(s.clock), y.Row(s.clock)}
			s.ok(s.Give(s.ctx,
				store.GiveRequest{
					Holder: a, Spans: []store.Taking{sp.Taking(),
						{Span: sp.ID + 1000, Token: sp.Token}}, Running: out,
				}))
			s.want("counts", s.counts(), task.Counts{Ready: 1, Running: 2})
			got := s.take(b, 3)
			s.want("spans", len(got), 1)
			s.want("span", got[0].ID, sp.ID)
			s.want("deaths", got[0].Deaths, int32(0))
			s.want("token", got[0].Token, sp.Token+1)
			s.recorded(x.Report(s.clock, task.Finish(nil)), y.Report(s.clock, task.Finish(nil)))
			z := caller.Taken(&got[0], 2)
			s.want("report under the old token without a row",
				s.settle(caller.Taken(&sp, 2).Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
			s.recorded(z.Report(s.clock, task.Finish(nil)))
		}},
		{"AttemptsPastTheirLimitAreListedWhoeverHoldsTheirSpans", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(4)
			list := func(q store.OverdueQuery) (ids []task.ID) {
				got, err := s.Overdue(s.ctx, q)
				s.ok(err)
				if len(got.Rows) > 0 {
					s.want("now", got.Now, s.clock.Micros())
				}
				for _, r := range got.Rows {
					ids = append(ids, r.ID)
				}
				return ids
			}
			all := store.OverdueQuery{Limit: 10}
			w, x, y, z := s.takeOne(a), s.takeOne(a), s.takeOne(b), s.takeOne(a)
			before := s.clock.Micros()
			out := []store.Running{
				w.Row(s.clock), x.Row(s.clock), y.Row(s.clock), z.Row(s.clock),
			}
			out[2].Until -= 2e6
			for i, h := range []store.Holder{a, a, b} {
				_, err := s.Sync(s.ctx, store.SyncRequest{Holder: h, Insert: out[i : i+1]})
				s.ok(err)
			}
			s.ok(s.Give(s.ctx,
				store.GiveRequest{Holder: a, Spans: []store.Taking{w.Span.Taking()}}))
			s.clock.Advance(time.Minute - 3*time.Second)
			s.want("overdue before their limit", list(all), []task.ID(nil))
			a = s.join("a") // the same node, started again
			s.clock.Advance(3 * time.Second)
			s.sync(a, z)
			s.want("overdue", list(all), []task.ID{y.ID(), w.ID(), x.ID()})
			s.want("the first", list(store.OverdueQuery{Limit: 1}), []task.ID{y.ID()})
			s.want("behind it", list(store.OverdueQuery{Limit: 10, After: out[2]}),
				[]task.ID{w.ID(), x.ID()})
			s.want("behind the second", list(store.OverdueQuery{Limit: 10, After: out[0]}),
				[]task.ID{x.ID()})
			stepped := store.OverdueQuery{Limit: 10, Steady: before + 1, Late: 1e6}
			s.want("overdue with a clock that was put forward since", list(stepped),
				[]task.ID{y.ID()})
			stepped.Steady = before
			s.want("overdue with a clock that was put forward before", list(stepped),
				[]task.ID{y.ID(), w.ID(), x.ID()})
			s.recorded(y.Report(s.clock, task.Finish(nil)))
			s.want("overdue after a report", list(all), []task.ID{w.ID(), x.ID()})
		}},
		{"GivenSpansGoWhereTheirTasksBelong", func(s *scene) {
			a := s.join("a")
			first, second := s.batch("q", 1), s.batch("q", 1)
			second.Rank, second.Due = first.Rank+1e6, first.Due+1e6
			s.submit(store.Holder{}, first, second)
			s.clock.Advance(3 * time.Second)
			x := s.takeOne(a)
			order := store.Move{Rank: first.Rank + 2e6, Due: first.Due + 2e6}
			s.ok(s.Give(s.ctx,
				store.GiveRequest{
					Holder: a, Spans: []store.Taking{x.Span.Taking()}, Orders: []store.Move{order},
				}))
			s.want("taken first", s.takeOne(a).Span.Batch, second.ID)
			y := s.takeOne(a)
			s.want("taken next", y.ID(), x.ID())
			s.want("its rank and due", store.Move{Rank: y.Span.Rank, Due: y.Span.Due}, order)
			order.Rank, order.Due = order.Rank+10e6, order.Due+10e6
			s.ok(s.Give(s.ctx,
				store.GiveRequest{
					Holder: a, Spans: []store.Taking{y.Span.Taking()}, Orders: []store.Move{order},
				}))
			s.want("taken before it is due", len(s.take(a, 1)), 0)
		}},
		{"TheRestOfASpanIsGivenBack", showGiveRest},
		{"OnlyOnesOwnSpansAreGivenBack", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			o := s.takeOne(a)
			s.ok(s.Give(s.ctx,
				store.GiveRequest{
					Holder: b, Spans: []store.Taking{o.Span.Taking()},
					Running: []store.Running{o.Row(s.clock)},
				}))
			s.want("owner", s.stand(o.ID()).Owner, o.Span)
			s.want("running row", s.stand(o.ID()).Running, (*store.Running)(nil))
		}},
		{"LateGiveFreesNoLaterTaking", func(s *scene) {
			a := s.join("a")
			s.put(1)
			o := s.takeOne(a)
			give := store.GiveRequest{
				Holder: a, Spans: []store.Taking{o.Span.Taking()},
				Running: []store.Running{o.Row(s.clock)},
			}
			s.ok(s.Give(s.ctx, give))
			again := s.take(a, 1)
			s.want("spans taken again", len(again), 1)
			s.ok(s.Give(s.ctx, give))
			s.want("owner after a late copy", s.stand(o.ID()).Owner, again[0].Span)
		}},
		{"FreeEndsExpiredLeasesAndFreesTheirSpansWheneverItLooks", func(s *scene) {
			a := s.join("a")
			s.put(1)
			o := s.takeOne(a)
			s.clock.Advance(2 * caller.LeaseTime)
			b := s.join("b")
			freed, err := s.Free(s.ctx, b, math.MaxInt64)
			s.ok(err)
			s.want("freed", freed, 1)
			l, err := s.LeasesOf(s.ctx, store.MembershipOf("a"))
			s.ok(err)
			if len(l) != 1 || l[0].Token <= a.Token || l[0].Until > s.clock.Micros() {
				s.fail("ended lease: got %+v, its token was %d", l, a.Token)
			}
			st := s.stand(o.ID())
			s.want("holder", st.Owner.Holder, store.Holder{})
			s.want("deaths", st.Owner.Deaths, int32(1))
			freed, err = s.Free(s.ctx, b, math.MaxInt64)
			s.ok(err)
			s.want("freed again", freed, 0)
			s.want("deaths", s.stand(o.ID()).Owner.Deaths, int32(1))
			s.takeOne(b)
			// no row at all: found by the level, not by an edge
			s.ok(s.End(s.ctx, store.MembershipOf("b"), b.Token, true))
			freed, err = s.Free(s.ctx, s.join("c"), math.MaxInt64)
			s.ok(err)
			s.want("freed of a holder without a row", freed, 1)
			s.want("deaths", s.stand(o.ID()).Owner.Deaths, int32(2))
		}},
		{"FreeThatWasLongOnItsWayJudgesNobody", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			s.takeOne(a)
			judge := s.clock.Micros() + time.Minute.Microseconds()
			s.clock.Advance(time.Hour)
			freed, err := s.Free(s.ctx, b, judge)
			s.ok(err)
			s.want("freed", freed, 0)
			renewed, err := s.Renew(s.ctx,
				[]store.Lease{{Name: store.MembershipOf("a"), Token: a.Token}}, caller.LeaseTime)
			s.ok(err)
			s.want("renewed", len(renewed), 1)
			// what ended is freed all the same
			s.ok(s.End(s.ctx, store.MembershipOf("a"), a.Token, false))
			freed, err = s.Free(s.ctx, b, judge)
			s.ok(err)
			s.want("freed of what ended", freed, 1)
		}},
		{"FreeEndedEndsNoLeaseAndFreesWhatEndedOnesHeld", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(2)
			gone, lives := s.takeOne(a), s.takeOne(b)
			s.ok(s.End(s.ctx, store.MembershipOf("a"), a.Token, false))
			s.clock.Advance(2 * caller.LeaseTime)
			freed, err := s.FreeEnded(s.ctx)
			s.ok(err)
			s.want("freed", freed, 1)
			s.want("holder of what the ended one had", s.stand(gone.ID()).Owner.Holder,
				store.Holder{})
			s.want("deaths", s.stand(gone.ID()).Owner.Deaths, int32(1))
			s.want("holder of what an expired one has", s.stand(lives.ID()).Owner.Holder, b)
			l, err := s.LeasesOf(s.ctx, store.MembershipOf("b"))
			s.ok(err)
			if len(l) != 1 || l[0].Token != b.Token || l[0].Until == 0 {
				s.fail("the expired lease: got %+v, its token was %d", l, b.Token)
			}
			freed, err = s.FreeEnded(s.ctx)
			s.ok(err)
			s.want("freed again", freed, 0)
		}},
		{"FreeRaisesTheTokenSoThatNoLateRenewalRevives", func(s *scene) {
			a := s.join("a")
			s.put(1)
			s.takeOne(a)
			s.clock.Advance(2 * caller.LeaseTime)
			_, err := s.Free(s.ctx, s.join("b"), math.MaxInt64)
			s.ok(err)
			renewed, err := s.Renew(s.ctx,
				[]store.Lease{{Name: store.MembershipOf("a"), Token: a.Token}}, caller.LeaseTime)
			s.ok(err)
			s.want("renewed after the end", len(renewed), 0)
			t, err := s.Take(s.ctx, store.TakeRequest{Holder: a, Queue: "q", Limit: 1})
			s.ok(err)
			s.want("lease gone", t.LeaseGone, true)
		}},
		{"FreeSparesTheLivingAndItself", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(2)
			x, y := s.takeOne(a), s.takeOne(b)
			s.clock.Advance(2 * caller.LeaseTime)
			_, err := s.Renew(s.ctx,
				[]store.Lease{{Name: store.MembershipOf("b"), Token: b.Token}}, caller.LeaseTime)
			s.ok(err)
			freed, err := s.Free(s.ctx, a, math.MaxInt64) // whose own lease has expired
			s.ok(err)
			s.want("freed", freed, 0)
			s.want("its own span", s.stand(x.ID()).Owner, x.Span)
			s.want("the living one's span", s.stand(y.ID()).Owner, y.Span)
		}},
		{"RenewalAfterExpiryResumesWhatWasNotEnded", func(s *scene) {
			a := s.join("a")
			s.put(2)
			o := s.takeOne(a)
			s.clock.Advance(time.Hour)
			renewed, err := s.Renew(s.ctx,
				[]store.Lease{{Name: store.MembershipOf("a"), Token: a.Token}}, caller.LeaseTime)
			s.ok(err)
			s.want("renewed", len(renewed), 1)
			s.want("token", renewed[0].Token, a.Token)
			s.want("until", renewed[0].Until, s.clock.Micros()+caller.LeaseTime.Microseconds())
			freed, err := s.Free(s.ctx, s.join("b"), math.MaxInt64)
			s.ok(err)
			s.want("freed", freed, 0)
			s.sync(a, o)
			s.recorded(o.Report(s.clock, task.Finish(nil)),
				s.takeOne(a).Report(s.clock, task.Finish(nil)))
		}},
		{"SyncWritesDownOnlyHandoutsThatStand", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(4)
			x, y, z := s.takeOne(a), s.takeOne(a), s.takeOne(b)
			s.recorded(y.Report(s.clock, task.Outcome{Kind: task.KindRelease}))
			older := x
			older.Span.Token--
			got, err := s.Sync(s.ctx, store.SyncRequest{
				Holder: a,
				Insert: []store.Running{
					older.Row(s.clock), y.Row(s.clock), z.Row(s.clock),
				},
				Watch: []store.Watch{
					{ID: x.ID(), Seq: 0}, {ID: y.ID(), Seq: 0}, {ID: y.ID(), Seq: 1},
					{ID: task.ID{Batch: 5}, Seq: 0},
				},
			})
			s.ok(err)
			s.want("now", got.Now, s.clock.Micros())
			s.want("settled", got.Settled, []task.ID{y.ID()})
			s.want("missing", got.Missing, []task.ID{x.ID(), y.ID(), z.ID()})
			s.want("counts", s.counts(), task.Counts{Ready: 4})
			first := x.Row(s.clock)
			s.sync(a, x)
			s.clock.Advance(time.Second)
			got, err = s.Sync(s.ctx, store.SyncRequest{
				Holder: a, Insert: []store.Running{x.Row(s.clock)},
			})
			s.ok(err)
			s.want("missing once more: the first row stays", len(got.Missing), 0)
			s.want("running row", s.stand(x.ID()).Running, &first)
			s.want("counts", s.counts(), task.Counts{Ready: 3, Running: 1})
		}},
		{"EndedContextNeverLeavesHalfAWrite", func(s *scene) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			s.put(1)
			b := s.batch("q", 3)
			_, err := s.Submit(ended, store.Submission{
				NewQueues: []string{"q"}, Batches: []store.Batch{b},
			})
			if err != nil && errors.Is(err, store.ErrUnknown) {
				s.fail("submission whose context had ended: %v", err)
			}
			want := task.Counts{Ready: 1}
			if err == nil {
				want.Ready = 4
			}
			s.want("counts", s.counts(), want)
			s.submit(store.Holder{}, b)
			s.want("counts", s.counts(), task.Counts{Ready: 4})
		}},
		{"ClosedStoreSaysSo", func(s *scene) {
			s.ok(s.Close())
			_, err := s.Submit(s.ctx, store.Submission{Batches: []store.Batch{s.batch("q", 1)}})
			s.wantErr("submit", err, store.ErrClosed)
			_, err = s.Take(s.ctx, store.TakeRequest{Queue: "q", Limit: 1})
			s.wantErr("take", err, store.ErrClosed)
			_, err = s.Settle(s.ctx, store.Settlement{})
			s.wantErr("settle", err, store.ErrClosed)
			_, err = s.Task(s.ctx, task.ID{Batch: 1})
			s.wantErr("view", err, store.ErrClosed)
		}},
	}
}

func showGiveRest(s *scene) {
	a, b := s.join("a"), s.join("b")
	s.put(5)
	sp := s.take(a, 5)[0]
	x, y := caller.Taken(&sp, 1), caller.Taken(&sp, 3)
	s.sync(a, x)
	order := store.Move{Rank: sp.Rank + 1e6, Due: sp.Due + 1e6}
	give := func(what string, h store.Holder, t store.Taking, from int32, want bool) {
		given, err := s.GiveRest(s.ctx, store.RestRequest{
			Holder: h, Rests: []store.Rest{{Taking: t, From: from, Move: order}},
		})
		s.ok(err)
		s.want(what, given, []bool{want})
	}
	give("another's", b, sp.Taking(), 2, false)
	give("with another token", a, store.Taking{Span: sp.ID, Token: sp.Token + 1}, 2, false)
	give("all of it", a, sp.Taking(), sp.Lo, false)
	give("behind it", a, sp.Taking(), sp.Hi+2, false)
	give("nothing of it", a, sp.Taking(), sp.Hi+1, true)
	s.want("its owner still", s.stand(y.ID()).Owner, sp.Span)
	give("the rest", a, sp.Taking(), 2, true)
	give("the rest again", a, sp.Taking(), 2, true)
	kept := sp.Span
	kept.Hi = 1
	s.want("what is kept", s.stand(x.ID()).Owner, kept)
	s.want("the outcome of what left, under the old token",
		s.settle(y.Report(s.clock, task.Finish(nil))), []task.Status{task.Stale})
	s.want("counts", s.counts(), task.Counts{Waiting: 3, Ready: 1, Running: 1})
	s.want("taken before it is due", len(s.take(b, 5)), 0)
	s.clock.Advance(time.Second)
	got := s.take(b, 5)
	s.want("spans taken", len(got), 1)
	want := sp.Span
	want.ID, want.Lo, want.Rank, want.Due = got[0].ID, 2, order.Rank, order.Due
	want.Holder, want.Token = b, sp.Token+1
	s.want("what was given back", got[0].Span, want)
	s.want("its tasks", len(got[0].Tasks), 3)
	s.recorded(x.Report(s.clock, task.Finish(nil)),
		caller.Handout{Span: kept, Loaded: sp.Tasks[0]}.Report(s.clock, task.Finish(nil)),
		caller.Taken(&got[0], 1).Report(s.clock, task.Finish(nil)))

	rest := got[0].Taking()
	s.clock.Advance(2 * caller.LeaseTime)
	give("by who has no lease", b, rest, 4, false)
}
