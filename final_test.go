package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// TestNodeTellsHowEachTaskEndedUntilItWasHeard: of deaths that no handler saw, too.
func TestNodeTellsHowEachTaskEndedUntilItWasHeard(t *testing.T) {
	for _, store := range []string{"", database(t)} {
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan string, 100)
		conf := Config{Store: store, Name: "n", Beat: 100 * time.Millisecond}
		if store == "" {
			conf.Store = "sqlite:" + t.TempDir() + "/work.db"
		}
		n, err := Open(ctx, conf)
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		n.HandleHooks("q", worker.Hooks{
			Process: func(ctx context.Context, h task.Handout) task.Outcome {
				switch string(h.Context) {
				case `"count"`:
					return task.Retry(errors.New("no"))
				case `"panic"`:
					panic("boom")
				case `"time"`:
					<-ctx.Done()
					return task.Retry(context.Cause(ctx)) // what the server settles as a timeout
				}
				return task.Finish(nil)
			},
			Final: func(_ context.Context, h task.Handout, o task.Outcome) error {
				if tries++; tries%2 == 1 {
					return errors.New("nobody listens")
				}
				told <- fmt.Sprint(h.Queue, " ", string(h.Context), " ", o.Kind)
				return nil
			},
		})
		if _, err := n.PutQueue(
			ctx, "q", client.QueueChange{MaxAttempts: new(1), Timeout: new(time.Second)},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutQueue(ctx, "q-final",
			client.QueueChange{Retry: &client.RetryChange{Initial: new(time.Millisecond),
				Max: new(time.Millisecond)}}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		want := []string{`q "count" retry`, `q "panic" retry`, `q "time" timeout`}
		var got []string
		for _, what := range []string{`"count"`, `"panic"`, `"time"`} {
			for { // the setting is made when Run begins
				list, err := n.tasks.Queues(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(list, func(q task.Queue) bool {
					return q.FinalQueue == "q-final"
				}) {
					break
				}
			}
			if _, err := n.Submit(
				ctx, task.Submission{Queue: "q", Context: []byte(what)},
			); err != nil {
				t.Fatal(err)
			}
			select {
			case line := <-told:
				got = append(got, line)
			case <-time.After(time.Minute):
				t.Fatalf("nobody was told of %s; before it of %q", what, got)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
