// Fleet is a worker for many machines, with two kinds of work in one capacity: it watches cameras,
// which never ends (jobs), and looks at the clips that watching makes (tasks). README.md tells how
// a fleet of them is run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

const cameras = "cameras" // the group of jobs, one for each camera

// Camera is what a job says of its camera.
type Camera struct {
	Every string // a clip, as in "500ms"
}

// Clip is what the tasks carry that look at one.
type Clip struct {
	Camera string
	Number int64 // how many clips' times have passed since 1970, the same for whoever watches
}

var clips = task.Define[Clip]("clips")

func main() {
	var f fleet
	host, _ := os.Hostname()
	flag.StringVar(&f.server, "server", client.DefaultServer, "URL of a node")
	flag.StringVar(&f.conf.Name, "name", fmt.Sprintf("%s-%d", host, os.Getpid()), "of this worker")
	flag.StringVar(&f.conf.Zone, "zone", "", "where it stands: a camera is watched from two zones")
	flag.IntVar(&f.conf.Capacity, "capacity", 12, "units of load at once: a clip is 1")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		log.Fatal(err)
	}
}

// fleet is one worker of it.
type fleet struct {
	server string
	conf   worker.Config
	client *client.Client
}

func (f *fleet) run(ctx context.Context) (err error) {
	if f.client, err = client.New(client.Config{Servers: []string{f.server}}); err != nil {
		return err
	}
	defer f.client.Close()
	f.conf.Queue = f.client
	w, err := worker.New(f.conf)
	if err != nil {
		return err
	}
	w.HandleJob(cameras, f.watch)
	worker.Handle(w, clips, look)
	return w.Run(ctx)
}

// watch submits the clips of a camera as their times come, until ctx ends. Two workers watch each
// camera, so both submit each clip: by its key it is one task. Of a camera that nobody else watches
// the clips up to now are lost.
func (f *fleet) watch(ctx context.Context, a task.Assignment) error {
	var camera Camera
	if err := json.Unmarshal(a.Spec, &camera); err != nil {
		return err
	}
	every, err := time.ParseDuration(camera.Every)
	if err != nil || every <= 0 {
		return fmt.Errorf("read %q as the time between clips: %w", camera.Every, err)
	}
	worker.Logf(ctx, "%s is watched by %s", a.Job, f.conf.Name)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for next := time.Now().UnixNano() / int64(every); ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticks.C:
			for ; next <= now.UnixNano()/int64(every); next++ {
				clip := clips.New(Clip{a.Job, next},
					task.Submission{Key: fmt.Sprintf("%s-%d", a.Job, next)})
				if _, err := f.client.Submit(ctx, clip); err != nil {
					return err // another try follows, and the other worker goes on
				}
			}
		}
	}
}

// look looks at a clip.
func look(ctx context.Context, t task.Task[Clip]) task.Outcome {
	people := t.Args.Number % 3 // found after a hard look
	return task.Finish(map[string]int64{"people": people})
}
