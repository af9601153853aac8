package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// submitClaims is what holds for Submit.
func submitClaims() []claim {
	return []claim{
		{"SubmittedTasksStandInFreeSpans", func(s *scene) {
			b := s.batch("q", 5)
			b.Spans = []store.NewSpan{{Lo: 0, Hi: 1}, {Lo: 2, Hi: 4}}
			got := s.submit(store.Holder{}, b)
			s.want("now", got.Now, s.clock.Micros())
			s.want("spans", withoutIDs(got.Spans), []store.Span{
				{Batch: b.ID, Lo: 0, Hi: 1, Queue: "q", Rank: b.Rank, Due: b.Due},
				{Batch: b.ID, Lo: 2, Hi: 4, Queue: "q", Rank: b.Rank, Due: b.Due},
			})
			if got.Spans[0].ID <= 0 || got.Spans[0].ID == got.Spans[1].ID {
				s.fail("span ids %d and %d", got.Spans[0].ID, got.Spans[1].ID)
			}
			s.want("counts", s.counts(), task.Counts{Ready: 5})
		}},
		{"SpansAreHeldFromTheStartByALivingHolderOnly", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 2)
			b.Spans = []store.NewSpan{{Lo: 0, Hi: 0, Hold: true}, {Lo: 1, Hi: 1}}
			got := s.submit(h, b)
			s.want("held span's holder", got.Spans[0].Holder, h)
			s.want("held span's token", got.Spans[0].Token, int64(1))
			s.want("free span's holder", got.Spans[1].Holder, store.Holder{})
			s.want("free span's token", got.Spans[1].Token, int64(0))
			s.clock.Advance(2 * caller.LeaseTime)
			b = s.batch("q", 1)
			b.Spans[0].Hold = true
			got = s.submit(h, b)
			s.want("holder when the lease is gone", got.Spans[0].Holder, store.Holder{})
			s.want("token when the lease is gone", got.Spans[0].Token, int64(0))
		}},
		{"RepeatedSubmissionIsAnsweredAsTheFirstTime", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 4)
			b.Spans = []store.NewSpan{{Lo: 0, Hi: 1, Hold: true}, {Lo: 2, Hi: 3}}
			b.Tasks[1].Key, b.Tasks[3].Key = "k", "k"
			b.Tasks[1].KeyUntil, b.Tasks[3].KeyUntil = b.Due+1e9, b.Due+1e9
			other := s.batch("q", 1)
			other.Tasks[0].Key, other.Tasks[0].KeyUntil = "k", b.Due+1e9
			first := s.submit(h, b, other)
			s.want("repeated answer", s.submit(h, b, other), first)
			s.want("counts", s.counts(), task.Counts{Ready: 3})
		}},
		{"BatchIDOfAnotherOriginIsAConflictAndChangesNothing", func(s *scene) {
			b := s.batch("q", 1)
			s.submit(store.Holder{}, b)
			fresh, theirs := s.batch("q", 3), b
			fresh.Tasks[0].Key, fresh.Tasks[0].KeyUntil = "k", b.Due+1e9
			theirs.Origin = "there"
			_, err := s.Submit(s.ctx, store.Submission{
				NewQueues: []string{"r"}, Batches: []store.Batch{fresh, theirs},
			})
			s.wantErr("submission with a batch id that stands", err, store.ErrConflict)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			queues, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("number of queues", len(queues), 1)
			again := s.submit(store.Holder{}, fresh)
			s.want("existing keys afterwards", len(again.Existing), 0)
		}},
		{"KeyReturnsTheFirstTaskOfItsQueue", func(s *scene) {
			b := s.batch("q", 4)
			for _, i := range []int{0, 2, 3} { // twice in one batch, and once more in the next
				b.Tasks[i].Key, b.Tasks[i].KeyUntil = "k", b.Due+1e9
			}
			b.Tasks[3].Key = "other"
			next, elsewhere := s.batch("q", 1), s.batch("r", 1)
			for _, b := range []*store.Batch{&next, &elsewhere} {
				b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", b.Due+1e9
			}
			first := task.ID{Batch: b.ID}
			got := s.submit(store.Holder{}, b, next, elsewhere)
			s.want("existing", got.Existing, []store.Existing{
				{ID: task.ID{Batch: b.ID, N: 2}, First: first, Action: task.SubmittedKept},
				{ID: task.ID{Batch: next.ID}, First: first, Action: task.SubmittedKept},
			})
			later := s.batch("q", 1)
			later.Tasks[0].Key, later.Tasks[0].KeyUntil = "k", b.Due+1e9
			got = s.submit(store.Holder{}, later)
			s.want("existing later", got.Existing,
				[]store.Existing{{
					ID: task.ID{Batch: later.ID}, First: first, Action: task.SubmittedKept,
				}})
			s.want("counts", s.counts(), task.Counts{Ready: 3})
			_, err := s.Task(s.ctx, task.ID{Batch: b.ID, N: 2})
			s.wantErr("view of a task that was not inserted", err, store.ErrNotFound)
			spans := s.take(s.join("a"), 10)
			var ns []int32
			for _, sp := range spans {
				for _, t := range sp.Tasks {
					if sp.Batch == b.ID {
						ns = append(ns, t.N)
					}
				}
			}
			s.want("tasks loaded around the gap", ns, []int32{0, 1, 3})
		}},
		{"KeyIsForgottenAfterItsTimeOnly", func(s *scene) {
			b := s.batch("q", 1)
			b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", b.Due+time.Minute.Microseconds()
			s.submit(store.Holder{}, b)
			for i, after := range []time.Duration{59 * time.Second, 2 * time.Second} {
				s.clock.Advance(after)
				b = s.batch("q", 1)
				b.Tasks[0].Key = "k"
				b.Tasks[0].KeyUntil = s.clock.Micros() + time.Minute.Microseconds()
				s.want("existing", len(s.submit(store.Holder{}, b).Existing), 1-i)
			}
		}},
		{"ARepetitionIsAnsweredAsTheFirstTimeWhateverBecameOfKeys", func(s *scene) {
			minute := time.Minute.Microseconds()
			old, b, next := s.batch("q", 1), s.batch("q", 2), s.batch("q", 1)
			old.Tasks[0].Key, old.Tasks[0].KeyUntil = "over", b.Due+minute
			b.Tasks[0].Key, b.Tasks[0].KeyUntil = "over", b.Due+9*minute
			b.Tasks[1].Key, b.Tasks[1].KeyUntil = "another's", b.Due+minute
			next.Tasks[0].Key, next.Tasks[0].KeyUntil = "another's", b.Due+9*minute
			s.submit(store.Holder{}, old)
			first := s.submit(store.Holder{}, b).Existing
			s.want("existing", first, []store.Existing{{
				ID: task.ID{Batch: b.ID}, First: task.ID{Batch: old.ID},
				Action: task.SubmittedKept,
			}})
			s.clock.Advance(2 * time.Minute)
			_, err := s.Prune(s.ctx, 10)
			s.ok(err)
			s.submit(store.Holder{}, next)
			s.want("once more", s.submit(store.Holder{}, b).Existing, first)
			s.want("counts", s.counts(), task.Counts{Ready: 3})
		}},
		{"NewQueuesHaveDefaultsAndKeepWhatIsConfigured", func(s *scene) {
			mine := limits.DefaultQueue("r")
			mine.HoldLimit = 7
			_, err := s.ChangeQueue(s.ctx, mine.Name, store.Whole(mine))
			s.ok(err)
			s.submit(store.Holder{}, s.batch("q", 1), s.batch("r", 1))
			got, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("queues", got, []task.Queue{limits.DefaultQueue("q"), mine})
		}},
		{"CallersKeepTheirMemory", func(s *scene) {
			b := s.batch("q", 1)
			b.Tasks[0].Context = store.Value(`"mine"`)
			s.submit(store.Holder{}, b)
			copy(b.Tasks[0].Context, `"THEM"`)
			id := task.ID{Batch: b.ID}
			s.want("context after the caller changed its own", string(s.view(id).Context), `"mine"`)
			copy(s.view(id).Context, `"THEM"`)
			o := s.takeOne(s.join("a"))
			copy(o.Context, `"THEM"`)
			s.want("context after a reader changed its own", string(s.view(id).Context), `"mine"`)
		}},
		{"ConcurrentSubmissionsOfOneKeyAgree", func(s *scene) {
			const n = 8
			var list [n]store.Batch
			var got [n]store.Submitted
			var errs [n]error
			for i := range list {
				list[i] = s.batch("q", 1)
				list[i].Tasks[0].Key, list[i].Tasks[0].KeyUntil = "k", list[i].Due+1e9
			}
			var wg sync.WaitGroup
			for i := range list {
				wg.Go(func() {
					got[i], errs[i] = s.Submit(s.ctx, store.Submission{
						NewQueues: []string{"q"}, Batches: list[i : i+1],
					})
				})
			}
			wg.Wait()
			firsts := map[task.ID]int{}
			for i := range list {
				s.ok(errs[i])
				first := task.ID{Batch: list[i].ID}
				for _, e := range got[i].Existing {
					first = e.First
				}
				firsts[first]++
			}
			s.want("different first tasks", len(firsts), 1)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
		}},
	}
}

