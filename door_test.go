package rota

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

const doorToken = "a-token-of-more-than-16-bytes"

// tokenFile is a file with one viewer's token.
func tokenFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(name, []byte("watcher viewer "+doorToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A program's own server has the API below a prefix, and who may call is said as ever.
func TestHandlerServesTheAPIInAnotherServer(t *testing.T) {
	n := start(t, Config{TokenFile: tokenFile(t)})
	mux := http.NewServeMux()
	mux.Handle("/rota/", http.StripPrefix("/rota", n.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	speaker := func(token string) *client.Client {
		c, err := client.New(client.Config{
			Servers: []string{server.URL + "/rota"}, Token: token, Attempts: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	got, err := n.Submit(t.Context(), Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	viewer := speaker(doorToken)
	if v, err := viewer.Task(t.Context(), got[0].ID, 0); err != nil || v.Queue != "q" {
		t.Errorf("a viewer reads %+v, %v", v, err)
	}
	if err := viewer.Cancel(t.Context(), got[0].ID); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a viewer cancels: %v", err)
	}
	_, err = speaker("").Task(t.Context(), got[0].ID, 0)
	if !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("somebody without a token reads: %v", err)
	}
	// the program itself needs none
	if err := n.Client.Cancel(t.Context(), got[0].ID); err != nil {
		t.Errorf("the node cancels: %v", err)
	}
}

func TestWithoutTokensHandlerAnswersThisMachineOnly(t *testing.T) {
	n := start(t, Config{})
	for host, want := range map[string]int{
		"localhost": http.StatusOK, "rota.example": http.StatusForbidden,
	} {
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w,
			httptest.NewRequest(http.MethodGet, "http://"+host+"/v1/queues", nil))
		if w.Code != want {
			t.Errorf("to a call of %s it answers %d, want %d", host, w.Code, want)
		}
	}
}

func TestWhatANodeDoesByTheAPIIsToldInItsName(t *testing.T) {
	n := start(t, Config{TokenFile: tokenFile(t)})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	began := time.Now().Add(-time.Minute)
	if _, err := n.PutQueue(ctx, "q", client.QueueChange{MaxAttempts: new(3)}); err != nil {
		t.Fatal(err)
	}
	// a stream, which is read while it is written
	for e, err := range n.FollowEvents(ctx, client.EventFilter{Since: began}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "audit.queue.put" {
			if e.Fields["by"] != "n" || e.Fields["from"] != "inprocess" {
				t.Errorf("the event is %+v", e)
			}
			return
		}
	}
}

// A program's own registry shows the node's metrics beside those that it has. What the store has
// not said yet is missing, and makes none of the page wrong.
func TestCollectorShowsTheNodesMetricsInAnotherRegistry(t *testing.T) {
	n := start(t, Config{})
	if _, err := n.PutQueue(t.Context(), "q", client.QueueChange{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), n.Collector())
	gather := func() map[string]int {
		list, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, family := range list {
			found[family.GetName()] = len(family.GetMetric())
		}
		return found
	}
	var found map[string]int
	for until := time.Now().Add(time.Minute); found["rota_queue_tasks"] == 0; {
		if time.Now().After(until) {
			t.Fatalf("after a minute it shows no tasks: %v", found)
		}
		found = gather()
	}
	for _, want := range []string{
		"rota_build_info", "rota_store_seconds", "rota_tasks_total", "go_goroutines",
	} {
		if found[want] == 0 {
			t.Errorf("it shows no %s: %v", want, found)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if found := gather(); found["go_goroutines"] == 0 {
		t.Errorf("with the node closed it shows %v", found)
	}
}

// A node that is closed before anybody asked for its metrics makes none of the program's wrong.
func TestCollectorOfAClosedNodeShowsNothing(t *testing.T) {
	n := opened(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(n.Collector())
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := registry.Gather(); err != nil || len(list) > 0 {
		t.Errorf("it shows %v, %v", list, err)
	}
}

func TestAClosedNodeRefuses(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Queues(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("queues of a closed node: %v", err)
	}
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); !errors.Is(
		err, ErrUnavailable,
	) {
		t.Errorf("submission to a closed node: %v", err)
	}
}

func TestATokenFileThatIsWrongKeepsTheNodeShut(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
		TokenFile: filepath.Join(t.TempDir(), "nothing"),
	})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open answered %v", err)
	}
}
