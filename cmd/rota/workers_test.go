package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/rotahq/rota/client"
)

// A job that was assigned just before the drain, and that the worker has not spoken of yet, may start all the same.
func TestDrainWaitsForJobsThatTheWorkerHasNotSpokenOf(t *testing.T) {
	var looks atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/workers/w1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name":"w1","active":true,"draining":true,"capacity":4,"jobs":0,"running_tasks":0}`)
	})
	mux.HandleFunc("GET /v1/groups", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[{"name":"tails"}],"next":""}`)
	})
	mux.HandleFunc("GET /v1/groups/tails/assignments", func(w http.ResponseWriter, _ *http.Request) {
		if looks.Add(1) == 1 {
			io.WriteString(w, `{"items":[{"job":"a","replica":0,"worker":"w1","state":"starting","since":null}],"next":""}`)
		} else {
			io.WriteString(w, `{"items":[],"next":""}`)
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var said bytes.Buffer
	a := &app{err: &said}
	if err := a.workerDrained(t.Context(), c, "w1"); err != nil {
		t.Fatal(err)
	}
	if want := "w1 still runs 1 job and 0 tasks\nw1 is drained\n"; said.String() != want {
		t.Errorf("said %q, not %q", said.String(), want)
	}
}
