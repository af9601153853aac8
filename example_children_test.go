package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Pages is what tasks of books carry.
type Pages struct{ Texts []string }

var (
	book = rota.Define[Pages]("book")
	sum  = rota.Type[Pages]{Queue: "book", Stage: "sum"}
	page = rota.Define[string]("page")
)

// A book's pages are counted by whoever is free, each as a task of its own, and its second stage
// begins when they are: until then it is in nobody's hands.
func Example_children() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, book, func(ctx context.Context, t rota.Task[Pages]) rota.Outcome {
		// one that is added while the handler runs, and those that come with its outcome
		if _, err := worker.AddChildren(ctx, page.New(t.Args.Texts[0])); err != nil {
			return rota.Retry(err)
		}
		var pages []rota.Submission
		for _, text := range t.Args.Texts[1:] {
			pages = append(pages, page.New(text))
		}
		return sum.NextOn(task.Await{Children: task.AllChildren}, Pages{}).Spawning(pages...)
	})
	rota.Handle(node, page, func(ctx context.Context, t rota.Task[string]) rota.Outcome {
		return rota.Finish(len(t.Args))
	})
	rota.Handle(node, sum, func(ctx context.Context, t rota.Task[Pages]) rota.Outcome {
		letters := 0
		for v, err := range worker.ChildrenOf(ctx, task.Done) {
			var n int
			if err == nil {
				_, err = fmt.Sscan(string(v.Result), &n)
			}
			if err != nil {
				return rota.Retry(err)
			}
			letters += n
		}
		return rota.Finish(fmt.Sprintf("%d letters on %d pages, %d open",
			letters, t.Children.Total, t.Children.Open()))
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	receipts, err := node.Submit(ctx, book.New(Pages{[]string{"one", "two", "three"}}))
	if err != nil {
		log.Fatal(err)
	}
	v, err := node.Task(ctx, receipts[0].ID, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(v.Result))
	tree, err := node.Tree(ctx, receipts[0].ID, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, child := range tree.Below {
		fmt.Println(child.Task.Queue, child.Task.State, child.Began.IsZero())
	}
	fmt.Println(tree.LeftOut, "more")
	stop()
	fmt.Println(<-ended)
	// Output:
	// "11 letters on 3 pages, 0 open"
	// page done false
	// page done false
	// 1 more
	// <nil>
}
