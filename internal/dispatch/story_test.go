package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/storetest"
	"github.com/rotahq/rota/task"
)

func TestTaskGoesStraightToTheWaitingWorker(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		got := make(chan []task.Handout)
		go func() { got <- h.holdFor("w", 10, time.Minute) }()
		synctest.Wait()
		begin := time.Now()
		id := h.submit(task.Submission{Queue: "q", Stage: "s", Context: []byte(`{"a": 9007199254740993}`)})[0]
		list := <-got
		if len(list) != 1 || list[0].ID != id || list[0].Stage != "s" || string(list[0].Context) != `{"a": 9007199254740993}` || list[0].Attempt != 1 {
			t.Fatalf("got %+v", list)
		}
		if time.Since(begin) > 50*time.Millisecond {
			t.Errorf("it took %v of the bubble's time: it was fetched, not pushed", time.Since(begin))
		}
		h.state(id, task.Running)
		h.counts(task.Counts{Running: 1})
		h.report("w", list[0], task.Next("", nil), task.Invalid)
		h.report("w", list[0], task.Finish(1), task.Recorded)
		h.report("w", list[0], task.Finish(1), task.Repeated)
		h.report("w", list[0], task.Finish(2), task.Stale)
		h.state(id, task.Done)
		h.counts(task.Counts{Done: 1})
		h.empty()
	})
}

func TestHoldWithoutWaitingFetchesWhatTheStoreHas(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(5)
		got := h.hold("w", 3)
		if len(got) != 3 || got[0].ID != ids[0] || got[2].ID != ids[2] {
			t.Fatalf("got %+v", got)
		}
		if got := h.hold("w", 10); len(got) != 2 {
			t.Fatalf("the second hold got %d, want the other 2", len(got))
		}
	})
}

func TestReadyTasksGoToTheWorkerWithTheMostFreeCapacity(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("small", "1", 2)
		h.beat("large", "1", 6)
		counts := make(chan string)
		for _, w := range []string{"small", "large"} {
			go func() { counts <- fmt.Sprint(w, len(h.holdFor(w, 100, time.Minute))) }()
		}
		synctest.Wait()
		h.many(4)
		got := []string{<-counts}
		select { // with four tasks the large one, having six free, is never behind the small one
		case s := <-counts:
			got = append(got, s)
		case <-time.After(time.Second):
		}
		if !slices.Equal(got, []string{"large4"}) {
			t.Fatalf("got %v", got)
		}
		h.many(2) // two free each: one for the one that waits, and it waits alone
		if s := <-counts; s != "small2" {
			t.Fatalf("got %v", s)
		}
	})
}

func TestWorkerNeverGetsMoreThanItsCapacity(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("w", "1", 2)
		h.many(10)
		got := h.hold("w", 100)
		if len(got) != 2 {
			t.Fatalf("got %d tasks with a capacity of 2", len(got))
		}
		if more := h.hold("w", 100); len(more) != 0 {
			t.Fatalf("got %d more while full", len(more))
		}
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 100, time.Minute) }()
		synctest.Wait()
		h.report("w", got[0], task.Finish(nil), task.Recorded)
		if next := <-waiting; len(next) != 1 {
			t.Fatalf("a place became free, got %d", len(next))
		}
		h.beat("w", "1", 0, got[1])
		if more := h.hold("w", 100); len(more) != 0 {
			t.Fatalf("got %d tasks with a capacity of 0", len(more))
		}
	})
}

