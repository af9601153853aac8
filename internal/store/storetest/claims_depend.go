package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// dependClaims is what holds of tasks that wait for other tasks.
func dependClaims() []claim {
	return slices.Concat(afterClaims(), unfitClaims(), priorClaims(), dependEdgeClaims())
}

func afterClaims() []claim {
	return []claim{
		{"WhoWaitsForOthersIsBlocked", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 2)
			c := s.waiting(on(b, 0, "x"), on(b, 1, ""))
			got := s.submit(a, b, c)
			id := task.ID{Batch: c.ID}
			s.want("where to look", len(got.Look), 0)
			s.wantState(id, task.Blocked)
			s.want("counts", s.counts(), task.Counts{Ready: 2, Blocked: 1})
			v := s.view(id)
			s.want("what it waits for", []any{*v.Awaits, v.After}, []any{
				task.Awaits{Others: true}, []task.Prior{
					{ID: task.ID{Batch: b.ID}, Ref: "x", If: task.IfDone},
					{ID: task.ID{Batch: b.ID, N: 1}, If: task.IfDone},
				},
			})
			s.want("its due time", v.Due.IsZero(), true)
			owner := s.stand(id).Owner
			s.want("its span", owner.Parked(), true)
			s.want("looks without a reason", s.looks(9), "ended 0")
			s.want("what is taken", len(s.takeThose(a, 9)), 2)
			s.want("what comes before it", s.ahead(id), int64(0))
			s.want("who waits for none", len(s.view(task.ID{Batch: b.ID}).After), 0)
		}},
		{"TheLastOfThemWakesIt", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 2)
			c := s.waiting(on(b, 0, "x"), on(b, 1, "y"))
			c.Rank -= 5e6
			s.submit(a, b, c)
			id := task.ID{Batch: c.ID}
			outs := s.takeThose(a, 2)
			s.clock.Advance(time.Second)
			s.want("where to look", s.ends(outs[1].Report(s.clock, task.Finish("two"))),
				[]store.Address{store.EndOf(outs[1].ID())})
			s.want("looks", s.looks(9), "ended 0")
			s.wantState(id, task.Blocked)
			r := outs[0].Report(s.clock, task.Next("more", "text"))
			s.want("where to look", len(s.ends(r)), 0)
			s.want("looks", s.looks(9), "ended 0")
			outs[0].Seq, outs[0].Stage, outs[0].ContextSeq = 1, "more", 0
			look := s.ends(outs[0].Report(s.clock, task.Finish("one")))
			s.put(1)
			s.want("looks there", s.looks(9, look...), "ended 1 wakes q")
			s.want("looks again", s.looks(9), "ended 0")
			s.wantState(id, task.Ready)
			s.want("what it waits for", s.view(id).Awaits == nil, true)
			o := s.takeOne(a) // before those that were submitted later
			s.want("what is taken, its stage, attempt and context",
				[]any{o.ID(), o.Stage, o.Attempt, string(o.Context)},
				[]any{id, "first", int32(0), "[0]"})
			want := []store.Prior{
				{Dependency: on(b, 0, "x"), State: task.Done, Context: store.Value(`"text"`),
					Result: store.Value(`"one"`)},
				{Dependency: on(b, 1, "y"), State: task.Done, Context: store.Value("[1]"),
					Result: store.Value(`"two"`)},
			}
			s.want("what came before it", o.After, want)
			s.want("how that stands", s.stand(id).After, want)
			s.recorded(o.Report(s.clock, task.Snooze(2*time.Minute)))
			s.clock.Advance(3 * time.Minute)
			o = s.takeOnly(s.join("b"), id)
			s.want("what came before it, at the next attempt", o.After, want)
			s.want("its steps", s.stepsOf(id), []string{"woken  []", "snooze w []"})
		}},
		{"WhatIsMarkedAsDoneCountsAsDone", func(s *scene) {
			a := s.join("a")
			const n = 100
			b := s.batch("q", n)
			c := s.batchOf(store.DependBit, n)
			for i := range n {
				c.Tasks[i].After = []store.Dependency{on(b, int32(i), "")}
			}
			s.submit(a, b, c)
			outs := s.takeThose(a, n)
			got, err := s.Settle(s.ctx, store.Settlement{Reports: finishAll(s, outs)})
			s.ok(err)
			s.want("where to look", len(got.Look), n)
			s.want("looks", s.looks(60), "ended 60 wakes q more")
			s.want("looks", s.looks(60), "ended 40 wakes q")
			s.want("counts", s.counts(), task.Counts{Ready: n, Done: n})
			for _, o := range s.takeThose(a, n) {
				want := store.Prior{Dependency: on(b, o.N, ""), State: task.Done,
					Context: store.Value(fmt.Sprintf("[%d]", o.N))}
				if o.N%5 == 0 {
					want.Result = store.Value(fmt.Sprint(o.N))
				}
				s.want("what came before it", o.After, []store.Prior{want})
			}
		}},
		{"ItBeginsWhenItIsDue", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 1)
			c := s.waiting(on(b, 0, ""))
			c.Due += 60e6
			c.Rank = c.Due - 7e6
			s.submit(a, b, c)
			id := task.ID{Batch: c.ID}
			s.recorded(s.takeOne(a).Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			s.wantState(id, task.Waiting)
			v := s.view(id)
			s.want("its due time and priority", []any{v.Due.UnixMicro(), v.Priority},
				[]any{c.Due, 7 * time.Second})
			s.clock.Advance(time.Minute)
			s.want("what is taken", s.takeOne(s.join("a")).ID(), id)
		}},
		{"LateOnesKeepTheirPlace", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 1)
			c := s.waiting(on(b, 0, ""))
			s.submit(a, b, c)
			o := s.takeOne(a)
			s.clock.Advance(time.Second)
			s.put(1)
			s.clock.Advance(time.Second)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			o = s.takeOne(a)
			s.want("what is taken first", o.ID(), task.ID{Batch: c.ID})
			s.want("its rank and due time", []any{o.Span.Rank, o.Span.Due},
				[]any{c.Rank, s.clock.Micros()})
		}},
	}
}

