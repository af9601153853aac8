package rotaotel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	rotaotel "github.com/rotahq/rota/otel"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

const sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// want compares what was recorded with a drawing.
func want(t *testing.T, spans *tracetest.SpanRecorder, drawing string) {
	t.Helper()
	drawing = strings.TrimPrefix(strings.ReplaceAll(drawing, "\n\t\t", "\n"), "\n")
	if got := tree(spans.Ended()); got != strings.TrimRight(drawing, "\t") {
		t.Errorf("recorded:\n%s\nwant:\n%s", got, drawing)
	}
	if open, over := len(spans.Started()), len(spans.Ended()); open != over {
		t.Errorf("%d spans began and %d ended", open, over)
	}
}

// named are the spans with a name.
func named(spans *tracetest.SpanRecorder, name string) (list []sdk.ReadOnlySpan) {
	for _, s := range spans.Ended() {
		if s.Name() == name {
			list = append(list, s)
		}
	}
	return list
}

// value is what an attribute of a span says.
func value(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if a.Key == attribute.Key(key) {
			return a.Value.String()
		}
	}
	return ""
}

func submit(t *testing.T, tracer *rotaotel.Tracer, to rotaotel.Submitter, s ...task.Submission) {
	t.Helper()
	if _, err := tracer.Submit(t.Context(), to, s...); err != nil {
		t.Fatal(err)
	}
}

func done(context.Context, task.Handout) task.Outcome { return task.Finish(nil) }

func TestATraceHasWhatFollowsFromASubmission(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		provider, spans := recorded()
		tracer := rotaotel.New(provider)
		r.Use(tracer.Handler)
		r.HandleStage("order", "", func(ctx context.Context, h task.Handout) task.Outcome {
			if h.Attempt == 1 {
				return task.RetryAfter(time.Hour, errors.New("no money"))
			}
			if _, err := tracer.Submit(ctx, r, task.Submission{Queue: "mail"}); err != nil {
				return task.Fail(err)
			}
			return task.Next("ship", nil).Spawning(
				task.Submission{Queue: "page"}, task.Submission{Queue: "page"})
		})
		r.HandleStage("order", "ship", done)
		r.Handle("mail", done)
		r.Handle("page", func(ctx context.Context, _ task.Handout) task.Outcome {
			_, err := tracer.SubmitBy(ctx, []task.Submission{{Queue: "word"}}, func(
				ctx context.Context, tasks []task.Submission,
			) ([]task.Receipt, error) {
				return worker.AddChildren(ctx, tasks...)
			})
			return task.Outcome{Kind: task.KindDone, Error: fmt.Sprint(err)}
		})
		r.Handle("word", done)
		submit(t, tracer, r, task.Submission{Queue: "order", Delay: time.Minute})
		r.Advance(2 * time.Hour)
		synctest.Wait() // until the worker has heard that its reports are stored

		run := named(spans, "run order")
		if len(run) != 3 || value(run[0], "rota.outcome") != "retry" ||
			value(run[1], "rota.attempt") != "2" || value(run[2], "rota.stage") != "ship" ||
			value(run[2], "rota.worker") != r.Name() ||
			value(run[2], "messaging.message.id") != value(run[0], "messaging.message.id") {
			t.Fatalf("runs of the order: %v", run)
		}
		if a, b := run[0].SpanContext(), run[1].SpanContext(); a.TraceID() == b.TraceID() {
			t.Error("a retry is in the trace of the attempt before")
		}
		for _, s := range named(spans, "wait order") {
			if d := s.EndTime().Sub(s.StartTime()); d < 0 || d > time.Minute {
				t.Errorf("it waited %v: the delay, or the back-off, is no waiting", d)
			}
		}
		counts := map[string]int{}
		for _, s := range spans.Ended() {
			counts[s.Name()]++
		}
		if got := fmt.Sprint(counts); got != "map[run mail:1 run order:3 run page:2 run word:2 "+
			"store mail:1 store order:3 store page:2 store word:2 "+
			"submit mail:1 submit order:1 submit page:1 submit word:2 "+
			"wait mail:1 wait order:3 wait page:2 wait word:2]" {
			t.Errorf("spans: %s", got)
		}
		for child, parent := range map[string]sdk.ReadOnlySpan{
			"submit mail": run[1], "submit page": run[1], "store order": run[0],
			"run mail": named(spans, "submit mail")[0],
			"run page": named(spans, "submit page")[0],
		} {
			got := named(spans, child)[0].Parent()
			if got.SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("%s is no child of %s", child, parent.Name())
			}
		}
		first := named(spans, "submit order")[0].SpanContext()
		if run[2].Parent().SpanID() != first.SpanID() {
			t.Error("the first attempt of the second stage is no child of the submission")
		}
		for _, word := range named(spans, "run word") {
			if word.SpanContext().TraceID() != run[1].SpanContext().TraceID() {
				t.Error("a child of a child is in another trace")
			}
		}
	})
}

