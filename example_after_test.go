package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
)

var (
	bake  = rota.Define[string]("bake")
	serve = rota.Define[string]("serve")
)

// Two tasks are done by whoever is free, and a third one when both are: it is told what they left.
func Example_after() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, bake, func(ctx context.Context, t rota.Task[string]) rota.Outcome {
		return rota.Finish("warm " + t.Args)
	})
	rota.Handle(node, serve, func(ctx context.Context, t rota.Task[string]) rota.Outcome {
		return rota.Finish(fmt.Sprintf("%s of %s and %s", t.Args,
			t.Prior("bread").Result, t.Prior("cake").Result))
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	receipts, err := node.Submit(ctx, // refs are names within the call
		bake.New("bread", rota.Submission{Ref: "bread"}),
		bake.New("cake", rota.Submission{Ref: "cake"}),
		serve.New("a meal", rota.Submission{After: []string{"bread", "cake"}}),
	)
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, receipts[2].ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(v.Result))
	stop()
	fmt.Println(<-ended)
	// Output:
	// "a meal of \"warm bread\" and \"warm cake\""
	// <nil>
}