func unfitClaims() []claim {
	ways := map[task.State]func(*scene, caller.Handout){
		task.Dead: func(s *scene, o caller.Handout) {
			s.recorded(o.Report(s.clock, task.Fail(errNo)))
		},
		task.Cancelled: func(s *scene, o caller.Handout) { s.changed(task.KindCancelled, o.ID()) },
		"removed":      func(s *scene, o caller.Handout) { s.changed(task.KindRemoved, o.ID()) },
		task.Expired: func(s *scene, o caller.Handout) {
			s.clock.Advance(2 * time.Second)
			s.recorded(s.expired(o))
		},
	}
	return []claim{
		{"OneThatEndsOtherwiseCancelsIt", func(s *scene) {
			for way, end := range ways {
				a := s.join("a")
				b := s.batch("q", 2)
				b.Tasks[0].StartWithin = 1e6
				c, e, f := s.waiting(on(b, 0, "x"), on(b, 1, "")), s.waiting(on(b, 0, "")),
					s.waiting(store.Dependency{On: task.ID{Batch: b.ID}, Ref: "x", Ended: true})
				s.submit(a, b, c, e, f)
				outs := s.takeThose(a, 2)
				state := way
				if way == "removed" {
					state = task.Cancelled
				}
				end(s, outs[0])
				got, err := s.Look(s.ctx, store.LookRequest{Limit: 9})
				s.ok(err)
				s.want("cancelled after "+string(way), sortedIDs(got.Cancelled...),
					sortedIDs(task.ID{Batch: c.ID}, task.ID{Batch: e.ID}))
				s.want("woken after "+string(way), got.Ended, 1)
				s.wantState(task.ID{Batch: c.ID}, task.Cancelled)
				s.want("why", []string{
					s.view(task.ID{Batch: c.ID}).Error, s.view(task.ID{Batch: e.ID}).Error,
				}, []string{
					fmt.Sprintf("after x: %s", state),
					fmt.Sprintf("after %s: %s", outs[0].ID(), state),
				})
				o := s.takeOnly(a, task.ID{Batch: f.ID})
				s.want("what the other one is told", []any{len(o.After), o.After[0].State,
					o.After[0].LeftOut}, []any{1, state, way == "removed"})
				s.recorded(outs[1].Report(s.clock, task.Finish(nil)))
				s.want("looks", s.falls(9), "cancelled []")
				s.wantState(task.ID{Batch: c.ID}, task.Cancelled)
				s.recorded(o.Report(s.clock, task.Finish(nil)))
			}
			s.want("what is blocked", s.counts().Blocked, int64(0))
		}},
		{"AChainFallsLinkByLink", func(s *scene) {
			a := s.join("a")
			list := []store.Batch{s.batch("q", 1)}
			for i := range 4 {
				list = append(list, s.waiting(on(list[i], 0, "")))
			}
			s.submit(a, list...)
			s.changed(task.KindCancelled, task.ID{Batch: list[0].ID})
			ids := idsOf(list)
			s.want("looks", s.falls(2), fmt.Sprint("cancelled ", ids[1:3])+" more")
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", ids[3:]))
			s.want("counts", s.counts(), task.Counts{Cancelled: 5})
			s.want("why", s.view(ids[4]).Error, fmt.Sprintf("after %s: cancelled", ids[3]))
			s.want("looks", s.falls(9), "cancelled []")
		}},
		{"ALongChainFallsInPieces", func(s *scene) {
			a := s.join("a")
			const n = store.ChainAtOnce + 50
			b, c := s.batch("q", 1), s.batchOf(store.DependBit, n)
			for i := range c.Tasks {
				if c.Tasks[i].After = []store.Dependency{on(c, int32(i-1), "")}; i == 0 {
					c.Tasks[i].After[0].On = task.ID{Batch: b.ID}
				}
			}
			s.submit(a, b, c)
			look := s.ends(s.takeOne(a).Report(s.clock, task.Fail(errNo)))
			for i, at := range [][]store.Address{look, nil, nil} {
				got, err := s.Look(s.ctx, store.LookRequest{Addresses: at, Limit: 1000})
				s.ok(err)
				want := []int{store.ChainAtOnce, 50, 0}[i]
				s.want(fmt.Sprintf("cancelled by look %d, and more", i),
					[]any{len(got.Cancelled), got.More}, []any{want, i == 0})
			}
		}},
		{"AReplayWaitsAgainForWhatDidNotEndAsItShould", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 3)
			c := s.waiting(on(b, 0, "x"), on(b, 1, "y"), on(b, 2, "z"))
			s.submit(a, b, c)
			id := task.ID{Batch: c.ID}
			outs := s.takeThose(a, 3)
			s.recorded(outs[0].Report(s.clock, task.Finish(1)))
			s.recorded(outs[1].Report(s.clock, task.Fail(errNo)))
			s.looks(9)
			s.wantState(id, task.Cancelled)
			s.changed(task.KindReplayed, id)
			s.wantState(id, task.Blocked)
			s.want("looks", s.falls(9), fmt.Sprint("cancelled ", []task.ID{id}))
			s.changed(task.KindReplayed, outs[1].ID())
			s.changed(task.KindReplayed, id)
			s.want("looks", s.looks(9), "ended 0")
			s.want("what it waits for", statesOfPriors(s.view(id).After), "done - -")
			s.recorded(outs[2].Report(s.clock, task.Finish(3)))
			s.recorded(s.takeOnly(a, outs[1].ID()).Report(s.clock, task.Finish(2)))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			o := s.takeOnly(a, id)
			s.want("what came before it", statesOfPriors(s.view(id).After), "done done done")
			s.want("with which result", string(o.After[1].Result), "2")
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.changed(task.KindReplayed, id)
			s.wantState(id, task.Ready)
			s.want("what came before it", len(s.takeOnly(a, id).After), 3)
		}},
	}
}

