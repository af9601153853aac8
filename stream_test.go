package rota

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// cutter passes connections on to a node, and cuts all of them when it is told to.
type cutter struct {
	to string
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{to: to, Listener: l}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				group.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // until it is cut
					way[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.cut()
		group.Wait()
	})
	return c
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// However often the streams of submitters and workers are cut, each task is recorded done, once.
func TestStreamsThatAreCutLoseNothing(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	between := newCutter(t, n.Addr())
	quiet := slog.New(slog.DiscardHandler)
	connect := func() *client.Client {
		return clientOf(t, client.Config{
			Servers: []string{"http://" + between.Addr().String()}, Fixed: true, Log: quiet,
			Attempts: 50, Backoff: task.Backoff{Initial: time.Millisecond, Factor: 1,
				Max: time.Millisecond}, RetryFloor: 10_000,
		})
	}
	w, err := worker.New(worker.Config{Queue: connect(), Name: "w1", Capacity: 16, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("q", func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) })
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	var submitted atomic.Int64
	var over atomic.Bool
	submitter := connect()
	var submitters sync.WaitGroup
	for caller := range 4 {
		submitters.Go(func() {
			for i := 0; !over.Load(); i++ {
				_, err := submitter.Submit(ctx, task.Submission{
					Queue: "q", Key: fmt.Sprintf("%d-%d", caller, i),
				})
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				submitted.Add(1)
			}
		})
	}
	for range 3 {
		waitFor(t, func() bool { return metric(t, n, "rota_streams") == 2 })
		before := submitted.Load()
		waitFor(t, func() bool { return submitted.Load() > before+100 })
		between.cut()
	}
	over.Store(true)
	submitters.Wait()
	waitFor(t, func() bool {
		q, err := n.Queue(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		if bad := q.Counts.Dead + q.Counts.Cancelled; bad != 0 {
			t.Fatalf("%d tasks are lost", bad)
		}
		left := q.Counts.Ready + q.Counts.Running + q.Counts.Waiting
		return left == 0 && q.Counts.Done >= submitted.Load()
	})
	q, err := n.Queue(t.Context(), "q")
	if err != nil || q.Counts.Done != submitted.Load() {
		t.Errorf("%d tasks are done, %d were submitted (%v)", q.Counts.Done, submitted.Load(), err)
	}
}
