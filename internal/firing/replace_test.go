package firing

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A node that saw a schedule before another fired it, and its open fires after, leaves the new task
// alone.
func TestReplaceLeavesTheTaskOfTheSameDueTime(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapReplace))
		h.Until("2026-11-21 09:59:59")
		before, err := h.Store.Schedules(h.T.Context(), store.ScheduleQuery{})
		h.Must(err)
		h.Until("2026-11-21 10:00:01")
		f := h.firerOf("n2")
		h.Must(f.fire(h.T.Context(), []*store.Schedule{&before[0]}, f.now()))
		v, err := h.Store.Task(h.T.Context(), fired(h, "s")[0].Task)
		h.Must(err)
		if v.State == task.Cancelled {
			t.Errorf("the task of the due time itself is %v", v.State)
		}
	})
}

// A node that stood still meanwhile, over several due times, leaves the newest's task alone.
func TestReplaceLeavesTheTaskOfALaterDueTime(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *", overlap(task.OverlapReplace))
		h.Until("2026-11-21 09:59:59")
		before, err := h.Store.Schedules(h.T.Context(), store.ScheduleQuery{})
		h.Must(err)
		h.Until("2026-11-21 10:02:01")
		h.Must(h.firerOf("n2").fire(h.T.Context(), []*store.Schedule{&before[0]},
			h.us("10:00:00")))
		list := fired(h, "s")
		v, err := h.Store.Task(h.T.Context(), list[len(list)-1].Task)
		h.Must(err)
		if v.State == task.Cancelled {
			t.Errorf("the task of %s is %v", at(list[len(list)-1].At), v.State)
		}
	})
}

// The same of a follower: a node that looks late at how the leader's task ended.
func TestReplaceLeavesTheTaskThatFollowsTheSameDueTime(t *testing.T) {
	three(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("lead", "* * * * *", inQueue("q1"))
		h.put("follow", "", after("lead"), overlap(task.OverlapReplace), inQueue("q2"))
		h.work("n1", "q1", time.Second, finish)
		h.Until("2026-11-21 10:00:01")
		var ended []store.OpenFire
		for len(ended) == 0 || !ended[0].Final {
			h.Pass(10 * time.Millisecond)
			var err error
			ended, err = h.Store.OpenFires(t.Context(), store.OpenQuery{
				Schedules: []string{"lead"},
			})
			h.Must(err)
		}
		h.Pass(3 * time.Second)
		f := h.firerOf("n2")
		h.Must(f.look(t.Context(), []*store.OpenFire{&ended[0]}, f.now()))
		if list := h.tasks("q2"); len(list) == 0 || list[len(list)-1].State == task.Cancelled {
			// that of the due time whose end was seen
			t.Errorf("what follows: %+v", list)
		}
	})
}
