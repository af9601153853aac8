package storetest

import (
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

func awaitChildrenClaims() []claim {
	return []claim{
		{"WhoAwaitsChildrenIsWokenByTheLastOfThem", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			b := s.brood("q", 0, 3)
			ids := s.spawnAnd(o, s.awaitChildren(o, false), b)
			s.wantState(o.ID(), task.Blocked)
			v := s.view(o.ID())
			s.want("what it waits for", *v.Awaits, task.Awaits{})
			s.want("before any ends", s.looks(9), "ended 0")
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			s.recorded(s.takeOnly(a, ids[1]).Report(s.clock, task.Fail(errNo)))
			s.want("before the last ends", s.looks(9), "ended 0")
			s.want("before it, at the place", s.looks(9, store.ChildrenOf(o.ID(), 0)), "ended 0")
			got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{
				s.takeOnly(a, ids[2]).Report(s.clock, task.Finish(nil)),
			}})
			s.ok(err)
			s.want("where to look", got.Look, []store.Address{store.ChildrenOf(o.ID(), 0)})
			s.want("there", s.looks(9, got.Look...), "ended 1 wakes q")
			s.want("once more", s.looks(9, got.Look...), "ended 0")
			s.want("everywhere", s.looks(9), "ended 0")
			s.want("steps", s.stepsOf(o.ID()), []string{"next w []", "woken  []"})
			p := s.takeOnly(a, o.ID())
			s.want("its stage and attempt", []any{p.Stage, p.Attempt}, []any{"second", int32(0)})
			s.want("what woke it", wokeByChildren(p.Loaded),
				task.Children{Total: 3, Done: 2, Dead: 1})
			s.want("no signal", wokeBy(p.Loaded).Signal, "")
			s.recorded(p.Report(s.clock, task.Finish(nil)))
		}},
		{"WhoHasNoOpenChildrenIsWokenAtOnce", func(s *scene) {
			a := s.join("a")
			o, p := s.handed(a), s.handed(a)
			got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{
				s.awaitChildren(o, false),
			}})
			s.ok(err)
			s.want("where to look", got.Look, []store.Address{store.ChildrenOf(o.ID(), 0)})
			s.want("there", s.looks(9, got.Look...), "ended 1 wakes q")
			ids := s.spawn(p, task.Next("on", nil), s.brood("q", 0, 1))
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			s.looks(9)
			s.recorded(s.awaitChildren(s.takeOnly(a, p.ID()), false))
			s.want("all of them over", s.looks(9), "ended 1 wakes q")
			s.want("what woke it", wokeByChildren(s.takeOnly(a, p.ID()).Loaded),
				task.Children{Total: 1, Done: 1})
		}},
		{"TheFirstChildThatDiesMayEndAWait", func(s *scene) {
			a := s.join("a")
			for _, out := range []string{"dead", "expired", "cancelled"} {
				o := s.handed(a)
				b := s.brood("q", 0, 3)
				b.Tasks[1].StartWithin = 1
				ids := s.spawnAnd(o, s.awaitChildren(o, true), b)
				s.want("what it waits for", *s.view(o.ID()).Awaits, task.Awaits{First: true})
				s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
				s.want("none is dead", s.looks(9), "ended 0")
				want, ends := task.Children{Total: 3, Done: 1}, "ended 1 wakes q"
				switch out {
				case "dead":
					want.Dead = 1
					s.recorded(s.takeOnly(a, ids[1]).Report(s.clock, task.Fail(errNo)))
				case "expired":
					want.Expired = 1
					s.clock.Advance(time.Second)
					s.recorded(s.expired(s.takeOnly(a, ids[1])))
				case "cancelled":
					want.Cancelled, ends = 1, "ended 0"
					s.changed(task.KindCancelled, ids[1])
				}
				s.want(out, s.looks(9), ends)
				s.want("how they stand", s.grown(o.ID()), want)
				if out == "cancelled" {
					s.recorded(s.takeOnly(a, ids[2]).Report(s.clock, task.Finish(nil)))
					s.want("the last", s.looks(9), "ended 1 wakes q")
				}
				s.recorded(s.takeOnly(a, o.ID()).Report(s.clock, task.Finish(nil)))
				s.changed(task.KindRemoved, ids[2])
			}
		}},
		{"ATimeEndsAWaitForChildren", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			r := s.awaitChildren(o, false)
			r.Await.Until, r.Await.Else = s.clock.Micros()+5e6, "late"
			ids := s.spawnAnd(o, r, s.brood("q", 0, 1))
			s.clock.Advance(5 * time.Second)
			s.want("looks", s.looks(9), "ended 1 wakes q")
			a = s.join("a")
			p := s.takeOnly(a, o.ID())
			s.want("its stage", p.Stage, "late")
			s.want("what woke it", wokeBy(p.Loaded), store.Woken{TimedOut: true})
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			s.want("the child ends", s.looks(9), "ended 0")
			s.recorded(s.awaitChildren(p, false))
			s.want("it waits again", s.looks(9), "ended 1 wakes q")
		}},
		{"ChildrenOfAFormerRunKeepNobodyWaiting", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			old := s.spawn(o, task.Finish(nil), s.brood("q", 0, 1))
			s.want("replayed", s.replay(o.ID(), store.Replay{}).Changed, true)
			s.want("its children", []any{s.view(o.ID()).Children == nil, s.childrenOf(o.ID(), "")},
				[]any{true, old})
			p := s.takeOnly(a, o.ID())
			ids := s.spawnAnd(p, s.awaitChildren(p, false), s.brood("q", 0, 1))
			run := p.Seq
			s.want("where it waits", s.looks(9, store.ChildrenOf(o.ID(), run)), "ended 0")
			s.recorded(s.takeOnly(a, old[0]).Report(s.clock, task.Finish(nil)))
			s.want("the old one ends", s.looks(9), "ended 0")
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Fail(errNo)))
			s.want("the new one ends", s.looks(9), "ended 1 wakes q")
			s.want("what woke it", wokeByChildren(s.takeOnly(a, o.ID()).Loaded),
				task.Children{Total: 1, Dead: 1})
			s.want("all of them", s.childrenOf(o.ID(), ""), append(old, ids...))
		}},
		{"AReplayedChildIsWaitedForAgain", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawnAnd(o, s.awaitChildren(o, false), s.brood("q", 0, 2))
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Fail(errNo)))
			s.replay(ids[0], store.Replay{})
			s.recorded(s.takeOnly(a, ids[1]).Report(s.clock, task.Finish(nil)))
			s.want("one is open", s.looks(9), "ended 0")
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			s.want("none is", s.looks(9), "ended 1 wakes q")
			s.want("what woke it", wokeByChildren(s.takeOnly(a, o.ID()).Loaded),
				task.Children{Total: 2, Done: 2})
		}},
		{"WhatIsDeletedCountsAsItEnded", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			s.spawnAnd(o, s.awaitChildren(o, false), s.brood("r", 0, 2))
			got, err := s.Take(s.ctx, store.TakeRequest{Holder: a, Queue: "r", Limit: 1})
			s.ok(err)
			h := caller.Taken(&got.Spans[0], 0)
			s.recorded(h.Report(s.clock, task.Finish(nil)))
			s.clock.Advance(365 * 24 * time.Hour)
			s.prune()
			s.want("kept for its parent", len(s.childrenOf(o.ID(), task.Done)), 1)
			s.ok(s.DeleteQueue(s.ctx, "r", true))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			a = s.join("a")
			p := s.takeOnly(a, o.ID())
			s.want("what woke it", wokeByChildren(p.Loaded),
				task.Children{Total: 2, Done: 1, Cancelled: 1})
			s.recorded(p.Report(s.clock, task.Finish(nil)))
		}},
		{"ChildrenGoSoonAfterTheirParentIsOver", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawn(o, task.Next("on", nil), s.brood("q", 0, 1))
			p := s.takeOnly(a, o.ID())
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			s.clock.Advance(365 * 24 * time.Hour)
			s.prune()
			s.wantState(ids[0], task.Done)
			s.recorded(p.Report(s.clock, task.Finish(nil)))
			s.clock.Advance(15 * time.Minute)
			s.prune()
			_, err := s.Task(s.ctx, ids[0])
			s.wantErr("the child", err, store.ErrNotFound)
			s.wantState(o.ID(), task.Done)
		}},
		{"ChildrenOfWhoIsOverAreKeptNoLonger", func(s *scene) {
			a := s.join("a")
			o, grown := s.handed(a), s.handed(a)
			ids := s.spawn(o, task.Finish(nil), s.brood("q", 0, 1))
			s.recorded(s.takeOnly(a, ids[0]).Report(s.clock, task.Finish(nil)))
			old := s.spawn(grown, task.Finish(nil), s.brood("q", 0, 1))
			s.recorded(s.takeOnly(a, old[0]).Report(s.clock, task.Finish(nil)))
			s.replay(grown.ID(), store.Replay{})
			s.clock.Advance(365 * 24 * time.Hour)
			s.prune()
			for _, id := range []task.ID{o.ID(), ids[0], old[0]} {
				_, err := s.Task(s.ctx, id)
				s.wantErr("task "+id.String(), err, store.ErrNotFound)
			}
			s.wantState(grown.ID(), task.Ready)
			s.want("its children", []any{len(s.childrenOf(grown.ID(), "")),
				s.view(grown.ID()).Children == nil}, []any{0, true})
		}},
	}
}

// wokeByChildren is how the children stood that woke a task.
func wokeByChildren(l store.Loaded) task.Children {
	if l.Woken == nil || l.Woken.Children == nil {
		return task.Children{}
	}
	return *l.Woken.Children
}

// awaitChildren makes a report after which a task waits for its children.
func (s *scene) awaitChildren(o caller.Handout, first bool) store.Report {
	r := o.Report(s.clock, task.Next("second", nil))
	r.Await = &store.Await{Address: store.ChildrenOf(o.ID(), 0), First: first}
	r.Move, r.Step.Base = store.Parked(), o.Seq+1
	return r
}
