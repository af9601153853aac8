package dispatch

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// limits gives queue q a timeout and no pause before retries.
func (h *house) limits(timeout time.Duration) {
	h.t.Helper()
	_, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
		q.Timeout, q.Retry.Initial = timeout, 0
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// running counts the tasks of queue q that run, by the store.
func (h *house) running() int64 {
	h.t.Helper()
	got, err := h.store.Counts(h.ctx, "q")
	if err != nil {
		h.t.Fatal(err)
	}
	return got[0].Counts.Running
}

func TestAttemptPastItsLimitIsJudgedThoughNobodyHoldsItsSpanNorAsks(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.limits(20 * time.Second)
		got := map[string][]task.Handout{}
		var mu sync.Mutex
		for _, w := range []string{"w0", "w1"} { // they never beat
			go func() {
				list := h.holdFor(w, 5, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				got[w] = list
			}()
		}
		synctest.Wait()
		h.many(10) // one span for both
		synctest.Wait()
		for _, t := range got["w1"] {
			// the span has idle tasks: it is given back whole, with what w0 runs
			h.report("w1", t, task.Release(), task.Recorded)
		}
		time.Sleep(10 * time.Second)
		if n, spans := h.running(), len(h.d.mem.spans); n != 5 || spans != 0 {
			t.Fatalf("%d tasks run and %d spans are held, want 5 and none", n, spans)
		}
		time.Sleep(12*time.Second + 100*time.Millisecond) // two beats past their limit
		if n := h.running(); n != 0 {
			t.Errorf("%d tasks still run two beats past their limit", n)
		}
		h.counts(task.Counts{Ready: 10})
		for _, t := range got["w0"] {
			h.report("w0", t, task.Finish(nil), task.Stale)
		}
	})
}

func TestAttemptOfANodeThatDiedIsJudgedBeforeItsSpansAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a, b := openAs(t, db, "a"), openAs(t, db, "b")
		defer b.close()
		a.limits(5 * time.Second)
		a.many(1)
		got := a.hold("w", 1)
		time.Sleep(3 * time.Second)
		a.kill()
		time.Sleep(4*time.Second + 100*time.Millisecond)
		if n := b.running(); n != 0 {
			t.Errorf("%d tasks still run two beats past their limit", n)
		}
		b.report("w", got[0], task.Finish(nil), task.Stale)
	})
}

func TestOverdueAttemptsAreJudgedInBoundedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const extra = 10
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		a.limits(time.Minute)
		for range judgedPieces {
			a.many(judgedAtOnce)
		}
		a.many(extra)
		for got, i := 0, 0; got < judgedPieces*judgedAtOnce+extra; i++ {
			got += len(a.hold(fmt.Sprint("w", i), judgedAtOnce))
		}
		time.Sleep(2 * time.Second)
		a.kill()
		time.Sleep(2 * time.Minute)
		b := openAs(t, db, "b") // it frees what a held
		defer b.close()
		b.door.Forget()
		time.Sleep(1100 * time.Millisecond)
		if n := b.running(); n != extra {
			t.Errorf("%d tasks still run after one round, want %d", n, extra)
		}
		if n := b.door.Calls("Overdue"); n != judgedPieces {
			t.Errorf("one round asked %d times, want %d", n, judgedPieces)
		}
		time.Sleep(time.Second)
		if n := b.running(); n != 0 {
			t.Errorf("%d tasks still run after two rounds", n)
		}
	})
}
