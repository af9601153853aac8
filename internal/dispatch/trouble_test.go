package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

var errHiccup = errors.New("hiccup")

func hiccup() error { return errHiccup }

func TestReportWhoseNeighbourCannotBeReadIsNotStuck(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(2)
		h.beat("a", "1", 4)
		got := h.holdFor("a", 2, time.Minute)
		h.report("a", got[0], task.Finish(nil), task.Recorded)
		h.door.BeforeNext("Stand", hiccup)
		_, err := h.d.Report(h.ctx, "a", []task.Report{
			{ID: got[1].ID, Token: got[1].Token, Outcome: task.Finish(nil)},
			{ID: got[0].ID, Token: got[0].Token, Outcome: task.Finish(nil)},
		})
		if !errors.Is(err, errHiccup) {
			t.Fatalf("error: %v", err)
		}
		begin := time.Now() // and the worker dies
		if again := h.one("b"); again.ID != ids[1] ||
			time.Since(begin) > limits.DefaultSilence+3*time.Second {
			t.Fatalf("again after %v: %+v", time.Since(begin), again)
		}
	})
}

func TestSilenceIsJudgedAgainWhenItsSettlementFailed(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		h.beat("a", "1", 4)
		h.one("a")
		h.door.BeforeNext(settleReports, hiccup)
		begin := time.Now()
		h.one("b")
		if took := time.Since(begin); took > limits.DefaultSilence+4*time.Second {
			t.Errorf("handed out again after %v", took)
		}
	})
}

// A flight that fails does not know what became of the spans that it was to delete: one that was
// dropped meanwhile, as when somebody took it over, has a task that goes on.
func TestSpanThatIsDroppedDuringAFailedSettlementIsNotDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		x := h.one("w")
		h.door.BeforeNext(settleReports, func() error {
			h.d.mu.Lock()
			defer h.d.release()
			h.d.mem.item(id).span.drop()
			return errHiccup
		})
		report := []task.Report{{ID: id, Token: x.Token, Outcome: task.Finish(nil)}}
		if _, err := h.d.Report(h.ctx, "w", report); !errors.Is(err, errHiccup) {
			t.Fatalf("the report is answered %v", err)
		}
		time.Sleep(10 * time.Second) // rounds
		stood, err := h.store.Stand(h.ctx, []task.ID{id})
		if err != nil || stood[0].Final || stood[0].Owner.ID == 0 {
			t.Fatalf("the task stands as %+v: %v", stood, err)
		}
		h.report("w", x, task.Finish(nil), task.Recorded)
	})
}

func TestLeavingWorkerWhoseTasksCouldNotBeGivenBackIsFoundSilent(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(2)
		h.beat("a", "1", 4)
		h.beat("b", "1", 4)
		h.one("a")
		h.one("b")
		h.door.BeforeNext(settleReports, hiccup)
		if _, err := h.d.Beat(
			h.ctx, task.Beat{Worker: "a", Incarnation: "1", Leaving: true},
		); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.door.BeforeNext(settleReports, hiccup)
		if err := h.d.DeleteWorker(h.ctx, "b"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		h.one("c")
		h.one("c")
		if took := time.Since(begin); took > limits.DefaultSilence+4*time.Second {
			t.Errorf("handed out again after %v", took)
		}
	})
}

func TestNextStageHandedOutDuringASyncStaysWithItsWorker(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		first := h.one("a")
		var second task.Handout
		time.Sleep(1500 * time.Millisecond)
		<-h.door.BeforeNext("Sync", func() error { // the sync has asked for stage one already
			h.report("a", first, task.Next("two", nil), task.Recorded)
			second = h.one("b")
			return nil
		})
		time.Sleep(1500 * time.Millisecond)
		if got := h.holdFor("c", 1, 3*time.Second); len(got) != 0 {
			t.Fatalf("c got %s, b has %s", got[0].Token, second.Token)
		}
		h.report("b", second, task.Finish(nil), task.Recorded)
	})
}

// twoOut has one task out at b, and another, of the same span, asleep.
func twoOut(h *house) (b task.Handout) {
	var a task.Handout
	done := make(chan bool)
	go func() { a = h.one("a"); done <- true }()
	synctest.Wait()
	go func() { b = h.one("b"); done <- true }()
	synctest.Wait()
	h.many(2)
	<-done
	<-done
	h.report("a", a, task.RetryAfter(20*time.Second, errHiccup), task.Recorded)
	return b
}