func priorClaims() []claim {
	return []claim{
		{"WhatStandsMayBeWaitedFor", func(s *scene) {
			a := s.join("a")
			ids := s.put(3)
			outs := s.takeThose(a, 3)
			s.recorded(outs[0].Report(s.clock, task.Finish(1)))
			s.recorded(outs[1].Report(s.clock, task.Fail(errNo)))
			var after []store.Batch
			var want []store.Address
			for _, id := range ids {
				after = append(after, s.waiting(store.Dependency{On: id}))
				want = append(want, store.EndOf(id))
			}
			none := task.ID{Batch: store.BatchID(s.clock.Micros(), 0) + 900}
			after = append(after, s.waiting(store.Dependency{On: none}),
				s.waiting(store.Dependency{On: none, Ended: true}))
			want = append(want, store.EndOf(none))
			sub := store.Submission{Batches: after}
			for range 2 { // answered as the first time
				got, err := s.Submit(s.ctx, sub)
				s.ok(err)
				s.want("where to look", got.Look, want)
			}
			got, err := s.Look(s.ctx, store.LookRequest{Addresses: want, Limit: 9})
			s.ok(err)
			s.want("looks", []any{got.Ended, sortedIDs(got.Cancelled...)}, []any{
				2, []task.ID{{Batch: after[1].ID}, {Batch: after[3].ID}},
			})
			s.want("how they stand", s.statesOf(idsOf(after)), []task.State{
				task.Ready, task.Cancelled, task.Blocked, task.Cancelled, task.Ready,
			})
			look := s.ends(outs[2].Report(s.clock, task.Finish(3)))
			s.want("where to look", look, want[2:3])
			s.want("looks", s.looks(9), "ended 1 wakes q")
			s.want("what was gone", s.takeOnly(a, idsOf(after)[4]).After, []store.Prior{{
				Dependency: store.Dependency{On: none, Ended: true}, State: task.Cancelled,
				LeftOut: true,
			}})
		}},
		{"WhoHasTheKeyTakesItsPlace", func(s *scene) {
			a := s.join("a")
			old := s.batch("q", 1)
			old.Tasks[0].Key, old.Tasks[0].KeyUntil = "k", s.clock.Micros()+1e9
			s.submit(a, old)
			first := task.ID{Batch: old.ID}
			b := s.batch("q", 2)
			b.Tasks[1].Key, b.Tasks[1].KeyUntil = "k", s.clock.Micros()+1e9
			c := s.batchOf(store.DependBit, 2)
			for i := range c.Tasks {
				c.Tasks[i].After = []store.Dependency{on(b, int32(i), "x")}
			}
			d := s.waiting(on(c, 1, "y"))
			c.Tasks[1].Key, c.Tasks[1].KeyUntil = "k", s.clock.Micros()+1e9
			got := s.submit(a, b, c, d) // the second of c exists as well: nobody waits in its name
			s.want("where to look", got.Look, []store.Address{store.EndOf(first)})
			s.want("what it waits for", s.view(task.ID{Batch: d.ID}).After, []task.Prior{
				{ID: first, Ref: "y", If: task.IfDone},
			})
			s.want("counts", s.counts(), task.Counts{Ready: 2, Blocked: 2})
			s.recorded(s.takeOnly(a, first).Report(s.clock, task.Finish(nil)))
			s.want("looks", s.looks(9), "ended 1 wakes q")
			s.wantState(task.ID{Batch: d.ID}, task.Ready)
			s.wantState(task.ID{Batch: c.ID}, task.Blocked)
		}},
		{"ARefusedCallLeavesNobodyWaiting", func(s *scene) {
			a := s.join("a")
			u := store.Unique{OnExisting: task.OnExistingRefuse}
			s.submit(a, s.wanting("q", u))
			b := s.wanting("q", u)
			c := s.waiting(on(b, 0, "x"), store.Dependency{On: s.put(1)[0]})
			b.Call, c.Call = 1, 1
			got := s.submit(a, b, c)
			s.want("refused, and where to look", []int{len(got.Refused), len(got.Look)},
				[]int{1, 0})
			s.want("counts", s.counts(), task.Counts{Ready: 2})
		}},
		{"WhatIsTooLargeIsLeftOut", func(s *scene) {
			a := s.join("a")
			const n = 40
			b := s.batch("q", n)
			for i := range b.Tasks {
				b.Tasks[i].Context = store.Value(`"` + strings.Repeat("x", 2000) + `"`)
			}
			var after []store.Dependency
			for i := range n {
				after = append(after, on(b, int32(i), ""))
			}
			c := s.waiting(after...)
			s.submit(a, b, c)
			outs := s.takeThose(a, n)
			s.recorded(finishAll(s, outs)...)
			s.looks(99)
			o := s.takeOnly(a, task.ID{Batch: c.ID})
			size, out := 0, 0
			for _, p := range o.After {
				size += len(p.Context) + len(p.Result)
				if p.LeftOut {
					out++
				}
			}
			if size > store.PriorLimit || size < store.PriorLimit-2100 || out == 0 {
				s.fail("%d bytes, %d of %d left out", size, out, len(o.After))
			}
		}},
		{"WhatIsWaitedForStaysUntilThatIsOver", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 3)
			c := s.waiting(on(b, 0, "x"), on(b, 2, "y"))
			s.submit(a, b, c)
			outs := s.takeThose(a, 3)
			s.recorded(finishAll(s, outs[:2])...)
			s.clock.Advance(limits.DefaultDeadKept + time.Hour)
			s.prune()
			s.want("done", s.counts().Done, int64(1))
			s.looks(9)
			s.clock.Advance(limits.DefaultDeadKept + time.Hour)
			s.prune()
			s.want("done", s.counts().Done, int64(1))
			s.changed(task.KindCancelled, outs[2].ID())
			s.looks(9)
			s.wantState(task.ID{Batch: c.ID}, task.Cancelled)
			s.clock.Advance(limits.DefaultDeadKept + time.Hour)
			s.prune()
			s.want("counts", s.counts(), task.Counts{})
		}},
	}
}