func TestTasksAheadAreGivenOnlyWhenNobodyHasFreeCapacity(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.beat("greedy", "1", 2)
		h.beat("modest", "1", 3)
		hold := func(worker string, ahead int, wait time.Duration) []task.Handout {
			a, err := h.d.Hold(h.ctx, task.HoldRequest{Worker: worker, Queues: []string{"q"}, Limit: 100, Ahead: ahead, Wait: wait})
			if err != nil {
				t.Error(err)
			}
			return a.Tasks
		}
		got := map[string]chan int{"greedy": make(chan int), "modest": make(chan int)}
		go func() { got["greedy"] <- len(hold("greedy", 5, time.Minute)) }()
		go func() { got["modest"] <- len(hold("modest", 0, time.Minute)) }()
		synctest.Wait()
		h.many(20)
		if n := <-got["modest"]; n != 3 {
			t.Errorf("the one with three free got %d", n)
		}
		if n := <-got["greedy"]; n != 7 {
			t.Errorf("the one with two free and five ahead got %d", n)
		}
		if n := len(hold("greedy", 5, 0)) + len(hold("modest", 0, 0)); n != 0 {
			t.Errorf("%d more while both are full", n)
		}
		if n := len(hold("greedy", 6, 0)); n != 1 {
			t.Errorf("one more ahead got %d", n)
		}
		if err := h.d.DrainWorker(h.ctx, "greedy", true); err != nil {
			t.Fatal(err)
		}
		if n := len(hold("greedy", 100, 0)); n != 0 {
			t.Errorf("%d while draining", n)
		}
	})
}

func TestIdlePollsEndTogetherAndNeverLate(t *testing.T) {
	for wait := time.Nanosecond; wait <= task.MaxWait; wait = wait*5/4 + 1 {
		ends := map[time.Duration]bool{}
		for now := time.Duration(0); now < wait/2; now += wait/100 + 1 {
			d := together(now, wait)
			if d > wait || d < wait-wait/32 || d <= 0 {
				t.Fatalf("%v at %v became %v", wait, now, d)
			}
			ends[now+d] = true
		}
		if wait > time.Microsecond && len(ends) > 35 {
			t.Errorf("polls of %v that begin within its half end at %d moments", wait, len(ends))
		}
	}
}

func TestStagesPassTheirContextOn(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q", Stage: "read", Context: []byte(`"a"`)})[0]
		first := h.one("w")
		h.report("w", first, task.Next("digest", "b"), task.Recorded)
		second := h.one("w")
		if second.ID != id || second.Stage != "digest" || string(second.Context) != `"b"` || second.Attempt != 1 {
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
		if v.State != task.Done || string(v.Result) != `"ok"` || len(v.Steps) != 4 || v.Steps[1].Error != "no luck" {
			t.Fatalf("view: %+v", v)
		}
		h.empty()
	})
}

func TestRetriesWaitOneTwoFourEightSecondsAndThenTheTaskIsDead(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := task.DefaultQueue("q")
		conf.Retry.Jitter = 0
		if _, err := h.d.PutQueue(h.ctx, conf); err != nil {
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
		if want := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}; !slices.Equal(waits, want) {
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

func TestSilentWorkerLosesItsTasksWithinItsLimitAndABeat(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("a", "1", 1)
		got := h.one("a")
		h.beat("a", "1", 1, got)
		begin := time.Now()
		again := h.one("b")
		if took := time.Since(begin); again.ID != id || took < task.DefaultSilence || took > task.DefaultSilence+2*time.Second {
			t.Errorf("handed out again after %v", took)
		}
		if again.Attempt != 2 {
			t.Errorf("attempt %d: lost is charged", again.Attempt)
		}
		h.report("a", got, task.Finish(nil), task.Stale)
		h.report("b", again, task.Finish(nil), task.Recorded)
	})
}

func TestWorkerThatNeverBeatsKeepsItsTaskUntilTheHardLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		got := h.one("curl")
		time.Sleep(task.DefaultTimeout - time.Minute)
		h.report("curl", got, task.Finish(nil), task.Recorded)
	})
}

func TestTokenIsGoodForItsOwnTaskOnly(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(3)
		a, b := h.one("a"), h.one("b")
		if a.Token == b.Token {
			t.Error("two tasks share their token")
		}
		for _, id := range []task.ID{b.ID, ids[2]} {
			stolen := a
			stolen.ID = id
			want := task.Stale
			h.report("a", stolen, task.Fail(errors.New("mine")), want)
		}
		h.report("b", b, task.Finish(nil), task.Recorded)
		h.state(ids[2], task.Ready)
	})
}

func TestHandOutMissingFromTwoBeatsIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		got := h.one("w")
		h.beat("w", "1", 5)
		h.beat("w", "1", 5, got) // it was only late
		h.beat("w", "1", 5)
		h.state(id, task.Running)
		h.beat("w", "1", 5)
		if again := h.one("w"); again.ID != id || again.Token == got.Token {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestBeatsBeforeTheAnswerIsWrittenSayNothingAboutIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		a, err := h.d.Hold(h.ctx, task.HoldRequest{Worker: "w", Queues: []string{"q"}})
		if err != nil || len(a.Tasks) != 1 {
			t.Fatal(a, err)
		}
		for range 3 {
			h.beat("w", "1", 5)
		}
		h.state(id, task.Running)
		h.report("w", a.Tasks[0], task.Finish(nil), task.Recorded)
	})
}

func TestRestartedWorkerLosesWhatItHadAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("w", "1", 5)
		h.one("w")
		h.beat("w", "2", 5)
		if again := h.one("w"); again.ID != id || again.Attempt != 2 {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestLeavingWorkerGivesItsTasksBackUncharged(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.beat("a", "1", 5)
		got := h.one("a")
		if _, err := h.d.Beat(h.ctx, task.Beat{Worker: "a", Incarnation: "1", Tasks: []task.Held{{ID: got.ID, Token: got.Token}}, Leaving: true}); err != nil {
			t.Fatal(err)
		}
		if again := h.one("b"); again.ID != id || again.Attempt != 1 {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestManySilentWorkersGetOneMoreLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(6)
		begin := time.Now()
		for i := range 6 {
			w := fmt.Sprint("w", i)
			h.beat(w, "1", 1)
			h.beat(w, "1", 1, h.one(w))
		}
		h.one("late")
		if took := time.Since(begin); took < 2*task.DefaultSilence || took > 2*task.DefaultSilence+4*time.Second {
			t.Errorf("judged after %v, want two limits", took)
		}
	})
}

func TestNodeThatWasStoppedJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, storetest.NewModel(time.Now))
		id := h.many(1)[0]
		h.beat("w", "1", 1)
		got := h.one("w")
		h.beat("w", "1", 1, got)
		h.d.turn(time.Now())
		time.Sleep(time.Second / 2)
		h.halt() // SIGSTOP: no round for a minute
		time.Sleep(time.Minute)
		h.d.turn(time.Now())
		h.state(id, task.Running)
		h.report("w", got, task.Finish(nil), task.Recorded)
		if err := h.d.Close(h.ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestTokenOutlivesItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		h := open(t, store)
		old, young := h.many(1)[0], task.ID{}
		h.beat("w", "1", 9)
		first := h.one("w")
		time.Sleep(2500 * time.Millisecond) // a round writes it down
		young = h.many(1)[0]
		second := h.one("w")
		h.halt() // kill -9

		h2 := open(t, store)
		defer h2.close()
		h2.beat("w", "1", 9, first, second)
		got := h2.holdFor("x", 10, time.Second)
		if len(got) != 1 || got[0].ID != young {
			t.Fatalf("after the take-over %+v is handed out, want only the young %s", got, young)
		}
		if a := h2.beat("w", "1", 9, first, second); a[old] != task.ActionContinue || a[young] != task.ActionStale {
			t.Errorf("the worker is told %v", a)
		}
		h2.report("w", second, task.Finish(nil), task.Stale)
		h2.report("w", first, task.Finish(nil), task.Recorded)
		h2.report("x", got[0], task.Finish(nil), task.Recorded)
		h2.counts(task.Counts{Done: 2})
		h2.empty()
	})
}

func TestWorkerThatDiesBeforeItsFirstBeatHereIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		a, err := h.d.Hold(h.ctx, task.HoldRequest{Worker: "w", Queues: []string{"q"}, Incarnation: "1"})
		if err != nil || len(a.Tasks) != 1 {
			t.Fatal(a, err)
		}
		a.Written()
		begin := time.Now()
		if again := h.one("x"); again.ID != id || again.Attempt != 2 || time.Since(begin) > task.DefaultSilence+2*time.Second {
			t.Fatalf("again after %v: %+v", time.Since(begin), again)
		}
	})
}

