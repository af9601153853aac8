package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// stagesInTask are the stages that a task of the benchmark stages goes through.
const stagesInTask = 400

// stages measures one task at a time that goes through many small stages, each of which is durable
// before the next one begins: with a server of its own, and in this process.
func (r *rig) stages(ctx context.Context) (values []float64, err error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	w, err := worker.New(worker.Config{
		Queue: c, Name: "bench", Capacity: 1, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	w.Handle(Queue, nextStage)
	r.note("400 stages with a server")
	remote, err := stagesOf(ctx, w.Run, r.Length, c.Submit, c.Task)
	if err != nil {
		return nil, err
	}
	r.stop()
	r.note("400 stages in process")
	node, err := rota.Open(ctx, rota.Config{
		Store: r.store(), Capacity: 1, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	node.Handle(Queue, nextStage)
	own, err := stagesOf(ctx, node.Run, r.Length, node.Submit, node.Task)
	if err != nil {
		return nil, err
	}
	return []float64{1000 * remote, 1000 * remote / stagesInTask, 1000 * own,
		1000 * own / stagesInTask}, nil
}

// nextStage counts the stages in the context.
func nextStage(_ context.Context, t task.Handout) task.Outcome {
	n := 0
	if _, err := fmt.Sscan(string(t.Context), &n); err != nil {
		return task.Fail(err)
	}
	if n++; n < stagesInTask {
		return task.Next(fmt.Sprint("stage-", n), n)
	}
	return task.Finish(n)
}

// stagesOf lets tasks go through their stages, one after the other, for so long, while run runs. It
// answers the median of the seconds between a task's submission and its end, as steps say.
func stagesOf(
	ctx context.Context, run func(context.Context) error, length time.Duration,
	submit func(context.Context, ...task.Submission) ([]task.Receipt, error),
	view func(context.Context, task.ID, time.Duration) (task.View, error),
) (median float64, err error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	var took []float64
	for begin := time.Now(); len(took) == 0 || time.Since(begin) < length; {
		got, err := submit(ctx, task.Submission{Queue: Queue, Context: []byte("0")})
		if err != nil {
			return 0, err
		}
		v, err := view(ctx, got[0].ID, time.Minute)
		if err != nil {
			return 0, err
		}
		if v.State != task.Done || len(v.Steps) != stagesInTask {
			return 0, fmt.Errorf("task %s is %s after %d stages", v.ID, v.State, len(v.Steps))
		}
		took = append(took, v.Steps[stagesInTask-1].Finished.Sub(v.Created).Seconds())
	}
	return measure.Median(took), nil
}
