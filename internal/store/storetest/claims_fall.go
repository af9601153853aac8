package storetest

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func fallClaims() []claim {
	return []claim{
		{"WhoDiesTakesAlongWhatHasNotBegun", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			b, orphans := s.brood("q", 0, 5), s.brood("q", 5, 1)
			orphans.Orphan = true
			ids := s.spawn(o, task.Next("on", nil), b, orphans)
			done, runs, went := s.takeOnly(a, ids[0]), s.takeOnly(a, ids[1]), s.takeOnly(a, ids[2])
			s.sync(a, runs)
			s.recorded(done.Report(s.clock, task.Finish(nil)),
				went.Report(s.clock, task.Next("b", nil)))
			s.recorded(s.takeOnly(a, o.ID()).Report(s.clock, task.Fail(errNo)))
			s.want("looks for one", s.falls(1), "cancelled [] more")
			s.want("for the next", s.falls(3), fmt.Sprint("cancelled ", ids[3:4], " more"))
			s.want("for the rest", s.falls(9), fmt.Sprint("cancelled ", ids[4:5]))
			s.want("then", s.falls(9), "cancelled []")
			s.want("states", s.statesOf(ids), []task.State{
				task.Done, task.Running, task.Ready, task.Cancelled, task.Cancelled, task.Ready,
			})
			s.want("why", s.view(ids[3]).Error,
				fmt.Sprintf("parent %s ended before this began", o.ID()))
			s.want("how they stand", s.grown(o.ID()),
				task.Children{Total: 6, Done: 1, Cancelled: 2})
			s.want("what is handed out", s.takeOnly(a, ids[5]).ID(), ids[5])
		}},
		{"ADoneParentLeavesItsChildren", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawn(o, task.Finish(nil), s.brood("q", 0, 1))
			s.want("looks", s.falls(9), "cancelled []")
			s.wantState(ids[0], task.Ready)
		}},
		{"WhatEndsAParentOtherwiseLetsChildrenFall", func(s *scene) {
			a := s.join("a")
			o, p := s.handed(a), s.handed(a)
			ids := s.spawnAnd(o, s.awaitChildren(o, false), s.brood("q", 0, 1))
			s.changed(task.KindCancelled, o.ID())
			s.want("cancelled", s.falls(9), fmt.Sprint("cancelled ", ids))
			ids = s.spawn(p, task.Next("on", nil), s.brood("q", 0, 1))
			s.changed(task.KindRemoved, p.ID())
			s.want("removed", s.falls(9), fmt.Sprint("cancelled ", ids))
			o = s.handed(a)
			ids = s.spawn(o, task.Finish(nil), s.brood("q", 0, 1))
			s.changed(task.KindRemoved, o.ID()) // it was done
			s.want("removed later", s.falls(9), "cancelled []")
			s.wantState(ids[0], task.Ready)
		}},
		{"ATreeFallsAsAWhole", func(s *scene) {
			a := s.join("a")
			top := s.handed(a)
			ids := s.spawn(top, task.Next("on", nil), s.brood("q", 0, 3))
			mid, over := s.takeOnly(a, ids[0]), s.takeOnly(a, ids[1])
			orphans := s.brood("q", 0, 1)
			orphans.Orphan = true
			below := s.spawnAnd(mid, s.awaitChildren(mid, false), orphans)
			last := s.spawn(over, task.Finish(nil), s.brood("q", 0, 1))
			runs := s.takeOnly(a, last[0])
			s.sync(a, runs)
			now := s.clock.Micros()
			acted, err := s.Act(s.ctx, []store.Action{{
				ID: top.ID(), Kind: task.KindCancelled, Tree: true, Rank: now, Due: now,
			}})
			s.ok(err)
			s.want("acted", acted[0].Changed, true)
			s.want("its children", s.falls(9), fmt.Sprint("cancelled ", []task.ID{ids[0], ids[2]},
				" more"))
			s.want("those below", s.falls(9),
				fmt.Sprint("cancelled ", sortedIDs(below[0], last[0])))
			s.want("none below them", s.falls(9), "cancelled []")
			s.want("states", s.statesOf([]task.ID{top.ID(), mid.ID(), over.ID(), last[0]}),
				[]task.State{task.Cancelled, task.Cancelled, task.Done, task.Cancelled})
			s.want("why", s.view(last[0]).Error, fmt.Sprintf("cancelled with all below %s", ids[1]))
			s.want("its late report", s.settle(runs.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Stale})
		}},
		{"AFallIsOfTheRunThatEnded", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			old := s.spawn(o, task.Next("on", nil), s.brood("q", 0, 1))
			s.changed(task.KindCancelled, o.ID())
			s.want("replayed", s.replay(o.ID(), store.Replay{}).Changed, true)
			ids := s.spawn(s.takeOnly(a, o.ID()), task.Next("on", nil), s.brood("q", 0, 1))
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", old))
			s.want("the new one", s.statesOf(ids), []task.State{task.Ready})
			s.changed(task.KindCancelled, o.ID())
			s.want("cancelled again", s.falls(9), fmt.Sprint("cancelled ", ids))
		}},
		{"AFallComesToItsEnd", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			old := s.spawn(o, task.Next("on", nil), s.brood("q", 0, 1))
			s.changed(task.KindCancelled, o.ID())
			s.replay(o.ID(), store.Replay{})
			p := s.takeOnly(a, o.ID())
			sub := store.Submission{
				NewQueues: []string{"q"}, Under: &store.Right{ID: p.ID(), Token: p.Token()},
			}
			for range 1001 { // of the run that goes on: they are passed over
				sub.Batches = append(sub.Batches, s.brood("q", 0, 1))
			}
			_, err := s.Submit(s.ctx, sub)
			s.ok(err)
			var cancelled []task.ID
			for looks, more := 0, true; more; looks++ {
				got, err := s.Look(s.ctx, store.LookRequest{Limit: 1000})
				s.ok(err)
				cancelled = append(cancelled, got.Cancelled...)
				more = got.More
				if looks == 5 {
					s.fail("looks never end, and cancelled %v", cancelled)
				}
			}
			s.want("cancelled", cancelled, old)
		}},
		{"AReplayMayCancelTheTreeOfBefore", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawn(o, task.Finish(nil), s.brood("q", 0, 1))
			now := s.clock.Micros()
			_, err := s.Act(s.ctx, []store.Action{{
				ID: o.ID(), Kind: task.KindReplayed, Tree: true, Rank: now, Due: now,
			}})
			s.ok(err)
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", ids))
			s.wantState(o.ID(), task.Ready)
		}},
	}
}

// falls looks at all, and tells which children were cancelled.
func (s *scene) falls(limit int) string {
	got, err := s.Look(s.ctx, store.LookRequest{Limit: limit})
	s.ok(err)
	told := []string{fmt.Sprint("cancelled ", sortedIDs(got.Cancelled...))}
	if got.More {
		told = append(told, "more")
	}
	return strings.Join(told, " ")
}

func (s *scene) statesOf(ids []task.ID) (states []task.State) {
	for _, id := range ids {
		states = append(states, s.view(id).State)
	}
	return states
}
