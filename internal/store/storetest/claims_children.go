package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// childClaims is what holds of tasks that submit others, and wait for them.
func childClaims() []claim {
	return slices.Concat(spawnClaims(), awaitChildrenClaims(), fallClaims())
}

func spawnClaims() []claim {
	return []claim{
		{"ChildrenStandWithTheOutcomeThatSpawnedThem", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			b, c := s.brood("q", 0, 2), s.brood("r", 2, 2)
			b.Tasks[1].N, c.Tasks[0].N = 2, 1 // b has the first and the third
			b.Spans[0].Hi, c.Spans[0].Lo = 2, 1
			c.Tasks[1].Key, c.Tasks[1].KeyUntil = "k", s.clock.Micros()+1e9
			r := o.Report(s.clock, task.Finish(nil))
			r.Spawn = []store.Batch{b, c}
			got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
			s.ok(err)
			ids := []task.ID{
				{Batch: b.ID}, {Batch: c.ID, N: 1}, {Batch: b.ID, N: 2}, {Batch: c.ID, N: 3},
			}
			s.want("the answer", []any{got.Verdicts, got.Spawned}, []any{
				[]task.Status{task.Recorded}, []store.Spawned{{Report: 0, IDs: ids}},
			})
			s.want("its children", s.childrenOf(o.ID(), ""),
				[]task.ID{ids[0], ids[2], ids[1], ids[3]})
			s.want("how they stand", s.grown(o.ID()), task.Children{Total: 4})
			s.want("whose they are", s.view(ids[1]).Parent, o.ID())
			s.want("whose it is", s.view(o.ID()).Parent, task.ID{})
			s.want("as they are handed out", s.takeOne(a).Parent, o.ID())
			s.want("as they stand", s.stand(ids[3]).Parent, o.ID())

			again := r
			again.Spawn = []store.Batch{s.brood("q", 0, 1), s.brood("r", 1, 3)}
			again.Spawn[1].Tasks[2].Key = "k"
			again.Spawn[1].Tasks[2].KeyUntil = s.clock.Micros() + 1e9
			got, err = s.Settle(s.ctx, store.Settlement{Reports: []store.Report{again}})
			s.ok(err)
			s.want("the report once more", []any{got.Verdicts, got.Spawned}, []any{
				[]task.Status{task.Repeated}, []store.Spawned{{Report: 0, IDs: ids}},
			})
			s.want("its children then", len(s.childrenOf(o.ID(), "")), 4)
			late := o.Report(s.clock, task.Next("other", nil))
			late.Spawn = []store.Batch{s.brood("q", 0, 1)}
			got, err = s.Settle(s.ctx, store.Settlement{Reports: []store.Report{late}})
			s.ok(err)
			s.want("another report", []any{got.Verdicts, len(got.Spawned)},
				[]any{[]task.Status{task.Stale}, 0})
			s.want("its children after all", len(s.childrenOf(o.ID(), "")), 4)
		}},
		{"WhatExistsIsNoChild", func(s *scene) {
			a := s.join("a")
			old := s.batch("q", 1)
			old.Tasks[0].Key, old.Tasks[0].KeyUntil = "k", s.clock.Micros()+1e9
			s.submit(store.Holder{}, old)
			first := task.ID{Batch: old.ID}
			s.recorded(s.takeOnly(a, first).Report(s.clock, task.Finish(nil)))
			o := s.handed(a)
			b := s.brood("q", 0, 3)
			for i := range 2 {
				b.Tasks[i].Key, b.Tasks[i].KeyUntil = "k", s.clock.Micros()+1e9
			}
			r := o.Report(s.clock, task.Next("second", nil))
			r.Spawn = []store.Batch{b}
			for range 2 {
				got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
				s.ok(err)
				s.want("ids", got.Spawned, []store.Spawned{
					{Report: 0, IDs: []task.ID{first, first, {Batch: b.ID, N: 2}}},
				})
			}
			s.want("how they stand", s.grown(o.ID()), task.Children{Total: 1})
			s.want("whose it is", s.view(first).Parent, task.ID{})
		}},
		{"ChildrenAreAddedWhileTheirParentRuns", func(s *scene) {
			a := s.join("a")
			o, other := s.handed(a), s.handed(a)
			add := func(o caller.Handout, batches ...store.Batch) error {
				sub := store.Submission{
					Holder: a, Batches: batches, NewQueues: []string{"q"},
					Under: &store.Right{ID: o.ID(), Token: o.Token()},
				}
				_, err := s.Submit(s.ctx, sub)
				return err
			}
			first := s.brood("q", 0, 2)
			s.ok(add(o, first))
			s.sync(a, o)
			s.ok(add(o, s.brood("q", 0, 1), s.brood("q", 0, 1)))
			s.ok(add(o, first)) // as the first time
			s.want("how they stand", s.grown(o.ID()), task.Children{Total: 4})
			for what, change := range map[string]func(*caller.Handout){
				"another token of the span": func(o *caller.Handout) { o.Span.Token++ },
				"another span":              func(o *caller.Handout) { o.Span.ID = other.Span.ID },
				"a task of another span": func(o *caller.Handout) {
					o.Span.Batch = other.Span.Batch
				},
			} {
				stale := o
				change(&stale)
				s.wantErr(what, add(stale, s.brood("q", 0, 1)), store.ErrStale)
			}
			s.recorded(o.Report(s.clock, task.Finish(nil)),
				other.Report(s.clock, task.Next("b", nil)))
			s.wantErr("after its outcome", add(o, s.brood("q", 0, 1)), store.ErrStale)
			s.wantErr("of another", add(other, s.brood("q", 0, 1)), store.ErrStale)
			s.ok(add(o, first))
			s.want("in the end", []any{s.grown(o.ID()), s.view(other.ID()).Children == nil},
				[]any{task.Children{Total: 4}, true})
			s.changed(task.KindCancelled, other.ID())
		}},
		{"ChildrenAreCountedAsTheyEnd", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawn(o, task.Finish(nil), s.brood("q", 0, 6), s.brood("q", 6, 3))
			s.clock.Advance(time.Second)
			for i, out := range []task.Outcome{
				task.Finish(nil), task.Fail(errNo), task.Next("on", nil), task.Retry(errNo),
			} {
				s.recorded(s.takeOnly(a, ids[i]).Report(s.clock, out))
			}
			s.changed(task.KindCancelled, ids[4])
			s.changed(task.KindRemoved, ids[5])
			s.want("how they stand", s.grown(o.ID()), task.Children{
				Total: 9, Done: 1, Dead: 1, Cancelled: 2,
			})
			s.changed(task.KindRemoved, ids[0]) // it had ended
			s.want("replayed", s.replay(ids[1], store.Replay{}).Changed, true)
			s.want("how they stand then", s.grown(o.ID()), task.Children{
				Total: 9, Done: 1, Cancelled: 2,
			})
			s.want("the children", []int{
				len(s.childrenOf(o.ID(), "")), len(s.childrenOf(o.ID(), task.Cancelled)),
				len(s.childrenOf(o.ID(), task.Done)),
			}, []int{7, 1, 0})
			var reports []store.Report
			for _, id := range ids[6:] { // together they become a mark
				reports = append(reports, s.takeOnly(a, id).Report(s.clock, task.Finish(nil)))
			}
			s.recorded(reports...)
			s.want("how they stand at last", s.grown(o.ID()).Done, int64(4))
			_, _, err := s.Children(s.ctx, store.ChildrenQuery{Parent: task.ID{Batch: 5}, Limit: 1})
			s.wantErr("of nobody", err, store.ErrNotFound)
			s.want("of a child", len(s.childrenOf(ids[2], "")), 0)
		}},
		{"ChildrenComeInPages", func(s *scene) {
			a := s.join("a")
			o := s.handed(a)
			ids := s.spawn(o, task.Finish(nil), s.brood("q", 0, 3), s.brood("q", 3, 70))
			s.recorded(s.takeOnly(a, ids[1]).Report(s.clock, task.Finish([]int{5})))
			var got []task.ID
			results := 0
			for after, pages := (task.ID{}), 0; ; pages++ {
				page, next, err := s.Children(s.ctx, store.ChildrenQuery{
					Parent: o.ID(), After: after, Limit: 10,
				})
				s.ok(err)
				for _, v := range page {
					got = append(got, v.ID)
					if string(v.Result) == "[5]" && v.ID == ids[1] {
						results++
					} else if v.Result != nil {
						s.fail("%s has the result %s", v.ID, v.Result)
					}
				}
				if after = next; next == (task.ID{}) {
					break
				}
				if len(page) > 10 || pages > 20 {
					s.fail("page %d has %d children", pages, len(page))
				}
			}
			s.want("all pages", []any{got, results}, []any{ids, 1})
			page, _, err := s.Children(s.ctx, store.ChildrenQuery{
				Parent: o.ID(), Limit: 100, State: task.Running,
				Live: map[task.ID]store.Live{ids[2]: {Worker: "x", Started: 1, Attempt: 1}},
			})
			s.ok(err)
			s.want("what runs", []any{len(page), page[0].ID, page[0].Worker}, []any{1, ids[2], "x"})
		}},
	}
}

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