// A worker elsewhere goes on with the trace that came with the task by way of the server.
func TestATraceGoesToAWorkerElsewhere(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + t.TempDir() + "/work.db", Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- node.Run(ctx) }()
	for _, stream := range []bool{false, true} {
		provider, spans := recorded()
		tracer := rotaotel.New(provider)
		c, err := client.New(client.Config{
			Servers: []string{"http://" + node.Addr()}, HTTPOnly: !stream,
		})
		if err != nil {
			t.Fatal(err)
		}
		w, err := worker.New(worker.Config{Queue: c, Name: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		w.Use(tracer.Handler)
		ended, end := make(chan error, 1), make(chan struct{})
		w.Handle("mail", func(context.Context, task.Handout) task.Outcome {
			close(end)
			return task.Fail(errors.New("no such address"))
		})
		submit(t, tracer, c, task.Submission{Queue: "mail"})
		work, stopWork := context.WithCancel(ctx)
		go func() { ended <- w.Run(work) }()
		<-end
		stopWork()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.Close()
		want(t, spans, `
		submit mail (producer)
		  wait mail (internal)
		  run mail (consumer) error: no such address
		    store mail (client)
		`)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoTraceIsIgnored(t *testing.T) {
	for _, parent := range []string{
		"", "x", strings.Repeat("0", 256), strings.ToUpper(sample), "ff" + sample[2:],
		"00-" + strings.Repeat("0", 32) + sample[35:], sample[:36] + strings.Repeat("0", 16) + "-01",
		sample + "-more", sample[:54], strings.ReplaceAll(sample, "-", "_"), "0x" + sample[2:],
		strings.Repeat("é", 100),
	} {
		rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
			provider, spans := recorded()
			r.Use(rotaotel.New(provider).Handler)
			r.Handle("mail", done)
			meta := map[string]string{"traceparent": parent, "tracestate": "no state"}
			receipts, err := r.Submit(t.Context(), task.Submission{Queue: "mail", Meta: meta})
			if err != nil {
				t.Fatal(err)
			}
			r.WorkAll(t.Context())
			synctest.Wait() // until the worker has heard that its reports are stored
			rotatest.RequireOutcome(t, r, receipts[0].ID, task.Finish(nil))
			want(t, spans, `
		run mail (consumer)
		  wait mail (internal)
		  store mail (client)
		`)
		})
	}
}

// A trace that is well formed is gone on with, whoever began it, also of a version that is to come.
func TestATraceFromElsewhereIsGoneOnWith(t *testing.T) {
	for _, parent := range []string{sample, "cc" + sample[2:], "cc" + sample[2:] + "-what-may-be"} {
		rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
			provider, spans := recorded()
			r.Use(rotaotel.New(provider).Handler)
			r.Handle("mail", done)
			meta := map[string]string{"traceparent": parent, "tracestate": "a=b"}
			submit(t, rotaotel.New(provider), r, task.Submission{Queue: "mail", Meta: meta})
			r.WorkAll(t.Context())
			synctest.Wait() // until the worker has heard that its reports are stored
			run := named(spans, "run mail")[0]
			if got := run.Parent(); got.TraceID().String() != sample[3:35] ||
				got.SpanID().String() != sample[36:52] || got.TraceState().Get("a") != "b" {
				t.Errorf("%s: a child of %v", parent, got)
			}
		})
	}
}

