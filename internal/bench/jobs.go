package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/task"
)

// Of the benchmark beats: the group, the jobs of each worker, and the pause between two beats of
// one.
const (
	group     = "bench"
	jobsEach  = 5
	beatPause = 3 * time.Second
)

// beats lets many workers beat, each with jobs that were placed on it, and measures while nothing
// changes any more.
func (r *rig) beats(ctx context.Context) ([]float64, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	fresh := jobsEach // what a worker is to have it gets in one round
	if _, err := c.PutGroup(
		ctx, group, client.GroupChange{Policy: &client.PolicyChange{New: &fresh}},
	); err != nil {
		return nil, err
	}
	beating, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	var seated, running atomic.Int64
	for i := range r.Pollers {
		wg.Go(func() {
			w := busyWorker{
				name: fmt.Sprintf("busy-%d", i), seated: &seated, running: &running,
				jobs: map[string]task.Run{},
			}
			first := beatPause * time.Duration(i) / time.Duration(r.Pollers)
			if err := w.run(beating, c, first); beating.Err() == nil {
				stop(err)
			}
		})
	}
	values, err := r.beatsWindow(beating, c, &seated, &running)
	cause := context.Cause(beating)
	stop(errEnough)
	wg.Wait()
	return values, errors.Join(cause, err)
}

// placeJobs makes jobs for all workers.
func (r *rig) placeJobs(ctx context.Context, c *client.Client) error {
	jobs := make([]task.Job, jobsEach*r.Pollers)
	for i := range jobs {
		jobs[i] = task.Job{Name: fmt.Sprintf("job-%d", i), Load: task.Unit}
	}
	_, err := c.PutJobs(ctx, group, jobs...)
	return err
}

// beatsWindow waits until all workers are there, so that nothing has to move later, and until all
// jobs run.
func (r *rig) beatsWindow(
	ctx context.Context, c *client.Client, seated, running *atomic.Int64,
) ([]float64, error) {
	if err := r.reach(ctx, seated, int64(r.Pollers), "workers beat"); err != nil {
		return nil, err
	}
	if err := r.placeJobs(ctx, c); err != nil {
		return nil, err
	}
	want := int64(jobsEach * r.Pollers)
	if err := r.reach(ctx, running, want, "jobs run"); err != nil {
		return nil, err
	}
	r.note(fmt.Sprintf("%d workers beat", r.Pollers))
	if err := pause.For(ctx, 2*beatPause); err != nil { // the store knows that they run
		return nil, err
	}
	values, err := r.restful(ctx)
	if n := running.Load(); err == nil && n != want {
		err = fmt.Errorf("%d jobs run in the end, and %d did at the beginning", n, want)
	}
	return values, err
}

// reach waits until a count is as large as it is to be.
func (r *rig) reach(ctx context.Context, n *atomic.Int64, want int64, what string) error {
	for n.Load() < want {
		r.note(fmt.Sprintf("%d of %d %s", n.Load(), want, what))
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// busyWorker says that it runs whatever it is to run.
type busyWorker struct {
	name    string
	seated  *atomic.Int64 // workers that have beaten
	running *atomic.Int64 // jobs of all workers
	jobs    map[string]task.Run
}

// run beats until ctx ends or a beat fails, and says why.
func (w *busyWorker) run(ctx context.Context, c *client.Client, first time.Duration) error {
	if err := pause.For(ctx, first); err != nil {
		return err
	}
	if err := w.beat(ctx, c); err != nil {
		return err
	}
	w.seated.Add(1)
	for {
		if err := pause.For(ctx, beatPause); err != nil {
			return err
		}
		if err := w.beat(ctx, c); err != nil {
			return err
		}
	}
}

func (w *busyWorker) beat(ctx context.Context, c *client.Client) error {
	b := task.Beat{
		Worker: w.name, Incarnation: "1", Capacity: 2 * jobsEach, Groups: []string{group},
	}
	for _, run := range w.jobs {
		b.Jobs = append(b.Jobs, run)
	}
	answer, err := c.Beat(ctx, b)
	if err == nil {
		w.obey(answer.Jobs)
	}
	return err
}

func (w *busyWorker) obey(o task.Orders) {
	before := len(w.jobs)
	if o.Reset {
		clear(w.jobs)
	}
	for _, e := range o.End {
		delete(w.jobs, e.Job)
	}
	for _, a := range o.Add {
		w.jobs[a.Job] = task.Run{
			Group: a.Group, Job: a.Job, Replica: a.Replica, Token: a.Token.String(),
			State: task.JobRunning,
		}
	}
	w.running.Add(int64(len(w.jobs) - before))
}
