package dispatch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func TestStagesPassTheirContextOn(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q", Stage: "read", Context: []byte(`"a"`)})[0]
		first := h.one("w")
		h.report("w", first, task.Next("digest", "b"), task.Recorded)
		second := h.one("w")
		if second.ID != id || second.Stage != "digest" || string(second.Context) != `"b"` ||
			second.Attempt != 1 {
			t.Fatalf("second: %+v", second)
		}
		h.report("w", first, task.Next("digest", "b"), task.Repeated)
		h.report("w", second, task.Retry(errors.New("no luck")), task.Recorded)
		third := h.one("w")
		if third.Stage != "digest" || string(third.Context) != `"b"` || third.Attempt != 2 {
			t.Fatalf("third: %+v", third)
		}
		h.report("w", third, task.Next("verify", nil), task.Recorded)
		fourth := h.one("w")
		if fourth.Stage != "verify" || string(fourth.Context) != `"b"` || fourth.Attempt != 1 {
			t.Fatalf("fourth: %+v", fourth)
		}
		h.report("w", fourth, task.Finish("ok"), task.Recorded)
		v := h.view(id)
		if v.State != task.Done || string(v.Result) != `"ok"` || len(v.Steps) != 4 ||
			v.Steps[1].Error != "no luck" {
			t.Fatalf("view: %+v", v)
		}
		h.empty()
	})
}

// A store keeps a span of which a report was refused, so the node must not take it for deleted.
func TestSpanIsDeletedThoughAReportOfItWasRefusedInTheSameCall(t *testing.T) {
	for _, again := range []task.Outcome{task.Retry(errHiccup), task.Finish("b")} {
		bubble(t, func(t *testing.T, h *house) {
			h.many(1)
			x := h.one("w")
			h.finishBesideStale(x, task.Report{ID: x.ID, Token: x.Token, Outcome: again})
		})
	}
}

func TestLateReportOfAnEarlierHandOutKeepsNoSpanBehind(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		first := h.one("w")
		h.report("w", first, task.RetryAfter(0, errHiccup), task.Recorded)
		late := task.Report{ID: first.ID, Token: first.Token, Outcome: task.Finish(nil)}
		h.finishBesideStale(h.one("w"), late)
	})
}

// finishBesideStale reports the last hand-out of all done, in one call with a report that is stale,
// and wants no span to be left.
func (h *house) finishBesideStale(last task.Handout, stale task.Report) {
	h.t.Helper()
	done := task.Report{ID: last.ID, Token: last.Token, Outcome: task.Finish(nil)}
	got, err := h.d.Report(h.ctx, "w", []task.Report{done, stale})
	if err != nil || got[0].Status != task.Recorded || got[1].Status != task.Stale {
		h.t.Fatalf("got %+v, %v, want the first recorded and the second stale", got, err)
	}
	time.Sleep(1500 * time.Millisecond) // a round deletes what is spent
	held, err := h.store.Held(h.ctx, h.d.conf.Holder, nil)
	if err != nil || len(held) > 0 {
		h.t.Errorf("its span is left behind: %+v, %v", held, err)
	}
}

func TestRetriesWaitOneTwoFourEightSecondsAndThenTheTaskIsDead(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := limits.DefaultQueue("q")
		conf.Retry.Jitter = 0
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		id := h.many(1)[0]
		var waits []time.Duration
		for range 5 {
			begin := time.Now()
			got := h.one("w")
			waits = append(waits, time.Since(begin).Round(time.Second))
			h.report("w", got, task.Retry(errors.New("again")), task.Recorded)
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second,
			8 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
		h.state(id, task.Dead)
		h.counts(task.Counts{Dead: 1})
		if err := h.d.Act(h.ctx, task.KindReplayed, "me", id); err != nil {
			t.Fatal(err)
		}
		if got := h.one("w"); got.ID != id || got.Attempt != 1 {
			t.Fatalf("replayed: %+v", got)
		}
	})
}

func TestLongDelayLeavesMemoryAndComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.report("w", h.one("w"), task.Snooze(time.Hour), task.Recorded)
		h.empty()
		h.state(id, task.Waiting)
		begin := time.Now()
		var got []task.Handout
		for len(got) == 0 {
			got = h.holdFor("w", 1, time.Minute)
		}
		if took := time.Since(begin); took < time.Hour-time.Second || took > time.Hour+time.Second {
			t.Errorf("came back after %v, want 1h", took)
		}
		if got[0].Attempt != 1 {
			t.Errorf("attempt %d: a snooze is not charged", got[0].Attempt)
		}
		h.report("w", got[0], task.Finish(nil), task.Recorded)
	})
}

func TestHardLimitEndsTheHandOutWhateverTheWorkerSays(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q", Timeout: 30 * time.Second})[0]
		got := h.one("w")
		for range 8 { // beats all the while
			h.beat("w", "1", 1, got)
			time.Sleep(5 * time.Second)
		}
		if a := h.beat("w", "1", 1, got)[id]; a != task.ActionStale {
			t.Errorf("the worker is told %q", a)
		}
		h.report("w", got, task.Finish(nil), task.Stale)
		again := h.one("w")
		if again.ID != id || again.Attempt != 2 {
			t.Fatalf("again: %+v", again)
		}
		if v := h.view(id); v.Steps[0].Kind != task.KindTimeout {
			t.Errorf("steps: %+v", v.Steps)
		}
	})
}

func TestCancelReachesTheWorkerWithItsNextBeat(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		got := h.one("w")
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", id); err != nil {
			t.Fatal(err)
		}
		h.state(id, task.Cancelled)
		v := h.view(id)
		if s := v.Steps[0]; v.Worker != "w" || s.Worker != "w" || s.Started.IsZero() ||
			s.Error != "asked for by me" {
			t.Errorf("it does not tell whose work was cancelled: %+v", v)
		}
		if a := h.beat("w", "1", 5, got)[id]; a != task.ActionCancel {
			t.Errorf("the worker is told %q", a)
		}
		h.report("w", got, task.Finish(nil), task.Stale)
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", id); !errors.Is(err, store.ErrConflict) {
			t.Errorf("cancelled twice: %v", err)
		}
		h.counts(task.Counts{Cancelled: 1})
		h.empty()
	})
}

func TestRunNowWakesASleeper(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q", Delay: time.Hour})[0]
		h.state(id, task.Waiting)
		if err := h.d.Act(h.ctx, task.KindMoved, "me", id); err != nil {
			t.Fatal(err)
		}
		if got := h.one("w"); got.ID != id {
			t.Fatalf("got %+v", got)
		}
		if err := h.d.Act(h.ctx, task.KindMoved, "me", id); !errors.Is(err, store.ErrConflict) {
			t.Errorf("run now while running: %v", err)
		}
	})
}

func TestWhatNobodyWaitsForIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 1, time.Minute) }()
		synctest.Wait()
		h.many(5)
		first := <-waiting
		time.Sleep(5 * time.Second)
		h.d.mu.Lock()
		for _, sp := range h.d.mem.spans {
			for s := range sp.live() {
				if s.place() == ready {
					t.Errorf("task %s is still held ready", s.id())
				}
			}
		}
		h.d.mu.Unlock()
		h.report("w", first[0], task.Finish(nil), task.Recorded)
		if got := h.hold("w", 10); len(got) != 4 {
			t.Fatalf("got %d of the 4 given back", len(got))
		}
	})
}

func TestPausedQueueHandsNothingOut(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(2)
		if err := h.d.PauseQueue(h.ctx, "q", true); err != nil {
			t.Fatal(err)
		}
		if got := h.holdFor("w", 10, 3*time.Second); len(got) != 0 {
			t.Fatalf("got %d tasks of a paused queue", len(got))
		}
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 10, time.Minute) }()
		synctest.Wait()
		if err := h.d.PauseQueue(h.ctx, "q", false); err != nil {
			t.Fatal(err)
		}
		if got := <-waiting; len(got) != 2 {
			t.Fatalf("got %d after resume", len(got))
		}
	})
}

func TestDrainIsRememberedAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		h.beat("w", "1", 5)
		if err := h.d.DrainWorker(h.ctx, "w", store.Drain{}); err != nil {
			t.Fatal(err)
		}
		h.close()
		h2 := open(t, db)
		defer h2.close()
		h2.many(1)
		if got := h2.holdFor("w", 1, time.Second); len(got) != 0 {
			t.Fatal("a drained worker got a task")
		}
		if err := h2.d.UndrainWorker(h2.ctx, "w"); err != nil {
			t.Fatal(err)
		}
		h2.one("w")
	})
}

func TestWaitingViewAnswersWhenTheTaskEnds(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		got := h.one("w")
		views := make(chan task.View)
		begin := time.Now()
		go func() {
			v, err := h.d.Task(h.ctx, id, time.Minute)
			if err != nil {
				t.Error(err)
			}
			views <- v
		}()
		time.Sleep(100 * time.Millisecond)
		h.report("w", got, task.Finish(nil), task.Recorded)
		if v := <-views; v.State != task.Done || time.Since(begin) > 200*time.Millisecond {
			t.Errorf("%s after %v", v.State, time.Since(begin))
		}
	})
}

func TestCloseGivesEverythingBackWithoutCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		h.many(4)
		h.beat("w", "1", 1)
		out := h.one("w")
		h.close()
		h2 := open(t, db)
		defer h2.close()
		h2.beat("w", "1", 1, out)
		got := h2.holdFor("x", 10, time.Second)
		if len(got) != 3 {
			t.Fatalf("got %d, want the 3 that were not out", len(got))
		}
		for _, x := range got {
			if x.Attempt != 1 {
				t.Errorf("attempt %d", x.Attempt)
			}
			h2.report("x", x, task.Finish(nil), task.Recorded)
		}
		h2.report("w", out, task.Finish(nil), task.Recorded)
		h2.counts(task.Counts{Done: 4})
	})
}

func TestKeyReturnsTheFirstTask(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 10, time.Minute) }()
		synctest.Wait()
		keyed := task.Submission{Queue: "q", Key: "k"}
		got, err := h.d.Submit(h.ctx, []task.Submission{keyed, {Queue: "q"}, keyed})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Existing || !got[2].Existing || got[2].ID != got[0].ID {
			t.Fatalf("receipts: %+v", got)
		}
		if list := <-waiting; len(list) != 2 {
			t.Fatalf("%d tasks handed out, want 2", len(list))
		}
	})
}

func TestBadInputIsNamedAndChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		_, err := h.d.Submit(h.ctx, []task.Submission{{Queue: "q"}, {Queue: "Q!"}})
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || invalid.Fields[0].Location != "body.tasks[1].queue" ||
			invalid.TooLarge {
			t.Fatalf("error: %v", err)
		}
		conf := limits.DefaultQueue("tiny")
		conf.ContextLimit = 3
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		_, err = h.d.Submit(h.ctx, []task.Submission{{Queue: "tiny", Context: []byte(`"abc"`)}})
		if !errors.As(err, &invalid) || !invalid.TooLarge {
			t.Fatalf("error: %v", err)
		}
		h.empty()
	})
}

func TestBulkActionByWhatSeemsStuckIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		h.many(1)
		var wrong *task.InvalidError
		stuck := store.Filter{Stuck: &store.Suspicion{}}
		got, err := h.d.ActAll(t.Context(),
			store.Action{Kind: task.KindCancelled, By: "me"}, stuck, task.ID{}, false)
		if got.Changed != 0 || !errors.As(err, &wrong) {
			t.Errorf("%d were cancelled, %v", got.Changed, err)
		}
		h.close()
	})
}
