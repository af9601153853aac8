package dispatch

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// edit edits a task through the house's node.
func (h *house) edit(id task.ID, e task.Edit, want error) {
	h.t.Helper()
	if _, err := h.d.Edit(h.ctx, "me", id, e); !errors.Is(err, want) {
		h.t.Errorf("edit %v: %v, want %v", id, err, want)
	}
}

func TestEditedTaskGoesOutAsItWasEdited(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(3)
		h.edit(ids[2], task.Edit{
			Priority: new(time.Hour), Context: []byte(`"new"`), MaxAttempts: new(1),
		}, nil)
		x := h.one("w")
		if x.ID != ids[2] || string(x.Context) != `"new"` || x.Attempt != 1 || x.ContextBy != "" {
			t.Errorf("handed out: %+v with %s, want the edited task first", x, x.Context)
		}
		h.edit(ids[2], task.Edit{Priority: new(time.Hour)}, store.ErrConflict) // it runs
		h.report("w", x, task.Retry(errHiccup), task.Recorded)
		h.counts(task.Counts{Ready: 2, Dead: 1}) // one attempt was all it had
		h.edit(ids[2], task.Edit{Priority: new(time.Hour)}, store.ErrConflict)
		h.edit(task.ID{Batch: 9}, task.Edit{Priority: new(time.Hour)}, store.ErrNotFound)
		h.edit(ids[1], task.Edit{}, task.ErrInvalid)
		h.edit(ids[1], task.Edit{Delay: new(time.Hour)}, nil)
		h.counts(task.Counts{Ready: 1, Waiting: 1, Dead: 1})
		if x := h.one("w"); x.ID != ids[0] {
			t.Errorf("handed out %v, want %v", x.ID, ids[0])
		}
		h.edit(ids[1], task.Edit{Due: new(time.Now())}, nil)
		if x := h.one("w"); x.ID != ids[1] {
			t.Errorf("handed out %v, want %v", x.ID, ids[1])
		}
	})
}

// What a task carries after an edit goes out with it, in every stage and attempt, at the node that
// made the edit and at one that takes over when that dies.
func TestEditedMetaGoesOutWithEveryHandOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		want := func(x task.Handout, meta map[string]string) {
			t.Helper()
			if !maps.Equal(x.Meta, meta) {
				t.Errorf("%v was handed out with %v, want %v", x.ID, x.Meta, meta)
			}
		}
		ids := a.many(3)
		run := a.keep("w", 3) // the others are ready in memory, as they were submitted
		eight, nine := map[string]string{"customer": "8"}, map[string]string{"customer": "9"}
		a.edit(ids[1], task.Edit{Meta: eight}, nil)
		a.edit(ids[2], task.Edit{Meta: eight, Delay: new(time.Hour)}, nil)
		a.edit(ids[2], task.Edit{Meta: nine}, nil)
		a.edit(ids[2], task.Edit{Priority: new(time.Second)}, nil)
		a.edit(ids[0], task.Edit{Meta: nine}, store.ErrConflict) // it runs
		a.edit(ids[1], task.Edit{Meta: map[string]string{"a b": ""}}, task.ErrInvalid)
		x := a.one("w")
		want(x, eight)
		a.report("w", x, task.Next("second", nil), task.Recorded)
		x = a.one("w")
		want(x, eight)
		a.report("w", x, task.Retry(errHiccup), task.Recorded)
		a.report("w", run, task.Finish(nil), task.Recorded)
		x = a.one("w")
		want(x, eight)
		a.report("w", x, task.Finish(nil), task.Recorded)
		a.close()
		b := openAs(t, db, "b")
		defer b.close()
		time.Sleep(time.Hour)
		x = b.one("w")
		want(x, nine)
		b.report("w", x, task.Finish(nil), task.Recorded)
		b.counts(task.Counts{Done: 3})
	})
}

// A task that is being edited goes to nobody, whoever waits; and once more when nothing came of it.
func TestNothingGoesOutOfATaskThatIsBeingEdited(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.report("w", h.one("w"), task.Snooze(500*time.Millisecond), task.Recorded) // asleep here
		asked := 0
		h.door.Before("Act", func() error {
			asked++
			time.Sleep(600 * time.Millisecond) // it would have been due meanwhile
			got, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Second,
			})
			if err != nil || len(got.Tasks) != 0 {
				t.Errorf("while it was edited went out: %+v, %v", got, err)
			}
			return nil
		})
		h.edit(id, task.Edit{Context: []byte(`"new"`)}, nil)
		x := h.one("w")
		if string(x.Context) != `"new"` || asked != 1 {
			t.Errorf("handed out with context %s after %d acts", x.Context, asked)
		}
		h.report("w", x, task.Snooze(5*time.Second), task.Recorded)
		h.door.Before("Act", func() error {
			if _, err := h.store.Act(h.ctx, []store.Action{
				{ID: id, Kind: task.KindCancelled, By: "somebody"},
			}); err != nil {
				t.Error(err)
			}
			return nil
		})
		h.edit(id, task.Edit{Context: []byte(`"late"`)}, store.ErrConflict)
		h.counts(task.Counts{Cancelled: 1})
	})
}

