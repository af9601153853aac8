package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// orderClaims is what holds where the tasks of a key go one after the other.
func orderClaims() []claim {
	one := task.KeyLimits{MaxRunning: 1}
	stop := task.KeyLimits{MaxRunning: 1, OnDead: task.OnDeadStop}
	const begins, held, behind = store.Begins, store.HeldBack, store.Behind
	bad := errors.New("no")
	return []claim{
		{"AKeyInOrderWaitsForATaskThatRetries", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, one)
			s.putKeys("x", "x", "y")
			outs := s.byKey(a, 9, false, nil)
			first := outs[0]
			s.want("one of each", s.begin(a, outs...), []store.Beginning{begins, held, begins})
			s.want("owners", s.owners("x", "y"), "x 0, y 2")
			s.recorded(first.Report(s.clock, task.Retry(bad)))
			s.want("who retries has the key", s.owners("x"), "x 0")
			s.want("the next one", s.begin(a, outs[1]), []store.Beginning{held})
			again := s.heldBy(a, first.ID())
			s.want("the same one again", s.begin(a, again), []store.Beginning{begins})
			s.recorded(again.Report(s.clock, task.Next("second", nil)))
			s.want("between stages", s.begin(a, outs[1]), []store.Beginning{held})
			again = s.heldBy(a, first.ID())
			s.want("its second stage", s.begin(a, again), []store.Beginning{begins})
			s.recorded(again.Report(s.clock, task.Finish(nil)))
			s.want("owners when it is done", s.owners("x", "y"), "x -, y 2")
			s.want("then the next one", s.begin(a, outs[1]), []store.Beginning{begins})
			s.recorded(outs[1].Report(s.clock, task.Fail(bad)))
			s.want("a dead one stops nothing", s.owners("x"), "x -")
		}},
		{"OfAKeyInOrderItsOwnerIsTaken", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, one)
			s.putKeys("x", "x", "x")
			outs := s.byKey(a, 9, false, nil)
			s.want("first", s.begin(a, outs[0]), []store.Beginning{begins})
			s.recorded(outs[0].Report(s.clock, task.RetryAfter(time.Hour, bad)))
			s.putKeys("x")
			got := s.byKeyOnce(a, store.ByKey{}, 9)
			s.want("nothing while it waits", len(got.Spans), 0)
			s.want("look when it is due", got.NextDue-s.clock.Micros(), time.Hour.Microseconds())
			s.clock.Advance(time.Hour)
			b, c := s.join("b"), s.join("c")
			got = s.byKeyOnce(b, store.ByKey{}, 9)
			s.want("then its span", len(got.Spans), 1)
			s.want("for its sake", got.Owners, []task.ID{outs[0].ID()})
			own := caller.Taken(&got.Spans[0], 0)
			s.want("nothing else is", len(s.byKey(c, 9, true, nil)), 0)
			s.want("it begins", s.begin(b, own), []store.Beginning{begins})
			s.recorded(own.Report(s.clock, task.Finish(nil)))
			s.want("owners when it is done", s.owners("x"), "x -")
		}},
		{"WhatComesFirstOfAKeyBeginsFirst", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limitKeys(0, one)
			s.putKeys("x")
			late := s.byKey(a, 1, false, nil)
			early := s.batch("q", 1)
			early.Rank -= time.Hour.Microseconds()
			early.Tasks[0].GroupKey = "x"
			s.submit(store.Holder{}, early)
			first := s.byKey(b, 1, false, nil)
			s.want("the earlier one is taken", first[0].ID().Batch, early.ID)
			s.want("the later one", s.begin(a, late...), []store.Beginning{behind})
			s.want("nobody owns the key", s.owners("x"), "x -")
			s.putKeys("x")
			s.want("nothing is taken behind what somebody has", len(s.byKey(a, 9, true, nil)), 0)
			s.want("the earlier one", s.begin(b, first...), []store.Beginning{begins})
			s.recorded(first[0].Report(s.clock, task.Finish(nil)))
		}},
		{"ADeadTaskStopsItsKeyIfItIsTo", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, stop)
			s.putKeys("x", "x", "y", "y")
			outs := s.byKey(a, 9, false, nil)
			s.want("first", s.begin(a, outs[0], outs[2]), []store.Beginning{begins, begins})
			s.recorded(outs[0].Report(s.clock, task.Fail(bad)),
				outs[2].Report(s.clock, task.Finish(nil)))
			s.want("owners", s.owners("x", "y"), "x 0 stopped, y -")
			s.want("next", s.begin(a, outs[1], outs[3]), []store.Beginning{held, begins})
			s.putKeys("x")
			s.want("nothing is taken", len(s.byKey(a, 9, true, nil)), 0)
			s.want("replay", s.act(task.KindReplayed, outs[0].ID()).Changed, true)
			s.want("owners when it is replayed", s.owners("x"), "x 0")
			got := s.byKey(a, 9, true, nil)
			s.want("it is taken", []any{len(got), got[0].ID()}, []any{1, outs[0].ID()})
			s.want("before others", s.begin(a, outs[1], got[0]), []store.Beginning{held, begins})
			s.recorded(got[0].Report(s.clock, task.Fail(bad)))
			s.want("stopped again", s.begin(a, outs[1]), []store.Beginning{held})
			s.want("removal", s.act(task.KindRemoved, outs[0].ID()).Changed, true)
			s.want("owners without it", s.owners("x"), "x -")
			s.want("then the next one", s.begin(a, outs[1]), []store.Beginning{begins})
			s.recorded(outs[1].Report(s.clock, task.Fail(bad)))
			s.limitKeys(0, one)
			s.want("when dead ones are to stop nothing", s.owners("x"), "x -")
		}},
		{"WhoEndsOrLeavesItsKeyFreesIt", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, one)
			for _, leaves := range []func(id task.ID){
				func(id task.ID) { s.act(task.KindCancelled, id) },
				func(id task.ID) { s.act(task.KindRemoved, id) },
				func(id task.ID) { s.edited(a, id, store.Edit{GroupKey: new("z")}) },
			} {
				s.putKeys("x", "x")
				outs := s.byKey(a, 9, false, nil)
				s.want("first", s.begin(a, outs[0]), []store.Beginning{begins})
				s.recorded(outs[0].Report(s.clock, task.RetryAfter(time.Hour, bad)))
				s.want("it waits", s.owners("x"), "x 0")
				leaves(outs[0].ID())
				s.want("owners", s.owners("x"), "x -")
				s.want("next", s.begin(a, outs[1]), []store.Beginning{begins})
				set := store.Settlement{
					Reports: []store.Report{outs[1].Report(s.clock, task.Finish(nil))},
					Spent:   []store.Taking{outs[1].Span.Taking()},
				}
				_, err := s.Settle(s.ctx, set)
				s.ok(err)
			}
		}},
		{"WhoDidNotBeginOwnsNoKey", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limitKeys(0, one)
			s.putKeys("x", "x")
			outs := s.byKey(a, 9, false, nil)
			s.ok(s.Give(s.ctx, store.GiveRequest{
				Holder: a, Spans: []store.Taking{outs[0].Span.Taking()},
			}))
			s.want("of a span that is another's", s.begin(a, outs[0]),
				[]store.Beginning{store.Void})
			s.want("owners", s.owners("x"), "x -")
			s.want("the other's", s.begin(b, s.byKey(b, 9, false, nil)[0]),
				[]store.Beginning{begins})
		}},
		{"KeysThatMayRunSeveralHaveNoOwner", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 2})
			s.putKeys("x", "x", "x")
			outs := s.byKey(a, 9, false, nil)
			s.want("first", s.begin(a, outs...), []store.Beginning{begins, begins, held})
			s.want("owners", s.owners("x"), "x -")
			s.recorded(outs[0].Report(s.clock, task.RetryAfter(time.Hour, bad)))
			s.want("who waits keeps nobody", s.begin(a, outs[2]), []store.Beginning{begins})
		}},
	}
}

// owners tells which tasks keys of queue q have to wait for, by their numbers.
func (s *scene) owners(keys ...string) string {
	_, list, err := s.KeyGates(s.ctx, "q", keys)
	s.ok(err)
	var told []string
	for _, g := range list {
		text := g.Key + " -"
		if g.Owner != (task.ID{}) {
			text = fmt.Sprint(g.Key, " ", g.Owner.N)
		}
		if g.Stopped {
			text += " stopped"
		}
		told = append(told, text)
	}
	return strings.Join(told, ", ")
}
