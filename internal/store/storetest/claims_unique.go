package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// uniqueClaims is what holds for tasks with unique keys.
func uniqueClaims() []claim {
	const second = int64(1e6)
	keep, replace := task.OnExistingKeep, task.OnExistingReplace
	debounce, refuse := task.OnExistingDebounce, task.OnExistingRefuse
	unfinished := func(how task.OnExisting) store.Unique { return store.Unique{OnExisting: how} }
	waiting := func(how task.OnExisting) store.Unique {
		return store.Unique{OnExisting: how, Waiting: true}
	}
	return []claim{
		{"AUniqueKeyIsTakenUntilItsTaskIsFinal", func(s *scene) {
			h := s.join("a")
			for i, end := range []func(caller.Handout){
				func(o caller.Handout) { s.recorded(o.Report(s.clock, task.Finish(nil))) },
				func(o caller.Handout) { s.recorded(o.Report(s.clock, task.Fail(nil))) },
				func(o caller.Handout) { s.changed(task.KindCancelled, o.ID()) },
				func(o caller.Handout) {
					s.recorded(o.Report(s.clock, task.Outcome{Kind: task.KindNext, Stage: "b"}))
					o = s.heldBy(h, o.ID())
					s.want("in its next stage", s.only(unfinished(replace)), "kept 0")
					s.recorded(o.Report(s.clock, task.Release()))
					s.want("when it is tried again", s.only(unfinished(replace)), "kept 0")
					s.changed(task.KindCancelled, o.ID())
				},
			} {
				s.want("first", s.only(unfinished(keep)), "created")
				s.want("again", s.only(unfinished(keep)), "kept 0")
				if i == 0 {
					s.want("elsewhere", s.onlyIn("r", unfinished(keep)), "created")
				}
				o := s.nextOne(h)
				s.want("marked", o.Unique, true)
				s.want("taken", s.only(unfinished(keep)), "kept 0")
				s.want("begin", s.begin(h, o), []store.Beginning{store.Begins})
				s.want("running", s.only(unfinished(debounce)), "kept 0")
				end(o)
				s.want("when it is over", s.only(unfinished(keep)), "created")
				s.changed(task.KindCancelled, s.last)
			}
		}},
		{"AUniqueKeyWhileWaitingIsTakenUntilTheFirstHandOut", func(s *scene) {
			h := s.join("a")
			s.want("first", s.only(waiting(keep)), "created")
			o := s.nextOne(h)
			s.want("held", s.only(waiting(keep)), "kept 0")
			s.want("begin", s.begin(h, o), []store.Beginning{store.Begins})
			s.want("when it runs", s.only(waiting(keep)), "created")
			s.recorded(o.Report(s.clock, task.Release()))
			s.want("the other one waits", s.only(waiting(keep)), "kept 0")
			s.changed(task.KindCancelled, s.last)
			s.want("released before", s.only(waiting(keep)), "created")
		}},
		{"ATaskWithAUniqueKeyIsReplacedWhileItWaits", func(s *scene) {
			h := s.join("a")
			b := s.wanting("q", unfinished(keep))
			b.Due += 60 * second
			b.Tasks[0].Stage, b.Tasks[0].Context = "as submitted", store.Value("0")
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			s.last = id
			next := s.wanting("q", unfinished(replace))
			next.Rank -= 5 * second
			next.Tasks[0].Stage, next.Tasks[0].Meta = "other", `{"a":"b"}`
			next.Tasks[0].Context = store.Value(`"new"`)
			s.want("answer", s.submit(store.Holder{}, next).Existing, []store.Existing{{
				ID: task.ID{Batch: next.ID}, First: id, Action: task.SubmittedReplaced,
			}})
			s.want("spent", s.submit(store.Holder{}, next).Existing, []store.Existing{{
				ID: task.ID{Batch: next.ID}, First: id, Action: task.SubmittedReplaced,
			}})
			o := s.nextOne(h)
			s.want("is it", []any{o.ID(), o.Stage, string(o.Context), o.Meta, o.HeadStart},
				[]any{id, "other", `"new"`, store.Meta(`{"a":"b"}`), 5 * second})
			s.want("steps", s.stepsOf(id), []string{
				"edited submission [priority, due, context, meta, stage]"})
			s.want("held, and seen by nobody", s.only(unfinished(replace)), "replaced 0")
			s.want("what was held", s.begin(h, o), []store.Beginning{store.Void})
			o = s.nextOne(h)
			s.want("begin", s.begin(h, o), []store.Beginning{store.Begins})
			s.want("running", s.only(unfinished(replace)), "kept 0")
			s.recorded(o.Report(s.clock, task.Release()))
			s.want("handed out before", s.only(unfinished(replace)), "kept 0")
			o = s.heldBy(h, o.ID())
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.want("replayed", s.replay(id, store.Replay{Whole: true}).Changed, true)
			o = s.nextOne(h)
			s.want("begins with what replaced it", []any{o.Stage, string(o.Context)},
				[]any{"first", "[0]"})
		}},
		{"DebounceBeginsTheDelayAnewAndReplaceDoesNot", func(s *scene) {
			b := s.wanting("q", unfinished(keep))
			b.Due += 10 * second
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			s.clock.Advance(4 * time.Second)
			next := s.wanting("q", store.Unique{OnExisting: replace, KeepDue: true})
			next.Due += 10 * second
			s.submit(store.Holder{}, next)
			s.want("replaced", s.view(id).Due, instant(b.Due))
			next = s.wanting("q", unfinished(debounce))
			next.Due += 10 * second
			s.want("debounced", s.submit(store.Holder{}, next).Existing[0].Action,
				task.SubmittedDebounced)
			s.want("due", s.view(id).Due, instant(next.Due))
			s.clock.Advance(7 * time.Second)
			h := s.join("a")
			s.want("at its first time", len(s.take(h, 1)), 0)
			s.clock.Advance(3 * time.Second)
			h = s.join("a")
			s.want("at its last", s.nextOne(h).ID(), id)
		}},
		{"AUniqueKeyIsFreeAfterItsTime", func(s *scene) {
			now := s.clock.Micros()
			s.want("first", s.only(store.Unique{Until: now + 10*second}), "created")
			first := s.last
			s.clock.Advance(10*time.Second - time.Microsecond)
			s.want("not yet", s.only(unfinished(debounce)), "debounced 0")
			s.prune()
			s.want("pruned before", s.only(unfinished(keep)), "kept 0")
			s.clock.Advance(time.Microsecond)
			now = s.clock.Micros()
			s.want("then", s.only(store.Unique{Until: now + second}), "created")
			s.wantState(first, task.Ready)
			s.changed(task.KindCancelled, first)
			s.want("the second has it", s.only(unfinished(keep)), "kept 0")
			s.clock.Advance(time.Second)
			s.prune()
			s.want("pruned after", s.only(unfinished(keep)), "created")
		}},
		{"PruneDeletesNoMoreKeysThanItsLimit", func(s *scene) {
			until := s.clock.Micros() + second
			b := s.batch("q", 6)
			for i := range b.Tasks {
				t, key := &b.Tasks[i], fmt.Sprint("k", i)
				if t.Unique = (&store.Unique{Key: key, Until: until}); i%2 == 0 {
					t.Unique, t.Key, t.KeyUntil = nil, key, until
				}
			}
			s.submit(store.Holder{}, b)
			s.clock.Advance(time.Second)
			var pruned []int
			for range 4 {
				n, err := s.Prune(s.ctx, 2)
				s.ok(err)
				pruned = append(pruned, n)
			}
			s.want("pruned", pruned, []int{2, 2, 2, 0})
		}},
		{"ARefusedCallLeavesNothing", func(s *scene) {
			s.want("first", s.only(unfinished(keep)), "created")
			first := s.last
			a, b, c := s.batch("q", 1), s.wanting("q", unfinished(refuse)), s.batch("q", 1)
			other := s.wanting("r", unfinished(refuse))
			for i, of := range []*store.Batch{&a, &b, &other} {
				of.Call = 1
				if u := of.Tasks[0].Unique; u != nil {
					u.Order = int32(i)
				}
			}
			other.Tasks[0].Unique.Order = -1 // it asks first, and loses what it got
			sub := store.Submission{NewQueues: []string{"q", "r"},
				Batches: []store.Batch{a, b, c, other}}
			got, err := s.Submit(s.ctx, sub)
			s.ok(err)
			want := []store.Refusal{{Call: 1, ID: task.ID{Batch: b.ID}, First: first}}
			s.want("refused", got.Refused, want)
			s.want("spans", len(got.Spans), 1)
			again, err := s.Submit(s.ctx, sub)
			s.ok(err)
			s.want("spans of the other", again.Spans, got.Spans)
			s.want("tasks", s.list(store.Filter{}), []task.ID{first, {Batch: c.ID}})
			s.want("its other key", s.onlyIn("r", unfinished(keep)), "created")
			s.changed(task.KindCancelled, first)
			free := s.wanting("q", unfinished(refuse))
			free.Call = 2
			s.want("when it is free", len(s.submit(store.Holder{}, free).Refused), 0)
			twice := s.batch("r", 2)
			for i := range twice.Tasks {
				twice.Tasks[i].Unique = &store.Unique{Key: "twice", OnExisting: refuse,
					Order: int32(i)}
			}
			twice.Call = 3
			s.want("the same key twice", s.submit(store.Holder{}, twice).Refused,
				[]store.Refusal{{Call: 3, ID: task.ID{Batch: twice.ID, N: 1},
					First: task.ID{Batch: twice.ID}}})
		}},
		{"ARefusedCallReplacesNothing", func(s *scene) {
			s.want("first", s.only(unfinished(keep)), "created")
			b := s.batch("q", 2)
			b.Call = 1
			b.Tasks[0].Unique = &store.Unique{Key: "k", OnExisting: replace}
			b.Tasks[1].Unique = &store.Unique{Key: "k", OnExisting: refuse, Order: 1}
			got := s.submit(store.Holder{}, b)
			s.want("refused", got.Refused, []store.Refusal{{Call: 1,
				ID: task.ID{Batch: b.ID, N: 1}, First: s.last}})
			s.want("existing", len(got.Existing), 0)
			s.want("steps", len(s.stepsOf(s.last)), 0)
		}},
		{"TheSecondOfOneSubmissionSeesTheFirst", func(s *scene) {
			h := s.join("a")
			b, later := s.batch("q", 3), s.batch("q", 1)
			for i, t := range []*store.Task{&b.Tasks[0], &b.Tasks[1], &later.Tasks[0]} {
				t.Unique = &store.Unique{Key: "k", OnExisting: replace, Order: int32(2 - i)}
				t.Context = store.Value(fmt.Sprintf(`"order %d"`, 2-i))
			}
			later.Due += 1
			b.Spans[0].Hold = true
			got := s.submit(h, b, later)
			first := task.ID{Batch: later.ID}
			s.want("existing", got.Existing, []store.Existing{
				{ID: task.ID{Batch: b.ID}, First: first, Action: task.SubmittedReplaced},
				{ID: task.ID{Batch: b.ID, N: 1}, First: first, Action: task.SubmittedReplaced},
			})
			s.want("repeated", s.submit(h, b, later).Existing, got.Existing)
			s.want("it is the last", string(s.stand(first).Context), `"order 2"`)
			s.last = first
			s.want("it has the key", s.only(unfinished(keep)), "kept 0")
		}},
		{"AnExpiredTaskHasNoUniqueKey", func(s *scene) {
			h := s.join("a")
			b := s.wanting("q", unfinished(keep))
			b.Tasks[0].StartWithin = second
			s.submit(store.Holder{}, b)
			s.last = task.ID{Batch: b.ID}
			o := s.nextOne(h)
			s.clock.Advance(time.Second)
			s.want("its time is over, and nobody said so", s.only(unfinished(keep)), "kept 0")
			s.recorded(s.expired(o))
			s.want("expired", s.only(unfinished(keep)), "created")
		}},
		{"ADeletedTaskHasNoUniqueKey", func(s *scene) {
			s.want("first", s.only(unfinished(keep)), "created")
			s.changed(task.KindRemoved, s.last)
			s.want("removed", s.only(unfinished(keep)), "created")
			s.changed(task.KindCancelled, s.last)
			gone := s.last
			s.clock.Advance(40 * 24 * time.Hour)
			s.prune()
			_, err := s.Task(s.ctx, gone)
			s.wantErr("pruned", err, store.ErrNotFound)
			s.want("pruned", s.only(unfinished(keep)), "created")
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.want("queue deleted", s.only(unfinished(keep)), "created")
		}},
		{"AReplayedTaskHasItsUniqueKeyUnlessAnotherGotIt", func(s *scene) {
			s.want("first", s.only(unfinished(keep)), "created")
			first := s.last
			s.changed(task.KindCancelled, first)
			s.changed(task.KindReplayed, first)
			s.want("replayed", s.only(unfinished(keep)), "kept 0")
			s.changed(task.KindCancelled, first)
			s.want("free", s.only(unfinished(keep)), "created")
			second := s.last
			s.changed(task.KindReplayed, first)
			s.changed(task.KindCancelled, second)
			s.want("the second had it", s.only(unfinished(keep)), "created")
		}},
		{"OneOfManyGetsAUniqueKey", func(s *scene) { s.showUniqueRace(8) }},
		{"AHandOutAndAReplacementAreOneAfterTheOther", func(s *scene) { s.showReplaceRace(20) }},
	}
}

