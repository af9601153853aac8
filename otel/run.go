package rotaotel

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Handler is next with the spans of the task that it is given; its context carries that of the run.
// Give it to Use, of a node or a worker.Worker:
//
//	node.Use(tracer.Handler)
func (t *Tracer) Handler(next worker.Handler) worker.Handler {
	if t.tracer == nil {
		return next
	}
	return func(ctx context.Context, h task.Handout) task.Outcome {
		submitted := spanOf(h.Meta)
		if len(h.Meta) > 0 {
			ctx = context.WithValue(ctx, carried{}, h.Meta)
		}
		// what Run was called in is no parent of what it runs
		ctx = trace.ContextWithRemoteSpanContext(ctx, submitted)
		if submitted.IsValid() && !submitted.IsSampled() {
			return next(ctx, h)
		}
		ctx, span := t.beginRun(ctx, &h, submitted)
		if !span.IsRecording() {
			return next(ctx, h)
		}
		r := &run{tracer: t, ctx: ctx, span: span, task: &h}
		worker.Reported(ctx, r.reported)
		o, returned := task.Outcome{}, false
		defer func() {
			if returned {
				return
			}
			p := recover()
			if p == nil { // as t.FailNow does
				r.failed("exit", "the handler ended its goroutine")
				r.ended()
				return
			}
			r.failed("panic", fmt.Sprint("panic: ", p))
			r.ended()
			panic(p)
		}()
		o = next(ctx, h)
		returned = true
		r.returned(&o)
		return o
	}
}

// beginRun begins the span of a run below ctx, or, of a retry, as a root that is linked to where it
// was submitted, and records how long the task has waited for it.
func (t *Tracer) beginRun(
	ctx context.Context, h *task.Handout, submitted trace.SpanContext,
) (context.Context, trace.Span) {
	began := time.Now()
	options := make([]trace.SpanStartOption, 0, 5)
	options = append(options, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(began), toRun)
	root := !submitted.IsValid()
	if h.Attempt > 1 && !root {
		options = append(options, trace.WithNewRoot(),
			trace.WithLinks(trace.Link{SpanContext: submitted}))
		root = true
	}
	parent := ctx
	ctx, span := t.tracer.Start(parent, "run "+h.Queue, options...)
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(destination.String(h.Queue), messageID.String(h.ID.String()),
		attempt.Int(h.Attempt), worked.String(worker.NameOf(ctx)))
	if h.Stage != "" {
		span.SetAttributes(stage.String(h.Stage))
	}
	if root {
		parent = ctx
	}
	t.waited(parent, h, began)
	return ctx, span
}

// waited records how long a task has waited until its handler began, where the server tells.
func (t *Tracer) waited(ctx context.Context, h *task.Handout, began time.Time) {
	since := h.Ready
	if since.IsZero() {
		return
	}
	if since.After(began) { // the clocks differ
		since = began
	}
	_, span := t.tracer.Start(ctx, "wait "+h.Queue, trace.WithTimestamp(since), toWait)
	span.SetAttributes(destination.String(h.Queue), messageID.String(h.ID.String()))
	span.End(trace.WithTimestamp(began))
}

// run is what follows from one call of a handler that is recorded.
type run struct {
	tracer *Tracer
	ctx    context.Context // the handler's
	span   trace.Span
	task   *task.Handout
	spawn  trace.Span // of the children that go with the outcome; nil = there are none
	store  trace.Span // nil = the handler has not returned
}

// returned takes in what a handler has returned. Children that go with it get into the trace.
func (r *run) returned(o *task.Outcome) {
	r.span.SetAttributes(outcome.String(o.Kind.String()))
	if o.Kind == task.KindRetry || o.Kind == task.KindFail {
		r.failed(o.Kind.String(), o.Error)
	}
	if len(o.Spawn) > 0 {
		var ctx context.Context
		ctx, r.spawn = r.tracer.beginSubmit(r.ctx, o.Spawn)
		o.Spawn = traced(ctx, o.Spawn, r.task.Meta)
	}
	r.ended()
}

func (r *run) failed(kind, text string) {
	r.span.SetAttributes(errorType.String(kind))
	r.span.SetStatus(codes.Error, text)
}

// ended ends the span of the run, and begins that of storing its outcome. Outside of a worker
// nobody stores it.
func (r *run) ended() {
	now := trace.WithTimestamp(time.Now())
	r.span.End(now)
	if worker.NameOf(r.ctx) == "" {
		r.stored(task.Answer{})
		return
	}
	_, r.store = r.tracer.tracer.Start(r.ctx, "store "+r.task.Queue, now,
		trace.WithSpanKind(trace.SpanKindClient), toStore)
	r.store.SetAttributes(destination.String(r.task.Queue),
		messageID.String(r.task.ID.String()))
}

// reported ends what waits for the outcome to be stored.
func (r *run) reported(o task.Outcome, a task.Answer) {
	if r.store == nil { // the handler has ended in a way of which nobody heard
		return
	}
	r.store.SetAttributes(outcome.String(o.Kind.String()))
	switch a.Status {
	case task.Recorded, task.Repeated:
		r.store.SetAttributes(status.String(string(a.Status)))
	case "":
		r.fault("unanswered", "nobody has acknowledged the outcome")
	default:
		r.fault(string(a.Status), a.Detail)
	}
	r.store.End()
	r.stored(a)
}

// fault notes that an outcome does not stand.
func (r *run) fault(kind, text string) {
	r.store.SetAttributes(status.String(kind), errorType.String(kind))
	r.store.SetStatus(codes.Error, text)
}

// stored ends the span of the children that went with an outcome.
func (r *run) stored(a task.Answer) {
	if r.spawn == nil {
		return
	}
	if len(a.Spawned) == 1 {
		r.spawn.SetAttributes(messageID.String(a.Spawned[0].String()))
	}
	r.spawn.End()
}
