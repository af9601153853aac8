package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func dependEdgeClaims() []claim {
	return []claim{
		{"WhoWaitsMayBeEditedCancelledAndRemoved", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 1)
			c := s.batchOf(store.DependBit, 4)
			for i := range c.Tasks {
				c.Tasks[i].After = []store.Dependency{on(b, 0, "x")}
			}
			s.submit(a, b, c)
			id := func(n int32) task.ID { return task.ID{Batch: c.ID, N: n} }
			s.changed(task.KindCancelled, id(1))
			s.changed(task.KindRemoved, id(2))
			later := s.clock.Micros() + 60e6
			s.edited(a, id(0), store.Edit{Due: &later})
			s.edited(a, id(3), store.Edit{Priority: new(int64(5e6))})
			within := int64(1e6)
			s.want("an edit that limits it", s.edit(a, id(0), store.Edit{StartWithin: &within}),
				store.Acted{ID: id(0), Queue: "q", Found: true, Was: task.Blocked})
			s.want("run now", s.act(task.KindMoved, id(0)).Changed, false)
			s.want("counts", s.counts(), task.Counts{Ready: 1, Blocked: 2, Cancelled: 1})
			s.recorded(s.takeOne(a).Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 2 wakes q")
			s.wantState(id(0), task.Waiting)
			s.want("when it is due", s.view(id(0)).Due.UnixMicro(), later)
			o := s.takeOnly(a, id(3))
			s.want("rank and result", []any{o.Span.Rank, len(o.After)}, []any{c.Due - 5e6, 1})
			s.wantState(id(1), task.Cancelled)
		}},
		{"LooksAtEndsHaveABound", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 2)
			c := s.batchOf(store.DependBit, 7)
			for i := range c.Tasks {
				c.Tasks[i].After = []store.Dependency{on(b, int32(i%2), "")}
			}
			s.submit(a, b, c)
			outs := s.takeThose(a, 2)
			s.recorded(outs[0].Report(s.clock, task.Finish(nil)))
			s.recorded(outs[1].Report(s.clock, task.Fail(errNo)))
			ended, cancelled := 0, 0
			for calls := range 4 {
				got, err := s.Look(s.ctx, store.LookRequest{Limit: 2})
				s.ok(err)
				ended += got.Ended
				cancelled += len(got.Cancelled)
				s.want(fmt.Sprintf("sum and more of look %d", calls),
					[]any{ended + cancelled, got.More}, []any{min(7, 2*calls+2), calls < 3})
			}
			s.want("counts", s.counts(),
				task.Counts{Done: 1, Dead: 1, Ready: 4, Cancelled: 3})
		}},
		{"AQueueThatIsDeletedEndsItsTasks", func(s *scene) {
			a := s.join("a")
			b := s.batch("r", 2)
			c, d := s.waiting(on(b, 0, "x")), s.waiting(store.Dependency{
				On: task.ID{Batch: b.ID, N: 1}, Ref: "y", Ended: true,
			})
			s.submit(a, b, c, d)
			s.ok(s.DeleteQueue(s.ctx, "r", true))
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", []task.ID{{Batch: c.ID}}))
			s.want("why", s.view(task.ID{Batch: c.ID}).Error, "after x: cancelled")
			s.wantState(task.ID{Batch: d.ID}, task.Ready)
			s.submit(a, s.waiting(on(d, 0, "")))
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.want("looks", s.looks(9), "ended 0")
		}},
		{"WhatOneCallReplaysItMayActOnAgain", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 2)
			c := s.batchOf(store.DependBit, 4)
			for i := range c.Tasks {
				c.Tasks[i].After = []store.Dependency{on(b, 0, "x"), on(b, 1, "y")}
			}
			s.submit(a, b, c)
			outs := s.takeThose(a, 2)
			s.recorded(outs[0].Report(s.clock, task.Fail(errNo)))
			s.looks(9)
			now := s.clock.Micros()
			second := []task.Kind{task.KindReplayed, task.KindCancelled, task.KindRemoved,
				task.KindEdited}
			var actions []store.Action
			for i, kind := range second {
				id := task.ID{Batch: c.ID, N: int32(i)}
				s.wantState(id, task.Cancelled)
				actions = append(actions,
					store.Action{ID: id, Kind: task.KindReplayed, Rank: now, Due: now},
					store.Action{ID: id, Kind: kind, Holder: a, Rank: now, Due: now})
				if kind == task.KindEdited {
					actions[2*i+1].Edit = &store.Edit{MaxAttempts: new(int32(7))}
				}
			}
			acted, err := s.Act(s.ctx, actions)
			s.ok(err)
			for i, kind := range second {
				s.want(fmt.Sprint("replayed, and ", kind), []any{acted[2*i].Changed,
					acted[2*i+1].Changed, acted[2*i+1].Was},
					[]any{true, kind != task.KindReplayed, task.Blocked})
			}
			s.want("counts", s.counts(),
				task.Counts{Ready: 1, Blocked: 2, Dead: 1, Cancelled: 1})
			s.changed(task.KindReplayed, outs[0].ID())
			s.recorded(outs[1].Report(s.clock, task.Finish(nil)))
			s.recorded(s.takeOnly(a, outs[0].ID()).Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 2 wakes q")
			s.want("counts at the end", s.counts(), task.Counts{Ready: 2, Done: 2, Cancelled: 1})
		}},
		{"ChildrenWaitForEachOther", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			b := s.brood("q", 0, 1)
			c := s.batchOf(store.ChildBit|store.DependBit, 1)
			for c.ID&3 != 3 {
				c = s.batch("q", 1)
			}
			c.Tasks[0].N, c.Spans[0] = 1, store.NewSpan{Lo: 1, Hi: 1}
			c.Tasks[0].After = []store.Dependency{on(b, 0, "x")}
			r := s.awaitChildren(o, false)
			ids := s.spawnAnd(o, r, b, c)
			s.wantState(ids[1], task.Blocked)
			s.changed(task.KindCancelled, ids[0])
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", ids[1:]))
			s.looks(9)
			s.want("how they stand", wokeByChildren(s.takeOnly(a, o.ID()).Loaded),
				task.Children{Total: 2, Cancelled: 2})
			o = s.handed(a)
			b, c = s.brood("q", 0, 1), s.batch("q", 1)
			for c.ID&3 != 3 {
				c = s.batch("q", 1)
			}
			c.Tasks[0].N, c.Spans[0] = 1, store.NewSpan{Lo: 1, Hi: 1}
			c.Tasks[0].After = []store.Dependency{on(b, 0, "x")}
			_, err := s.Submit(s.ctx, store.Submission{
				Holder: a, Batches: []store.Batch{b, c}, NewQueues: []string{"q"},
				Under: &store.Right{ID: o.ID(), Token: o.Token()},
			})
			s.ok(err)
			s.recorded(s.takeOnly(a, task.ID{Batch: b.ID}).Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			s.want("what came before it",
				len(s.takeOnly(a, task.ID{Batch: c.ID, N: 1}).After), 1)
		}},
		{"AllThatEndAtOnceWakeItOnce", func(s *scene) { s.showEndsAtOnce(12) }},
		{"WhoComesWhileItEndsIsWokenToo", func(s *scene) { s.showLateDependents(30) }},
	}
}

