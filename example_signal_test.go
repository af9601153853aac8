package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

// Goods is what tasks of goods carry.
type Goods struct{ Order string }

var (
	goods = rota.Define[Goods]("goods")
	ship  = rota.Type[Goods]{Queue: "goods", Stage: "ship"}
	dun   = rota.Type[Goods]{Queue: "goods", Stage: "dun"}
)

// Goods are sent once they are paid. Who pays need not know the task: the order's number is the
// key. Until then the task is in nobody's hands; if nobody pays in time it goes on elsewhere.
func Example_signal() {
	store, remove := scratch()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{Store: store, Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(node, goods, func(ctx context.Context, t rota.Task[Goods]) rota.Outcome {
		return ship.NextOn(task.Await{
			Signal: "paid", Key: t.Args.Order, Timeout: 100 * time.Millisecond, Else: dun.Stage,
		}, t.Args)
	})
	rota.Handle(node, ship, func(ctx context.Context, t rota.Task[Goods]) rota.Outcome {
		return rota.Finish(fmt.Sprintf("sent: %s by %s", t.Signal.Payload, t.Signal.By))
	})
	rota.Handle(node, dun, func(ctx context.Context, t rota.Task[Goods]) rota.Outcome {
		return rota.Finish(fmt.Sprintf("not paid: %v", t.TimedOut))
	})
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	// It may come first: it is kept for a day.
	got, err := node.Signal(ctx, task.SignalRequest{
		Name: "paid", Key: "order-7", Payload: []byte(`{"euro":12}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("delivered at once:", got.Delivered)
	for _, order := range []string{"order-7", "order-8"} {
		receipts, err := node.Submit(ctx, goods.New(Goods{Order: order}))
		if err != nil {
			log.Fatal(err)
		}
		v, err := node.Task(ctx, receipts[0].ID, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order, string(v.Result))
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// delivered at once: false
	// order-7 "sent: {\"euro\":12} by example"
	// order-8 "not paid: true"
	// <nil>
}
