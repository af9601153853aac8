package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

const (
	queue   = "demo"
	lanes   = 32              // files at a time in one worker
	silence = 4 * time.Second // after which a silent worker's tasks are handed out again
)

// told is a line that a worker of the demo prints.
type told struct {
	Recorded  int64 `json:"recorded"`
	Refused   int64 `json:"refused"`   // reports that came too late
	Hesitates bool  `json:"hesitates"` // it holds a task and will not let go of it
}

// WorkerConfig is what a worker process of the demo needs.
type WorkerConfig struct {
	Client   *client.Client
	Name     string
	Hesitate bool      // hold on to the first task until the worker ends
	Out      io.Writer // for the lines that the demo reads
}

// Work is a worker process of the demo, until ctx ends. It prints what it counted whenever that
// changed.
func Work(ctx context.Context, conf WorkerConfig) error {
	w, err := worker.New(worker.Config{
		Queue: conf.Client, Name: conf.Name, Capacity: lanes, Beat: silence / 6,
		SelfStop: silence * 2 / 3, StopGrace: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	h := hands{worker: w, out: json.NewEncoder(conf.Out)}
	h.hesitate.Store(conf.Hesitate)
	w.HandleStages(queue, worker.Stages{
		stageRead: h.stage(readStage), stageDigest: h.stage(digestStage),
		stageVerify: h.stage(verifyStage),
	})
	w.Handle(pulses, pulse)
	w.HandleJob(watch, tell)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.report(ended) })
	err = w.Run(ctx)
	close(ended)
	wg.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, h.tell())
}

// hands handle files.
type hands struct {
	worker    *worker.Worker
	hesitate  atomic.Bool // with the next task
	hesitates atomic.Bool
	out       *json.Encoder // of one goroutine at a time
}

// stage is the handler of one stage.
func (h *hands) stage(do func(context.Context, fileFacts) task.Outcome) worker.Handler {
	return func(ctx context.Context, t task.Handout) task.Outcome {
		if h.hesitate.Swap(false) {
			h.hesitates.Store(true)
			<-ctx.Done()
			return task.Retry(context.Cause(ctx))
		}
		var f fileFacts
		if err := json.Unmarshal(t.Context, &f); err != nil {
			return task.Fail(fmt.Errorf("read context: %w", err))
		}
		return do(ctx, f)
	}
}

// report tells 20 times a second what is new.
func (h *hands) report(ended <-chan struct{}) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for last := (told{}); ; {
		select {
		case <-ticker.C:
		case <-ended:
			return
		}
		if now := h.counts(); now != last {
			last = now
			_ = h.tell() // when nobody listens any more, the signal to stop is on its way
		}
	}
}

func (h *hands) counts() told {
	s := h.worker.Stats()
	return told{Recorded: s.Recorded, Refused: s.Refused, Hesitates: h.hesitates.Load()}
}

func (h *hands) tell() error { return h.out.Encode(h.counts()) }
