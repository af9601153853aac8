package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// What waits may be changed: one task, or all that a filter selects.
func ExampleClient_Edit() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	mail := task.Submission{Queue: "mail", Context: json.RawMessage(`{"to": "an"}`)}
	receipts, err := c.Submit(ctx, mail, mail)
	must(err)

	first := task.Edit{
		Context: json.RawMessage(`{"to": "ann"}`), Priority: new(time.Minute),
	}
	must(c.Edit(ctx, receipts[0].ID, first))
	v, err := c.Task(ctx, receipts[0].ID, 0)
	must(err)
	fmt.Println(string(v.Context), v.Priority, v.Steps[0].Kind, first.Changed())

	n, err := c.EditAll(ctx, client.TaskFilter{Queue: "mail"},
		task.Edit{Delay: new(time.Hour)}, client.Bulk{})
	must(err)
	fmt.Println(n.Matched, n.Changed)
	// Output:
	// {"to": "ann"} 1m0s edited [priority context]
	// 2 2
}
