package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// shelf is a queue that gives its tasks once and says what is reported. Programs use a client or a
// node here.
type shelf struct {
	tasks chan task.Handout
	stop  context.CancelFunc // called when the task has ended
}

func newShelf(tasks ...task.Handout) (*shelf, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	s := &shelf{make(chan task.Handout, 10), stop}
	for i, t := range tasks {
		t.ID = task.ID{Batch: 1, N: int32(i)}
		t.Queue = "mail"
		t.Attempt = 1
		t.Deadline = time.Now().Add(time.Minute)
		s.tasks <- t
	}
	return s, ctx
}

func (s *shelf) Hold(ctx context.Context, _ task.HoldRequest) (task.HoldAnswer, error) {
	select {
	case t := <-s.tasks:
		return task.HoldAnswer{Tasks: []task.Handout{t}}, nil
	case <-ctx.Done():
		return task.HoldAnswer{}, ctx.Err()
	}
}

func (s *shelf) Report(_ context.Context, _ string, reports []task.Report) ([]task.Answer, error) {
	var answers []task.Answer
	for _, r := range reports {
		// only one of the three is there
		fmt.Printf("reported: %v %s%s%s\n", r.Kind, r.Stage, r.Result, r.Error)
		answers = append(answers, task.Answer{ID: r.ID, Status: task.Recorded})
		if r.Kind == task.KindNext {
			s.tasks <- task.Handout{
				ID: r.ID, Queue: "mail", Stage: r.Stage, Context: r.Context, Attempt: 1,
			}
			continue
		}
		s.stop()
	}
	return answers, nil
}

func (s *shelf) Beat(context.Context, task.Beat) (task.BeatAnswer, error) {
	return task.BeatAnswer{}, nil
}

func (s *shelf) Log(_ context.Context, _ task.ID, lines []task.LogLine) error {
	for _, l := range lines {
		fmt.Println(l.Stream+":", l.Text)
	}
	return nil
}

func Example() {
	queue, ctx := newShelf(task.Handout{Context: []byte(`"ann"`)})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1", Capacity: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", func(ctx context.Context, t task.Handout) task.Outcome {
		return task.Finish("sent to " + string(t.Context))
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// reported: done "sent to \"ann\""
	// <nil>
}

func ExampleWorker_HandleStages() {
	queue, ctx := newShelf(task.Handout{Stage: "render"})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.HandleStages("mail", worker.Stages{
		"render": func(context.Context, task.Handout) task.Outcome {
			return task.Next("send", "Dear Ann")
		},
		"send": func(_ context.Context, t task.Handout) task.Outcome {
			return task.Finish(t.Context)
		},
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// reported: next send
	// reported: done "Dear Ann"
	// <nil>
}

// A letter is written, then sent: a kind of task for each stage.
func ExampleHandle() {
	type letter struct{ To string }
	render := task.Define[letter]("mail")
	send := task.Type[string]{Queue: "mail", Stage: "send"}

	queue, ctx := newShelf(task.Handout{Context: []byte(`{"To":"Ann"}`)})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	worker.Handle(w, render, func(_ context.Context, t task.Task[letter]) task.Outcome {
		return send.Next("Dear " + t.Args.To)
	})
	worker.Handle(w, send, func(_ context.Context, t task.Task[string]) task.Outcome {
		return task.Finish(len(t.Args))
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// reported: next send
	// reported: done 8
	// <nil>
}

// What all handlers have in common is put around them.
func ExampleWorker_Use() {
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t task.Handout) task.Outcome {
			o := next(ctx, t)
			fmt.Println("attempt", t.Attempt, "ended as", o.Kind)
			return o
		}
	})
	w.Handle("mail", func(context.Context, task.Handout) task.Outcome { return task.Finish("ok") })
	fmt.Println(w.Run(ctx))
	// Output:
	// attempt 1 ended as done
	// reported: done "ok"
	// <nil>
}

func ExampleWorker_HandleHooks() {
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.HandleHooks("mail", worker.Hooks{
		Process: func(context.Context, task.Handout) task.Outcome {
			return task.Fail(errors.New("no such address"))
		},
		Final: func(_ context.Context, _ task.Handout, o task.Outcome) error {
			fmt.Println("telling the sender:", o.Error)
			return nil
		},
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// telling the sender: no such address
	// reported: fail no such address
	// <nil>
}

func ExampleCommand() {
	queue, ctx := newShelf(task.Handout{Context: []byte(`{"to":"ann"}`)})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := worker.Command(worker.CommandConfig{
		Argv: []string{"sh", "-c", `cat; echo '{"result":"sent"}' >"$ROTA_OUTPUT"`},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", handler)
	fmt.Println(w.Run(ctx))
	// Output:
	// stdout: {"to":"ann"}
	// reported: done "sent"
	// <nil>
}

func ExampleLogf() {
	queue, ctx := newShelf(task.Handout{})
	w, err := worker.New(worker.Config{Queue: queue, Name: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("mail", func(ctx context.Context, t task.Handout) task.Outcome {
		worker.Logf(ctx, "attempt %d", t.Attempt)
		worker.Logger(ctx).Info("sending", "to", "ann")
		worker.Progress(ctx, 0.5, "half of it")
		return task.Finish("sent")
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// log: attempt 1
	// log: level=INFO msg=sending to=ann
	// reported: done "sent"
	// <nil>
}
