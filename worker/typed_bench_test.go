package worker

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rotahq/rota/task"
)

// kept keeps the handler that it is given.
type kept struct{ handler Handler }

func (k *kept) Handle(_ string, h Handler)         { k.handler = h }
func (k *kept) HandleStage(_, _ string, h Handler) { k.handler = h }
func (k *kept) Use(func(Handler) Handler)          {}

// BenchmarkHandle is what a handler costs by itself, that reads its context of 100 bytes, or has it
// read by its type. BenchmarkTyped of the root has all the rest of a task's life around it.
func BenchmarkHandle(b *testing.B) {
	type mail struct{ To, Text string }
	text, err := json.Marshal(mail{"ada@example.org", "there is an engine now that will weave " +
		"patterns of algebra, too"})
	if err != nil {
		b.Fatal(err)
	}
	for name, handler := range map[string]func() Handler{
		"untyped": func() Handler {
			return func(_ context.Context, t task.Handout) task.Outcome {
				var m mail
				if err := json.Unmarshal(t.Context, &m); err != nil {
					return task.Fail(err)
				}
				return task.Finish(nil)
			}
		},
		"typed": func() Handler {
			var k kept
			Handle(&k, task.Define[mail]("mail"),
				func(context.Context, task.Task[mail]) task.Outcome { return task.Finish(nil) })
			return k.handler
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			h, t := handler(), task.Handout{Context: text, Queue: "mail", Attempt: 1}
			for b.Loop() {
				if o := h(b.Context(), t); o.Kind != task.KindDone {
					b.Fatal(o)
				}
			}
		})
	}
}
