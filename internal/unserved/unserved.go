// Package unserved tells when tasks are ready and nobody takes them: a queue whose oldest ready task
// has waited for a minute while no worker of any node takes tasks of that queue is an event,
// queue.unserved, once for each such time.
//
// One node looks for all, every twenty seconds. A paused queue is none: it hands nothing out by
// somebody's wish. Nothing is told while a node does not say which workers it knows, since those
// may take the tasks. What was told is remembered here so that it is not written again, and the
// event's key, made of the queue and of since when its oldest task waits, makes it one event
// whichever node tells it.
package unserved

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// How often it is looked, and how long tasks wait before it is told.
const (
	every = 20 * time.Second
	after = time.Minute
)

// Event is the kind of the event.
const Event = "queue.unserved"

// Queues is what is asked of the queues.
type Queues interface {
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	Queues(context.Context) ([]task.Queue, error)
}

// Workers lists those of all nodes, and names the nodes that did not answer.
type Workers interface {
	Workers(ctx context.Context, here bool) (list []task.Worker, missing []string, err error)
}

// Config of a watch. All of it is needed.
type Config struct {
	Queues  Queues
	Workers Workers
	// Judges tells whether this node looks, of all nodes. Two that look do no harm.
	Judges func() bool
	// Now is the store's time.
	Now func() time.Time
	// Tell adds an event; it does not wait.
	Tell func(store.Event)
	Log  *slog.Logger
}

// Watch looks for queues that nobody serves. One goroutine calls its methods.
type Watch struct {
	conf Config
	told map[string]int64 // since when the oldest ready task waited, by queue
}

// New makes a watch.
func New(conf Config) *Watch { return &Watch{conf, map[string]int64{}} }

// Run looks until ctx ends, then returns nil.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.Round(ctx); err != nil && ctx.Err() == nil {
			w.conf.Log.Warn("look for queues that nobody serves", "error", err)
		}
	}
}

// Round looks once, if it is for this node to look.
func (w *Watch) Round(ctx context.Context) error {
	if !w.conf.Judges() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	counts, err := w.conf.Queues.Counts(ctx)
	if err != nil {
		return err
	}
	oldest := waiting(counts, w.conf.Now())
	maps.DeleteFunc(w.told, func(queue string, since int64) bool { return oldest[queue] != since })
	maps.DeleteFunc(oldest, func(queue string, since int64) bool { return w.told[queue] == since })
	if len(oldest) == 0 {
		return nil
	}
	queues, err := w.conf.Queues.Queues(ctx)
	if err != nil {
		return err
	}
	for i := range queues {
		if queues[i].Paused {
			delete(oldest, queues[i].Name)
		}
	}
	workers, missing, err := w.conf.Workers.Workers(ctx, false)
	if err != nil || len(missing) > 0 {
		return err
	}
	for i := range workers {
		if workers[i].State != task.WorkerActive {
			continue
		}
		for _, queue := range workers[i].Queues {
			delete(oldest, queue)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(oldest)) {
		w.tell(queue, oldest[queue])
	}
	return nil
}

// waiting are the queues whose oldest ready task waits for too long, and since when it does.
func waiting(counts []store.QueueCounts, now time.Time) map[string]int64 {
	oldest := map[string]int64{}
	for i := range counts {
		c := &counts[i]
		if c.OldestReady > 0 && now.UnixMicro()-c.OldestReady >= after.Microseconds() {
			oldest[c.Queue] = c.OldestReady
		}
	}
	return oldest
}

func (w *Watch) tell(queue string, since int64) {
	w.told[queue] = since
	waits := w.conf.Now().Sub(time.UnixMicro(since)).Round(time.Second)
	w.conf.Tell(store.Event{
		Key: fmt.Sprintf("%s/%s/%d", Event, queue, since), Kind: Event, Subject: queue,
		Text: fmt.Sprintf("no worker takes tasks of queue %s; its oldest ready task has waited for %v",
			queue, waits),
		Fields: map[string]string{
			"since": time.UnixMicro(since).UTC().Format("2006-01-02T15:04:05.000Z"),
		},
	})
}
