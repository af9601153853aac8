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
	store := "sqlite:" + filepath.Join(g.folder, "bench.db")
	if g.database != nil {
		store = g.database.url()
	}
	return []string{r.binary, "serve", "--listen", "127.0.0.1:0", "--store", store, "--log-level",
			"warn"}, func(line string) string {
			for word := range strings.FieldsSeq(line) {
				if strings.HasPrefix(word, "http://") {
					return word
				}
			}
			return ""
		}, nil
}

func (rota) connect(address string, l load) (submitter, error) {
	s := &submissions{batch: l.batch}
	for i := range len(payloads) + l.batch {
		s.tasks = append(s.tasks, task.Submission{
			Queue: queue, Context: payloads[i%len(payloads)],
		})
	}
	for range cmp.Or(l.clients, l.callers) {
		c, err := client.New(client.Config{Servers: []string{address}})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

// submissions hands tasks to rota. Callers that share a client have their submissions gathered.
type submissions struct {
	clients []*client.Client
	batch   int               // tasks of a submission
	tasks   []task.Submission // with all payloads, and the first ones again
	turn    turn
}

func (s *submissions) submit(ctx context.Context, caller int) error {
	from := s.turn.take(s.batch)
	_, err := s.clients[caller%len(s.clients)].Submit(ctx, s.tasks[from:from+s.batch]...)
	return err
}

func (s *submissions) done(ctx context.Context) (int64, error) {
	q, err := s.clients[0].Queue(ctx, queue)
	if err != nil {
		return 0, err
	}
	if bad := q.Counts.Dead + q.Counts.Cancelled; bad > 0 {
		return 0, fmt.Errorf("%d tasks failed", bad)
	}
	return q.Counts.Done, nil
}

func (s *submissions) close() error {
	for _, c := range s.clients {
		c.Close()
	}
	return nil
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
