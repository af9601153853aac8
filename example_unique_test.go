package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Reindex is what tasks of reindex carry.
type Reindex struct{ Customer, Version int }

var reindex = rota.Define[Reindex]("reindex")

// Work that many ask for and that is to be done once, some time after the last one asked: each
// submission with the same unique key takes the place of the task that waits, and puts it off.
func Example_unique() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, reindex, func(ctx context.Context, t rota.Task[Reindex]) rota.Outcome {
		return rota.Finish(fmt.Sprintf("customer %d, version %d", t.Args.Customer, t.Args.Version))
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	submit := func(version int, delay time.Duration) task.Receipt {
		s := reindex.New(Reindex{Customer: 7, Version: version})
		s.Unique = &rota.Unique{Key: "customer-7", For: 24 * time.Hour} // put off for a day at most
		s.OnExisting = task.OnExistingDebounce
		s.Delay = delay
		got, err := node.Submit(ctx, s)
		if err != nil {
			log.Fatal(err)
		}
		return got[0]
	}
	first := submit(1, time.Hour)
	second := submit(2, time.Hour)
	last := submit(3, 0) // now
	fmt.Println(first.Action, second.Action, last.Action, last.ID == first.ID)

	v, err := node.Task(ctx, first.ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.State, string(v.Result))
	stop()
	fmt.Println(<-ended)
	// Output:
	// created debounced debounced true
	// done "customer 7, version 3"
	// <nil>
}