// showEndsAtOnce lets tasks end at once for which one other waits, while many look.
func (s *scene) showEndsAtOnce(n int) {
	for range 5 {
		a := s.join("a")
		b := s.batch("q", n)
		var after []store.Dependency
		for i := range n {
			after = append(after, on(b, int32(i), ""))
		}
		c := s.waiting(after...)
		s.submit(a, b, c)
		outs := s.takeThose(a, n)
		var mu sync.Mutex
		ended := 0
		s.atOnce(n, func(i int) error {
			got, err := s.Settle(s.ctx, store.Settlement{
				Reports: []store.Report{outs[i].Report(s.clock, task.Finish(nil))},
			})
			if err != nil {
				return err
			}
			looked, err := s.Look(s.ctx, store.LookRequest{Addresses: got.Look, Limit: 9})
			mu.Lock()
			defer mu.Unlock()
			ended += looked.Ended
			return err
		})
		got, err := s.Look(s.ctx, store.LookRequest{Limit: 9})
		s.ok(err)
		s.want("waits that ended", ended+got.Ended, 1)
		id := task.ID{Batch: c.ID}
		s.want("steps", s.stepsOf(id), []string{"woken  []"})
		o := s.takeOnly(a, id)
		s.want("what came before it", len(o.After), n)
		s.recorded(o.Report(s.clock, task.Finish(nil)))
	}
}

// showLateDependents lets tasks end while others are submitted that wait for them.
func (s *scene) showLateDependents(rounds int) {
	for range rounds {
		a := s.join("a")
		o := s.handed(a)
		c := s.waiting(store.Dependency{On: o.ID()})
		s.atOnce(2, func(i int) error {
			var look []store.Address
			if i == 0 {
				got, err := s.Submit(s.ctx, store.Submission{Batches: []store.Batch{c}})
				if err != nil {
					return err
				}
				look = got.Look
			} else {
				got, err := s.Settle(s.ctx, store.Settlement{
					Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
				})
				if err != nil {
					return err
				}
				look = got.Look
			}
			if len(look) == 0 {
				return nil
			}
			_, err := s.Look(s.ctx, store.LookRequest{Addresses: look, Limit: 9})
			return err
		})
		for range 3 { // beats
			s.looks(9)
			s.clock.Advance(time.Second)
		}
		s.recorded(s.takeOnly(a, task.ID{Batch: c.ID}).Report(s.clock, task.Finish(nil)))
	}
}
