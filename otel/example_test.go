package rotaotel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota"
	rotaotel "github.com/rotahq/rota/otel"
	"github.com/rotahq/rota/task"
)

// Mail is what tasks of mail carry.
type Mail struct{ To string }

var mail = rota.Define[Mail]("mail")

// A task whose first attempt fails: the retry is a trace of its own, linked to the first one.
func Example() {
	provider, spans := recorded() // in a program one with an exporter
	tracer := rotaotel.New(provider)
	dir, err := os.MkdirTemp("", "rota")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + dir + "/work.db", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	node.Use(tracer.Handler)
	smtp := provider.Tracer("smtp")
	rota.Handle(node, mail, func(ctx context.Context, t rota.Task[Mail]) rota.Outcome {
		_, span := smtp.Start(ctx, "dial")
		defer span.End()
		if t.Attempt == 1 {
			return rota.RetryAfter(time.Millisecond, errors.New("connection refused"))
		}
		return rota.Finish("sent")
	})
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()

	receipts, err := tracer.Submit(ctx, node, mail.New(Mail{To: "ann"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := node.Task(ctx, receipts[0].ID, time.Minute)
	fmt.Println(done.State, err)
	stop()
	fmt.Println(<-ended)
	fmt.Print(tree(spans.Ended()))
	// Output:
	// done <nil>
	// <nil>
	// submit mail (producer)
	//   wait mail (internal)
	//   run mail (consumer) error: connection refused
	//     dial (internal)
	//     store mail (client)
	// run mail (consumer) linked to submit mail
	//   wait mail (internal)
	//   dial (internal)
	//   store mail (client)
}

// Tasks submitted in a transaction of PostgreSQL are in its trace, too.
func ExampleTracer_SubmitBy() {
	tracer := rotaotel.New(nil)
	inside := func(ctx context.Context, tasks []task.Submission) ([]task.Receipt, error) {
		return make([]task.Receipt, len(tasks)), nil // node.SubmitTx(ctx, tx, tasks...)
	}
	receipts, err := tracer.SubmitBy(context.Background(),
		[]task.Submission{mail.New(Mail{To: "ann"})}, inside)
	fmt.Println(len(receipts), err)
	// Output: 1 <nil>
}

// byLinks samples the roots that are linked to what was sampled, as retries are, and others as the
// sampler in it does.
type byLinks struct{ sdk.Sampler }

func (s byLinks) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdk.AlwaysSample().ShouldSample(p)
		}
	}
	return s.Sampler.ShouldSample(p)
}

// A sampler that decides by chance decides anew about each root, so about each retry; unless it
// goes by what they are linked to.
func Example_sampler() {
	provider := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(byLinks{sdk.TraceIDRatioBased(0)})))
	sampled := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	})}
	tracer := provider.Tracer("example")
	_, first := tracer.Start(context.Background(), "submit mail")
	_, retry := tracer.Start(context.Background(), "run mail", trace.WithLinks(sampled))
	fmt.Println(first.IsRecording(), retry.IsRecording())
	// Output: false true
}
