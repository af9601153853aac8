package unserved

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// house is a cluster as the watch sees it.
type house struct {
	watch   *Watch
	counts  []store.QueueCounts
	queues  []task.Queue
	workers []task.Worker
	missing []string
	failing atomic.Bool
	asked   int // how often the workers were asked for
	other   bool
	told    []store.Event
}

func (h *house) Counts(context.Context, ...string) ([]store.QueueCounts, error) {
	if h.failing.Load() {
		return nil, errors.New("the store is away")
	}
	return h.counts, nil
}

func (h *house) Queues(context.Context) ([]task.Queue, error) { return h.queues, nil }

func (h *house) Workers(context.Context, bool) ([]task.Worker, []string, error) {
	h.asked++
	return h.workers, h.missing, nil
}

func newHouse() *house {
	h := &house{queues: []task.Queue{{Name: "mail"}}}
	h.watch = New(Config{
		Queues: h, Workers: h, Judges: func() bool { return !h.other }, Now: time.Now,
		Tell: func(e store.Event) { h.told = append(h.told, e) },
		Log:  slog.New(slog.DiscardHandler),
	})
	return h
}

// ready says that the oldest ready task of mail is due since a while; 0 = none is ready.
func (h *house) ready(since time.Duration) {
	h.counts = []store.QueueCounts{{Queue: "mail"}}
	if since > 0 {
		h.counts[0].OldestReady = time.Now().Add(-since).UnixMicro()
	}
}

func (h *house) round(t *testing.T) {
	t.Helper()
	if err := h.watch.Round(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestQueueThatNobodyServesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.ready(59 * time.Second)
		h.round(t)
		if len(h.told) != 0 {
			t.Fatalf("told within a minute: %v", h.told)
		}
		time.Sleep(time.Second)
		h.round(t)
		h.round(t)
		if len(h.told) != 1 || h.told[0].Kind != Event || h.told[0].Subject != "mail" ||
			h.told[0].Fields["since"] == "" {
			t.Fatalf("told %v", h.told)
		}
		h.ready(0) // somebody took it
		h.round(t)
		h.ready(2 * time.Minute)
		h.round(t)
		if len(h.told) != 2 || h.told[0].Key == h.told[1].Key {
			t.Errorf("told %v, want a second time", h.told)
		}
	})
}

func TestWhatSomebodyMayTakeIsNotTold(t *testing.T) {
	serves := task.Worker{State: task.WorkerActive, Queues: []string{"mail", "scan"}}
	for name, set := range map[string]func(*house){
		"a worker takes it":        func(h *house) { h.workers = []task.Worker{serves} },
		"the queue is paused":      func(h *house) { h.queues[0].Paused = true },
		"a node does not answer":   func(h *house) { h.missing = []string{"n2"} },
		"another node looks":       func(h *house) { h.other = true },
		"nothing is ready at last": func(h *house) { h.ready(0) },
	} {
		h := newHouse()
		h.ready(time.Hour)
		set(h)
		h.round(t)
		if len(h.told) != 0 {
			t.Errorf("%s: told %v", name, h.told)
		}
	}
	for name, w := range map[string]task.Worker{
		"it is silent":         {State: task.WorkerSilent, Queues: []string{"mail"}},
		"it drains":            {State: task.WorkerDraining, Queues: []string{"mail"}},
		"it takes other tasks": {State: task.WorkerActive, Queues: []string{"scan"}},
	} {
		h := newHouse()
		h.ready(time.Hour)
		h.workers = []task.Worker{w}
		h.round(t)
		if len(h.told) != 1 {
			t.Errorf("%s: told %v", name, h.told)
		}
	}
}

func TestWorkersAreAskedForOnlyWhenSomethingWaits(t *testing.T) {
	h := newHouse()
	h.ready(time.Second)
	h.round(t)
	h.ready(time.Hour)
	h.round(t)
	h.round(t)
	if h.asked != 1 {
		t.Errorf("asked %d times, want once", h.asked)
	}
}

func TestRunGoesOnAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.ready(time.Hour)
		h.failing.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.watch.Run(ctx) }()
		time.Sleep(every + time.Second)
		h.failing.Store(false)
		time.Sleep(every)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(h.told, func(e store.Event) bool { return e.Subject == "mail" }) {
			t.Errorf("told %v", h.told)
		}
	})
}