func TestWhatIsNotSampledStaysSo(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		spans := tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans),
			sdk.WithSampler(sdk.ParentBased(&roots{})))
		tracer := rotaotel.New(provider)
		r.Use(tracer.Handler)
		var mu sync.Mutex // two tasks run at once
		var meta []string
		carried := func(h task.Handout) {
			mu.Lock()
			defer mu.Unlock()
			meta = append(meta, h.Meta["traceparent"])
		}
		r.Handle("mail", func(ctx context.Context, h task.Handout) task.Outcome {
			carried(h)
			if h.Attempt == 1 {
				return task.Retry(errors.New("no")) // of which nothing is recorded
			}
			if _, err := tracer.Submit(ctx, r, task.Submission{Queue: "page"}); err != nil {
				return task.Fail(err)
			}
			return task.Finish(nil).Spawning(task.Submission{Queue: "page"})
		})
		r.Handle("page", func(_ context.Context, h task.Handout) task.Outcome {
			carried(h)
			return task.Finish(nil)
		})
		submit(t, tracer, r, task.Submission{Queue: "mail"})
		r.Advance(time.Minute)
		want(t, spans, "")
		if len(meta) != 4 {
			t.Fatalf("they carried %q", meta)
		}
		for _, parent := range meta {
			if !strings.HasSuffix(parent, "-00") || parent[:35] != meta[0][:35] {
				t.Errorf("they carried %q", meta)
			}
		}
	})
}

// roots samples no root but those after the first one.
type roots struct{ began atomic.Bool }

func (s *roots) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if !s.began.Swap(true) {
		return sdk.NeverSample().ShouldSample(p)
	}
	return sdk.AlwaysSample().ShouldSample(p)
}
func (*roots) Description() string { return "roots" }

// A handler that does not return has spans all the same.
func TestARunThatDoesNotReturnEnds(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		provider, spans := recorded()
		tracer := rotaotel.New(provider)
		r.Use(tracer.Handler)
		r.Handle("boom", func(context.Context, task.Handout) task.Outcome { panic("boom") })
		r.Handle("exit", func(context.Context, task.Handout) task.Outcome {
			runtime.Goexit()
			return task.Outcome{}
		})
		r.Handle("slow", func(ctx context.Context, _ task.Handout) task.Outcome {
			<-ctx.Done()
			return task.Retry(context.Cause(ctx))
		})
		r.Handle("wrong", func(context.Context, task.Handout) task.Outcome {
			return task.Outcome{Kind: task.KindNext, Delay: -1}
		})
		for _, queue := range []string{"boom", "exit", "slow", "wrong"} {
			submit(t, tracer, r, task.Submission{
				Queue: queue, MaxAttempts: 1, Timeout: time.Minute,
			})
			r.Advance(2 * time.Minute)
			synctest.Wait()
		}
		want(t, spans, `
		submit boom (producer)
		  wait boom (internal)
		  run boom (consumer) error: panic: boom
		    store boom (client)
		submit exit (producer)
		  wait exit (internal)
		  run exit (consumer) error: the handler ended its goroutine
		    store exit (client)
		submit slow (producer)
		  wait slow (internal)
		  run slow (consumer) error: the attempt's time is over
		    store slow (client) error: nobody has acknowledged the outcome
		submit wrong (producer)
		  wait wrong (internal)
		  run wrong (consumer)
		    store wrong (client)
		`)
		if got := value(named(spans, "store wrong")[0], "rota.outcome"); got != "fail" {
			t.Errorf("a wrong outcome was stored as %q", got)
		}
	})
}

// A handler is a function: a test may call it by itself.
func TestAHandlerByItselfIsARun(t *testing.T) {
	provider, spans := recorded()
	h := rotaotel.New(provider).Handler(func(context.Context, task.Handout) task.Outcome {
		return task.Finish(nil).Spawning(task.Submission{Queue: "page"})
	})
	h(t.Context(), task.Handout{Queue: "mail", Attempt: 1})
	want(t, spans, `
		run mail (consumer)
		  submit page (producer)
		`)
}

// Without a provider nothing is made, and nothing is carried.
func TestWithoutAProviderTasksAreAsTheyWere(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		tracer := rotaotel.New(nil)
		r.Use(tracer.Handler)
		r.Handle("mail", func(ctx context.Context, h task.Handout) task.Outcome {
			if len(h.Meta) > 0 || trace.SpanContextFromContext(ctx).IsValid() {
				return task.Fail(fmt.Errorf("it carries %v", h.Meta))
			}
			return task.Finish(nil)
		})
		receipts, err := tracer.Submit(t.Context(), r, task.Submission{Queue: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		r.WorkAll(t.Context())
		rotatest.RequireOutcome(t, r, receipts[0].ID, task.Finish(nil))
	})
}
