package storetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// viewClaims is what holds for Task, Tasks and Counts.
func viewClaims() []claim {
	return []claim{
		{"ViewOfOneTaskTellsItsWholeStory", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 1)
			b.Rank -= time.Minute.Microseconds()
			b.Tasks[0].GroupKey, b.Tasks[0].Key, b.Tasks[0].KeyUntil = "g", "k", b.Due+1e9
			s.submit(h, b)
			at := instant(b.Due)
			id := task.ID{Batch: b.ID}
			want := task.View{
				ID: id, Queue: "q", State: task.Ready, Stage: "first", Context: []byte("[0]"),
				Attempt: 1, Priority: time.Minute,
				Due: at, Created: at, Key: "k", GroupKey: "g",
			}
			s.want("view", s.view(id), want)
			o := s.takeOne(h)
			s.clock.Advance(time.Second)
			next := task.Next("second", nil)
			next.Context = []byte(`{}`)
			s.recorded(o.Report(s.clock, next))
			o = s.takeAgain(h, o)
			s.recorded(o.Report(s.clock, task.Retry(fmt.Errorf("no luck"))))
			later := at.Add(time.Second)
			want.Stage = "second"
			want.State = task.Waiting
			want.Attempt = 2
			want.Worker = "w"
			want.Context = []byte(`{}`)
			want.Due = later.Add(time.Second)
			want.Error = "no luck"
			want.Steps = []task.Step{
				{Seq: 0, Kind: task.KindNext, Stage: "first", Worker: "w", Started: later,
					Finished: later},
				{Seq: 1, Kind: task.KindRetry, Stage: "second", Worker: "w", Started: later,
					Finished: later, Error: "no luck"},
			}
			s.want("view while it waits", s.view(id), want)
			s.clock.Advance(time.Second)
			o = s.takeAgain(h, o)
			done := task.Finish(nil)
			done.Result = []byte(`"r"`)
			s.recorded(o.Report(s.clock, done))
			got := s.view(id)
			s.want("state, stage and attempt at the end", []any{got.State, got.Stage, got.Attempt},
				[]any{task.Done, "second", 2})
			s.want("result and context at the end",
				[]string{string(got.Result), string(got.Context)}, []string{`"r"`, `{}`})
			s.want("steps at the end", len(got.Steps), 3)
			s.want("error at the end", got.Error, "")
			_, err := s.Task(s.ctx, task.ID{Batch: b.ID, N: 1})
			s.wantErr("view of no task", err, store.ErrNotFound)
		}},
		{"ViewOfARunningTaskTellsSinceWhen", func(s *scene) {
			h := s.join("a")
			s.put(2)
			x, y := s.takeOne(h), s.takeOne(h)
			began := s.clock.Micros()
			s.sync(h, x) // y is known to its node alone
			s.clock.Advance(time.Minute)
			s.want("written down", s.view(x.ID()).Started, instant(began))
			s.want("not known to run", s.view(y.ID()).Started, time.Time{})
			live := map[task.ID]store.Live{y.ID(): {Worker: "w", Started: began + 1, Attempt: 1}}
			page, _, err := s.Tasks(s.ctx, store.Filter{State: task.Running, Live: live}, task.ID{},
				10)
			s.ok(err)
			s.want("running tasks", len(page), 2)
			s.want("as its node knows", page[0].Started, instant(began+1))
			s.want("as it was written", page[1].Started, instant(began))
			s.recorded(x.Report(s.clock, task.Finish(nil)))
			s.want("at its end", s.view(x.ID()).Started, time.Time{})
		}},
		{"RunTimesAreThoseOfRunsThatEndedWellAmongTheNewestSteps", func(s *scene) {
			run := func(queue string, took time.Duration, out task.Outcome) {
				s.clock.Advance(time.Second)
				s.submit(store.Holder{}, s.batch(queue, 1))
				got, err := s.Take(s.ctx, store.TakeRequest{
					Holder: s.join("a"), Queue: queue, Limit: 1,
				})
				s.ok(err)
				o := caller.Taken(&got.Spans[0], 0)
				r := o.Report(s.clock, out)
				r.Step.Started = s.clock.Micros()
				r.Step.Finished = r.Step.Started + took.Microseconds()
				s.clock.Advance(took)
				s.recorded(r)
			}
			times := func(queue string, limit int) []store.RunTime {
				got, err := s.RunTimes(s.ctx, queue, limit)
				s.ok(err)
				slices.SortFunc(got, func(a, b store.RunTime) int { return int(a.Took - b.Took) })
				return got
			}
			s.want("none", len(times("q", 10)), 0)
			run("q", time.Second, task.Finish(nil))
			run("q", 2*time.Second, task.Next("second", nil))
			run("q", 3*time.Second, task.Fail(nil))
			run("q", 4*time.Second, task.Snooze(time.Hour))
			run("r", 5*time.Second, task.Finish(nil))
			s.want("of one queue", times("q", 10),
				[]store.RunTime{{Stage: "first", Took: 1e6}, {Stage: "first", Took: 2e6}})
			s.want("of another", times("r", 10), []store.RunTime{{Stage: "first", Took: 5e6}})
			s.want("of the newest four", times("q", 4),
				[]store.RunTime{{Stage: "first", Took: 2e6}})
			s.want("of the newest three", len(times("q", 3)), 0)
		}},
		{"ViewShowsTheNewestThousandSteps", func(s *scene) {
			id := s.put(1)[0]
			now := s.clock.Micros()
			for range 11 {
				moves := slices.Repeat([]store.Action{
					{ID: id, Kind: task.KindMoved, Rank: now, Due: now},
				}, 100)
				_, err := s.Act(s.ctx, moves)
				s.ok(err)
			}
			steps := s.view(id).Steps
			s.want("steps shown of 1,100", len(steps), 1000)
			s.want("first and last shown", []int32{steps[0].Seq, steps[999].Seq},
				[]int32{100, 1099})
		}},
		{"FiltersSelectByWhatViewsShow", func(s *scene) { showFilters(s) }},
		{"PagingNeitherRepeatsNorMissesUnderConcurrentInserts", func(s *scene) {
			var before []task.ID
			for range 7 {
				before = append(before, s.put(3)...)
				s.clock.Advance(time.Millisecond)
			}
			slices.SortFunc(before, func(a, b task.ID) int { return b.Compare(a) })
			var after task.ID
			var seen []task.ID
			for pages := 0; ; pages++ {
				page, next, err := s.Tasks(s.ctx, store.Filter{Queue: "q", State: task.Ready},
					after, 4)
				s.ok(err)
				for _, v := range page {
					seen = append(seen, v.ID)
				}
				if len(page) > 4 || pages > 100 {
					s.fail("page %d has %d tasks", pages, len(page))
				}
				if after = next; after == (task.ID{}) {
					break
				}
				s.clock.Advance(time.Millisecond)
				s.put(2) // newer than every page
			}
			s.want("tasks seen", seen, before)
		}},
		{"LiveHandoutsCountAsRunning", func(s *scene) {
			h := s.join("a")
			ids := s.put(2)
			sp := s.take(h, 2)[0]
			s.recorded(caller.Taken(&sp, 1).Report(s.clock, task.Finish(nil)))
			live := map[task.ID]store.Live{
				ids[0]: {Worker: "lively", Attempt: 7}, ids[1]: {Worker: "late"},
			}
			s.want("running", s.list(store.Filter{State: task.Running, Live: live}), ids[:1])
			s.want("ready", len(s.list(store.Filter{State: task.Ready, Live: live})), 0)
			s.want("done", s.list(store.Filter{State: task.Done, Live: live}), ids[1:])
			page, _, err := s.Tasks(s.ctx, store.Filter{Live: live}, task.ID{}, 10)
			s.ok(err)
			s.want("tasks", len(page), 2)
			s.want("state, worker and attempt",
				[]any{page[1].State, page[1].Worker, page[1].Attempt},
				[]any{task.Running, "lively", 7})
		}},
		{"CountsAreExactAfterEveryAct", func(s *scene) { showCounts(s) }},
		{"CountsAnswerForTheNamedQueuesOrForAll", func(s *scene) {
			late := s.batch("q", 2)
			early := s.batch("q", 1)
			early.Due -= 5e6
			asleep := s.batch("r", 1)
			asleep.Due += 5e6
			s.submit(store.Holder{}, late, early, asleep)
			q := store.QueueCounts{
				Queue: "q", Counts: task.Counts{Ready: 3}, OldestReady: early.Due,
			}
			r := store.QueueCounts{Queue: "r", Counts: task.Counts{Waiting: 1}}
			byName := func(a, b store.QueueCounts) int { return strings.Compare(a.Queue, b.Queue) }
			got, err := s.Counts(s.ctx)
			s.ok(err)
			slices.SortFunc(got, byName)
			s.want("all counts", got, []store.QueueCounts{q, r})
			got, err = s.Counts(s.ctx, "r")
			s.ok(err)
			s.want("counts of r", got, []store.QueueCounts{r})
		}},
		{"RestOfASpanIsCountedWithoutWhatWasCancelled", func(s *scene) {
			h := s.join("a")
			ids := s.put(4)
			s.changed(task.KindCancelled, ids[0])
			s.changed(task.KindCancelled, ids[1])
			s.take(h, 2) // the numbers that were cancelled
			s.sync(h, s.takeOne(h))
			got, err := s.Counts(s.ctx, "q")
			s.ok(err)
			s.want("counts", got[0].Counts, task.Counts{Ready: 1, Running: 1, Cancelled: 2})
			if got[0].OldestReady == 0 {
				s.fail("a task is ready, and none is the oldest")
			}
			s.want("before the next", s.ahead(s.put(1)[0]), int64(1))
		}},
		{"AheadCountsReadyTasksOfEarlierRank", func(s *scene) { showAhead(s) }},
		{"ReadersAndWritersGoTogether", func(s *scene) {
			s.put(1)
			h := s.join("a")
			var wg sync.WaitGroup
			errs := make([]error, 3)
			batches := make([]store.Batch, 20)
			for i := range batches {
				batches[i] = s.batch("q", 2)
			}
			wg.Go(func() {
				for i := range batches {
					if _, err := s.Submit(
						s.ctx, store.Submission{Holder: h, Batches: batches[i : i+1]},
					); err != nil {
						errs[0] = err
					}
				}
			})
			wg.Go(func() {
				for range batches {
					if _, _, err := s.Tasks(s.ctx, store.Filter{}, task.ID{}, 100); err != nil {
						errs[1] = err
					}
				}
			})
			wg.Go(func() {
				for range batches { // a batch is seen whole or not at all
					got, err := s.Counts(s.ctx, "q")
					if err == nil && got[0].Counts.Ready%2 != 1 {
						err = fmt.Errorf("%d ready tasks are half a batch", got[0].Counts.Ready)
					}
					if err != nil {
						errs[2] = err
					}
				}
			})
			wg.Wait()
			for _, err := range errs {
				s.ok(err)
			}
			s.want("counts", s.counts(), task.Counts{Ready: 41})
		}},
	}
}

