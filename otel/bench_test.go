package rotaotel_test

import (
	"context"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	rotaotel "github.com/rotahq/rota/otel"
	"github.com/rotahq/rota/task"
)

// discard takes spans, and submissions.
type discard struct{ receipts []task.Receipt }

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

func (d discard) Submit(
	_ context.Context, tasks ...task.Submission,
) ([]task.Receipt, error) {
	return d.receipts[:len(tasks)], nil
}

// providers are what a program may give to New; "none" is a program that does not.
func providers() map[string]*rotaotel.Tracer {
	batch := sdk.NewBatchSpanProcessor(discard{})
	return map[string]*rotaotel.Tracer{
		"none": nil,
		"noop": rotaotel.New(nil),
		"unsampled": rotaotel.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(batch),
			sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))),
		"sampled": rotaotel.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(batch))),
	}
}

// BenchmarkHandler is what the spans of a run cost by themselves, without storing its outcome.
func BenchmarkHandler(b *testing.B) {
	for name, tracer := range providers() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			h := done
			if tracer != nil {
				h = tracer.Handler(done)
			}
			parent := sample
			if name == "unsampled" {
				parent = sample[:len(sample)-1] + "0"
			}
			t := task.Handout{
				Queue: "mail", Attempt: 1, Ready: time.Now(),
				Meta: map[string]string{"traceparent": parent},
			}
			for b.Loop() {
				h(b.Context(), t)
			}
		})
	}
}

// BenchmarkSubmit is what the span of a submission costs by itself, of one task and of 500.
func BenchmarkSubmit(b *testing.B) {
	to := discard{make([]task.Receipt, 500)}
	for name, tracer := range providers() {
		for of, n := range map[string]int{"one": 1, "500": 500} {
			b.Run(name+"/"+of, func(b *testing.B) {
				b.ReportAllocs()
				tasks := make([]task.Submission, n)
				for b.Loop() {
					if tracer == nil {
						to.Submit(b.Context(), tasks...)
						continue
					}
					tracer.Submit(b.Context(), to, tasks...)
				}
			})
		}
	}
}
