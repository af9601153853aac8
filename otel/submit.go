package rotaotel

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota/task"
)

// Submitter is where tasks are submitted: a *rota.Node, a *client.Client, a *rota.Submitter.
type Submitter interface {
	Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error)
}

// Submit submits tasks in a span, which their runs will be children of. A submission that has a
// traceparent in its Meta keeps it.
func (t *Tracer) Submit(
	ctx context.Context, to Submitter, tasks ...task.Submission,
) ([]task.Receipt, error) {
	return t.SubmitBy(ctx, tasks,
		func(ctx context.Context, tasks []task.Submission) ([]task.Receipt, error) {
			return to.Submit(ctx, tasks...)
		})
}

// SubmitBy is Submit for other ways to submit, which it is given: a transaction, or
// worker.AddChildren.
//
//	tracer.SubmitBy(ctx, tasks,
//		func(ctx context.Context, tasks []task.Submission) ([]task.Receipt, error) {
//			return node.SubmitTx(ctx, tx, tasks...)
//		})
func (t *Tracer) SubmitBy(
	ctx context.Context, tasks []task.Submission,
	submit func(context.Context, []task.Submission) ([]task.Receipt, error),
) ([]task.Receipt, error) {
	if t.tracer == nil {
		return submit(ctx, tasks)
	}
	ctx, span := t.beginSubmit(ctx, tasks)
	defer span.End()
	parents, _ := ctx.Value(carried{}).(map[string]string)
	receipts, err := submit(ctx, traced(ctx, tasks, parents))
	if !span.IsRecording() {
		return receipts, err
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		return receipts, err
	}
	there := 0
	for i := range receipts {
		if receipts[i].Existing {
			there++
		}
	}
	if there > 0 { // those go on with the trace in which they were submitted first
		span.SetAttributes(existing.Int(there))
	}
	if len(receipts) == 1 {
		span.SetAttributes(messageID.String(receipts[0].ID.String()))
	}
	return receipts, nil
}

// beginSubmit begins the span of a submission.
func (t *Tracer) beginSubmit(
	ctx context.Context, tasks []task.Submission,
) (context.Context, trace.Span) {
	name, queue := "submit", queueOf(tasks)
	if queue != "" {
		name += " " + queue
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), toSubmit)
	if !span.IsRecording() {
		return ctx, span
	}
	if queue != "" {
		span.SetAttributes(destination.String(queue))
	}
	if len(tasks) != 1 {
		span.SetAttributes(batchCount.Int(len(tasks)))
	}
	return ctx, span
}

// queueOf is the queue of the tasks; "" = they are of several.
func queueOf(tasks []task.Submission) string {
	for i := range tasks {
		if tasks[i].Queue != tasks[0].Queue {
			return ""
		}
	}
	if len(tasks) == 0 {
		return ""
	}
	return tasks[0].Queue
}
