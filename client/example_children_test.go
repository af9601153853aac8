package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// A worker in any language adds children to the task that it has in its hands, and may cancel, or
// let begin again, all that hangs below one.
func ExampleClient_AddChildren() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.Submit(ctx, task.Submission{Queue: "books"})
	must(err)
	held, err := c.Hold(ctx, task.HoldRequest{
		Worker: "w1", Queues: []string{"books"}, Wait: time.Minute,
	})
	must(err)
	book := held.Tasks[0]
	added, err := c.AddChildren(ctx, "w1", book.ID, book.Token, []task.Submission{
		{Queue: "pages", Key: "page-1"}, {Queue: "pages", Key: "page-2"},
	})
	must(err)
	fmt.Println(len(added), added[0].Action)

	children, next, err := c.Children(ctx, book.ID, task.Ready, "", 100)
	must(err)
	fmt.Println(len(children), next == "")

	tree, err := c.Tree(ctx, book.ID, 2)
	must(err)
	fmt.Println(tree.Task.State, tree.Below[0].Task.State, tree.LeftOut)

	must(c.CancelTree(ctx, book.ID))
	must(c.RetryTree(ctx, book.ID))
	must(c.DeleteTree(ctx, book.ID))
	_, _, err = c.Children(ctx, book.ID, "", "", 0)
	fmt.Println(err != nil)
	// Output:
	// 2 created
	// 2 true
	// running ready 1
	// true
}