// grown is how the children of a task stand.
func (s *scene) grown(id task.ID) task.Children {
	if c := s.view(id).Children; c != nil {
		return *c
	}
	return task.Children{}
}

// wokeByChildren is how the children stood that woke a task.
func wokeByChildren(l store.Loaded) task.Children {
	if l.Woken == nil || l.Woken.Children == nil {
		return task.Children{}
	}
	return *l.Woken.Children
}

// errNo is why children die.
var errNo = errors.New("no")

// brood makes a batch of n children from N on, in one free span.
func (s *scene) brood(queue string, from, n int) store.Batch {
	s.ids += s.ids % 2 // batch makes the next, which is odd: store.ChildBit
	b := s.batch(queue, n)
	for i := range b.Tasks {
		b.Tasks[i].N += int32(from)
	}
	b.Spans[0].Lo, b.Spans[0].Hi = int32(from), int32(from+n-1)
	return b
}

// handed is the hand-out of a new task.
func (s *scene) handed(h store.Holder) caller.Handout { return s.takeOnly(h, s.put(1)[0]) }

// spawn settles a report with children, and answers their ids.
func (s *scene) spawn(o caller.Handout, out task.Outcome, batches ...store.Batch) []task.ID {
	return s.spawnAnd(o, o.Report(s.clock, out), batches...)
}

