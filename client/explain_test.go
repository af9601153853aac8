package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// A task that nobody takes says so, and what would change that.
func ExampleClient_ExplainTask() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	receipts, err := c.Submit(ctx, task.Submission{Queue: "mail"})
	if err != nil {
		panic(err)
	}
	e, err := c.ExplainTask(ctx, receipts[0].ID)
	if err != nil {
		panic(err)
	}
	for _, r := range e.Reasons {
		fmt.Println(r.Kind, "-", r.Text)
	}
	// Output:
	// unserved - No worker takes tasks of queue mail.
}

func ExampleClient_ExplainQueue() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	if _, err := c.Submit(ctx, task.Submission{Queue: "mail"}); err != nil {
		panic(err)
	}
	if err := c.PauseQueue(ctx, "mail"); err != nil {
		panic(err)
	}
	e, err := c.ExplainQueue(ctx, "mail")
	if err != nil {
		panic(err)
	}
	fmt.Println(e.State, "-", e.Reasons[0].Change)
	// Output:
	// paused - rota queue resume mail
}

// Who looks after a schedule, and why nobody does.
func ExampleClient_ExplainClaim() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	if _, err := c.ExplainClaim(ctx, "schedule/nightly"); errors.Is(err, client.ErrNotFound) {
		fmt.Println("there is no such key")
	}
	// Output:
	// there is no such key
}

func TestWhatIsNotThereIsNotExplained(t *testing.T) {
	c, shut := open()
	defer shut()
	if _, err := c.ExplainTask(t.Context(), task.ID{Batch: 1 << 60}); !errors.Is(err,
		client.ErrNotFound) {
		t.Errorf("a task: %v", err)
	}
	if _, err := c.ExplainQueue(t.Context(), "none"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a queue: %v", err)
	}
}
