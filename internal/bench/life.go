package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// hundred is a submission of 100 tasks. Their contexts are JSON documents of 100 bytes, which
// differ and don't compress, as little as those of users would.
func hundred() []task.Submission {
	luck := rand.NewChaCha8([32]byte{})
	tasks := make([]task.Submission, 100)
	for i := range tasks {
		raw := make([]byte, 48)
		luck.Read(raw)
		text := base64.RawURLEncoding.EncodeToString(raw)
		tasks[i] = task.Submission{
			Queue: Queue, Context: []byte(`{"benchmark":"life cycle","text":"` + text + `"}`),
		}
	}
	return tasks
}

// lifeHTTP: submitters in this process, a server, a worker.
func (r *rig) lifeHTTP(ctx context.Context) ([]float64, error) {
	return r.remoteLife(ctx, connections, [][]task.Submission{hundred()})
}

// lone is the same with 64 submitters that each submit one task after the other.
func (r *rig) lone(ctx context.Context) ([]float64, error) {
	return r.remoteLife(ctx, Lanes, [][]task.Submission{hundred()[:1]})
}

// keys is how many group keys the tasks of a queue with limits of each have.
const keys = 10_000

// ofKeys are submissions of 100 tasks, each of a group key of its own.
func ofKeys() [][]task.Submission {
	list := make([][]task.Submission, keys/100)
	for i := range list {
		list[i] = hundred()
		for k := range list[i] {
			list[i][k].GroupKey = fmt.Sprintf("customer-%d", i*100+k)
		}
	}
	return list
}

// limited is lifeHTTP in a queue with limits that hold nothing back: what they cost by themselves.
func (r *rig) limited(ctx context.Context) ([]float64, error) {
	return r.limitedLife(ctx, client.QueueChange{
		MaxRunning: new(limits.MaxRunning),
		Rate:       &task.Rate{Count: task.MaxRateCount, Per: time.Second},
	}, [][]task.Submission{hundred()})
}

// limitedKeys is the same with a rate, and with limits of each of many keys.
func (r *rig) limitedKeys(ctx context.Context) ([]float64, error) {
	return r.limitedLife(ctx, client.QueueChange{
		Rate:   &task.Rate{Count: task.MaxRateCount, Per: time.Second},
		PerKey: &client.KeyLimitsChange{MaxRunning: new(8)},
	}, ofKeys())
}

func (r *rig) limitedLife(
	ctx context.Context, limited client.QueueChange, tasks [][]task.Submission,
) ([]float64, error) {
	if err := r.serve(ctx); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.PutQueue(ctx, Queue, limited); err != nil {
		return nil, err
	}
	return r.remoteLife(ctx, connections, tasks)
}

func (r *rig) remoteLife(
	ctx context.Context, callers int, tasks [][]task.Submission,
) (values []float64, err error) {
	l, done, err := r.remote(ctx, callers, tasks)
	defer done()
	if err != nil {
		return nil, err
	}
	return l.measure(ctx)
}

// remote starts a worker, and a server where none runs, for a life; done closes what it submits by.
func (r *rig) remote(
	ctx context.Context, callers int, tasks [][]task.Submission,
) (l *life, done func(), err error) {
	// one each, so that no submission is gathered with another
	clients := make([]*client.Client, 0, callers)
	done = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	if r.server == nil {
		if err := r.serve(ctx); err != nil {
			return nil, done, err
		}
	}
	if err := r.work(ctx, r.url); err != nil {
		return nil, done, err
	}
	for range callers {
		c, err := r.connect()
		if err != nil {
			return nil, done, err
		}
		clients = append(clients, c)
	}
	return &life{
		rig: r, callers: callers, tasks: tasks, handled: r.handled.Load,
		counts: func(ctx context.Context) (task.Counts, error) { return r.counts(ctx, clients[0]) },
		submit: func(ctx context.Context, caller int, tasks []task.Submission) error {
			_, err := clients[caller].Submit(ctx, tasks...)
			return err
		},
	}, done, nil
}

