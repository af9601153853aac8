package rota

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// A worker on a stream, and one over HTTP, have children as the node itself has: they come with
// outcomes and before them, are told whose they are, and their parent how they ended.
func TestWorkersHaveChildrenByEachDoor(t *testing.T) {
	for name, stream := range map[string]bool{"HTTP": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			n := start(t, Config{Listen: "127.0.0.1:0"})
			c, err := client.New(client.Config{
				Servers: []string{"http://" + n.Addr()}, HTTPOnly: !stream,
				Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			w, err := worker.New(worker.Config{Queue: c, Name: "w1", Capacity: 4})
			if err != nil {
				t.Fatal(err)
			}
			page := task.Submission{Queue: "page", Context: []byte(`"x"`)}
			w.HandleStage("book", "", func(ctx context.Context, h task.Handout) task.Outcome {
				if _, err := worker.AddChildren(ctx, page); err != nil {
					return task.Retry(err)
				}
				return task.NextOn(task.Await{
					Children: task.AllChildren, Timeout: time.Hour, Else: "late",
				}, "join", nil).Spawning(page, page)
			})
			w.Handle("page", func(_ context.Context, h task.Handout) task.Outcome {
				return task.Finish(h.Parent)
			})
			w.HandleStage("book", "join", func(ctx context.Context, h task.Handout) task.Outcome {
				for v, err := range worker.ChildrenOf(ctx, task.Done) {
					if err != nil {
						return task.Retry(err)
					}
					if string(v.Result) != `"`+h.ID.String()+`"` {
						t.Errorf("a child of %s was told it is one of %s", h.ID, v.Result)
					}
				}
				return task.Finish(h.Children)
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			got, err := c.Submit(t.Context(), task.Submission{Queue: "book"})
			if err != nil {
				t.Fatal(err)
			}
			v, err := c.Task(t.Context(), got[0].ID, time.Minute)
			want := `{"total":3,"done":3,"dead":0,"cancelled":0,"expired":0}`
			if err != nil || v.State != task.Done || string(v.Result) != want {
				t.Errorf("it is %s with %s, %v, want %s", v.State, v.Result, err, want)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