func TestFailedGiveBackDoublesNoHandOut(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		time.Sleep(1100 * time.Millisecond)
		b := twoOut(h)
		tried := h.door.BeforeNext("Give", hiccup)
		if err := h.d.PauseQueue(h.ctx, "q", true); err != nil {
			t.Fatal(err)
		}
		<-tried
		time.Sleep(time.Second)
		if err := h.d.PauseQueue(h.ctx, "q", false); err != nil {
			t.Fatal(err)
		}
		for _, c := range h.holdFor("c", 2, 10*time.Second) {
			if c.ID == b.ID {
				t.Fatalf("c got %s, which b has", c.Token)
			}
		}
		h.report("b", b, task.Finish(nil), task.Recorded)
	})
}

func TestHoldThatComesDuringAGiveBackIsServedAfterIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		twoOut(h)
		served := make(chan time.Duration)
		h.door.BeforeNext("Give", func() error {
			go func() {
				begin := time.Now()
				h.one("c")
				served <- time.Since(begin)
			}()
			time.Sleep(200 * time.Millisecond)
			return nil
		})
		took := <-served
		if took > 21*time.Second {
			t.Errorf("served %v after the hold", took)
		}
	})
}

func TestTwoHandOutsOfOneTaskAtOneWorkerAreToldApart(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := limits.DefaultQueue("q")
		conf.Timeout = 2 * time.Second
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		h.many(1)
		h.beat("a", "1", 4)
		old := h.one("a")
		time.Sleep(2500 * time.Millisecond)
		conf.Timeout = time.Hour
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		fresh := h.one("a")
		for range 3 {
			h.beat("a", "1", 4, fresh, old)
		}
		h.report("a", fresh, task.Finish(nil), task.Recorded)
	})
}

func TestPauseThatComesDuringAReloadStands(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := limits.DefaultQueue("q")
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		paused := make(chan error, 1)
		// the old configurations are read already
		h.door.AfterNext("Queues", func(err error) error {
			go func() { paused <- h.d.PauseQueue(h.ctx, "q", true) }()
			for i := 0; i < 1000 && len(paused) == 0; i++ { // if it can, it comes in between
				runtime.Gosched()
			}
			return err
		})
		if _, err := h.d.reloadQueues(h.ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-paused; err != nil {
			t.Fatal(err)
		}
		h.many(1)
		if got := h.holdFor("a", 1, 5*time.Second); len(got) != 0 {
			t.Fatal("a task of a paused queue was handed out")
		}
	})
}

func TestCancelOfAPoisonousTaskLetsItsNeighbourOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		conf := limits.DefaultQueue("q")
		conf.MaxAttempts = 100
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		h.many(2)
		for range 3 {
			h.holdFor("x", 2, 10*time.Second)
			h.kill()
			time.Sleep(11 * time.Second)
			h = open(t, db)
		}
		defer func() { h.close() }()
		if _, err := h.d.Beat(
			h.ctx, task.Beat{Worker: "x", Incarnation: "2", Leaving: true},
		); err != nil {
			t.Fatal(err)
		}
		var got []task.Handout
		for len(got) == 0 {
			got = h.holdFor("a", 2, time.Minute)
		}
		if len(got) != 1 {
			t.Fatalf("%d tasks of a poisonous span are out at once", len(got))
		}
		time.AfterFunc(500*time.Millisecond, func() {
			if err := h.d.Act(h.ctx, task.KindCancelled, "me", got[0].ID); err != nil {
				t.Error(err)
			}
		})
		begin := time.Now()
		h.one("b")
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the neighbour came after %v", took)
		}
	})
}

// A task whose node has died is written down before it is handed out. While the store can't do that
// who waits for it goes on waiting, and the store is asked once in a second.
func TestHoldWaitsWhileItsTaskCannotBeWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		h.many(1)
		h.one("x")
		h.kill()
		time.Sleep(11 * time.Second)
		h = open(t, db)
		defer func() { h.close() }()
		h.door.Answer("Sync", errHiccup)
		if _, err := h.d.Beat(
			h.ctx, task.Beat{Worker: "x", Incarnation: "2", Leaving: true},
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		before, began := h.door.Calls("Sync"), time.Now()
		var got []task.Handout
		held := make(chan struct{})
		go func() {
			defer close(held)
			got = h.holdFor("a", 1, time.Minute)
		}()
		time.Sleep(10 * time.Second)
		if n := h.door.Calls("Sync") - before; n < 5 || n > 25 { // rounds ask, too
			t.Errorf("the store was asked %d times in 10 s", n)
		}
		h.door.Answer("Sync", nil)
		<-held
		if took := time.Since(began); len(got) != 1 || took > 12*time.Second {
			t.Errorf("%d tasks came after %v", len(got), took)
		}
	})
}

