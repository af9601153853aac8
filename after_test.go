package rota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// A worker on a stream, and one over HTTP, are told what others left as the node itself is: also
// what is large, and by children among each other.
func TestWorkersAreToldWhatOthersLeftByEachDoor(t *testing.T) {
	large := `"` + strings.Repeat("x", 100_000) + `"`
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
			w.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
				if h.Stage == "fails" {
					return task.Fail(errors.New("no"))
				}
				return task.Finish(h.Stage)
			})
			w.Handle("end", func(_ context.Context, h task.Handout) task.Outcome {
				var said []string
				for _, p := range h.After {
					said = append(said, fmt.Sprintf("%s %s %s %s %d %v", p.Ref, p.If, p.State,
						strings.Trim(string(p.Result), `"`), len(p.Context), p.LeftOut))
				}
				return task.Finish(strings.Join(said, ", "))
			})
			w.Handle("split", func(_ context.Context, h task.Handout) task.Outcome {
				return task.Finish(nil).Spawning(
					task.Submission{Queue: "end", After: []string{"x"}, Key: "e"},
					task.Submission{Queue: "q", Stage: "c", Ref: "x"})
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			got, err := c.Submit(t.Context(),
				task.Submission{Queue: "q", Stage: "a", Context: []byte(large), Ref: "x"},
				task.Submission{Queue: "q", Stage: "fails", Ref: "y"},
				task.Submission{Queue: "split"},
				task.Submission{Queue: "end", After: []string{"x", "y"}, If: task.IfEnded})
			if err != nil {
				t.Fatal(err)
			}
			result := func(id task.ID, want string) {
				t.Helper()
				v, err := c.Task(t.Context(), id, time.Minute)
				if err != nil || v.State != task.Done || string(v.Result) != `"`+want+`"` {
					t.Errorf("it is %s with %s, %v, want %s", v.State, v.Result, err, want)
				}
			}
			result(got[3].ID, "x ended done a 100002 false, y ended dead  0 false")
			if _, err := c.Task(t.Context(), got[2].ID, time.Minute); err != nil {
				t.Fatal(err)
			}
			list, _, err := c.Children(t.Context(), got[2].ID, "", "", 0)
			if err != nil || len(list) != 2 {
				t.Fatalf("%v: %+v", err, list)
			}
			for _, child := range list {
				if child.Queue == "end" {
					result(child.ID, "x done done c 0 false")
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