// on is a dependency on the task with a number of a batch of the same submission.
func on(b store.Batch, n int32, ref string) store.Dependency {
	return store.Dependency{On: task.ID{Batch: b.ID, N: n}, Ref: ref}
}

// batchOf is batch of queue q, with a bit set in its id.
func (s *scene) batchOf(bit int64, n int) store.Batch {
	for (store.BatchID(s.clock.Micros(), 0)+s.ids+1)&bit == 0 {
		s.ids++
	}
	return s.batch("q", n)
}

// waiting is a batch of one task that waits for others.
func (s *scene) waiting(after ...store.Dependency) store.Batch {
	b := s.batchOf(store.DependBit, 1)
	b.Tasks[0].After = after
	return b
}

// ends settles a report, and answers where to look.
func (s *scene) ends(r store.Report) []store.Address {
	got, err := s.Settle(s.ctx, store.Settlement{Reports: []store.Report{r}})
	s.ok(err)
	s.want("verdict", got.Verdicts, []task.Status{task.Recorded})
	return got.Look
}

// idsOf are the first tasks of batches.
func idsOf(list []store.Batch) (ids []task.ID) {
	for _, b := range list {
		ids = append(ids, task.ID{Batch: b.ID, N: b.Tasks[0].N})
	}
	return ids
}

// statesOfPriors tells how those stand that a task waits for; "-" = open.
func statesOfPriors(list []task.Prior) string {
	var told []string
	for _, p := range list {
		if p.State == "" {
			p.State = "-"
		}
		told = append(told, string(p.State))
	}
	return strings.Join(told, " ")
}
