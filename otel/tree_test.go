package rotaotel_test

import (
	"fmt"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// recorded is a provider that samples as a program's does by default, and what it has recorded.
func recorded() (*sdk.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), spans
}

// tree draws spans that have ended below their parents, in the order in which they ended, with
// their kinds, errors and links.
func tree(spans []sdk.ReadOnlySpan) string {
	names := map[trace.SpanID]string{}
	below := map[trace.SpanID][]sdk.ReadOnlySpan{}
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	for _, s := range spans {
		parent := s.Parent().SpanID()
		if names[parent] == "" {
			parent = trace.SpanID{}
		}
		below[parent] = append(below[parent], s)
	}
	var b strings.Builder
	var draw func(at trace.SpanID, indent string)
	draw = func(at trace.SpanID, indent string) {
		for _, s := range below[at] {
			fmt.Fprintf(&b, "%s%s (%v)", indent, s.Name(), s.SpanKind())
			if text := s.Status().Description; text != "" {
				fmt.Fprintf(&b, " error: %s", text)
			}
			for _, link := range s.Links() {
				fmt.Fprintf(&b, " linked to %s", names[link.SpanContext.SpanID()])
			}
			b.WriteByte('\n')
			draw(s.SpanContext().SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}