// What the store did not do for any reason goes out as it was.
func TestTaskWhoseEditFailedGoesOutAsItWas(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.door.Answer("Act", errHiccup)
		id := h.submit(task.Submission{Queue: "q", Context: []byte("1")})[0]
		h.report("w", h.one("w"), task.Release(), task.Recorded)
		h.edit(id, task.Edit{Context: []byte("2")}, errHiccup)
		x := h.one("w")
		if string(x.Context) != "1" {
			t.Errorf("handed out with context %s", x.Context)
		}
		h.report("w", x, task.Finish(nil), task.Recorded)
		h.counts(task.Counts{Done: 1})
	})
}

// slowTakes are takes whose answers come late: what was edited meanwhile is not in them.
type slowTakes struct {
	Store
	after func()
}

func (s slowTakes) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	got, err := s.Store.Take(ctx, r)
	if len(got.Spans) > 0 {
		s.after()
	}
	return got, err
}

func TestAnswerFromBeforeAnEditBringsNothingOldOut(t *testing.T) {
	after := func() {}
	slow := func(c *Config) { c.Store = slowTakes{c.Store, func() { after() }} }
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		edited := make(chan struct{})
		after = func() {
			after = func() {}
			go func() {
				defer close(edited)
				h.edit(id, task.Edit{Context: []byte(`"new"`)}, nil)
			}()
			time.Sleep(time.Second) // by now the store has it
		}
		x := h.one("w")
		if string(x.Context) != `"new"` {
			t.Errorf("handed out with context %s, want what it was edited to be", x.Context)
		}
		<-edited
		h.report("w", x, task.Finish(nil), task.Recorded)
	}, slow)
}

// slowSubmits are submissions whose answers come late, and those of edits later still: what was
// edited meanwhile is not in them.
type slowSubmits struct {
	Store
	after func(batch int64)
}

func (s slowSubmits) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	got, err := s.Store.Submit(ctx, sub)
	s.after(sub.Batches[0].ID)
	return got, err
}

func (s slowSubmits) Act(ctx context.Context, list []store.Action) ([]store.Acted, error) {
	got, err := s.Store.Act(ctx, list)
	time.Sleep(2 * time.Second)
	return got, err
}

// What a node submits it holds at once. Its tasks are plain, but for the one that was edited before
// the answer had come.
func TestTaskThatIsEditedWhileItIsSubmittedGoesOutAsItWasEdited(t *testing.T) {
	after := func(int64) {}
	slow := func(c *Config) { c.Store = slowSubmits{c.Store, func(b int64) { after(b) }} }
	bubble(t, func(t *testing.T, h *house) {
		edited := make(chan struct{})
		after = func(batch int64) {
			go func() {
				defer close(edited)
				h.edit(task.ID{Batch: batch, N: 1}, task.Edit{Context: []byte(`"new"`)}, nil)
			}()
			time.Sleep(time.Second / 4) // by now the store has it, and no round takes it yet
		}
		got := make(chan []task.Handout)
		go func() { got <- h.holdFor("w", 3, time.Minute) }()
		synctest.Wait()
		ids := h.many(3)
		list := <-got
		if len(list) != 2 || list[0].ID != ids[0] || list[1].ID != ids[2] {
			t.Errorf("handed out at once: %+v, want all but what is edited", list)
		}
		<-edited
		x := h.one("w")
		if x.ID != ids[1] || string(x.Context) != `"new"` {
			t.Errorf("then %v with context %s, want what it was edited to be", x.ID, x.Context)
		}
		for _, x := range append(list, x) {
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		h.counts(task.Counts{Done: 3})
	}, slow)
}

func TestManyAreEditedPageByPage(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(10)
		x := h.one("w")
		all := func(dry bool, matched, changed int64) {
			t.Helper()
			got, err := h.d.EditAll(h.ctx, "me", task.Edit{Priority: new(time.Minute)},
				store.Filter{Queue: "q"}, task.ID{}, dry)
			if err != nil || got.Matched != matched || got.Changed != changed {
				t.Errorf("%+v, %v, want %d of %d", got, err, changed, matched)
			}
		}
		all(true, 9, 0)
		all(false, 9, 9)
		h.counts(task.Counts{Ready: 9, Running: 1})
		h.report("w", x, task.Finish(nil), task.Recorded)
		for range 9 {
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		}
		h.counts(task.Counts{Done: 10})
	})
}

