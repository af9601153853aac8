// From-asynq makes thumbnails as a program did with Asynq (before.go): here as a client and a worker
// of a rota server. README.md compares the two.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Image is what the tasks of a thumbnail carry.
type Image struct {
	URL   string
	Width int
}

var (
	thumbnails = task.Define[Image]("images")
	sweeps     = task.Define[struct{}]("sweeps")
)

func main() {
	server := flag.String("server", client.DefaultServer, "URL of a node")
	name := flag.String("name", "thumbnails-1", "of this worker; no two have the same")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *server, *name, shrink); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server, name string, shrink shrinker) error {
	c, err := client.New(client.Config{Servers: []string{server}})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := prepare(ctx, c); err != nil {
		return err
	}
	if err := submit(ctx, c, Image{"http://example.org/cat.jpg", 120}); err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Queue: c, Name: name, Capacity: 8})
	if err != nil {
		return err
	}
	worker.Handle(w, thumbnails, func(ctx context.Context, t task.Task[Image]) task.Outcome {
		size, err := shrink(ctx, t.Args)
		if err != nil {
			return task.Retry(err)
		}
		return task.Finish(size)
	})
	worker.Handle(w, sweeps, func(context.Context, task.Task[struct{}]) task.Outcome {
		return task.Finish(nil)
	})
	return w.Run(ctx)
}

// prepare says of the queue what Asynq is told with each task.
func prepare(ctx context.Context, c *client.Client) error {
	if _, err := c.PutQueue(ctx, thumbnails.Queue, client.QueueChange{
		MaxAttempts: new(10), Timeout: new(time.Minute), Retention: new(24 * time.Hour),
	}); err != nil {
		return err
	}
	_, err := c.PutSchedule(ctx, "sweep",
		client.ScheduleChange{Cron: new("0 3 * * *"), Queue: &sweeps.Queue})
	return err
}

// submit asks for a thumbnail. It may be called again for the same image.
func submit(ctx context.Context, c *client.Client, image Image) error {
	_, err := c.Submit(ctx, thumbnails.New(image, task.Submission{Key: image.URL}))
	return err
}

// shrinker does the work, and says how large the thumbnail is.
type shrinker func(ctx context.Context, image Image) (bytes int, err error)

func shrink(_ context.Context, image Image) (bytes int, err error) {
	log.Println("shrunk", image.URL)
	return image.Width * image.Width / 8, nil
}
