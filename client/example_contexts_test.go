package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// What each stage of a task was handed is kept as long as the task, also what an edit replaced.
func ExampleClient_Contexts() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	got, err := c.Submit(ctx, task.Submission{
		Queue: "orders", Stage: "price", Context: json.RawMessage(`{"items": 3}`),
	})
	must(err)
	held, err := c.Hold(ctx, task.HoldRequest{
		Worker: "w1", Queues: []string{"orders"}, Wait: time.Minute,
	})
	must(err)
	ship := task.Next("ship", nil)
	ship.Context = json.RawMessage(`{"items": 3, "total": 42}`)
	_, err = c.Report(ctx, "w1", []task.Report{
		{ID: held.Tasks[0].ID, Token: held.Tasks[0].Token, Outcome: ship},
	})
	must(err)
	total := json.RawMessage(`{"items": 3, "total": 40}`)
	must(c.Edit(ctx, got[0].ID, task.Edit{Context: total}))

	contexts, _, err := c.Contexts(ctx, got[0].ID, "", 0)
	must(err)
	for _, s := range contexts {
		fmt.Println(s.Seq, s.Stage, s.Outcome, string(s.Context))
	}
	// Output:
	// -1 price kind(0) {"items": 3}
	// 0 ship next {"items": 3, "total": 42}
	// 1 ship edited {"items": 3, "total": 40}
}
