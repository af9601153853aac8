package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// within submits n tasks to queue q that are to be begun in time.
func (h *house) within(n int, d time.Duration) []task.ID {
	h.t.Helper()
	subs := make([]task.Submission, n)
	for i := range subs {
		subs[i] = task.Submission{Queue: "q", StartWithin: d}
	}
	return h.submit(subs...)
}

func TestTaskThatNobodyBeginsExpires(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.within(1, 30*time.Second)[0]
		due := h.view(id).Due
		if v := h.view(id); v.State != task.Ready || !v.Expires.Equal(due.Add(30*time.Second)) {
			t.Fatalf("at first: %+v", v)
		}
		time.Sleep(29 * time.Second)
		h.state(id, task.Ready)
		time.Sleep(3 * time.Second)
		v := h.view(id)
		if v.State != task.Expired || v.Steps[0].Kind != task.KindExpired ||
			v.Steps[0].Error != expiredText(due.Add(30*time.Second).UnixMicro()) {
			t.Fatalf("in the end: %+v", v)
		}
		if got := h.hold("w", 1); len(got) > 0 {
			t.Errorf("it went out: %+v", got)
		}
		h.counts(task.Counts{Expired: 1})
		h.empty()
		if err := h.d.Act(h.ctx, task.KindReplayed, "me", id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		h.counts(task.Counts{Done: 1})
	})
}

func TestTimeToStartCountsFromDue(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{
			Queue: "q", Delay: time.Minute, StartWithin: 10 * time.Second,
		})[0]
		time.Sleep(59 * time.Second)
		h.state(id, task.Waiting)
		time.Sleep(9 * time.Second)
		h.state(id, task.Ready)
		time.Sleep(4 * time.Second)
		h.state(id, task.Expired)
	})
}

// The node that looked for the first task has the second one in memory when its time comes.
func TestTaskInMemoryExpiresAtItsInstant(t *testing.T) {
	for _, paused := range []bool{false, true} {
		bubble(t, func(t *testing.T, h *house) {
			h.many(1)
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
			ids := h.submit(
				task.Submission{Queue: "q", StartWithin: 500 * time.Millisecond},
				task.Submission{Queue: "q", StartWithin: 1500 * time.Millisecond})
			time.Sleep(1200 * time.Millisecond)
			if paused {
				if err := h.d.PauseQueue(h.ctx, "q", true); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(250 * time.Millisecond)
			h.state(ids[0], task.Expired)
			h.state(ids[1], task.Ready)
			time.Sleep(70 * time.Millisecond)
			h.state(ids[1], task.Expired)
			h.empty()
		})
	}
}

// A hand-out that is lost, times out or is given back has begun.
func TestTaskThatWasHandedOutNeverExpires(t *testing.T) {
	for _, o := range []task.Outcome{
		task.Release(), task.Snooze(5 * time.Second), task.Snooze(2 * time.Minute),
		task.RetryAfter(time.Second, errHiccup), task.Next("two", nil),
	} {
		bubble(t, func(t *testing.T, h *house) {
			id := h.within(1, 10*time.Second)[0]
			h.report("w", h.one("w"), o, task.Recorded)
			if !h.view(id).Expires.IsZero() {
				t.Error("its view says that it expires")
			}
			time.Sleep(5 * time.Minute)
			if got := h.one("w"); got.ID != id {
				t.Errorf("after %v got %+v", o.Kind, got)
			}
		})
	}
	bubble(t, func(t *testing.T, h *house) {
		id := h.within(1, 10*time.Second)[0]
		h.beat("w", "1", 1)
		h.one("w")
		time.Sleep(5 * time.Minute) // its worker is silent
		if got := h.one("v"); got.ID != id || got.Attempt != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

// Who asks for a task and is gone by the time of the answer has not begun it.
func TestHandOutThatNobodySawIsNoBeginning(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ctx, leave := context.WithCancel(h.ctx)
		var wg sync.WaitGroup
		wg.Go(func() {
			h.d.Hold(ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Minute,
			})
		})
		synctest.Wait()
		h.d.mu.Lock() // the task comes and the caller goes at one time
		leave()
		h.d.release()
		id := h.within(1, 10*time.Second)[0]
		wg.Wait()
		time.Sleep(13 * time.Second)
		h.state(id, task.Expired)
	})
}

func TestSpansThatNobodyHoldsExpireInPieces(t *testing.T) {
	const tasks = 3 * expiredAtOnce
	bubble(t, func(t *testing.T, h *house) {
		h.within(tasks, 10*time.Second)
		rest := h.many(2)
		time.Sleep(14 * time.Second)
		h.counts(task.Counts{Ready: 2, Expired: tasks})
		for range rest {
			h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		}
		h.empty()
	})
}

// What stands in one span with tasks that have expired goes out as before.
func TestNeighboursOfWhatExpiresGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.submit(task.Submission{Queue: "q"},
			task.Submission{Queue: "q", StartWithin: 5 * time.Second}, task.Submission{Queue: "q"},
			task.Submission{Queue: "q", StartWithin: time.Hour})
		time.Sleep(10 * time.Second)
		h.counts(task.Counts{Ready: 3, Expired: 1})
		for _, want := range []int{0, 2, 3} {
			x := h.one("w")
			if x.ID != ids[want] {
				t.Errorf("got %v, want %v", x.ID, ids[want])
			}
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		h.empty()
	})
}