func TestDeadWorkersTaskIsFoundAfterATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		h := open(t, store)
		id := h.many(1)[0]
		h.beat("w", "1", 9)
		h.one("w")
		time.Sleep(2500 * time.Millisecond)
		h.halt()
		h2 := open(t, store)
		defer h2.close()
		if again := h2.one("x"); again.ID != id || again.Attempt != 2 {
			t.Fatalf("again: %+v", again)
		}
	})
}

func TestTaskThatKillsItsProcessIsChargedAndFinallyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		ids := []task.ID{}
		runs := 0
		for round := 0; ; round++ {
			if round > 20 {
				t.Fatal("it kills for ever")
			}
			h := open(t, store)
			if round == 0 {
				ids = h.many(3)
			}
			h.beat("n", fmt.Sprint(round), 9)
			got := h.holdFor("n", 9, time.Second)
			for round > 3 && len(got) > 1 {
				t.Fatalf("round %d: %d tasks of a span that killed three holders are out at once", round, len(got))
			}
			killed := false
			for len(got) > 0 && !killed {
				for _, x := range got {
					if killed = x.ID == ids[1]; killed {
						runs++
						break
					}
					h.report("n", x, task.Finish(nil), task.Recorded)
				}
				if !killed {
					got = h.holdFor("n", 9, time.Second)
				}
			}
			if !killed {
				h.state(ids[0], task.Done)
				h.state(ids[1], task.Dead)
				h.state(ids[2], task.Done)
				h.close()
				break
			}
			h.halt()
		}
		if runs < task.DefaultMaxAttempts || runs > task.DefaultMaxAttempts+1 {
			t.Errorf("it killed %d processes; after the first, each is charged: want %d or one more", runs, task.DefaultMaxAttempts)
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
		if s := v.Steps[0]; v.Worker != "w" || s.Worker != "w" || s.Started.IsZero() || s.Error != "asked for by me" {
			t.Errorf("it does not tell whose work was cancelled: %+v", v)
		}
		if a := h.beat("w", "1", 5, got)[id]; a != task.ActionCancel {
			t.Errorf("the worker is told %q", a)
		}
		h.report("w", got, task.Finish(nil), task.Stale)
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", id); !errors.Is(err, rows.ErrConflict) {
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
		if err := h.d.Act(h.ctx, task.KindMoved, "me", id); !errors.Is(err, rows.ErrConflict) {
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
		for _, it := range h.d.items {
			if it.place == ready {
				t.Errorf("task %s is still held ready", it.id)
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
		store := storetest.NewModel(time.Now)
		h := open(t, store)
		h.beat("w", "1", 5)
		if err := h.d.DrainWorker(h.ctx, "w", true); err != nil {
			t.Fatal(err)
		}
		h.close()
		h2 := open(t, store)
		defer h2.close()
		h2.many(1)
		if got := h2.holdFor("w", 1, time.Second); len(got) != 0 {
			t.Fatal("a drained worker got a task")
		}
		if err := h2.d.DrainWorker(h2.ctx, "w", false); err != nil {
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
		store := storetest.NewModel(time.Now)
		h := open(t, store)
		h.many(4)
		h.beat("w", "1", 1)
		out := h.one("w")
		h.close()
		h2 := open(t, store)
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
		if !errors.As(err, &invalid) || invalid.Fields[0].Location != "body.tasks[1].queue" || invalid.TooLarge {
			t.Fatalf("error: %v", err)
		}
		conf := task.DefaultQueue("tiny")
		conf.ContextLimit = 3
		if _, err := h.d.PutQueue(h.ctx, conf); err != nil {
			t.Fatal(err)
		}
		_, err = h.d.Submit(h.ctx, []task.Submission{{Queue: "tiny", Context: []byte(`"abc"`)}})
		if !errors.As(err, &invalid) || !invalid.TooLarge {
			t.Fatalf("error: %v", err)
		}
		h.empty()
	})
}
