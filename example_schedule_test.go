package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// Work that is due again and again: each due time becomes one task, whatever dies meanwhile, and
// none is left out unseen.
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
	_, err = node.PutSchedule(ctx, "report", client.ScheduleChange{
		// every second; in life rather 30 6 * * MON-FRI
		Cron: new("* * * * * *"), Queue: new("reports"), Overlap: new(task.OverlapSkip),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: the report is made
}

// What was due before there was a schedule is made up for, and what came of it is listed.
func ExampleNode_BackfillSchedule() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	node.Handle("reports", func(context.Context, task.Handout) task.Outcome {
		return task.Finish(nil)
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	if _, err := node.PutSchedule(
		ctx, "report", client.ScheduleChange{Cron: new("0 12 31 12 *"), Queue: new("reports")},
	); err != nil {
		log.Fatal(err)
	}
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	made, err := node.BackfillSchedule(ctx, "report", client.Backfill{
		From: year(2023), To: year(2025),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range made.Fires {
		if _, err := node.Task(ctx, f.Task.ID, time.Minute); err != nil { // waits until it is final
			log.Fatal(err)
		}
	}
	fires, _, err := node.Fires(ctx, "report", client.FireFilter{}, "", 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range fires {
		fmt.Println(f.At.Format(time.DateOnly), f.Outcome, f.Ended)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// 2024-12-31 fired done
	// 2023-12-31 fired done
	// <nil>
}
