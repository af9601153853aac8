package peers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pass"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestWorkerThatTwoNodesKnowIsShownOnce(t *testing.T) {
	early, late := time.UnixMicro(1), time.UnixMicro(2)
	got := merged([]task.Worker{
		{Name: "w2", Node: "a", Seen: early, Active: true, Running: 2, Used: 2},
		{Name: "w1", Node: "a", Seen: late, Running: 1},
		{Name: "w2", Node: "b", Seen: late, Running: 3, Draining: true, Capacity: 8, Used: 3},
		{Name: "w3", Node: "b"},
	})
	want := []task.Worker{
		{Name: "w1", Node: "a", Seen: late, Running: 1},
		{
			Name: "w2", Node: "b", Seen: late, Active: true, Running: 5, Draining: true,
			Capacity: 8, Used: 5,
		},
		{Name: "w3", Node: "b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A node that hangs costs a call two seconds, and is named.
func TestNodeThatDoesNotAnswerIsMissingAndNoError(t *testing.T) {
	hung := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(hung.Close)
	p := New(Config{Node: "n", Key: []byte("key"), Now: time.Now})
	t.Cleanup(p.Close)
	for name, address := range map[string]string{"hung": hung.URL, "gone": "http://127.0.0.1:1",
		"silent": ""} {
		err := p.Ask(t.Context(), store.Node{Name: name, Address: address},
			func(ctx context.Context, c *client.Client) error {
				_, _, err := c.Workers(ctx)
				return err
			})
		if !errors.Is(err, store.ErrAway) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of a worker that nobody knows nobody else is asked where there is nobody else.
func TestLoneNodeAsksNobodyElse(t *testing.T) {
	w := NewAllWorkers(AllWorkersConfig{Others: func() (reachable, away []store.Node) {
		return nil, nil
	}})
	calls := 0
	unknown := errors.Join(store.ErrNotFound)
	if err := w.everywhere(t.Context(), "w", false, unknown,
		func(*client.Client, context.Context, string) error {
			calls++
			return nil
		}); err != unknown || calls != 0 {
		t.Errorf("alone: %v after %d calls", err, calls)
	}
}

// Whoever answers at a node's address must be that node, and one connection is enough for all
// probes.
func TestProbeKnowsWhoAnswers(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	connections := map[string]bool{}
	for name, c := range map[string]struct {
		answer string
		status int
		want   string // part of the error; "" = none
	}{
		"the node": {`{"status":"ok","node":"b","store":"` + StoreMark(key) + `"}`,
			200, ""},
		"one that knows no pass": {`{"status":"ok"}`, 200, "pass"},
		"another node": {`{"status":"ok","node":"c","store":"` + StoreMark(key) + `"}`,
			200, `node "c"`},
		"its name in another store": {`{"status":"ok","node":"b","store":"` + StoreMark(key[1:]) +
			`"}`, 200, "store"},
		"a web server": {`<html>welcome</html>`, 200, "no node"},
		"one that can't": {`{"status":"ok","node":"b","store":"` + StoreMark(key) + `"}`,
			503, "503"},
	} {
		clear(connections)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connections[r.RemoteAddr] = true
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer)
		}))
		p := New(Config{Node: "a", Key: key, Now: time.Now})
		for range 5 {
			err := p.Probe(t.Context(), "b", server.URL)
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		p.Close()
		server.Close()
		if len(connections) != 1 {
			t.Errorf("%s: %d connections for five probes", name, len(connections))
		}
	}
}

func TestPassIsTakenOnce(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	key := []byte("0123456789abcdef0123456789abcdef")
	b := New(Config{Node: "b", Key: key, Now: func() time.Time { return now }})
	for i := range 3 {
		// each call has a pass of its own, also when it is the same call at the same moment
		r := httptest.NewRequest("GET", "/v1/workers?here=true", nil)
		pass.Pass{Node: "a", Key: key}.Show(r, "b", nil, now)
		if _, ok := b.Caller(r); !ok {
			t.Errorf("call %d was refused", i)
		}
		if _, ok := b.Caller(r); ok {
			t.Errorf("call %d was taken twice", i)
		}
	}
}