func withoutIDs(spans []store.Span) []store.Span {
	spans = slices.Clone(spans)
	for i := range spans {
		spans[i].ID = 0
	}
	return spans
}

// takeClaims is what holds for Take, Give and Held.
func takeClaims() []claim {
	return []claim{
		{"TakeIsByRankAndNeverBeforeDue", func(s *scene) {
			h := s.join("a")
			late, early, asleep, soon := s.batch("q", 1), s.batch("q", 1), s.batch("q", 1),
				s.batch("q", 1)
			early.Rank -= time.Minute.Microseconds()
			asleep.Due += time.Hour.Microseconds()
			asleep.Rank = early.Rank - 1 // a head start does not wake it
			soon.Due += time.Minute.Microseconds()
			soon.Rank = soon.Due
			s.submit(store.Holder{}, late, asleep, soon, early)
			got, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: 1})
			s.ok(err)
			s.want("batches taken first", batchesOf(got.Spans), []int64{early.ID})
			s.want("next due", got.NextDue, soon.Due)
			s.want("ready ones are left", got.More, true)
			ready, err := s.Ready(s.ctx, []string{"r", "q", "nobody's"})
			s.ok(err)
			s.want("ready queues", ready, []store.Ready{{Queue: "q", Rank: late.Rank}})
			s.want("next rank", got.NextRank, late.Rank)
			s.want("head start", got.Spans[0].Tasks[0].HeadStart, early.Due-early.Rank)
			s.want("now", got.Now, s.clock.Micros())
			s.want("batches taken next", batchesOf(s.take(h, 10)), []int64{late.ID})
			s.clock.Advance(time.Minute)
			h = s.join("a")
			got, err = s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: 10})
			s.ok(err)
			s.want("batches taken a minute later", batchesOf(got.Spans), []int64{soon.ID})
			s.want("ready ones are left a minute later", got.More, false)
			ready, err = s.Ready(s.ctx, []string{"q"})
			s.ok(err)
			s.want("number of ready queues a minute later", len(ready), 0)
			s.want("next due", got.NextDue, asleep.Due)
			s.clock.Advance(time.Hour)
			h = s.join("a")
			got, err = s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: 10})
			s.ok(err)
			s.want("batches taken an hour later", batchesOf(got.Spans), []int64{asleep.ID})
			s.want("next due", got.NextDue, int64(0))
		}},
		{"TakeSplitsTheLastSpanAndTheRestKeepsItsRow", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 10)
			whole := s.submit(store.Holder{}, b).Spans[0]
			spans := s.take(h, 4)
			s.want("spans", len(spans), 1)
			first := spans[0]
			if first.ID == whole.ID {
				s.fail("what is taken kept the row %d of the rest", whole.ID)
			}
			s.want("taken", withoutIDs([]store.Span{first.Span}),
				[]store.Span{{Batch: b.ID, Lo: 0, Hi: 3, Queue: "q", Rank: b.Rank,
					Due: b.Due, Holder: h, Token: 1}})
			s.want("tasks taken", len(first.Tasks), 4)
			rest := s.take(h, 10)
			s.want("spans of the rest", len(rest), 1)
			s.want("the rest", rest[0].Span,
				store.Span{ID: whole.ID, Batch: b.ID, Lo: 4, Hi: 9, Queue: "q", Rank: b.Rank,
					Due:    b.Due,
					Holder: h, Token: 1})
			s.want("nothing is left", len(s.take(h, 10)), 0)
		}},
		{"SplitPartsInheritSeqTokenAndDeaths", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			s.recorded(s.takeOne(a).Report(s.clock, task.Snooze(time.Hour))) // moved: seq0 = 1
			s.put(4)
			s.take(a, 4)
			s.die(a, b)
			first := s.take(b, 1)[0]
			s.want("token", first.Token, int64(2))
			s.want("deaths", first.Deaths, int32(1))
			s.want("seq0", first.Seq0, int32(0))
			rest := s.take(b, 3)[0]
			s.want("token of the rest", rest.Token, int64(2))
			s.want("deaths of the rest", rest.Deaths, int32(1))
		}},
		{"TakeStopsAtItsLimitAcrossSpans", func(s *scene) {
			h := s.join("a")
			for range 3 {
				s.put(3)
			}
			n := 0
			for _, sp := range s.take(h, 5) {
				n += len(sp.Tasks)
			}
			s.want("tasks taken with limit 5 from spans of 3", n, 5)
			s.want("counts", s.counts(), task.Counts{Ready: 9})
		}},
		{"PausedQueueGivesNothing", func(s *scene) {
			h := s.join("a")
			s.put(1)
			q := limits.DefaultQueue("q")
			q.Paused = true
			_, err := s.ChangeQueue(s.ctx, q.Name, store.Whole(q))
			s.ok(err)
			s.want("taken while paused", len(s.take(h, 1)), 0)
			q.Paused = false
			_, err = s.ChangeQueue(s.ctx, q.Name, store.Whole(q))
			s.ok(err)
			s.want("taken after resuming", len(s.take(h, 1)), 1)
		}},
		{"OnlyTheNamedQueueIsTakenFrom", func(s *scene) {
			s.submit(store.Holder{}, s.batch("r", 1))
			s.want("taken from another queue", len(s.take(s.join("a"), 1)), 0)
		}},
		{"HeldTasksAreNotTakenAgain", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(2)
			s.want("taken by a", len(s.take(a, 2)), 1)
			s.want("taken by b", len(s.take(b, 2)), 0)
			s.want("taken by a again", len(s.take(a, 2)), 0)
		}},
		{"TakenTasksCarryTheirNewestStep", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 1)
			b.Tasks[0].MaxAttempts, b.Tasks[0].Timeout = 9, 77
			s.submit(store.Holder{}, b)
			o := s.takeOne(h)
			s.want("as submitted", o.Loaded,
				store.Loaded{Standing: progress.Standing{Stage: "first"},
					Context:    store.Value("[0]"),
					ContextSeq: -1, MaxAttempts: 9, Timeout: 77})
			next := task.Next("second", []byte(nil))
			next.Context = []byte(`{"a":1}`)
			s.recorded(o.Report(s.clock, next))
			o = s.takeAgain(h, o)
			o.Due = 0 // in the past or none: both mean at once
			s.want("after next", o.Loaded, store.Loaded{
				Standing:   progress.Standing{Stage: "second", Seq: 1},
				Context:    store.Value(`{"a":1}`),
				ContextSeq: 0, ContextBy: "w", MaxAttempts: 9, Timeout: 77,
			})
			s.recorded(o.Report(s.clock, task.Retry(nil)))
			due := s.clock.Micros() + time.Second.Microseconds()
			o = s.takeAgain(h, o)
			s.want("after retry", o.Loaded, store.Loaded{
				Standing: progress.Standing{Stage: "second", Seq: 2, Attempt: 1},
				Context:  store.Value(`{"a":1}`), ContextSeq: 0, ContextBy: "w",
				MaxAttempts: 9, Timeout: 77, Due: due,
			})
		}},
		{"FinalAndMovedTasksAreNotLoaded", func(s *scene) {
			h := s.join("a")
			s.put(4)
			sp := s.take(h, 4)[0]
			s.recorded(
				caller.Taken(&sp, 0).Report(s.clock, task.Finish(nil)),
				caller.Taken(&sp, 1).Report(s.clock, task.Fail(nil)),
				caller.Taken(&sp, 2).Report(s.clock, task.Snooze(time.Hour)),
			)
			s.ok(s.Give(s.ctx, store.GiveRequest{Holder: h, Spans: []store.Taking{sp.Taking()}}))
			spans := s.take(h, 10)
			s.want("spans", len(spans), 1)
			s.want("tasks", len(spans[0].Tasks), 1)
			s.want("task", spans[0].Tasks[0].N, int32(3))
		}},
		{"RunningRowsAreLoadedWithTheirTasks", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(2)
			sp := s.take(a, 2)[0]
			out := caller.Taken(&sp, 1)
			row := out.Row(s.clock)
			s.sync(a, out)
			s.die(a, b)
			tasks := s.take(b, 2)[0].Tasks
			s.want("tasks", len(tasks), 2)
			s.want("task without a row", tasks[0].Running, (*store.Running)(nil))
			s.want("task with a row", tasks[1].Running, &row)
			s.want("state", s.view(out.ID()).State, task.Running)
			s.want("worker", s.view(out.ID()).Worker, "w")
			s.want("counts", s.counts(), task.Counts{Ready: 1, Running: 1})
		}},
		{"HeldAnswersWhatMemoryDoesNotKnow", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.put(1)
			s.put(1)
			x, y := s.takeOne(a), s.takeOne(a)
			s.put(1)
			s.takeOne(b)
			held, err := s.Held(s.ctx, a, []int64{x.Span.ID})
			s.ok(err)
			s.want("held but not known", held,
				[]store.HeldSpan{{Span: y.Span, Tasks: []store.Loaded{y.Loaded}}})
			held, err = s.Held(s.ctx, a, []int64{x.Span.ID, y.Span.ID})
			s.ok(err)
			s.want("all known", len(held), 0)
			held, err = s.Held(s.ctx, store.Holder{Node: "a", Token: a.Token + 1000}, nil)
			s.ok(err)
			s.want("held under another token", len(held), 0)
		}},
		{"ConcurrentTakersNeverShareATask", func(s *scene) {
			const takers, each = 4, 25
			h := s.join("a")
			s.put(takers * each)
			var got [takers][]store.HeldSpan
			var errs [takers]error
			var wg sync.WaitGroup
			for i := range takers {
				wg.Go(func() {
					for n := 0; n < each; n += 5 {
						t, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: 5})
						for tries := 0; err == nil && len(t.Spans) == 0 && t.NextDue > 0 &&
							tries < 100; tries++ {
							// others had locks on all
							t, err = s.Take(s.ctx, store.TakeRequest{
								Holder: h, Queue: "q", Limit: 5,
							})
						}
						got[i], errs[i] = append(got[i], t.Spans...), err
					}
				})
			}
			wg.Wait()
			seen := map[int32]bool{}
			for i := range takers {
				s.ok(errs[i])
				for _, sp := range got[i] {
					for _, t := range sp.Tasks {
						if seen[t.N] {
							s.fail("task %d was taken twice", t.N)
						}
						seen[t.N] = true
					}
				}
			}
			s.want("tasks taken", len(seen), takers*each)
		}},
	}
}

// takeAgain reads a hand-out's task anew, through giving its span back.
func (s *scene) takeAgain(h store.Holder, o caller.Handout) caller.Handout {
	s.ok(s.Give(s.ctx, store.GiveRequest{Holder: h, Spans: []store.Taking{o.Span.Taking()}}))
	return s.takeOnly(h, o.ID())
}

func batchesOf(spans []store.HeldSpan) []int64 {
	var list []int64
	for _, sp := range spans {
		list = append(list, sp.Batch)
	}
	return list
}
