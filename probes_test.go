package rota

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// probe asks a node as a balancer does that does not wait long: much longer than the node may take,
// and less than any statement takes that hangs.
func probe(t *testing.T, n *Node, path string) (status int, text string) {
	t.Helper()
	c := http.Client{Timeout: 3 * time.Second}
	defer c.CloseIdleConnections()
	response, err := c.Get("http://" + n.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// overviewOf reads an overview; a node that refuses fails the test.
func overviewOf(t *testing.T, n *Node) (o view.Overview) {
	t.Helper()
	status, text := probe(t, n, "/v1/overview")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

type readiness struct {
	Ready      bool
	Durability string
	Age        string
	Detail     string
}

func ready(t *testing.T, n *Node) (r readiness, status int) {
	t.Helper()
	status, text := probe(t, n, "/readyz")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r, status
}

// The node's lease outlives the test, so that nothing is decided meanwhile but how long probes
// take.
func TestProbesAreAnsweredFromWhatIsKnownWhileTheDatabaseHangs(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	conf := quick("a", server.Database(t))
	conf.Lease = time.Minute
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	const counted = `rota_queue_tasks{queue="q",state="ready"} 1`
	settled(t, "all is known", func() bool {
		r, _ := ready(t, n)
		_, text := probe(t, n, "/metrics")
		return r.Ready && strings.Contains(text, counted) && overviewOf(t, n).Ready == 1
	})
	server.Pause(t)
	t.Cleanup(func() { server.Resume(t) })
	settled(t, "it says how long the store has been silent", func() bool {
		r, status := ready(t, n)
		age, err := time.ParseDuration(r.Age)
		if status != http.StatusOK || r.Durability == "" || err != nil {
			t.Fatalf("%d %+v", status, r)
		}
		if _, text := probe(t, n, "/metrics"); !strings.Contains(text, counted) {
			t.Fatalf("/metrics lacks %s", counted)
		}
		o := overviewOf(t, n)
		if o.Ready != 1 || time.Duration(o.Age) > time.Hour {
			t.Fatalf("an overview of %d ready tasks, %v old", o.Ready, time.Duration(o.Age))
		}
		return o.Age != 0 && age > time.Second && strings.Contains(r.Detail, "has not answered for")
	})
	server.Resume(t)
	settled(t, "what is known is new", func() bool {
		r, _ := ready(t, n)
		return r.Ready && r.Detail == "" && overviewOf(t, n).Age == 0
	})
}

func TestNodeIsNotReadyWhenItsDatabaseHangsForTooLong(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	n, err := Open(t.Context(), quick("a", server.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)
	server.Pause(t)
	t.Cleanup(func() { server.Resume(t) })
	settled(t, "it is not ready", func() bool {
		r, status := ready(t, n)
		probe(t, n, "/metrics")
		return status == http.StatusServiceUnavailable && !r.Ready && r.Detail != ""
	})
	server.Resume(t)
	settled(t, "it is ready again", func() bool {
		_, status := ready(t, n)
		return status == http.StatusOK
	})
}

// What a database refuses because it can't be written to was not written: callers may turn to
// another node, or try again.
func TestDatabaseThatCannotBeWrittenToIsAnOutage(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	conf := quick("a", server.Database(t))
	conf.Lease = time.Minute // the outage is noticed by what is refused, not by what hangs
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)
	c, err := client.New(client.Config{
		Servers: []string{"http://" + n.Addr()}, Fixed: true, Attempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	calls := map[string]func() error{
		"submit": func() error {
			_, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
			return err
		},
		"configure": func() error {
			timeout := time.Minute
			_, err := c.PutQueue(t.Context(), "q", client.QueueChange{Timeout: &timeout})
			return err
		},
	}
	if err := calls["submit"](); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	settled(t, "submissions are refused", func() bool { return calls["submit"]() != nil })
	known := func() bool { return n.rounds.Reach() != nil }
	for range 2 { // before and after the node knows
		for verb, call := range calls {
			var refused *client.Error
			err := call()
			if !errors.As(err, &refused) || refused.Outcome != "unchanged" ||
				refused.RetryAfter == 0 {
				t.Errorf("%s: %v", verb, err)
			}
		}
		settled(t, "the node knows that its store can't be written to", known)
	}
	if r, status := ready(t, n); status != http.StatusServiceUnavailable ||
		!strings.Contains(r.Detail, "read-only") {
		t.Errorf("%d %+v", status, r)
	}
	server.Exec(t, "SET default_transaction_read_only = off",
		"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	settled(t, "it takes tasks again", func() bool { return calls["submit"]() == nil })
	if r, _ := ready(t, n); !r.Ready {
		t.Errorf("%+v", r)
	}
}