// lifeInProcess: everything in this process.
func (r *rig) lifeInProcess(ctx context.Context) (values []float64, err error) {
	node, err := rota.Open(ctx, rota.Config{
		Store: r.store(), Capacity: Lanes, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	var handled atomic.Int64
	node.Handle(Queue, func(context.Context, task.Handout) task.Outcome {
		handled.Add(1)
		return task.Finish(nil)
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	l := life{
		rig: r, callers: connections, tasks: [][]task.Submission{hundred()}, handled: handled.Load,
		counts: func(ctx context.Context) (task.Counts, error) {
			q, err := node.Queue(ctx, Queue)
			return q.Counts, err
		},
		submit: func(ctx context.Context, _ int, tasks []task.Submission) error {
			_, err := node.Submit(ctx, tasks...)
			return err
		},
	}
	return l.measure(ctx)
}

// life is a steady stream of tasks through their whole life.
type life struct {
	*rig
	callers   int
	tasks     [][]task.Submission // submissions, made in turn
	submit    func(ctx context.Context, caller int, tasks []task.Submission) error
	handled   func() int64
	counts    func(context.Context) (task.Counts, error)
	turn      atomic.Int64
	submitted atomic.Int64
}

// measure answers tasks done per second and CPU µs per task, over the measured time and with the
// stream in full flow.
func (l *life) measure(ctx context.Context) ([]float64, error) { return l.during(ctx, l.window) }

// during answers what is measured while the tasks flow, once all of them are done.
func (l *life) during(
	ctx context.Context, window func(context.Context) ([]float64, error),
) (values []float64, err error) {
	streaming, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for caller := range l.callers {
		wg.Go(func() {
			if err := l.stream(streaming, ctx, caller); err != nil {
				stop(err)
			}
		})
	}
	values, err = window(streaming)
	stop(errEnough)
	wg.Wait()
	if cause := context.Cause(streaming); !errors.Is(cause, errEnough) {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	l.note("waiting for the last tasks")
	return values, settle(ctx, l.submitted.Load(), l.counts)
}

var errEnough = errors.New("measured")

// stream submits until streaming ends, while not too many tasks are outstanding. A submission that
// was begun is finished, so that all of them count.
func (l *life) stream(streaming, ctx context.Context, caller int) error {
	for streaming.Err() == nil {
		if l.submitted.Load()-l.handled() > outstanding {
			if pause.For(streaming, time.Millisecond) != nil {
				return nil
			}
			continue
		}
		tasks := l.tasks[l.turn.Add(1)%int64(len(l.tasks))]
		if err := l.submit(ctx, caller, tasks); err != nil {
			return err
		}
		l.submitted.Add(int64(len(tasks)))
	}
	return nil
}

// window measures between two counts of what is done.
func (l *life) window(ctx context.Context) ([]float64, error) {
	l.note("warming up")
	if err := pause.For(ctx, warmup); err != nil {
		return nil, err
	}
	before, err := l.sample(ctx)
	if err != nil {
		return nil, err
	}
	for end := before.at.Add(l.Length); time.Now().Before(end); {
		if err := pause.For(ctx, min(time.Until(end), 200*time.Millisecond)); err != nil {
			return nil, err
		}
		l.note(fmt.Sprintf("%s tasks", term.Count(l.handled())))
	}
	after, err := l.sample(ctx)
	if err != nil {
		return nil, err
	}
	done := float64(after.done - before.done)
	if done <= 0 {
		return nil, fmt.Errorf("nothing was done in %v", l.Length)
	}
	values := []float64{
		done / after.at.Sub(before.at).Seconds(),
		float64((after.cpu - before.cpu).Microseconds()) / done,
	}
	if l.database != nil {
		values = append(values, (after.wal-before.wal)/done)
	}
	return values, nil
}

// sample is what was done and used by a moment.
type sample struct {
	at   time.Time
	done int64
	cpu  time.Duration
	wal  float64 // bytes, of a database
}

func (l *life) sample(ctx context.Context) (sample, error) {
	n, err := l.counts(ctx)
	if err != nil {
		return sample{}, err
	}
	used, err := measure.CPU(l.processes()...)
	if err != nil {
		return sample{}, err
	}
	s := sample{at: time.Now(), done: n.Done, cpu: used}
	if l.database != nil {
		s.wal, err = l.database.wal(ctx)
	}
	return s, err
}
