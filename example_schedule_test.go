package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Work that is due again and again: each due time becomes one task, whatever dies meanwhile, and none is left out unseen.
func ExampleNode_PutSchedule() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	node.Handle("reports", func(context.Context, task.Handout) task.Outcome {
		fmt.Println("the report is made")
		stop() // once is enough here
		return task.Finish(nil)
	})
	s := task.DefaultSchedule("report")
	s.Cron, s.Queue, s.Overlap = "* * * * * *", "reports", task.OverlapSkip // every second; in life rather 30 6 * * MON-FRI
	if err := node.PutSchedule(ctx, s); err != nil {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: the report is made
}
