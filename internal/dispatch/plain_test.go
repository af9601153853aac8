package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A task that is done may leave a context behind: it is stored with the outcome.
func TestOutcomeOfAPlainTaskKeepsItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(1)
		h.report("w", h.one("w"), task.Outcome{Kind: task.KindDone, Context: []byte(`{"a":1}`)},
			task.Recorded)
		v, err := h.d.Task(h.ctx, ids[0], 0)
		if err != nil || string(v.Context) != `{"a":1}` {
			t.Errorf("the context is %s: %v", v.Context, err)
		}
	})
}

// What is done wakes nobody any more: a parcel's alarm goes with its last task, whether that stayed
// plain or was named by a beat.
func TestAlarmOfAParcelGoesWithItsLastTask(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		clock := h.d.conf.Clock
		before := clock.Pending()
		h.many(10)
		list := h.hold("w", 10)
		if got := clock.Pending(); len(list) != 10 || got != before+1 {
			t.Fatalf("%d tasks went out, and %d alarms were set", len(list), got-before)
		}
		h.beat("w", "i", 10, list[8:]...)
		for _, x := range list {
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		time.Sleep(time.Second)
		if got := clock.Pending(); got != before {
			t.Errorf("%d alarms are left of tasks that are done", got-before)
		}
	})
}

// A context that an earlier version stored, and that is no JSON, spoils no answer: its task fails,
// plain as it is.
func TestStoredContextThatIsNoJSONIsNotHandedOut(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		sub, ids, err := h.d.Draft(h.ctx, []task.Submission{{Queue: "q"}, {Queue: "q"}})
		if err != nil {
			t.Fatal(err)
		}
		sub.Batches[0].Tasks[0].Context = store.Value("{no JSON")
		if _, err := h.store.Submit(h.ctx, sub); err != nil {
			t.Fatal(err)
		}
		h.d.Hear("q", nil)
		if list := h.hold("w", 2); len(list) != 1 || list[0].ID != ids[1] {
			t.Errorf("%v was handed out, want only %v", list, ids[1])
		}
		time.Sleep(time.Second)
		if v, err := h.d.Task(h.ctx, ids[0], 0); err != nil || v.State != task.Dead {
			t.Errorf("the other one is %s: %v", v.State, err)
		}
	})
}

// An outcome that a transaction recorded is what a view shows, also before the worker has reported.
func TestViewShowsWhatATransactionRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		x := h.one("w")
		token, err := task.ParseToken(x.Token)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.store.Settle(h.ctx, store.Settlement{Reports: []store.Report{{
			ID: x.ID, Queue: "q", Token: token, Step: store.Step{
				Kind: task.KindNext, Stage: "second", ContextSeq: -1, Worker: "w",
				Due: time.Now().Add(time.Minute).UnixMicro(),
			},
		}}})
		if err != nil || got.Verdicts[0] != task.Recorded {
			t.Fatalf("%v: %v", got.Verdicts, err)
		}
		if v := h.view(x.ID); v.State != task.Waiting || v.Stage != "second" {
			t.Errorf("the task is %s in stage %q", v.State, v.Stage)
		}
	})
}

// What was handed out this moment is counted as running, though nothing of it is in the store.
func TestPlainTasksRunFromTheMomentTheyAreHandedOut(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(3)
		h.hold("w", 2)
		h.counts(task.Counts{Ready: 1, Running: 2})
	})
}

// Who is rid of its tasks has the most free capacity, and is first.
func TestReportOfPlainTasksMovesTheirWorkerToTheFront(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("a", "i", 2)
		h.beat("b", "i", 2)
		h.many(3)
		has, other := h.hold("a", 2), h.hold("b", 1)
		if len(has) != 2 || len(other) != 1 {
			t.Fatalf("a got %d, b %d", len(has), len(other))
		}
		got := make(chan string, 2)
		for _, name := range []string{"b", "a"} {
			go func() {
				if len(h.holdFor(name, 1, time.Minute)) > 0 {
					got <- name
				}
			}()
			synctest.Wait()
		}
		for _, x := range has {
			h.report("a", x, task.Finish(nil), task.Recorded)
		}
		h.many(1)
		if name := <-got; name != "a" {
			t.Errorf("%s got the task, and a has more room", name)
		}
		h.many(1)
		<-got
	})
}

// A later start of a worker has none of what an earlier one was given, though that is one parcel.
func TestParcelIsWithTheStartThatGotIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("w", "first", 2)
		h.many(2)
		h.hold("w", 2)
		h.d.mu.Lock()
		defer h.d.mu.Unlock()
		if w := h.d.mem.workers["w"]; !w.is("first") || w.is("second") || w.plain != 2 {
			t.Errorf("with the first start: %v, with the second: %v", w.is("first"), w.is("second"))
		}
	})
}

// A span that is given back is where its first task is, plain or not.
func TestSpanThatIsGivenBackHasTheRankOfItsPlainTasks(t *testing.T) {
	c := newCrowd(0)
	hs := &store.HeldSpan{Span: store.Span{
		ID: 1, Token: 1, Batch: 1, Hi: 1, Queue: "q", Rank: 100, Due: 150,
	}, Tasks: []store.Loaded{
		{N: 0, ContextSeq: -1, HeadStart: 50},
		{
			N: 1, ContextSeq: -1, HeadStart: 50, Due: 900,
			Standing: progress.Standing{Seq: 1, Attempt: 1},
		},
	}}
	c.m.loadSpan(c.q, hs, 200, time.Time{})
	req := c.m.allToGive()
	if want := []store.Move{{Rank: 100, Due: 150}}; !slices.Equal(req.Orders, want) {
		t.Errorf("it is given back at %+v, want %+v", req.Orders, want)
	}
}

// What memory has forgotten before its worker's hold came to fetch it is given to nobody.
func TestWhatIsForgottenBeforeItsHoldFetchesItIsNobodys(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(2)
		h.d.mu.Lock()
		wt, _, err := h.d.mem.wait(task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 2, Wait: time.Second,
		}, time.Now())
		h.d.release()
		synctest.Wait() // for the take
		h.d.mu.Lock()
		defer h.d.release()
		if err != nil || len(wt.given) != 2 {
			t.Errorf("it waits in vain: %v", err)
			return
		}
		kept := wt.given[1].id()
		wt.given[0].item().forget()
		list, tasks := wt.collect(false, time.Now())
		if len(list) != 1 || len(tasks) != 1 || tasks[0].ID != kept {
			t.Errorf("%d tasks were fetched: %v", len(tasks), tasks)
		}
	})
}
