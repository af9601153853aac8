package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// What is done is in the answer as soon as it is done.
func ExampleClient_Stats() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.Submit(ctx, task.Submission{Queue: "mail"}, task.Submission{Queue: "mail"},
		task.Submission{Queue: "news"})
	must(err)
	hand, err := c.Hold(ctx, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}, Limit: 1})
	must(err)
	_, err = c.Report(ctx, "w1", []task.Report{{
		ID: hand.Tasks[0].ID, Token: hand.Tasks[0].Token, Outcome: task.Finish(nil),
	}})
	must(err)
	for _, q := range []client.StatsQuery{{}, {Queue: "mail"}, {Worker: "w1"}, {Queue: "news"}} {
		periods, err := c.Stats(ctx, q)
		must(err)
		submitted, started, done := int64(0), int64(0), int64(0)
		for _, p := range periods {
			submitted, started, done = submitted+p.Submitted, started+p.Started, done+p.Done
		}
		fmt.Println(submitted, started, done)
	}
	// Output:
	// 3 1 1
	// 2 1 1
	// 0 1 1
	// 1 0 0
}

func TestStatsRefuseWhatMakesNoSense(t *testing.T) {
	c, shut := open()
	defer shut()
	now := time.Now()
	for _, q := range []client.StatsQuery{
		{Step: time.Second}, {Stage: "s"}, {Queue: "q", Worker: "w"}, {From: now, To: now},
		{From: now.Add(-48 * time.Hour), Step: 10 * time.Minute},
	} {
		if _, err := c.Stats(t.Context(), q); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	const days = 30
	list, err := c.Stats(t.Context(), client.StatsQuery{
		From: now.Add(-days * 24 * time.Hour), To: now, Step: 24 * time.Hour,
	})
	if err != nil || len(list) < days || len(list) > days+1 ||
		list[0].At.Truncate(24*time.Hour) != list[0].At.Time {
		t.Errorf("%d days, %v, from %v", len(list), err, list[0].At)
	}
}