// list reads all pages of a filter, oldest first.
func (s *scene) list(f store.Filter) []task.ID {
	var ids []task.ID
	var after task.ID
	for {
		page, next, err := s.Tasks(s.ctx, f, after, 2)
		s.ok(err)
		for _, v := range page {
			ids = append(ids, v.ID)
		}
		if after = next; after == (task.ID{}) {
			break
		}
	}
	slices.Reverse(ids)
	return ids
}

// showFilters makes one task of each kind and asks for it in every way.
func showFilters(s *scene) {
	h := s.join("a")
	start := s.clock.Micros()
	b := s.batch("q", 5)
	b.Tasks[4].Stage = "other"
	b.Tasks[1].Key, b.Tasks[1].KeyUntil = "k", start+1e9
	s.submit(h, b)
	s.clock.Advance(time.Second)
	asleep := s.batch("r", 1)
	asleep.Due += time.Hour.Microseconds()
	s.submit(h, asleep)
	done, dead, running := s.takeOne(h), s.takeOne(h), s.takeOne(h)
	failed := dead.Report(s.clock, task.Fail(nil))
	failed.Step.Error = "smtp: connection refused 拒绝"
	s.recorded(done.Report(s.clock, task.Finish(nil)), failed)
	row := running.Row(s.clock)
	row.Worker = "v"
	_, err := s.Sync(s.ctx, store.SyncRequest{Holder: h, Insert: []store.Running{row}})
	s.ok(err)
	cancelled := task.ID{Batch: b.ID, N: 3}
	s.changed(task.KindCancelled, cancelled)
	ready, waiting := task.ID{Batch: b.ID, N: 4}, task.ID{Batch: asleep.ID}
	all := []task.ID{done.ID(), dead.ID(), running.ID(), cancelled, ready, waiting}
	for _, c := range []struct {
		what   string
		filter store.Filter
		want   []task.ID
	}{
		{"everything", store.Filter{}, all},
		{"a queue", store.Filter{Queue: "q"}, all[:5]},
		{"done", store.Filter{State: task.Done}, all[:1]},
		{"dead", store.Filter{State: task.Dead}, all[1:2]},
		{"running", store.Filter{State: task.Running}, all[2:3]},
		{"cancelled", store.Filter{State: task.Cancelled}, all[3:4]},
		{"ready", store.Filter{State: task.Ready}, all[4:5]},
		{"waiting", store.Filter{State: task.Waiting}, all[5:]},
		{"waiting in a queue", store.Filter{Queue: "q", State: task.Waiting}, nil},
		{"a stage", store.Filter{Stage: "other"}, all[4:5]},
		{"a worker", store.Filter{Worker: "w"}, all[:2]},
		{"the worker of a running row", store.Filter{Worker: "v"}, all[2:3]},
		{"a key", store.Filter{Key: "k"}, all[1:2]},
		{"created since", store.Filter{Since: start + 1e6}, all[5:]},
		{"created until", store.Filter{Until: start + 1e6}, all[:5]},
		{"an empty time", store.Filter{Since: start + 1, Until: start + 1e6}, nil},
		{"no such queue", store.Filter{Queue: "none"}, nil},
		{"an error", store.Filter{Error: regexp.MustCompile(`(?i)REFUSED .绝`)}, all[1:2]},
		{"an error of dead ones",
			store.Filter{State: task.Dead, Error: regexp.MustCompile(`^smtp`)}, all[1:2]},
		{"an error of done ones", store.Filter{State: task.Done, Error: regexp.MustCompile(``)},
			nil},
		{"any error", store.Filter{Error: regexp.MustCompile(``)}, all[1:2]},
		{"another error", store.Filter{Error: regexp.MustCompile(`^refused`)}, nil},
	} {
		s.want("tasks of "+c.what, s.list(c.filter), c.want)
	}
	s.clock.Advance(time.Hour)
	s.want("ready an hour later", s.list(store.Filter{State: task.Ready}), all[4:])
}