// wanting is a batch of one task that wants the unique key k.
func (s *scene) wanting(queue string, u store.Unique) store.Batch {
	b := s.batch(queue, 1)
	u.Key = "k"
	b.Tasks[0].Unique = &u
	return b
}

// only submits a task that wants the unique key k of queue q, and says what became of it: of one
// that another task keeps out also whose key it is: 0 = of the last that was created so in queue q.
func (s *scene) only(u store.Unique) string { return s.onlyIn("q", u) }

func (s *scene) onlyIn(queue string, u store.Unique) string {
	s.ids++
	b := s.wanting(queue, u)
	got := s.submit(store.Holder{}, b)
	if len(got.Existing) == 0 {
		if queue == "q" {
			s.last = task.ID{Batch: b.ID}
		}
		return string(task.SubmittedCreated)
	}
	e := got.Existing[0]
	if e.ID != (task.ID{Batch: b.ID}) {
		s.fail("existing %+v is not the one submitted", e)
	}
	which := 0
	if queue == "q" && e.First != s.last {
		which = 1
	}
	return fmt.Sprintf("%s %d", e.Action, which)
}

// showUniqueRace lets many submit tasks with one key at the same time: one is created.
func (s *scene) showUniqueRace(n int) {
	var batches []store.Batch
	for range n {
		batches = append(batches, s.wanting("q", store.Unique{}))
	}
	s.submit(store.Holder{}, s.batch("q", 1)) // the queue stands
	created := make([]bool, n)
	firsts := make([]task.ID, n)
	var mu sync.Mutex
	s.atOnce(n, func(i int) error {
		var got store.Submitted
		err := store.ErrBusy
		for range 20 { // who waits for the others' key for too long is to come again
			if !errors.Is(err, store.ErrBusy) {
				break
			}
			got, err = s.Submit(s.ctx, store.Submission{Batches: batches[i : i+1]})
		}
		mu.Lock()
		defer mu.Unlock()
		if firsts[i] = (task.ID{Batch: batches[i].ID}); err == nil && len(got.Existing) == 1 {
			firsts[i] = got.Existing[0].First
		} else if err == nil {
			created[i] = true
		}
		return err
	})
	many := 0
	for i := range n {
		if created[i] {
			many++
		}
		s.want("the task that has the key", firsts[i], firsts[0])
	}
	s.want("created", many, 1)
}

// showReplaceRace lets a task begin and be replaced at the same time: either it is handed out as it
// was and kept, or it is replaced and the hand-out is none.
func (s *scene) showReplaceRace(rounds int) {
	h := s.join("a")
	for range rounds {
		if got := s.only(store.Unique{}); got != "created" {
			s.fail("first: %s", got)
		}
		o := s.nextOne(h)
		next := s.wanting("q", store.Unique{OnExisting: task.OnExistingReplace})
		ask := s.asked(h, o)
		var begun store.Begun
		var got store.Submitted
		s.atOnce(2, func(i int) (err error) {
			if i == 0 {
				begun, err = s.Begin(s.ctx, ask)
			} else {
				got, err = s.Submit(s.ctx, store.Submission{Batches: []store.Batch{next}})
			}
			return err
		})
		kept := got.Existing[0].Action == task.SubmittedKept
		s.want("begins exactly if it is kept", begun.Rows[0] == store.Begins, kept)
		s.changed(task.KindCancelled, o.ID())
	}
}

// atOnce calls do n times at once.
func (s *scene) atOnce(n int, do func(i int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	for _, err := range errs {
		s.ok(err)
	}
}
