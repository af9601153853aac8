//go:build ignore

// The program as it was with Asynq 0.26.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

const (
	typeThumbnail = "image:thumbnail"
	typeSweep     = "image:sweep"
)

// Image is the payload of a thumbnail.
type Image struct {
	URL   string
	Width int
}

func main() {
	address := flag.String("redis", "localhost:6379", "address of Redis")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	redis := asynq.RedisClientOpt{Addr: *address}
	client := asynq.NewClient(redis)
	defer client.Close()
	if err := enqueue(ctx, client, Image{"http://example.org/cat.jpg", 120}); err != nil {
		log.Fatal(err)
	}

	scheduler := asynq.NewScheduler(redis, nil)
	if _, err := scheduler.Register("0 3 * * *", asynq.NewTask(typeSweep, nil)); err != nil {
		log.Fatal(err)
	}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 8, Queues: map[string]int{"images": 3, "default": 1},
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(typeThumbnail, thumbnail)
	mux.HandleFunc(typeSweep, sweep)
	if err := errors.Join(server.Start(mux), scheduler.Start()); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	scheduler.Shutdown()
	server.Shutdown()
}

func enqueue(ctx context.Context, client *asynq.Client, image Image) error {
	payload, err := json.Marshal(image)
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTask(typeThumbnail, payload),
		asynq.Queue("images"), asynq.TaskID(image.URL), asynq.MaxRetry(9),
		asynq.Timeout(time.Minute), asynq.Retention(24*time.Hour))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil // it is there already
	}
	return err
}

func thumbnail(ctx context.Context, t *asynq.Task) error {
	var image Image
	if err := json.Unmarshal(t.Payload(), &image); err != nil {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	size, err := shrink(ctx, image)
	if err != nil {
		return err
	}
	result, err := json.Marshal(size)
	if err != nil {
		return err
	}
	_, err = t.ResultWriter().Write(result)
	return err
}

func sweep(context.Context, *asynq.Task) error { return nil }

// shrink is the work.
func shrink(_ context.Context, image Image) (bytes int, err error) {
	log.Println("shrunk", image.URL)
	return image.Width * image.Width / 8, nil
}
