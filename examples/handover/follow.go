package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// source is the spec of the job: a feed that has an event every 20 ms from its start on. A real one
// is a socket or a log; what matters is that every replica sees the same names.
type source struct {
	Start  time.Time
	Events int
}

const every = 20 * time.Millisecond

// follow is a worker process.
func follow(ctx context.Context, server, name string) error {
	c, err := client.New(client.Config{Servers: []string{server}})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := worker.New(worker.Config{Queue: c, Name: name, Capacity: 4, Log: quiet()})
	if err != nil {
		return err
	}
	w.HandleJob(group, func(ctx context.Context, a task.Assignment) error {
		return replica(ctx, c, a)
	})
	return w.Run(ctx)
}

// replica follows the feed from its beginning. It remembers nothing: what it submits again is
// answered with the task that is there.
func replica(ctx context.Context, c *client.Client, a task.Assignment) error {
	var s source
	if err := json.Unmarshal(a.Spec, &s); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	for next := 0; next < s.Events; {
		upTo := min(s.Events, int(time.Since(s.Start)/every)+1, next+100)
		if upTo <= next {
			if err := sleep(ctx, every); err != nil {
				return err
			}
			continue
		}
		var list []task.Submission
		for ; next < upTo; next++ {
			name := fmt.Sprintf("%s/%d", a.Job, next)
			list = append(list, task.Submission{
				Queue: results, Key: name, Context: fmt.Appendf(nil, `{"name":%q}`, name),
			})
		}
		if err := submit(ctx, c, list); err != nil {
			return err
		}
		worker.Alive(ctx) // for groups with a job_silence
	}
	<-ctx.Done()
	return ctx.Err()
}

// submit repeats until it is answered: what the first try stored it finds by the keys.
func submit(ctx context.Context, c *client.Client, list []task.Submission) error {
	for {
		_, err := c.Submit(ctx, list...)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