func (s *scene) spawnAnd(o caller.Handout, r store.Report, batches ...store.Batch) []task.ID {
	r.Spawn = batches
	got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
	s.ok(err)
	if got.Verdicts[0] != task.Recorded || len(got.Spawned) != 1 {
		s.fail("spawn by %s: got %+v", o.ID(), got)
	}
	return got.Spawned[0].IDs
}

// awaitChildren makes a report after which a task waits for its children.
func (s *scene) awaitChildren(o caller.Handout, first bool) store.Report {
	r := o.Report(s.clock, task.Next("second", nil))
	r.Await = &store.Await{Address: store.ChildrenOf(o.ID(), 0), First: first}
	r.Move, r.Step.Base = store.Parked(), o.Seq+1
	return r
}

// childrenOf lists the children of a task in a state.
func (s *scene) childrenOf(id task.ID, state task.State) (ids []task.ID) {
	after := task.ID{}
	for {
		page, next, err := s.Children(s.ctx, store.ChildrenQuery{
			Parent: id, State: state, After: after, Limit: 100,
		})
		s.ok(err)
		for _, v := range page {
			ids = append(ids, v.ID)
		}
		if after = next; next == (task.ID{}) {
			return ids
		}
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

func sortedIDs(ids ...task.ID) []task.ID {
	slices.SortFunc(ids, task.ID.Compare)
	return ids
}

func (s *scene) statesOf(ids []task.ID) (states []task.State) {
	for _, id := range ids {
		states = append(states, s.view(id).State)
	}
	return states
}
