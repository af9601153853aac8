package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// The program against a server: its image is shrunk once, though a try fails and it is asked for
// twice, and what can't be read is dead at once.
func TestAnImageIsShrunkOnceHoweverOftenItIsAskedFor(t *testing.T) {
	node, err := rota.Open(t.Context(), rota.Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "rota.db"), Listen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	var shrunk atomic.Int64
	shrink := func(ctx context.Context, image Image) (int, error) {
		if shrunk.Add(1) == 1 {
			return 0, errors.New("the server of the image is away")
		}
		return image.Width, nil
	}
	defer begin(t, node.Run)()
	c, err := client.New(client.Config{Servers: []string{"http://" + node.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer begin(t, func(ctx context.Context) error {
		return run(ctx, "http://"+node.Addr(), "thumbnails-1", shrink)
	})()
	var tasks []task.View
	for len(tasks) == 0 { // until the program has submitted its image
		tasks, _, err = c.Tasks(t.Context(), client.TaskFilter{Queue: "images"}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := c.Task(t.Context(), tasks[0].ID, time.Minute)
	if err != nil || v.State != task.Done || string(v.Result) != "120" {
		t.Errorf("the task is %v with %s: %v", v.State, v.Result, err)
	}
	cat := Image{URL: "http://example.org/cat.jpg", Width: 120}
	if err := submit(t.Context(), c, cat); err != nil {
		t.Errorf("again: %v", err)
	}
	tasks, _, err = c.Tasks(t.Context(), client.TaskFilter{Queue: "images"}, "", 0)
	if n := shrunk.Load(); err != nil || len(tasks) != 1 || n != 2 {
		t.Errorf("%d tasks, %d attempts, %v; want one task that was tried twice", len(tasks), n, err)
	}
	got, err := c.Submit(t.Context(), task.Submission{Queue: "images", Context: []byte(`"cat"`)})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Task(t.Context(), got[0].ID, time.Minute); err != nil || v.State != task.Dead ||
		len(v.Steps) != 1 {
		t.Errorf("what can't be read is %v after %d attempts: %v", v.State, len(v.Steps), err)
	}
}

// begin runs something until the returned function is called.
func begin(t *testing.T, run func(context.Context) error) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with: %v", err)
		}
	}
}
