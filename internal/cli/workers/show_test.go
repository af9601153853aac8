package workers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Programs read the same of a worker, whether they ask the API or the command line.
func TestWorkerInJSONIsTheAPIs(t *testing.T) {
	const api = `{"name":"w1","node":"n1","state":"draining","active":true,"draining":true,"capacity":4.5,"used":1.5,"load":{"cpu":0.5,"memory":0.25},"labels":{"disk":"fast"},` +
		`"zone":"z","running_tasks":2,"free":2,"queues":["mail"],"jobs":3,"seen":"2026-11-22T14:00:00.120Z"}`
	var w task.Worker
	if err := json.Unmarshal([]byte(api), &w); err != nil {
		t.Fatal(err)
	}
	for want, doc := range map[string]any{
		api: workerDoc{w, term.Stamp(w.Seen)},
		`{"name":"","node":"","state":"","active":false,"draining":false,"capacity":0,"used":0,"load":{"cpu":0,"memory":0},"labels":null,"running_tasks":0,"free":0,"queues":null,"jobs":0,"seen":null}`: workerDoc{},
	} {
		if got, err := json.Marshal(doc); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if want := time.Date(
		2026, 11, 22, 14, 0, 0, 120e6, time.UTC,
	); !w.Seen.Equal(want) || w.Running != 2 {
		t.Errorf("%+v", w)
	}
}

// A job that was assigned just before the drain, and that the worker has not spoken of yet, may
// start all the same.
func TestDrainWaitsForJobsThatTheWorkerHasNotSpokenOf(t *testing.T) {
	var looks atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/workers/w1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w,
			`{"name":"w1","active":true,"draining":true,"capacity":4,"jobs":0,"running_tasks":0}`)
	})
	mux.HandleFunc("GET /v1/groups", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[{"name":"tails"}],"next":""}`)
	})
	mux.HandleFunc("GET /v1/groups/tails/assignments",
		func(w http.ResponseWriter, _ *http.Request) {
			if looks.Add(1) == 1 {
				io.WriteString(w,
					`{"items":[{"job":"a","replica":0,"worker":"w1","state":"starting","since":null}],"next":""}`)
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
	a := commands{&app.App{Output: term.Output{Err: &said}}}
	if err := a.drained(
		t.Context(), c, "w1", &view.WorkerDrained{Draining: true},
	); err != nil {
		t.Fatal(err)
	}
	if want := "w1 still runs 1 job and 0 tasks\nw1 is drained\n"; said.String() != want {
		t.Errorf("said %q, not %q", said.String(), want)
	}
}
