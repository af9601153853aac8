package rota

import (
	"context"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// TestEachAttemptPastItsTimeIsATimeout: the handler is stopped at the very time at which the server
// judges, and returns a failure.
func TestEachAttemptPastItsTimeIsATimeout(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const attempts = 8
	_, err = n.PutQueue(t.Context(), "q", client.QueueChange{
		Timeout: new(100 * time.Millisecond), MaxAttempts: new(attempts),
		Retry: &client.RetryChange{Initial: new(time.Millisecond), Max: new(time.Millisecond)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Queue: c, Name: "w", Beat: 200 * time.Millisecond, SelfStop: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
		<-ctx.Done()
		return task.Retry(context.Cause(ctx))
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	receipts, err := n.Submit(t.Context(), task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Task(t.Context(), receipts[0].ID, limits.MaxWait)
	if err != nil || v.State != task.Dead || len(v.Steps) != attempts {
		t.Errorf("the task is %s after %d steps, %v", v.State, len(v.Steps), err)
	}
	for _, s := range v.Steps {
		if s.Kind != task.KindTimeout {
			t.Errorf("attempt %d is a %s: %s", s.Seq, s.Kind, s.Error)
		}
	}
	stop()
	if err := <-ended; err != nil { // nothing is left to report
		t.Error(err)
	}
}