// showCounts leads one task through every state, beside others that stay.
func showCounts(s *scene) {
	a := s.join("a")
	s.put(3)
	sp := s.take(a, 3)[0]
	o := caller.Taken(&sp, 0)
	s.want("taken", s.counts(), task.Counts{Ready: 3})
	s.sync(a, o)
	s.want("written down", s.counts(), task.Counts{Ready: 2, Running: 1})
	s.recorded(o.Report(s.clock, task.Snooze(time.Hour)))
	s.want("asleep in a span of its own", s.counts(), task.Counts{Waiting: 1, Ready: 2})
	s.changed(task.KindMoved, o.ID())
	s.want("woken", s.counts(), task.Counts{Ready: 3})
	b := s.join("b")
	s.die(a, b)
	s.want("its node died", s.counts(), task.Counts{Ready: 3})
	o = s.takeOnly(b, o.ID())
	s.recorded(o.Report(s.clock, task.Fail(nil)))
	s.want("dead", s.counts(), task.Counts{Ready: 2, Dead: 1})
	s.changed(task.KindReplayed, o.ID())
	s.want("replayed", s.counts(), task.Counts{Ready: 3})
	o = s.takeOnly(b, o.ID())
	s.recorded(o.Report(s.clock, task.Finish(nil)))
	s.want("done", s.counts(), task.Counts{Ready: 2, Done: 1})
	second := task.ID{Batch: sp.Batch, N: 1}
	s.changed(task.KindCancelled, second)
	s.want("another is cancelled", s.counts(), task.Counts{Ready: 1, Done: 1, Cancelled: 1})
	s.changed(task.KindRemoved, o.ID())
	s.changed(task.KindRemoved, second)
	s.want("both are removed", s.counts(), task.Counts{Ready: 1})
	s.changed(task.KindRemoved, task.ID{Batch: sp.Batch, N: 2})
	s.want("the last is removed", s.counts(), task.Counts{})
}

