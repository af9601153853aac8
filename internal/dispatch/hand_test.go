package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestTaskGoesStraightToTheWaitingWorker(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		got := make(chan []task.Handout)
		go func() { got <- h.holdFor("w", 10, time.Minute) }()
		synctest.Wait()
		begin := time.Now()
		id := h.submit(task.Submission{Queue: "q", Stage: "s",
			Context: []byte(`{"a": 9007199254740993}`)})[0]
		list := <-got
		if len(list) != 1 || list[0].ID != id || list[0].Stage != "s" ||
			string(list[0].Context) != `{"a": 9007199254740993}` || list[0].Attempt != 1 {
			t.Fatalf("got %+v", list)
		}
		if time.Since(begin) > 50*time.Millisecond {
			t.Errorf("it took %v of the bubble's time: it was fetched, not pushed",
				time.Since(begin))
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
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: worker, Queues: []string{"q"}, Limit: 100, Ahead: ahead, Wait: wait,
			})
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
		if err := h.d.DrainWorker(h.ctx, "greedy", store.Drain{}); err != nil {
			t.Fatal(err)
		}
		if n := len(hold("greedy", 100, 0)); n != 0 {
			t.Errorf("%d while draining", n)
		}
	})
}

func TestIdlePollsEndTogetherAndNeverLate(t *testing.T) {
	for wait := time.Nanosecond; wait <= limits.MaxWait; wait = wait*5/4 + 1 {
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

// Who asks for more than one answer holds gets as much as it holds, and so does who names no limit
// where the queue's is greater.
func TestLimitOfAHoldIsCapped(t *testing.T) {
	for worker, limit := range map[string]int{"greedy": 1 << 40, "modest": 0} {
		bubble(t, func(t *testing.T, h *house) {
			changed, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
				*q = limits.DefaultQueue("q")
				q.HoldLimit = 5000
				return nil
			})
			if err != nil || changed.Is.HoldLimit != limits.MaxHold {
				t.Fatalf("the queue's is %d, %v", changed.Is.HoldLimit, err)
			}
			h.many(limits.MaxHold + 200)
			h.beat(worker, "1", 5000)
			if got := h.hold(worker, limit); len(got) != limits.MaxHold {
				t.Errorf("%s asked for %d, and got %d", worker, limit, len(got))
			}
			if _, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: -1,
			}); !strings.Contains(fmt.Sprint(err), "body.limit: must not be negative") {
				t.Errorf("a negative limit: %v", err)
			}
		})
	}
}
