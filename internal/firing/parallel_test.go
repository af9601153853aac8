package firing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// atOnce lets so many tasks run at once, and then overlap decide.
func atOnce(n int, o task.Overlap) func(*store.ScheduleEdit) {
	return func(e *store.ScheduleEdit) { e.Parallel, e.Overlap = n, o }
}

func TestSoManyMayRunAtOnce(t *testing.T) {
	for _, c := range []struct {
		name            string
		overlap         task.Overlap
		parallel        int
		running, queued int
		due             int // how many due times have come
		want, reason    string
		cancel          int
	}{
		{"skip, room for one", task.OverlapSkip, 3, 2, 0, 2, "12:01:00 fired, 12:02:00 skipped", "",
			0},
		{"skip, none", task.OverlapSkip, 2, 2, 0, 1, "12:01:00 skipped",
			"2 of at most 2 tasks are not final, the last that of 2026-03-01T11:59:00Z", 0},
		{"one is as without it", task.OverlapSkip, 1, 1, 0, 1, "12:01:00 skipped",
			"the task of 2026-03-01T11:59:00Z is not final", 0},
		{"queue, room for one", task.OverlapQueue, 3, 2, 0, 2, "12:01:00 fired, 12:02:00 queued", "",
			0},
		{"queue, nobody overtakes", task.OverlapQueue, 3, 1, 1, 1, "12:01:00 queued", "", 0},
		{"replace, room for both", task.OverlapReplace, 3, 1, 0, 2, "12:01:00–12:02:00 fired",
			"", 0},
		{"replace, room for one", task.OverlapReplace, 3, 2, 0, 2, "12:01:00–12:02:00 fired",
			"", 1},
		{"replace, more are due", task.OverlapReplace, 2, 2, 0, 2, "12:01:00–12:02:00 fired",
			"", 2},
		{"replace, too many are due", task.OverlapReplace, 1, 1, 0, 2,
			"12:01:00 skipped, 12:02:00 fired",
			"the task of 2026-03-01T12:02:00Z takes its place", 1},
	} {
		s := about(t, "* * * * *", func(s *store.Schedule) {
			s.Overlap, s.Parallel = c.overlap, c.parallel
		})
		opens(c.running, c.queued)(s)
		d := s.due(noon + int64(c.due)*60e6)
		if got := written(d.part.Fires); got != c.want || len(d.cancel) != c.cancel ||
			c.reason != "" && d.part.Fires[0].Reason != c.reason ||
			int(d.part.Most) != c.parallel {
			t.Errorf("%s: %q (%q), cancels %d, most %d; want %q, %d", c.name, got,
				d.part.Fires[0].Reason, len(d.cancel), d.part.Most, c.want, c.cancel)
		}
		for i, id := range d.cancel {
			if id != s.open[i].Task {
				t.Errorf("%s: cancels %v, not the earliest", c.name, d.cancel)
			}
		}
	}
}

func TestParallelTasksOfASchedule(t *testing.T) {
	for _, c := range []struct {
		overlap task.Overlap
		want    []string
	}{
		{task.OverlapSkip, []string{"10:00:00 fired", "10:01:00 fired", "10:02:00 skipped",
			"10:03:00 fired", "10:04:00 fired", "10:05:00 skipped"}},
		{task.OverlapQueue, []string{"10:00:00 fired", "10:01:00 fired", "10:02:00 fired",
			"10:03:00 fired", "10:04:00 fired", "10:05:00 queued"}},
	} {
		alone(t, "2026-11-21 09:59:30", func(h *house) {
			h.put("s", "* * * * *", atOnce(2, c.overlap))
			for range 4 {
				h.work("n1", "q", 150*time.Second, finish)
			}
			h.Until("2026-11-21 10:05:20")
			h.want("s", c.want...)
		})
	}
}

// Whoever fires: the owner, nodes that think they are, people who backfill at other nodes, and
// whichever writes fail, no more tasks are unfinished at once than may be.
func TestNoMoreRunAtOnceWhoeverFires(t *testing.T) {
	for seed := range uint64(story.Often(6, 2)) {
		for _, o := range []task.Overlap{task.OverlapSkip, task.OverlapQueue, task.OverlapReplace} {
			t.Run(fmt.Sprint(o, seed), func(t *testing.T) {
				three(t, "2026-11-21 09:59:30", func(h *house) {
					h.put("s", "*/2 * * * * *", atOnce(3, o))
					for _, n := range []string{"n1", "n2", "n3"} {
						h.work(n, "q", 5*time.Second, finish)
						h.work(n, "q", 3*time.Second, finish)
					}
					h.crowded(seed, fault.Nth(int(7*seed), fault.After, "Fire"), "s")
					for i := range 300 {
						h.Pass(100 * time.Millisecond)
						if i%40 == 7 {
							node := h.Node([]string{"n1", "n2", "n3"}[i%3])
							node.Go(func(ctx context.Context) {
								_, _ = node.Own.Backfill(ctx, "s", store.BackfillRequest{
									From: h.us("09:50:00") + int64(i)*1e6,
									To:   h.us("09:50:04") + int64(i)*1e6,
								})
							})
						}
						now := 0
						list, err := h.Store.OpenFires(h.T.Context(), store.OpenQuery{})
						h.Must(err)
						for k := range list {
							if running(&list[k]) {
								now++
							}
						}
						if now > 3 {
							h.T.Fatalf("%d run at %s", now, h.Now())
						}
					}
					h.Fail(nil)
					if n := len(fired(h, "s")); n < 10 {
						h.T.Errorf("%d were fired", n)
					}
					h.put("s", "0 0 1 1 *", atOnce(3, o))
					h.Pass(time.Minute)
				})
			})
		}
	}
}
