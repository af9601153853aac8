package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/task"
)

// Refs are names within a call: what one caller calls a task means nothing in another's.
func TestCallsWithRefsTravelAlone(t *testing.T) {
	first := make(chan struct{})
	var mu sync.Mutex
	sizes := map[int]int{}
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-first
		n := len(accept(t, w, r))
		mu.Lock()
		defer mu.Unlock()
		sizes[n]++
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	submit := func(tasks ...task.Submission) {
		wg.Go(func() {
			if got, err := c.Submit(t.Context(), tasks...); err != nil || len(got) != len(tasks) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	plain := task.Submission{Queue: "q", Context: json.RawMessage(`0`)}
	submit(plain)
	for calls.Load() == 0 { // others would wait behind it
		time.Sleep(time.Millisecond)
	}
	for range 5 {
		submit(task.Submission{Queue: "q", Ref: "a"},
			task.Submission{Queue: "q", After: []string{"a"}})
	}
	submit(task.Submission{Queue: "q", Unique: &task.Unique{Key: "k"},
		OnExisting: task.OnExistingRefuse})
	for calls.Load() < 7 { // they wait for nobody
		time.Sleep(time.Millisecond)
	}
	close(first)
	wg.Wait()
	if diff := cmp.Diff(map[int]int{1: 2, 2: 5}, sizes); diff != "" {
		t.Error(diff)
	}
}

func TestATaskTellsForWhomItWaits(t *testing.T) {
	id, on := task.ID{Batch: 7 << 10, N: 3}, task.ID{Batch: 7 << 10, N: 2}
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"state":"blocked","awaits":{"tasks":true},"after":[
			{"id":%q,"ref":"left","if":"done","state":"done"},{"id":%q,"if":"ended"}]}`, id, on, id)
	})
	v, err := newClient(t, Config{Servers: []string{url}}).Task(t.Context(), id, 0)
	want := []task.Prior{
		{ID: on, Ref: "left", If: task.IfDone, State: task.Done}, {ID: id, If: task.IfEnded},
	}
	if diff := cmp.Diff(want, v.After); err != nil || diff != "" || *v.Awaits != (task.Awaits{
		Others: true}) {
		t.Errorf("%v %+v %s", err, v.Awaits, diff)
	}
}
