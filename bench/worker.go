package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"
)

// workerVerb is the first argument of this program when it is the worker process of a peer; the
// peer's name and the server's address follow.
const workerVerb = "worker"

// runWorker works until this process is asked to end, and prints how many tasks were handled so
// far, a line each time.
func runWorker(args []string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("worker: want the peer and the address of its server, got %q", args)
	}
	p, err := peerNamed(args[0], "")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var handled atomic.Int64
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { tell(out, handled.Load, ended) })
	err = p.work(ctx, args[1], func() { handled.Add(1) })
	close(ended)
	wg.Wait()
	return err
}

// tell prints the count every 5 ms while it grows, and once more at the end.
func tell(out io.Writer, handled func() int64, ended <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for told, over := int64(0), false; !over; {
		select {
		case <-ticker.C:
		case <-ended:
			over = true
		}
		if n := handled(); n != told {
			told = n
			fmt.Fprintln(out, n) // when nobody listens any more, the signal to end is on its way
		}
	}
}