// A node dies with tasks in memory at the instant at which they expire: the node with the chores
// finds them when its spans are free.
func TestHolderDiesAtTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		h.beat("w", "1", 1)
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 1, time.Minute) }()
		synctest.Wait()
		ids := h.within(4, 1500*time.Millisecond)
		first := (<-waiting)[0]
		time.Sleep(1499 * time.Millisecond)
		h.kill()
		time.Sleep(time.Second)
		other := openAs(t, db, "other")
		defer other.close()
		if _, err := db.Free(h.ctx, store.Holder{Node: "n", Token: h.lease.Token},
			time.Now().Add(time.Hour).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		db.EndAll(h.ctx, []store.Lease{h.lease}, false)
		time.Sleep(20 * time.Second)
		for _, id := range ids[1:] {
			other.state(id, task.Expired)
		}
		if got := other.view(first.ID); got.State == task.Expired {
			t.Errorf("the first was handed out before: %+v", got)
		}
	})
}

func TestOnlyTheNodeWithTheChoresLooksForWhatNobodyHolds(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.within(1, 5*time.Second)[0]
		time.Sleep(time.Minute)
		h.state(id, task.Ready)
		if got := h.hold("w", 1); len(got) > 0 {
			t.Errorf("it went out: %+v", got)
		}
		time.Sleep(100 * time.Millisecond)
		h.state(id, task.Expired)
	}, func(c *Config) { c.Judges = func() bool { return false } })
}

// hesitant fails so many settlements of what expired.
type hesitant struct {
	contract.Store
	refuse atomic.Int32
}

func (s *hesitant) Settle(ctx context.Context, set store.Settlement) (store.Settled, error) {
	for i := range set.Reports {
		if set.Reports[i].Step.Kind == task.KindExpired && s.refuse.Add(-1) >= 0 {
			return store.Settled{}, errHiccup
		}
	}
	return s.Store.Settle(ctx, set)
}

func TestStoreThatFailsIsAskedAgainForWhatExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &hesitant{Store: model.New(time.Now)}
		db.refuse.Store(5)
		h := open(t, db)
		defer h.close()
		waiting := make(chan []task.Handout)
		go func() { waiting <- h.holdFor("w", 1, time.Minute) }()
		synctest.Wait()
		ids := h.within(2, 1500*time.Millisecond)
		h.report("w", (<-waiting)[0], task.Finish(nil), task.Recorded)
		time.Sleep(20 * time.Second)
		h.state(ids[1], task.Expired)
		h.counts(task.Counts{Done: 1, Expired: 1})
	})
}

func TestEditSetsAndTakesAwayTheTimeToStart(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := append(h.within(1, 10*time.Second), h.many(1)...)
		for i, d := range []time.Duration{0, 10 * time.Second} {
			if _, err := h.d.Edit(h.ctx, "me", ids[i], task.Edit{StartWithin: &d}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(15 * time.Second)
		h.state(ids[0], task.Ready)
		h.state(ids[1], task.Expired)
		negative := -time.Second
		_, err := h.d.Edit(h.ctx, "me", ids[0], task.Edit{StartWithin: &negative})
		var wrong *task.InvalidError
		if !errors.As(err, &wrong) || wrong.Fields[0].Location != "body.start_within" {
			t.Errorf("a negative one: %v", err)
		}
	})
}

func TestTaskThatExpiresIsToldToTheFinalQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		conf := limits.DefaultQueue("q")
		conf.FinalQueue = "last"
		if _, err := h.d.ChangeQueue(h.ctx, "q", store.Whole(conf)); err != nil {
			t.Fatal(err)
		}
		id := h.within(1, 5*time.Second)[0]
		time.Sleep(10 * time.Second)
		a, err := h.d.Hold(h.ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"last"}, Limit: 1, Wait: time.Minute,
		})
		if err != nil || len(a.Tasks) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		want := fmt.Sprintf(`{"task":"%s","queue":"q","stage":"","state":"expired","outcome":"expired"`, id)
		if got := string(a.Tasks[0].Context); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("the notice says %s", got)
		}
	})
}
