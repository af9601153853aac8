package rota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// noJSON is what no door may take for a context, a result or a spec. All but the first two pass
// json.Valid.
func noJSON() map[string]json.RawMessage {
	return map[string]json.RawMessage{
		"text":       json.RawMessage(`hello`),
		"neighbours": json.RawMessage(`1},{"queue":"other"`),
		"encoding":   json.RawMessage("\"\xff\""),
		"depth":      json.RawMessage(strings.Repeat("[", 1001) + strings.Repeat("]", 1001)),
	}
}

func TestOpaqueValueThatIsNoJSONIsRefusedAtEveryDoor(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if _, err := n.PutGroup(ctx, "g", client.GroupChange{}); err != nil {
		t.Fatal(err)
	}
	cron, queue := "0 3 * * *", "q"
	for name, bad := range noJSON() {
		tasks := []task.Submission{
			{Queue: "q", Context: json.RawMessage(`{ "a" :1}`)}, {Queue: "q", Context: bad},
		}
		jobs := []task.Job{{Name: "a"}, {Name: "b", Spec: bad}}
		schedule := client.ScheduleChange{Cron: &cron, Queue: &queue, Context: bad}
		for door, call := range map[string]struct {
			place string
			call  func() error
		}{
			"Node.Submit": {"body.tasks[1].context", func() error {
				_, err := n.Submit(ctx, tasks...)
				return err
			}},
			"Node.PutJobs": {"body.jobs[1].spec", func() error {
				return second(n.PutJobs(ctx, "g", jobs...))
			}},
			"Node.AddJobs": {"body.jobs[1].spec", func() error {
				return second(n.AddJobs(ctx, "g", jobs...))
			}},
			"Node.PutSchedule": {"body.context", func() error {
				return second(n.PutSchedule(ctx, "s", schedule))
			}},
			"Client.Submit": {"body.tasks[1].context", func() error {
				_, err := c.Submit(ctx, tasks...)
				return err
			}},
			"Client.PutJobs": {"body.jobs[1].spec", func() error {
				_, err := c.PutJobs(ctx, "g", jobs...)
				return err
			}},
			"Client.PutSchedule": {"body.context", func() error {
				_, err := c.PutSchedule(ctx, "s", schedule)
				return err
			}},
			"Client.PutSchedules": {"body.schedules[1].context", func() error {
				good := client.ScheduleChange{Cron: &cron, Queue: &queue}
				worse := good
				worse.Context = bad
				_, err := c.PutSchedules(ctx,
					[]client.NamedChange{
						{Name: "r", ScheduleChange: good}, {Name: "s", ScheduleChange: worse},
					})
				return err
			}},
		} {
			err := call.call()
			var wrong *task.InvalidError
			if err == nil || !strings.Contains(err.Error(), call.place+": must be a JSON value") ||
				!errors.Is(err, client.ErrInvalid) && !errors.As(err, &wrong) {
				t.Errorf("%s, %s: %v; want it invalid at %s", door, name, err, call.place)
			}
		}
	}
	if _, err := n.Queue(ctx, "q"); !errors.Is(err, ErrNotFound) {
		t.Errorf("something was stored: %v", err)
	}
}

// TestReportThatIsNoJSONFailsAlone: what a handler or a caller of the client says in place of JSON
// costs no other report anything.
func TestReportThatIsNoJSONFailsAlone(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, bad := range noJSON() {
		for field, outcome := range map[string]task.Outcome{
			"context": {Kind: task.KindNext, Stage: "b", Context: bad},
			"result":  {Kind: task.KindDone, Result: bad},
		} {
			if _, err := n.Submit(
				t.Context(), task.Submission{Queue: "q"}, task.Submission{Queue: "q"},
			); err != nil {
				t.Fatal(err)
			}
			var held []task.Handout
			for len(held) < 2 {
				answer, err := c.Hold(t.Context(), task.HoldRequest{
					Worker: "w", Queues: []string{"q"}, Limit: 2, Wait: limits.MaxWait,
				})
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, answer.Tasks...)
			}
			reports := []task.Report{
				{ID: held[0].ID, Token: held[0].Token, Outcome: outcome},
				{ID: held[1].ID, Token: held[1].Token, Outcome: task.Finish(nil)},
			}
			answers, err := c.Report(t.Context(), "w", reports)
			if err != nil || answers[0].Status != task.Invalid ||
				!strings.HasPrefix(answers[0].Detail, field+": must be a JSON value") ||
				answers[1].Status != task.Recorded {
				t.Errorf("%s %s: %+v, %v", field, name, answers, err)
			}
			reports[0].Outcome = task.Fail(nil)
			if _, err := c.Report(t.Context(), "w", reports[:1]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestStoredContextThatIsNoJSONFailsAlone: a store of before may hold such contexts.
func TestStoredContextThatIsNoJSONFailsAlone(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var tasks []task.Submission
	for _, bad := range noJSON() {
		good := task.Submission{Queue: "q", Context: json.RawMessage(`{ "a" :1e400}`)}
		tasks = append(tasks, good, task.Submission{Queue: "q", Context: bad})
	}
	receipts, err := n.tasks.Submit(t.Context(), tasks) // behind the door
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Queue: c, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
		return task.Finish(h.Context)
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for i, r := range receipts {
		v, err := c.Task(t.Context(), r.ID, limits.MaxWait)
		switch {
		case err != nil:
			t.Errorf("task %d: %v", i, err)
		case i%2 == 0 && (v.State != task.Done || string(v.Result) != `{ "a" :1e400}`):
			t.Errorf("task %d is %s with result %s", i, v.State, v.Result)
		case i%2 == 1 &&
			(v.State != task.Dead ||
				!strings.Contains(fmt.Sprint(v.Steps), "must be a JSON value")):
			t.Errorf("task %d is %s: %+v", i, v.State, v.Steps)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
