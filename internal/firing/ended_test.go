package firing

import (
	"errors"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// Nobody watches the fires of a plain schedule: that its tasks ended is seen when somebody asks,
// and nothing is written.
func TestReadersLearnHowTasksOfAPlainScheduleEnded(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *")
		h.Until("2026-11-21 10:05:01")
		ids := make([]task.ID, 0, 6)
		for _, f := range h.rows("s") {
			ids = append(ids, f.Task)
		}
		n := h.Node("n1")
		got, err := n.Tasks.Hold(h.T.Context(), task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 3, Wait: time.Second,
		})
		h.Must(err)
		for i, end := range []task.Outcome{task.Finish(nil), task.Fail(errors.New("boom")),
			task.Next("second", nil)} {
			_, err := n.Tasks.Report(h.T.Context(), "w",
				[]task.Report{{ID: got.Tasks[i].ID, Token: got.Tasks[i].Token, Outcome: end}})
			h.Must(err)
		}
		h.Must(n.Tasks.Act(h.T.Context(), task.KindCancelled, "test", ids[3]))
		h.Must(n.Tasks.Act(h.T.Context(), task.KindRemoved, "test", ids[4]))
		want := []task.Kind{
			task.KindDone, task.KindFail, 0, task.KindCancelled, task.KindRemoved, 0,
		}

		list, err := n.Own.Fires(h.T.Context(), store.FireQuery{Schedule: "s"})
		h.Must(err)
		for i, f := range list {
			if f.Ended != want[i] {
				t.Errorf("%s: ended %v, want %v", at(f.At), f.Ended, want[i])
			}
		}
		if last := h.last("s"); last.Task != ids[5] || last.Ended != 0 {
			t.Errorf("last %+v", last)
		}
		h.Must(n.Tasks.Act(h.T.Context(), task.KindCancelled, "test", ids[5]))
		if last := h.last("s"); last.Ended != task.KindCancelled {
			t.Errorf("after its end last is %+v", last)
		}
		h.Must(n.Tasks.Act(h.T.Context(), task.KindReplayed, "test", ids[1]))
		if list, err = n.Own.Fires(
			h.T.Context(), store.FireQuery{Schedule: "s"},
		); err != nil || list[1].Ended != 0 {
			t.Errorf("of a task that began again: %+v, %v", list[1], err)
		}
		for _, f := range h.rows("s") {
			if f.Ended != 0 {
				t.Errorf("%s: it was written down", at(f.At))
			}
		}
	})
}

func TestListOfFiresIsRefusedWhenNobodyKnowsHowTheyEnded(t *testing.T) {
	alone(t, "2026-11-21 09:59:30", func(h *house) {
		h.put("s", "* * * * *")
		h.Until("2026-11-21 10:00:01")
		h.Fail(fault.Each(fault.Before, "Stand"))
		_, err := h.firer().Fires(h.T.Context(), store.FireQuery{Schedule: "s"})
		_, also := h.firer().Schedules(h.T.Context(), store.ScheduleQuery{Last: true})
		if !errors.Is(err, fault.ErrFault) || !errors.Is(also, fault.ErrFault) {
			t.Errorf("errors %v, %v", err, also)
		}
	})
}

// last is the newest fire of a schedule, as people see it.
func (h *house) last(name string) *store.Fire {
	h.T.Helper()
	list, err := h.firer().Schedules(h.T.Context(), store.ScheduleQuery{
		Names: []string{name}, Last: true,
	})
	h.Must(err)
	return list[0].Last
}
