package worker

import (
	"context"

	"github.com/rotahq/rota/task"
)

// Handlers is what handlers of tasks are given to: a Worker, or a node in this process.
type Handlers interface {
	Handle(queue string, h Handler)
	HandleStage(queue, stage string, h Handler)
	Use(wrap func(Handler) Handler)
}

// Handle lets f do the tasks of a type: those of its queue that are in its stage. Types of several
// stages of a queue each have their own f. A task whose context can't be read fails for good, with
// the place; f is not called. Call it before Run, once per type.
func Handle[A any](
	to Handlers, t task.Type[A], f func(ctx context.Context, t task.Task[A]) task.Outcome,
) {
	if f == nil {
		to.HandleStage(t.Queue, t.Stage, nil)
		return
	}
	to.HandleStage(t.Queue, t.Stage, func(ctx context.Context, h task.Handout) task.Outcome {
		args, err := t.Decode(h.Context)
		if err != nil {
			return task.Fail(err)
		}
		return f(ctx, task.Task[A]{Handout: h, Args: args}) // Read would copy h once more
	})
}
