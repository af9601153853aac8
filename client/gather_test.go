package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// accept answers submissions: the id's number is the task's place in its request. Queue "bad" is
// refused.
func accept(t *testing.T, w http.ResponseWriter, r *http.Request) []task.Submission {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	tasks, err := wire.ParseSubmissions(body)
	if err != nil {
		t.Errorf("parse %.100q: %v", body, err)
		refuse(w, 400, err.Error())
		return nil
	}
	receipts := make([]task.Receipt, len(tasks))
	for i, s := range tasks {
		if s.Queue == "bad" {
			refuse(w, 422, "bad queue")
			return tasks
		}
		fmt.Sscanf(string(s.Context), "%d", &receipts[i].ID.N)
		receipts[i].ID.Batch = 1
	}
	w.WriteHeader(201)
	w.Write(wire.AppendReceipts(nil, receipts))
	return tasks
}

func TestConcurrentSubmissionsGatherAndEachGetsItsOwnReceipts(t *testing.T) {
	var inFlight, most atomic.Int64
	first := make(chan struct{})
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inFlight.Add(1)))
		defer inFlight.Add(-1)
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	const callers = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		c.Submit(t.Context(), task.Submission{Queue: "q", Context: json.RawMessage(`0`)})
	})
	for calls.Load() == 0 { // it flies alone; all others will wait behind it
		time.Sleep(time.Millisecond)
	}
	for i := range callers {
		wg.Go(func() {
			receipts, err := c.Submit(t.Context(),
				task.Submission{Queue: "q", Context: json.RawMessage(fmt.Sprint(2 * i))},
				task.Submission{Queue: "q", Context: json.RawMessage(fmt.Sprint(2*i + 1))})
			if err != nil || len(receipts) != 2 || receipts[0].ID.N != int32(2*i) ||
				receipts[1].ID.N != int32(2*i+1) {
				t.Errorf("caller %d: %v, %v", i, receipts, err)
			}
		})
	}
	for waiting := 0; waiting < callers; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	close(first)
	wg.Wait()
	if most.Load() != 1 || calls.Load() != 2 {
		t.Errorf(
			"%d requests, %d at a time, for %d callers; want 2, the second with all that waited",
			calls.Load(), most.Load(), callers+1,
		)
	}
}

func TestOneCallersBadTaskFailsOnlyThatCaller(t *testing.T) {
	first := make(chan struct{})
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			queue := "q"
			if i == 13 {
				queue = "bad"
			}
			receipts, err := c.Submit(t.Context(),
				task.Submission{Queue: queue, Context: json.RawMessage(fmt.Sprint(i))})
			switch {
			case i == 13:
				var refused *Error
				if !errors.As(err, &refused) || !errors.Is(err, ErrInvalid) ||
					refused.Errors[0].Location != "body.tasks[0].queue" {
					t.Errorf("the bad one got %v", err)
				}
			case err != nil || receipts[0].ID.N != int32(i):
				t.Errorf("caller %d: %v, %v", i, receipts, err)
			}
		})
	}
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	close(first)
	wg.Wait()
}

func TestCallerWhoLeavesBeforeTheFlightSendsNothing(t *testing.T) {
	first := make(chan struct{})
	var got atomic.Int64
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-first
		got.Add(int64(len(accept(t, w, r))))
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	wg.Go(func() { c.Submit(t.Context(), task.Submission{Queue: "q"}) })
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		_, err := c.Submit(ctx, task.Submission{Queue: "q"})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("left early: %v", err)
		}
		close(first)
	})
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	cancel()
	wg.Wait()
	c.Close()
	if got.Load() != 1 {
		t.Errorf("%d tasks arrived, want 1", got.Load())
	}
}

func TestKeyedCallersGoAgainWhenAGatheredOutcomeIsUnknown(t *testing.T) {
	first := make(chan struct{})
	var n atomic.Int64
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 2 { // the gathered one
			io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	wg.Go(func() { c.Submit(t.Context(), task.Submission{Queue: "q"}) })
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, key := range []string{"", "a"} {
		wg.Go(func() {
			_, err := c.Submit(t.Context(), task.Submission{Queue: "q", Key: key})
			if errors.Is(err, ErrOutcomeUnknown) != (key == "") || key != "" && err != nil {
				t.Errorf("key %q: %v", key, err)
			}
		})
	}
	for waiting := 0; waiting < 2; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	close(first)
	wg.Wait()
}
