package dispatch

import (
	"context"
	"slices"
	"testing"

	"github.com/rotahq/rota/task"
)

const (
	decomposed = "cafe\u0301"
	composed   = "café"
)

func TestANameIsOneHoweverItWasTypedAndAWorkerIsAnsweredInItsOwnSpelling(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		given := []task.Submission{{Queue: decomposed}, {Queue: composed}}
		if _, err := h.d.Submit(h.ctx, given); err != nil {
			t.Fatal(err)
		}
		if given[0].Queue != decomposed {
			t.Error("the caller's submission was changed")
		}
		queues := []string{decomposed, "邮件"}
		held, err := h.d.Hold(h.ctx, task.HoldRequest{Worker: decomposed, Queues: queues, Limit: 9})
		if err != nil || len(held.Tasks) != 2 {
			t.Fatalf("held %d tasks: %v", len(held.Tasks), err)
		}
		if queues[0] != decomposed {
			t.Error("the caller's queues were changed")
		}
		for _, hand := range held.Tasks {
			if hand.Queue != decomposed {
				t.Errorf("a task is of queue %+q, which the worker does not know", hand.Queue)
			}
			answers, err := h.d.Report(h.ctx, composed, []task.Report{
				{ID: hand.ID, Token: hand.Token, Outcome: task.Finish(1)},
			})
			if err != nil || answers[0].Status != task.Recorded {
				t.Errorf("the worker by its other spelling: %+v, %v", answers, err)
			}
		}
		list, err := h.d.Queues(h.ctx)
		if err != nil || !slices.ContainsFunc(list, func(q task.Queue) bool {
			return q.Name == composed
		}) || slices.ContainsFunc(list, func(q task.Queue) bool { return q.Name == decomposed }) {
			t.Errorf("queues %+v: %v", list, err)
		}
	})
}

func TestOrdersComeInTheWorkersSpelling(t *testing.T) {
	b := task.Beat{
		Worker: decomposed, Groups: []string{"g", decomposed}, Queues: []string{decomposed},
		Jobs: []task.Run{{Group: "g", Job: "a"}, {Group: decomposed, Job: "e\u0301"}},
	}
	orders := task.Orders{
		Add: []task.Assignment{{Group: composed, Job: "b"}, {Group: "g", Job: "é"}},
		End: []task.Run{{Group: composed, Job: "é"}, {Group: "g", Job: "a"}},
	}
	got, err := spelled(t.Context(), b,
		func(_ context.Context, b task.Beat) (task.BeatAnswer, error) {
			if b.Worker != composed || b.Groups[1] != composed ||
				b.Queues[0] != composed || b.Jobs[1].Group != composed || b.Jobs[1].Job != "é" {
				t.Errorf("heard %+v", b)
			}
			return task.BeatAnswer{Jobs: orders}, nil
		})
	if err != nil || got.Jobs.Add[0].Group != decomposed || got.Jobs.Add[1].Group != "g" ||
		got.Jobs.End[0].Group != decomposed || got.Jobs.End[0].Job != "e\u0301" ||
		got.Jobs.End[1].Job != "a" {
		t.Errorf("ordered %+v, %v", got.Jobs, err)
	}
	if b.Jobs[1].Group != decomposed || b.Groups[1] != decomposed ||
		orders.Add[0].Group != composed {
		t.Error("what others have was changed")
	}
}
