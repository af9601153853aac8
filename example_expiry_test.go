package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Quote is what tasks of quote carry.
type Quote struct{ Item string }

var quote = rota.Define[Quote]("quotes")

// A task that is worth nothing later: it is begun within a time, or never.
func Example_startWithin() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error) // this node handles no quotes, and nobody else is there
	go func() { ended <- node.Run(ctx) }()

	s := quote.New(Quote{Item: "tea"})
	s.StartWithin = 100 * time.Millisecond
	got, err := node.Submit(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, got[0].ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.State, v.State == task.Expired, v.State.Final())
	stop()
	fmt.Println(<-ended)
	// Output:
	// expired true true
	// <nil>
}
