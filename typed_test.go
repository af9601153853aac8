package rota

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

type measurement struct {
	Sensor string
	Value  float64
}

var measure = Define[measurement]("measure")

// ways is what a node and a client do alike.
type ways interface {
	Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error)
	Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error)
	Cancel(ctx context.Context, id task.ID) error
	PutQueue(ctx context.Context, name string, change client.QueueChange) (client.Queue, error)
	PauseQueue(ctx context.Context, name string) error
	PutJobs(ctx context.Context, group string, jobs ...task.Job) (client.JobsChanged, error)
	DeleteSchedule(ctx context.Context, name string) error
}

var (
	_ ways = (*Node)(nil)
	_ ways = (*client.Client)(nil)
)

// eachWay runs a test at a node and at a client of it.
func eachWay(t *testing.T, conf Config, prepare func(*Node), test func(*testing.T, ways)) {
	t.Helper()
	conf.Store, conf.Name = "sqlite:"+filepath.Join(t.TempDir(), "work.db"), "n"
	conf.Listen = "127.0.0.1:0"
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	prepare(n)
	running(t, n)
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Run("node", func(t *testing.T) { test(t, n) })
	t.Run("client", func(t *testing.T) { test(t, c) })
}

func TestTypedTasksGoThroughANodeAndThroughAClient(t *testing.T) {
	var around atomic.Int64
	eachWay(t, Config{}, func(n *Node) {
		n.Use(func(next Handler) Handler {
			return func(ctx context.Context, t task.Handout) Outcome {
				around.Add(1)
				return next(ctx, t)
			}
		})
		Handle(n, measure, func(_ context.Context, t Task[measurement]) Outcome {
			return Finish(t.Args.Sensor)
		})
	}, func(t *testing.T, d ways) {
		before := around.Load()
		good := measure.New(measurement{"roof", 21.5}, Submission{MaxAttempts: 2})
		bad := Submission{Queue: "measure", Context: json.RawMessage(`{"Value":"warm"}`)}
		got, err := d.Submit(t.Context(), good, bad)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Task(t.Context(), got[0].ID, time.Minute)
		if err != nil || v.State != task.Done || string(v.Result) != `"roof"` {
			t.Errorf("the good one is %+v, %v", v, err)
		}
		v, err = d.Task(t.Context(), got[1].ID, time.Minute)
		if err != nil || v.State != task.Dead || len(v.Steps) != 1 ||
			!strings.Contains(v.Steps[0].Error,
				"context.Value, byte 15: want float64, got string") {
			t.Errorf("the bad one is %+v, %v, want it dead after one attempt", v, err)
		}
		if n := around.Load() - before; n != 2 {
			t.Errorf("what stands around handlers was passed %d times, want 2", n)
		}
	})
}

func TestRefusalsMeanTheSameFromANodeAndFromAClient(t *testing.T) {
	eachWay(t, Config{}, func(n *Node) {
		Handle(n, measure, func(_ context.Context, t Task[measurement]) Outcome {
			return Finish(nil)
		})
	}, func(t *testing.T, d ways) {
		got, err := d.Submit(t.Context(), measure.New(measurement{}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Task(t.Context(), got[0].ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			call func() error
			want error
		}{
			{"arguments that JSON has no words for", func() error {
				_, err := d.Submit(t.Context(), measure.New(measurement{Value: math.NaN()}))
				return err
			}, ErrInvalid},
			{"a queue's name", func() error {
				_, err := d.Submit(t.Context(), Submission{Queue: "No Name"})
				return err
			}, ErrInvalid},
			{"a queue's limits", func() error {
				return second(d.PutQueue(t.Context(), "q",
					client.QueueChange{Timeout: new(-time.Second)}))
			}, ErrInvalid},
			{"no such group", func() error {
				return second(d.PutJobs(t.Context(), "nobody", task.Job{Name: "a"}))
			}, ErrNotFound},
			{"no such queue", func() error {
				return d.PauseQueue(t.Context(), "nobody")
			}, ErrNotFound},
			{"no such task", func() error {
				_, err := d.Task(t.Context(), task.ID{Batch: 1 << 40}, 0)
				return err
			}, ErrNotFound},
			{"no such schedule", func() error {
				return d.DeleteSchedule(t.Context(), "never")
			}, ErrNotFound},
			{"cancel what is done", func() error {
				return d.Cancel(t.Context(), got[0].ID)
			}, ErrConflict},
		} {
			err := c.call()
			for _, kind := range []error{ErrInvalid, ErrNotFound, ErrConflict, ErrUnavailable,
				ErrFull, ErrOutcomeUnknown} {
				if errors.Is(err, kind) != (kind == c.want) {
					t.Errorf("%s: %v; is it %q? %t", c.name, err, kind, errors.Is(err, kind))
				}
			}
			if places := (*task.InvalidError)(nil); errors.As(err, &places) !=
				(c.want == ErrInvalid) {
				t.Errorf("%s: %v names places: %v", c.name, err, places)
			}
		}
	})
}

func TestTooMuchForNowIsUnavailable(t *testing.T) {
	for _, err := range []error{ErrBusy, ErrOutOfReach} {
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
			t.Errorf("%v is not %v, or is more", err, ErrUnavailable)
		}
	}
	if errors.Is(ErrBusy, ErrOutOfReach) {
		t.Error("two refusals are one")
	}
}

func TestRunSaysWhatIsWrongWithHandlersBeforeItServes(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n", Listen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	Handle(n, measure, func(context.Context, Task[measurement]) Outcome { return Finish(nil) })
	Handle[measurement](n, Type[measurement]{Queue: "other"}, nil)
	n.Handle("measure", func(context.Context, task.Handout) Outcome { return Finish(nil) })
	address := n.Addr()
	err = n.Run(t.Context())
	for _, want := range []string{
		`queue "measure": two handlers`, `queue "other", stage "": no handler`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run answered %v, want it to name %q", err, want)
		}
	}
	c, err := client.New(client.Config{Servers: []string{"http://" + address}, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Queues(t.Context()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("somebody answers at its address: %v", err)
	}
}

// A client works alone: without a node in the same process.
func TestAWorkerTakesTypedHandlersAsANodeDoes(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := worker.New(worker.Config{Queue: c, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	Handle(w, measure, func(_ context.Context, t Task[measurement]) Outcome {
		return Finish([]float64{t.Args.Value})
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	got, err := c.Submit(ctx, measure.New(measurement{Value: 3}))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Task(ctx, got[0].ID, time.Minute)
	if err != nil || !slices.Equal(v.Result, []byte(`[3]`)) {
		t.Errorf("got %+v, %v", v, err)
	}
}
