package caller_test

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// A node takes a task and reports that it is done.
func Example() {
	ctx, clock := context.Background(), contract.NewClock()
	m := model.New(clock.Now)
	lease, _ := m.Acquire(ctx, store.MembershipOf("a"), "a", caller.LeaseTime, nil)
	h, now := store.Holder{Node: "a", Token: lease.Token}, clock.Micros()
	_, err := m.Submit(ctx, store.Submission{NewQueues: []string{"mail"}, Batches: []store.Batch{{
		ID: store.BatchID(now, 0), Queue: "mail", Rank: now, Due: now, Created: now,
		Spans: []store.NewSpan{{}}, Tasks: []store.Task{{Stage: "first"}},
	}}})
	fmt.Println(err)
	got, err := m.Take(ctx, store.TakeRequest{Holder: h, Queue: "mail", Limit: 1})
	fmt.Println(len(got.Spans), err)
	o := caller.Taken(&got.Spans[0], 0)
	settled, err := m.Settle(ctx, store.Settlement{
		Reports: []store.Report{o.Report(clock, task.Finish("sent"))},
	})
	fmt.Println(settled.Verdicts, err)
	// Output:
	// <nil>
	// 1 <nil>
	// [recorded] <nil>
}
