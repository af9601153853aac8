package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// WorkerConfig is what the worker process of the benchmarks is told.
type WorkerConfig struct {
	Client   *client.Client
	Queue    string
	Capacity int       // handlers at a time
	Waits    bool      // print how long each task waited
	Out      io.Writer // for the lines that the benchmark reads
}

// Work is the worker process of the benchmarks, until ctx ends: its handler does nothing. It prints
// "handled N" now and then, and with waits "waited NANOSECONDS" for each task, whose context then
// is the Unix time in nanoseconds at which it was submitted.
func Work(ctx context.Context, conf WorkerConfig) error {
	b := idleHands{out: bufio.NewWriter(conf.Out), waits: conf.Waits}
	w, err := worker.New(worker.Config{
		Queue: conf.Client, Name: fmt.Sprintf("bench-%d", os.Getpid()), Capacity: conf.Capacity,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	w.Handle(conf.Queue, b.handle)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { b.tell(ended) })
	err = w.Run(ctx)
	close(ended)
	wg.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, b.flush())
}

// idleHands handles tasks by doing nothing but counting them.
type idleHands struct {
	handled atomic.Int64
	waits   bool

	mu  sync.Mutex
	out *bufio.Writer
}

func (b *idleHands) handle(_ context.Context, t task.Handout) task.Outcome {
	b.handled.Add(1)
	if b.waits {
		started := time.Now().UnixNano()
		submitted, err := strconv.ParseInt(string(t.Context), 10, 64)
		if err != nil {
			return task.Fail(fmt.Errorf("read time of submission: %w", err))
		}
		b.mu.Lock()
		fmt.Fprintln(b.out, "waited", started-submitted)
		b.mu.Unlock()
	}
	return task.Finish(nil)
}

// tell prints every 5 ms how many tasks were handled, while there are more of them.
func (b *idleHands) tell(ended <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for told := int64(0); ; {
		select {
		case <-ticker.C:
		case <-ended:
			return
		}
		if n := b.handled.Load(); n != told {
			told = n
			b.mu.Lock()
			fmt.Fprintln(b.out, "handled", n)
			_ = b.out.Flush() // when nobody listens any more, the signal to stop is on its way
			b.mu.Unlock()
		}
	}
}

func (b *idleHands) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(b.out, "handled", b.handled.Load())
	return b.out.Flush()
}
