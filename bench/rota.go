package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	rotalib "github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// rota is `rota serve` on the ground's database, or on a SQLite file: synced before every answer.
type rota struct {
	binary string // of the server
}

func (r rota) title(ctx context.Context) (string, error) {
	return firstLine(ctx, r.binary, "version")
}

func (r rota) server(_ context.Context, g ground) ([]string, func(string) string, error) {
	return []string{r.binary, "serve", "--listen", "127.0.0.1:0", "--store", rotaStore(g),
			"--log-level", "warn"}, func(line string) string {
			for word := range strings.FieldsSeq(line) {
				if strings.HasPrefix(word, "http://") {
					return word
				}
			}
			return ""
		}, nil
}

// rotaStore names the ground's database, or a file on it.
func rotaStore(g ground) string {
	if g.database != nil {
		return g.database.url()
	}
	return "sqlite:" + filepath.Join(g.folder, "bench.db")
}

func (rota) connect(address string, l load) (submitter, error) {
	s := newSubmissions(l)
	for range cmp.Or(l.clients, l.callers) {
		c, err := client.New(client.Config{Servers: []string{address}})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.to = append(s.to, c)
	}
	return s, nil
}

// open opens a node with its defaults, which nobody reaches from outside.
func (rota) open(ctx context.Context, g ground, l load, handled func()) (submitter, error) {
	node, err := rotalib.Open(ctx, rotalib.Config{
		Store: rotaStore(g), Capacity: lanes, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	node.Handle(queue, func(context.Context, task.Handout) task.Outcome {
		handled()
		return task.Finish(nil)
	})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- node.Run(running) }()
	s := newSubmissions(l)
	s.to = []rotaCalls{runningNode{node, func() error {
		stop()
		return <-ended
	}}}
	return s, nil
}

// rotaCalls are what submissions ask of a client, or of a node.
type rotaCalls interface {
	Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error)
	Queue(ctx context.Context, name string) (client.Queue, error)
	Close() error
}

// runningNode is a node that runs in this process.
type runningNode struct {
	*rotalib.Node
	end func() error
}

func (n runningNode) Close() error { return n.end() }

// submissions hands tasks to rota. Callers that share a client have their submissions gathered.
type submissions struct {
	to    []rotaCalls
	batch int               // tasks of a submission
	tasks []task.Submission // with all payloads, and the first ones again
	turn  turn
}

func newSubmissions(l load) *submissions {
	s := &submissions{batch: l.batch}
	for i := range len(payloads) + l.batch {
		s.tasks = append(s.tasks, task.Submission{
			Queue: queue, Context: payloads[i%len(payloads)],
		})
	}
	return s
}

func (s *submissions) submit(ctx context.Context, caller int) error {
	from := s.turn.take(s.batch)
	_, err := s.to[caller%len(s.to)].Submit(ctx, s.tasks[from:from+s.batch]...)
	return err
}

func (s *submissions) done(ctx context.Context) (int64, error) {
	q, err := s.to[0].Queue(ctx, queue)
	if err != nil {
		return 0, err
	}
	if bad := q.Counts.Dead + q.Counts.Cancelled; bad > 0 {
		return 0, fmt.Errorf("%d tasks failed", bad)
	}
	return q.Counts.Done, nil
}

func (s *submissions) close() error {
	var errs []error
	for _, c := range s.to {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (rota) work(ctx context.Context, address string, handled func()) error {
	c, err := client.New(client.Config{Servers: []string{address}})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := worker.New(worker.Config{
		Queue: c, Name: fmt.Sprintf("bench-%d", os.Getpid()), Capacity: lanes,
		StopGrace: time.Second, SendGrace: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	w.Handle(queue, func(context.Context, task.Handout) task.Outcome {
		handled()
		return task.Finish(nil)
	})
	return w.Run(ctx)
}