// keep lets a worker begin n tasks, and give all but the first back: they are ready in the memory
// of the house.
func (h *house) keep(worker string, n int) (run task.Handout) {
	h.t.Helper()
	got := h.holdFor(worker, n, time.Minute)
	if len(got) != n {
		h.t.Fatalf("%s got %d tasks, want %d", worker, len(got), n)
	}
	for _, x := range got[1:] {
		h.report(worker, x, task.Release(), task.Recorded)
	}
	return got[0]
}

// wants tells another node of what a store says that it holds, as hints do.
type wants struct {
	Store
	tell func(id task.ID)
}

func (s wants) Act(ctx context.Context, list []store.Action) ([]store.Acted, error) {
	got, err := s.Store.Act(ctx, list)
	for i := range got {
		if got[i].Held != "" {
			s.tell(got[i].ID)
		}
	}
	return got, err
}

// What another node has ready it gives up, with its neighbours, and nothing old goes out there once
// the edit was answered.
func TestEditOfWhatAnotherNodeHoldsIsMadeWhenThatGivesItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		told := 0
		b := openAs(t, db, "b", func(c *Config) {
			c.Store = wants{c.Store, func(id task.ID) {
				if told++; told > 1 { // a hint may be lost
					a.d.HearWanted([]task.ID{id, {Batch: 5}})
				}
			}}
		})
		defer a.close()
		defer b.close()
		ids := a.many(4)
		run := a.keep("w", 4)
		b.edit(ids[2], task.Edit{Context: []byte(`"new"`), Priority: new(time.Hour)}, nil)
		if told < 2 {
			t.Errorf("a was told %d times that b wants what it holds", told)
		}
		y := a.one("w")
		if y.ID != ids[2] || string(y.Context) != `"new"` {
			t.Errorf("a hands out %v with %s, want the edited task first", y.ID, y.Context)
		}
		b.edit(ids[0], task.Edit{Priority: new(time.Hour)}, store.ErrConflict) // it runs at a
		for _, x := range []task.Handout{run, y, a.one("w"), a.one("w")} {
			a.report("w", x, task.Finish(nil), task.Recorded)
		}
		a.counts(task.Counts{Done: 4})
	})
}

// A node that does not answer keeps what it holds: nothing is changed.
func TestEditOfWhatASilentNodeHoldsIsRefusedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a, b := openAs(t, db, "a"), openAs(t, db, "b")
		defer b.close()
		ids := a.many(2)
		a.keep("w", 2)
		a.kill()
		asked := time.Now()
		b.edit(ids[1], task.Edit{Priority: new(time.Hour)}, store.ErrHeld)
		if took := time.Since(asked); took < heldFor || took > 2*heldFor {
			t.Errorf("refused after %v", took)
		}
		if v, err := db.Task(b.ctx, ids[1]); err != nil || v.Priority != 0 {
			t.Errorf("after a refused edit it has priority %v, %v", v.Priority, err)
		}
	})
}

// Who gave tasks up for an edit leaves them alone for its moment, whatever else is heard of their
// queue meanwhile: what was offered to others, what is new, what is this node's share.
func TestWhatWasGivenUpForAnEditIsLeftAloneForItsMoment(t *testing.T) {
	others := store.Offer{Queue: "q", Shares: []store.Share{{Queue: "q", Node: "c", Tasks: 1}}}
	own := store.Offer{Queue: "q", Shares: []store.Share{{Queue: "q", Node: "a", Tasks: 9}}}
	for name, heard := range map[string]struct{ before, after func(a *house) }{
		"nothing": {func(*house) {}, func(*house) {}},
		"offer":   {func(a *house) { a.d.HearOffer(others) }, func(*house) {}},
		"share":   {func(a *house) { a.d.HearOffer(own) }, func(*house) {}},
		"new": {func(*house) {}, func(a *house) {
			a.submit(task.Submission{Queue: "q", Delay: time.Microsecond})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := openAs(t, model.New(time.Now), "a")
				defer a.close()
				ids := a.many(2)
				run := a.keep("w", 2)
				heard.before(a)
				time.Sleep(5 * time.Millisecond)
				a.d.HearWanted(ids[1:])
				asked := time.Now()
				time.Sleep(time.Millisecond)
				heard.after(a)
				time.Sleep(50 * time.Millisecond)
				next := a.one("v")
				if took := time.Since(asked); took < wantedFor {
					t.Errorf("it was taken back after %v, before %v", took, wantedFor)
				}
				a.done("w", run)
				a.done("v", next)
			})
		})
	}
}