// takeOnly takes everything and picks one task.
func (s *scene) takeOnly(h store.Holder, id task.ID) caller.Handout {
	held, err := s.Held(s.ctx, h, nil)
	s.ok(err)
	for _, sp := range append(held, s.take(h, 100)...) {
		for _, l := range sp.Tasks {
			if o := (caller.Handout{Span: sp.Span, Loaded: l}); o.ID() == id {
				return o
			}
		}
	}
	s.fail("task %v is not there to take", id)
	return caller.Handout{}
}

// ahead is how many ready tasks come before one.
func (s *scene) ahead(id task.ID) int64 {
	got, err := s.Ahead(s.ctx, id, 1000)
	s.ok(err)
	if got.More {
		s.fail("before %v: more than was searched", id)
	}
	return got.Tasks
}

func showAhead(s *scene) {
	h := s.join("a")
	first := s.put(3)
	s.clock.Advance(time.Second)
	urgent := s.batch("q", 1)
	urgent.Rank -= 5e6
	later := s.batch("q", 1)
	later.Rank -= 6e6
	later.Due += 60e6 // ranks first of all, and is not due
	other := s.batch("r", 5)
	other.Rank -= 9e6
	s.submit(store.Holder{}, urgent, later, other)
	s.clock.Advance(time.Second)
	last := s.put(2)
	s.want("before the urgent one", s.ahead(task.ID{Batch: urgent.ID}), int64(0))
	s.want("before the third of the first", s.ahead(first[2]), int64(3))
	s.want("before the last", s.ahead(last[1]), int64(5))

	s.changed(task.KindCancelled, first[2])
	s.want("without one that was cancelled", s.ahead(last[1]), int64(4))

	// the urgent one fails: it comes back without its head start, behind a back-off
	o := s.takeOne(h)
	s.want("the urgent one is in hands, which is not written down", s.ahead(last[1]), int64(4))
	s.sync(h, o)
	s.want("it runs", s.ahead(last[1]), int64(3))
	s.recorded(o.Report(s.clock, task.Retry(nil)))
	s.want("it backs off", s.ahead(last[1]), int64(3))
	s.clock.Advance(2 * time.Second)
	s.want("its back-off is over, and it comes last", s.ahead(last[1]), int64(3))
	s.want("all others come before it", s.ahead(o.ID()), int64(4))

	// one in a span that was given back ranks as before
	held := s.takeOne(h)
	s.ok(s.Give(s.ctx, store.GiveRequest{Holder: h, Spans: []store.Taking{
		held.Span.Taking(),
	}}))
	s.want("what was given back", s.ahead(last[1]), int64(3))

	done := s.takeOne(h)
	s.recorded(done.Report(s.clock, task.Finish(nil)))
	s.want("before a final one", s.ahead(done.ID()), int64(0))
	s.want("before an unknown one", s.ahead(task.ID{Batch: 1}), int64(0))
	s.want("before the last", s.ahead(last[1]), int64(2))
	s.clock.Advance(time.Minute)
	s.want("with the one that is due by now", s.ahead(last[1]), int64(3))

	got, err := s.Ahead(s.ctx, last[1], 1)
	s.ok(err)
	if got.Tasks > 3 || got.Tasks < 3 && !got.More {
		s.fail("a short search: got %+v", got)
	}
}

func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
