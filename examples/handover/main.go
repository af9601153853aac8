// Command handover lets three replicas of a job follow the same feed, and hands each result on once.
//
// Each event of the feed has a name of its own. Every replica submits what it makes of an event as a
// task, with that name as the idempotency key: the first submission is the task, the others are
// answered with it. So it does not matter how many replicas live, nor how far behind they are, and a
// replica that starts anew begins from the beginning. One worker is killed on the way.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

const (
	group   = "feeds"
	results = "results"
	workers = 3
)

func main() {
	server := flag.String("server", "", "of a child: the node")
	name := flag.String("name", "", "of a child: its worker's name")
	events := flag.Int("events", 200, "that the feed has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return show(ctx, *events) }
	if *server != "" {
		run = func() error { return follow(ctx, *server, *name) }
	}
	if err := run(); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
		os.Exit(1)
	}
}

// receiver is whoever gets the results: it counts how often it got each.
type receiver struct {
	mu  sync.Mutex
	got map[string]int
}

func (r *receiver) handle(_ context.Context, t task.Handout) task.Outcome {
	var event struct{ Name string }
	if err := json.Unmarshal(t.Context, &event); err != nil {
		return task.Fail(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[event.Name]++
	return task.Finish(nil)
}

// count says how many results came, and how many of them more than once.
func (r *receiver) count() (all, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.got {
		all++
		if n > 1 {
			twice++
		}
	}
	return all, twice
}

// show runs a node, three workers as processes, and kills one.
func show(ctx context.Context, events int) (err error) {
	folder, err := os.MkdirTemp("", "handover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + filepath.Join(folder, "rota.db"), Listen: "127.0.0.1:0", Log: quiet(),
	})
	if err != nil {
		return err
	}
	r := &receiver{got: map[string]int{}}
	node.Handle(results, r.handle)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	children, err := begin(ctx, "http://"+node.Addr())
	defer func() {
		for _, c := range children {
			c.Process.Kill()
			c.Wait()
		}
	}()
	if err != nil {
		return err
	}
	if err := feed(ctx, node.Client, events); err != nil {
		return err
	}
	fmt.Printf("%d replicas follow the feed\n", workers)
	if err := until(ctx, func() bool { all, _ := r.count(); return all >= events/3 }); err != nil {
		return err
	}
	if err := children[0].Process.Kill(); err != nil {
		return err
	}
	fmt.Println("w0 is killed with -9")
	if err := until(ctx, func() bool { all, _ := r.count(); return all == events }); err != nil {
		return err
	}
	return tell(ctx, node.Client, r, events)
}

// begin starts the workers.
func begin(ctx context.Context, server string) (children []*exec.Cmd, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for i := range workers {
		c := exec.CommandContext(ctx, self, "-server", server, "-name", fmt.Sprint("w", i))
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			return children, err
		}
		children = append(children, c)
	}
	return children, nil
}

// feed makes the job, and waits until all its replicas run.
func feed(ctx context.Context, c *client.Client, events int) error {
	replicas := workers
	_, err := c.PutGroup(ctx, group, client.GroupChange{Replicas: &replicas})
	if err != nil {
		return err
	}
	spec, err := json.Marshal(source{Start: time.Now().Add(6 * time.Second), Events: events})
	if err != nil {
		return err
	}
	if _, err := c.PutJobs(ctx, group, task.Job{
		Name: "ticks", Load: task.Unit, Spec: spec,
	}); err != nil {
		return err
	}
	return until(ctx, func() bool {
		g, err := c.Group(ctx, group)
		return err == nil && g.Running == workers
	})
}

// until waits for something.
func until(ctx context.Context, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// tell says what came of it: by what the receiver got, and by what the node has.
func tell(ctx context.Context, c *client.Client, r *receiver, events int) error {
	time.Sleep(time.Second) // what would come twice has time to
	all, twice := r.count()
	q, err := c.Queue(ctx, results)
	if err != nil {
		return err
	}
	fmt.Printf("%d events, %d tasks, %d results received, %d of them twice\n", events,
		q.Counts.Done, all, twice)
	if all != events || twice > 0 || q.Counts.Done != int64(events) {
		return errors.New("a result is missing, or was handed on twice")
	}
	fmt.Println("each result was handed on once")
	return nil
}
