// Fanout does one piece of work as many: a sum over N items, each item a task of its own, and a
// stage that adds up what they say once all have ended. README.md tells how to try it, and what
// holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Work is what the task carries that is split: N items, of which those up to From stand already.
type Work struct{ From, N int }

// piece is how many items one hand-out adds: as many as an outcome may carry.
const piece = task.MaxSubmissions

var (
	split  = rota.Type[Work]{Queue: "sums", Stage: "split"}
	join   = rota.Type[Work]{Queue: "sums", Stage: "join"}
	square = rota.Define[int]("squares")
)

func main() {
	n := flag.Int("n", 100, "how many items")
	file := flag.String("file", "fanout.db", "file for what is under way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	text, err := run(ctx, *file, *n)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s, in %v", text, time.Since(began).Round(time.Millisecond))
}

// run opens a node, has the work done, and answers its result.
func run(ctx context.Context, file string, n int) (result string, err error) {
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + file, Name: "fanout", Capacity: 64,
	})
	if err != nil {
		return "", err
	}
	handle(node, piece)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	got, err := node.Submit(ctx, split.New(Work{N: n}))
	if err != nil {
		return "", err
	}
	for {
		v, err := node.Task(ctx, got[0].ID, time.Minute)
		if err != nil {
			return "", err
		}
		if v.State.Final() {
			return string(v.Result), nil
		}
	}
}

// handle says how the work is split, done and joined; each hand-out adds so many items.
func handle(to rota.Handlers, piece int) {
	rota.Handle(to, split, func(_ context.Context, t rota.Task[Work]) rota.Outcome {
		w := t.Args
		var items []rota.Submission
		for ; w.From < w.N && len(items) < piece; w.From++ {
			items = append(items, square.New(w.From+1))
		}
		if w.From < w.N { // more than one outcome carries: the next hand-out goes on behind them
			return split.Next(w).Spawning(items...)
		}
		return join.NextOn(task.Await{Children: task.AllChildren}, w).Spawning(items...)
	})
	rota.Handle(to, square, func(_ context.Context, t rota.Task[int]) rota.Outcome {
		if t.Args%1000 == 13 {
			return rota.Fail(errors.New("13 is bad luck"))
		}
		return rota.Finish(t.Args * t.Args)
	})
	rota.Handle(to, join, func(ctx context.Context, t rota.Task[Work]) rota.Outcome {
		sum := 0
		for v, err := range worker.ChildrenOf(ctx, task.Done) {
			n, bad := strconv.Atoi(string(v.Result))
			if err = errors.Join(err, bad); err != nil {
				return rota.Retry(err)
			}
			sum += n
		}
		return rota.Finish(fmt.Sprintf("sum %d of %d squares, %d failed",
			sum, t.Children.Done, t.Children.Dead))
	})
}
