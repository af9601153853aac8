package storetest

import (
	"errors"
	"slices"
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
		{"ARepeatedReportNamesTheSameChildrenWhateverBecameOfKeys", func(s *scene) {
			a := s.join("a")
			minute := time.Minute.Microseconds()
			old := s.batch("q", 1)
			old.Tasks[0].Key, old.Tasks[0].KeyUntil = "over", s.clock.Micros()+minute
			s.submit(store.Holder{}, old)
			o, b, next := s.handed(a), s.brood("q", 0, 2), s.batch("q", 1)
			b.Tasks[0].Key, b.Tasks[0].KeyUntil = "over", s.clock.Micros()+9*minute
			next.Tasks[0].Key, next.Tasks[0].KeyUntil = "over", s.clock.Micros()+9*minute
			r := o.Report(s.clock, task.Next("second", nil))
			r.Spawn = []store.Batch{b}
			for i := range 3 {
				got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
				s.ok(err)
				s.want("ids", got.Spawned[0].IDs, []task.ID{
					{Batch: old.ID}, {Batch: b.ID, N: 1},
				})
				s.clock.Advance(40 * time.Second) // before the last time that of the key is over
				if i == 1 {
					s.submit(store.Holder{}, next)
				}
			}
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

// grown is how the children of a task stand.
func (s *scene) grown(id task.ID) task.Children {
	if c := s.view(id).Children; c != nil {
		return *c
	}
	return task.Children{}
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

func sortedIDs(ids ...task.ID) []task.ID {
	slices.SortFunc(ids, task.ID.Compare)
	return ids
}
