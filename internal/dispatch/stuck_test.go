package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestUsualTimeIsKnownOfTwentyRunsAndIsWhatOneOfAHundredPasses(t *testing.T) {
	var times []store.RunTime
	run := func(stage string, n int, took time.Duration) {
		for range n {
			times = append(times, store.RunTime{Stage: stage, Took: took.Microseconds()})
		}
	}
	run("few", 19, time.Second)
	run("enough", 20, time.Second)
	run("odd one", 1, time.Hour)
	run("odd one", 99, time.Second)
	run("odd two", 2, time.Hour)
	run("odd two", 98, time.Second)
	got := usualTimes(times)
	for stage, want := range map[string]time.Duration{"few": 0, "enough": time.Second,
		"odd one": time.Second, "odd two": time.Hour} {
		if got[stage] != want {
			t.Errorf("%s: %v, want %v", stage, got[stage], want)
		}
	}
}

func TestRunningTaskSeemsStuckForAReason(t *testing.T) {
	now := time.Unix(1e9, 0)
	silent := map[string]int64{"quiet": now.Add(-40 * time.Second).UnixMicro(), "ghost": 0}
	for _, c := range []struct {
		worker     string
		ran, usual time.Duration
		want       string
	}{
		{"w", time.Hour, 0, ""},
		{"w", time.Minute, time.Second, ""},
		{"w", 61 * time.Second, time.Second,
			"runs for 1m1s; 99 of 100 in this queue and stage take at most 1s"},
		{"w", 3 * time.Minute, time.Minute, ""},
		{"w", 181 * time.Second, time.Minute,
			"runs for 3m1s; 99 of 100 in this queue and stage take at most 1m0s"},
		{"quiet", time.Second, 0, "its worker was not heard of for 40s"},
		{"ghost", time.Second, time.Hour, "its worker was never heard of"},
		{"quiet", time.Hour, time.Second,
			"runs for 1h0m0s; 99 of 100 in this queue and stage take at most 1s"},
	} {
		v := &task.View{Worker: c.worker, Started: now.Add(-c.ran)}
		if got := whyStuck(v, now, c.usual, silent); got != c.want {
			t.Errorf("%s for %v: %q, want %q", c.worker, c.ran, got, c.want)
		}
	}
}

func TestStuckTasksAreListedWithTheirReasons(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(stuckRuns)
		for range stuckRuns {
			x := h.one("w")
			time.Sleep(10 * time.Second)
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		h.many(3)
		slow := h.one("w").ID
		stuck := func(suspicion *store.Suspicion, after task.ID, limit int) (ids []task.ID,
			why string, next task.ID) {
			t.Helper()
			page, next, err := h.d.Tasks(h.ctx, store.Filter{Stuck: suspicion}, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page {
				ids, why = append(ids, v.ID), why+v.Stuck
			}
			return ids, why, next
		}
		time.Sleep(61 * time.Second)
		quick := h.one("v").ID
		if ids, why, _ := stuck(
			&store.Suspicion{}, task.ID{}, 10,
		); len(ids) != 1 || ids[0] != slow || !strings.HasPrefix(why, "runs for 1m1s; ") {
			t.Errorf("stuck are %v: %s", ids, why)
		}
		both := &store.Suspicion{
			Silent: map[string]int64{"v": time.Now().Add(-time.Minute).UnixMicro()},
		}
		first, _, next := stuck(both, task.ID{}, 1)
		second, _, end := stuck(both, next, 1)
		if fmt.Sprint(first, second) != fmt.Sprint([]task.ID{quick}, []task.ID{slow}) ||
			next != quick || end != (task.ID{}) {
			t.Errorf("first %v, then %v, next %v, then %v", first, second, next, end)
		}
		if page, _, err := h.d.Tasks(
			h.ctx, store.Filter{Stuck: both, State: task.Ready}, task.ID{}, 10,
		); err != nil || len(page) != 0 {
			t.Errorf("of those that are ready: %v, %v", page, err)
		}
		if v := h.view(slow); v.Started.IsZero() || time.Since(v.Started) != 61*time.Second {
			t.Errorf("it runs since %v", v.Started)
		}
	})
}

// A page looks up what is usual in one queue, and remembers it: the pages that follow are as short
// as that makes them, and list everything.
func TestPageOfStuckTasksLooksUpOneQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		const queues = 5
		var want []task.ID
		for i := range queues {
			queue := fmt.Sprint("q", i)
			id := h.submit(task.Submission{Queue: queue})[0]
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "w", Queues: []string{queue}, Limit: 1, Wait: time.Minute,
			})
			if err != nil || len(a.Tasks) != 1 {
				t.Fatalf("%s: %d tasks, %v", queue, len(a.Tasks), err)
			}
			want = append([]task.ID{id}, want...)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		silent := &store.Suspicion{Silent: map[string]int64{"w": 0}}
		for round, most := range []int{1, 0} {
			var got []task.ID
			for after, pages := (task.ID{}), 1; ; pages++ {
				before := h.door.Calls("RunTimes")
				page, next, err := h.d.Tasks(h.ctx, store.Filter{Stuck: silent}, after, 10)
				if err != nil || pages > queues+1 {
					t.Fatalf("page %d: %v", pages, err)
				}
				if n := h.door.Calls("RunTimes") - before; n > most {
					t.Errorf("round %d: a page looked up %d queues", round, n)
				}
				for _, v := range page {
					got = append(got, v.ID)
				}
				if after = next; next == (task.ID{}) {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("round %d: stuck are %v, want %v", round, got, want)
			}
		}
	})
}

func TestListOfStuckTasksTellsWhatTheStoreSays(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		h.one("w")
		time.Sleep(2 * time.Minute)
		h.door.AfterNext("RunTimes", func(error) error { return store.ErrAway })
		if _, _, err := h.d.Tasks(
			h.ctx, store.Filter{Stuck: &store.Suspicion{}}, task.ID{}, 10,
		); !errors.Is(err, store.ErrAway) {
			t.Errorf("%v", err)
		}
	})
}
