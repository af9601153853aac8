package rota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// scratch is a store of its own for each example.
func scratch() (store string, remove func()) {
	dir, err := os.MkdirTemp("", "rota-example")
	if err != nil {
		log.Fatal(err)
	}
	return "sqlite:" + filepath.Join(dir, "work.db"), func() { os.RemoveAll(dir) }
}

// Greeting is what tasks of greet carry.
type Greeting struct{ Name string }

var greet = rota.Define[Greeting]("greet")

// A program with background work: define a kind of task, open a node, say what does it, run,
// submit.
func Example() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, greet, func(ctx context.Context, t rota.Task[Greeting]) rota.Outcome {
		return rota.Finish("hello, " + t.Args.Name)
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	got, err := node.Submit(ctx, greet.New(Greeting{Name: "Ada"}))
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, got[0].ID, time.Minute) // waits until it is final
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.State, string(v.Result))
	stop()
	fmt.Println(<-ended)
	// Output:
	// done "hello, Ada"
	// <nil>
}

// An order is charged, then shipped: a kind of task for each stage of the queue, each with what it
// carries.
func ExampleHandle() {
	type Order struct{ Cents int }
	type Parcel struct{ To string }
	charge := rota.Define[Order]("order")
	ship := rota.Type[Parcel]{Queue: "order", Stage: "ship"}

	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, charge, func(ctx context.Context, t rota.Task[Order]) rota.Outcome {
		if t.Attempt == 1 {
			return rota.RetryAfter(10*time.Millisecond, errors.New("the bank did not answer"))
		}
		return ship.Next(Parcel{To: "Ada"})
	})
	rota.Handle(node, ship, func(ctx context.Context, t rota.Task[Parcel]) rota.Outcome {
		return rota.Finish("sent to " + t.Args.To)
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	// the key makes the submission safe to repeat
	got, err := node.Submit(ctx, charge.New(Order{Cents: 1999}, rota.Submission{Key: "order-7"}))
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, got[0].ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range v.Steps {
		fmt.Printf("%q: %s %q\n", s.Stage, s.Kind, s.Error)
	}
	fmt.Println(v.State, string(v.Result))
	stop()
	<-ended
	// Output:
	// "": retry "the bank did not answer"
	// "": next ""
	// "ship": done ""
	// done "sent to Ada"
}

// A task of several stages: each is handed out for itself, with the context that the one before
// left.
func ExampleNode_HandleStages() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	tries := 0
	node.HandleStages("order", worker.Stages{
		"": func(ctx context.Context, t task.Handout) task.Outcome {
			return task.Next("pay", map[string]int{"cents": 1999})
		},
		"pay": func(ctx context.Context, t task.Handout) task.Outcome {
			if tries++; tries == 1 {
				return task.RetryAfter(10*time.Millisecond, errors.New("the bank did not answer"))
			}
			return task.Next("ship", nil) // the context stays
		},
		"ship": func(ctx context.Context, t task.Handout) task.Outcome {
			return task.Finish(t.Context)
		},
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	got, err := node.Submit(ctx, task.Submission{Queue: "order"})
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, got[0].ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range v.Steps {
		fmt.Printf("%d %q: %s %q\n", s.Seq, s.Stage, s.Kind, s.Error)
	}
	fmt.Println(v.State, string(v.Result))
	stop()
	<-ended
	// Output:
	// 0 "": next ""
	// 1 "pay": retry "the bank did not answer"
	// 2 "pay": next ""
	// 3 "ship": done ""
	// done {"cents":1999}
}

// A key makes a submission safe to repeat: the same key is the same task.
func ExampleNode_Submit() {
	store, remove := scratch()
	defer remove()
	ctx := context.Background()
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	invoice := task.Submission{
		Queue: "invoice", Key: "2026-11", Priority: 30 * time.Second, Delay: time.Hour,
	}
	first, err := node.Submit(ctx, invoice)
	if err != nil {
		log.Fatal(err)
	}
	again, err := node.Submit(ctx, invoice)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first[0].Existing, again[0].Existing, first[0].ID == again[0].ID)
	v, err := node.Task(ctx, first[0].ID, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.State, v.Priority)
	// Output:
	// false true true
	// waiting 30s
}
