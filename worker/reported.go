package worker

import (
	"context"
	"runtime/debug"

	"github.com/rotahq/rota/task"
)

// Reported lets f be told when the outcome of the task that ctx, a handler's, belongs to has been
// answered, with the outcome as it was reported: a retry of a worker that stops went out as a
// release, and one that the server would refuse as a failure. It is told once. The Status is empty
// when no report was answered: the attempt's time was over, so that the server settles it, or the
// worker ended before.
//
// It is for what stands around handlers, to measure and to trace. f holds up a flight of reports,
// so it should be quick. A panic in it is logged and counted, and costs nothing else. Of several
// calls each f is told, the last one first. Elsewhere than in a handler it does nothing.
func Reported(ctx context.Context, f func(task.Outcome, task.Answer)) {
	h, _ := ctx.Value(workKey{}).(*hand)
	if h == nil || f == nil {
		return
	}
	h.worker.mu.Lock()
	defer h.worker.mu.Unlock()
	if h.over { // somebody that the handler left behind asks
		return
	}
	before := h.reported
	h.reported = func(o task.Outcome, a task.Answer) {
		h.tell(f, o, a)
		if before != nil {
			before(o, a)
		}
	}
}

// tell tells f. It is called where reports fly, so a panic must not get any further.
func (h *hand) tell(f func(task.Outcome, task.Answer), o task.Outcome, a task.Answer) {
	defer func() {
		if p := recover(); p != nil {
			h.panicked("who was told of an outcome panicked", p, debug.Stack())
		}
	}()
	f(o, a)
}

// NameOf is the name of the worker that ctx, a task's handler's, belongs to; "" = it belongs to
// none.
func NameOf(ctx context.Context) string {
	if h, ok := ctx.Value(workKey{}).(*hand); ok {
		return h.worker.config.Name
	}
	return ""
}

// listener is who waits to be told what became of an outcome.
type listener struct {
	f       func(task.Outcome, task.Answer)
	outcome task.Outcome
	answer  task.Answer
}

// waiting adds who waits to be told of a hand-out, once. Worker.mu is held.
func waiting(list []listener, h *hand, a task.Answer) []listener {
	if h.reported == nil {
		return list
	}
	list = append(list, listener{h.reported, h.outcome, a})
	h.reported = nil
	return list
}

// tellReported tells them. Worker.mu is not held.
func tellReported(list []listener) {
	for _, t := range list {
		t.f(t.outcome, t.answer)
	}
}

// tellRest tells those whose reports nobody has answered until the worker ended.
func (w *Worker) tellRest() {
	var rest []listener
	w.mu.Lock()
	for _, h := range w.held {
		rest = waiting(rest, h, task.Answer{})
	}
	w.mu.Unlock()
	tellReported(rest)
}