func TestImpatientQueueAsksForFasterBeats(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := limits.DefaultQueue("q")
		conf.Silence = 3 * time.Second
		if _, err := h.d.ChangeQueue(h.ctx, conf.Name, store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		h.many(1)
		got := h.one("a")
		a, err := h.d.Beat(h.ctx, task.Beat{
			Worker: "a", Incarnation: "1", Capacity: 1,
			Tasks: []task.Held{{ID: got.ID, Token: got.Token}},
		})
		if err != nil || a.Beat != time.Second {
			t.Fatalf("told to beat in %v, want 1s; %v", a.Beat, err)
		}
		begin := time.Now()
		h.one("b")
		if took := time.Since(begin); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("judged after %v", took)
		}
	})
}

func TestManyDueTimesAreNotAllHeldForOneWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		go h.d.Hold(h.ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Minute,
		})
		synctest.Wait()
		subs := make([]task.Submission, 500)
		for i := range subs {
			subs[i] = task.Submission{Queue: "q", Priority: time.Duration(i) * time.Second}
		}
		h.submit(subs...)
		h.d.mu.Lock()
		defer h.d.mu.Unlock()
		if n := h.d.mem.held(); n > 10 {
			t.Errorf("%d tasks are held for one waiter", n)
		}
	})
}

// Whoever waits for a write is told as soon as it is known that nobody answers.
func TestWritesAreNotTriedWhileTheStoreIsOutOfReach(t *testing.T) {
	var out atomic.Bool
	reach := func() error {
		if out.Load() {
			return store.ErrOutOfReach
		}
		return nil
	}
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		task1 := h.one("a")
		// its answer does not come, and meanwhile that is known
		h.door.BeforeNext(settleReports, func() error {
			time.Sleep(3 * time.Second)
			out.Store(true)
			return store.ErrUnknown
		})
		begin := time.Now()
		_, err := h.d.Report(h.ctx, "a",
			[]task.Report{{ID: task1.ID, Token: task1.Token, Outcome: task.Finish(nil)}})
		if took := time.Since(begin); !errors.Is(err, store.ErrUnknown) ||
			took > 3*time.Second+100*time.Millisecond {
			t.Errorf("report: %v after %v", err, took)
		}
		asked := h.door.BeforeNext(settleReports, func() error { return nil })
		begin = time.Now()
		_, err = h.d.Report(h.ctx, "a",
			[]task.Report{{ID: task1.ID, Token: task1.Token, Outcome: task.Finish(nil)}})
		if !errors.Is(err, store.ErrOutOfReach) || errors.Is(err, store.ErrUnknown) ||
			time.Since(begin) > 0 {
			t.Errorf("another report: %v after %v", err, time.Since(begin))
		}
		if isClosed(asked) {
			t.Error("the store was asked")
		}
		if _, err := h.d.Submit(
			h.ctx, []task.Submission{{Queue: "q"}},
		); !errors.Is(err, store.ErrOutOfReach) {
			t.Errorf("submit: %v", err)
		}
		out.Store(false)
		h.report("a", task1, task.Finish(nil), task.Recorded)
	}, func(c *Config) { c.Reach = reach })
}

func TestLargeContextThatBreaksTheStoreEndsTheNode(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.halt() // who runs hears of it in place of the test
		h.door.BeforeNext("Keep", func() error { return store.ErrBroken })
		large := json.RawMessage(`"` + strings.Repeat("x", store.InlineLimit) + `"`)
		if _, err := h.d.Submit(h.ctx, []task.Submission{{Queue: "q", Context: large}}); !errors.Is(
			err, store.ErrBroken,
		) {
			t.Errorf("the submission is answered %v", err)
		}
		ctx, cancel := context.WithTimeout(h.ctx, time.Minute)
		defer cancel()
		if err := h.d.Run(ctx); !errors.Is(err, store.ErrBroken) {
			t.Errorf("the node ends with %v", err)
		}
	})
}
