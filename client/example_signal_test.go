package client_test

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/task"
)

// A signal goes to a task, or to whoever waits for its name and key.
func ExampleClient_Signal() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	receipts, err := c.Submit(ctx, task.Submission{Queue: "expenses"})
	must(err)

	approval := task.SignalRequest{
		Task: receipts[0].ID, Name: "approved", Key: "mail-77", Payload: []byte(`{"by": "ann"}`),
	}
	got, err := c.Signal(ctx, approval)
	must(err)
	fmt.Println(got.Delivered, got.Repeated) // the task does not wait yet: it stands
	got, err = c.Signal(ctx, approval)
	must(err)
	fmt.Println(got.Delivered, got.Repeated)

	got, err = c.Signal(ctx, task.SignalRequest{Name: "paid", Key: "order-7"})
	must(err)
	fmt.Println(got.Delivered, got.Repeated)
	// Output:
	// false false
	// false true
	// false false
}
