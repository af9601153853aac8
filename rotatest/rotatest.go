package rotatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Rig is a node with a store of its own, for one test: give it handlers, submit, let it work, and
// look at what came of it. It does whatever a node does.
type Rig struct {
	*rota.Node

	t       testing.TB
	began   time.Time
	started sync.Once // the node runs from then on
	run     func()    // Run in the background
	handled map[string]bool

	mu      sync.Mutex
	history []attempt // what handlers did, in the order of their ends
}

// attempt is one call of a handler.
type attempt struct {
	task.Handout
	outcome task.Outcome
	ended   time.Time
}

// Run runs f in a bubble of testing/synctest, with a rig. What f starts must end before f does.
func Run(t *testing.T, f func(t *testing.T, r *Rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(t, New(t))
	})
}

// New is a rig on an empty store in a folder of the test's. It works from the first WorkAll or
// Advance on, until the test ends, which fails when the node does not stop well.
func New(t testing.TB) *Rig {
	t.Helper()
	node, err := rota.Open(t.Context(), rota.Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), Name: "test",
		// days are to pass in moments, and nothing that a test waits for waits for a beat
		Beat: time.Minute, Lease: 10 * time.Minute,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), // shown when the test fails
	})
	if err != nil {
		t.Fatalf("open a node for the test: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	r := &Rig{Node: node, t: t, began: time.Now(), handled: map[string]bool{}}
	r.run = func() { go func() { ended <- node.Run(ctx) }() }
	t.Cleanup(func() {
		stop()
		r.started.Do(func() { ended <- node.Close() })
		if err := <-ended; err != nil {
			t.Errorf("stop the node of the test: %v", err)
		}
	})
	r.Use(r.record)
	return r
}

// record notes what handlers do. A panic passes, and is noted as what it will be reported as.
func (r *Rig) record(next worker.Handler) worker.Handler {
	return func(ctx context.Context, h task.Handout) task.Outcome {
		o := task.Retry(errPanic)
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.history = append(r.history, attempt{h, o, time.Now()})
		}()
		o = next(ctx, h)
		return o
	}
}

// errPanic stands for the text of a panic.
var errPanic = errors.New("panic")

// Handle is that of a node; so are the others of this name.
func (r *Rig) Handle(queue string, h worker.Handler) {
	r.handled[queue] = true
	r.Node.Handle(queue, h)
}

// HandleStage is that of a node.
func (r *Rig) HandleStage(queue, stage string, h worker.Handler) {
	r.handled[queue] = true
	r.Node.HandleStage(queue, stage, h)
}

// HandleStages is that of a node.
func (r *Rig) HandleStages(queue string, stages worker.Stages) {
	r.handled[queue] = true
	r.Node.HandleStages(queue, stages)
}

// HandleHooks is that of a node.
func (r *Rig) HandleHooks(queue string, hooks worker.Hooks) {
	r.handled[queue] = true
	if hooks.Final != nil { // whose notices the node does, in a queue of this name
		r.handled[cmp.Or(hooks.FinalQueue, queue+"-final")] = true
	}
	r.Node.HandleHooks(queue, hooks)
}

// HandleFinal is that of a node.
func (r *Rig) HandleFinal(queue string, f func(context.Context, task.FinalNotice) error) {
	r.handled[queue] = true
	r.Node.HandleFinal(queue, f)
}

// WorkAll lets handlers work until no task is due in any queue that has one: all are final, or wait
// for a time to come. The test fails when ctx ends before, with what is left.
func (r *Rig) WorkAll(ctx context.Context) {
	r.t.Helper()
	r.started.Do(r.run)
	left := []string{"nobody has looked"}
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		now, err := r.due(ctx)
		switch {
		case ctx.Err() != nil:
			r.t.Fatalf("work all: %v; left: %s", context.Cause(ctx), strings.Join(left, ", "))
		case err != nil:
			r.t.Fatalf("work all: %v", err)
		case len(now) == 0:
			return
		}
		left = now
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// longestPause is how long WorkAll waits at most before it looks again.
const longestPause = 100 * time.Millisecond

// due names the queues with a handler that have tasks to do now, and says how many.
func (r *Rig) due(ctx context.Context) (left []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(r.handled)) {
		q, err := r.Queue(ctx, name)
		if errors.Is(err, rota.ErrNotFound) {
			continue // nobody has submitted there
		}
		if err != nil {
			return nil, fmt.Errorf("look at queue %q: %w", name, err)
		}
		if n := q.Counts.Ready + q.Counts.Running; n > 0 && !q.Paused {
			left = append(left, fmt.Sprintf("%d of queue %q", n, name))
		}
	}
	return left, nil
}

// Advance lets d pass, in which what comes due is done, and then works all that is due by then. The
// test must be in a bubble of testing/synctest, as Run's are.
func (r *Rig) Advance(d time.Duration) {
	r.t.Helper()
	if !bubble() {
		r.t.Fatal("advance: time is real here; test in rotatest.Run, or in testing/synctest")
	}
	r.started.Do(r.run)
	time.Sleep(d)
	r.WorkAll(r.t.Context())
}

// bubble tells whether the caller is in a bubble of testing/synctest.
func bubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return true
}
