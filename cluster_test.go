package rota

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// speaks is a client of the node.
func speaks(t *testing.T, n *Node) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// settled waits until f says yes: nodes look around once a beat.
func settled(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestLoneNodeAnswersForItsCluster(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0", Beat: 20 * time.Millisecond, Lease: time.Second})
	c := speaks(t, n)
	var got view.Cluster
	settled(t, "the node sees itself", func() bool {
		var err error
		if got, err = c.Cluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(got.Nodes) == 1 &&
			slices.Equal(got.Chores, []view.Chore{{Name: "beat", Node: "n"}})
	})
	if got.Working != 1 || got.Store != "sqlite" || got.Tolerance != 1 || got.Budget.Nodes != 0 ||
		!slices.Equal(got.Budget.Weakest, []string{"n"}) ||
		got.Nodes[0].State != view.NodeWorking {
		t.Errorf("%+v", got)
	}
	if err := c.DrainNode(t.Context(), "n", false); !errors.Is(err, client.ErrConflict) ||
		!strings.Contains(err.Error(), "last node that works") {
		t.Errorf("drain of the last one: %v", err)
	}
	if err := c.DrainNode(t.Context(), "n", true); err != nil {
		t.Fatal(err)
	}
	state := func() view.NodeState {
		nodes, err := c.Nodes(t.Context())
		if err != nil || len(nodes) != 1 {
			t.Fatal(nodes, err)
		}
		return nodes[0].State
	}
	settled(t, "drained", func() bool { return state() == view.NodeDrained })
	if err := c.UndrainNode(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	settled(t, "works again", func() bool { return state() == view.NodeWorking })
	for _, err := range []error{c.DrainNode(t.Context(), "nobody", true),
		c.UndrainNode(t.Context(), "nobody"), c.ReleaseClaim(t.Context(), "mail/a")} {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%v, want not found", err)
		}
	}
	if err := c.RescanClaims(t.Context()); err != nil {
		t.Error(err)
	}
}

// members are nodes on one PostgreSQL that serve each other at addresses of this machine.
func members(t *testing.T, conf Config, names ...string) []*Node {
	t.Helper()
	nodes := make([]*Node, len(names))
	for i, name := range names {
		conf.Name, conf.Listen, conf.Beat = name, "127.0.0.1:0", 100*time.Millisecond
		var err error
		if nodes[i], err = Open(t.Context(), conf); err != nil {
			t.Fatal(err)
		}
		running(t, nodes[i])
	}
	for _, n := range nodes {
		settled(t, "all see each other", func() bool {
			return n.rounds.Cluster().Working == len(names)
		})
	}
	return nodes
}

// running runs a node until it is stopped, or the test ends.
func running(t testing.TB, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("node %s: %v", n.conf.Name, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

const clusterTokens = "root admin admin-token-0123456789\nw worker worker-token-0123456789\n"

func TestWorkersAreSeenAndSteeredThroughAnyNode(t *testing.T) {
	for name, tokens := range map[string]string{"without tokens": "",
		"with tokens": clusterTokens} {
		t.Run(name, func(t *testing.T) {
			conf := Config{Store: database(t)}
			if tokens != "" {
				conf.TokenFile = filepath.Join(t.TempDir(), "tokens")
				writeFile(t, conf.TokenFile, tokens)
			}
			nodes := members(t, conf, "a", "b")
			at := make([]*client.Client, 2)
			for i, n := range nodes {
				var err error
				if at[i], err = client.New(client.Config{Servers: []string{"http://" + n.Addr()},
					Fixed: true, Token: "admin-token-0123456789"}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { at[i].Close() })
			}
			if err := nodes[0].peers.Probe(
				t.Context(), "b", "http://"+nodes[1].Addr(),
			); err != nil {
				t.Errorf("the nodes do not know each other: %v", err)
			}
			if err := nodes[0].peers.Probe(
				t.Context(), "c", "http://"+nodes[1].Addr(),
			); err == nil {
				t.Error("one node was taken for another")
			}
			for i, name := range []string{"w-a", "w-b"} {
				if _, err := at[i].Beat(
					t.Context(), task.Beat{Worker: name, Incarnation: "i", Capacity: 4},
				); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range at {
				list, _, err := c.Workers(t.Context())
				if err != nil || len(list) != 2 || list[0].Name != "w-a" || list[0].Node != "a" ||
					list[1].Node != "b" {
					t.Errorf("at %d: %+v, %v", i, list, err)
				}
			}
			if _, err := at[0].DrainWorker(t.Context(), "w-b"); err != nil {
				t.Fatal(err)
			}
			if w, err := at[1].Worker(t.Context(), "w-b"); err != nil || !w.Draining {
				t.Errorf("drained at another node: %+v, %v", w, err)
			}
			if err := at[0].UndrainWorker(t.Context(), "w-b"); err != nil {
				t.Fatal(err)
			}
			settled(t, "undrained at another node", func() bool {
				// whose beat may have read the word just before
				w, err := at[0].Worker(t.Context(), "w-b")
				return err == nil && !w.Draining
			})
			if err := at[1].DeleteWorker(t.Context(), "w-a"); err != nil {
				t.Fatal(err)
			}
			if _, err := at[0].Worker(t.Context(), "w-a"); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("deleted at another node: %v", err)
			}
			if _, err := at[0].DrainWorker(t.Context(), "nobody"); !errors.Is(err,
				client.ErrNotFound) {
				t.Errorf("of nobody: %v", err)
			}
		})
	}
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // hundreds of nodes come and go here
	os.Exit(pgtest.Main(m))
}

// database is a PostgreSQL database of the test's own.
func database(t testing.TB) string {
	t.Helper()
	return pgtest.Shared(t).Database(t)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Two nodes advertise the address of a third.
func TestNodeAtAnAddressThatIsNotItsOwnIsUnreachableAndSaysSo(t *testing.T) {
	conf := Config{Store: database(t)}
	nodes := members(t, conf, "a", "b", "c")
	conf.Name = "x"
	conf.Listen = "127.0.0.1:0"
	conf.Beat = 100 * time.Millisecond
	conf.Advertise = "http://" + nodes[0].Addr()
	var log bytes.Buffer
	conf.Log = slog.New(slog.NewTextHandler(&log, nil))
	x, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, x)
	ready := func() (r struct {
		Ready, Joined bool
		Detail        string
	}) {
		response, err := http.Get("http://" + x.Addr() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	settled(t, "it says that it can't be reached", func() bool {
		return strings.Contains(ready().Detail, conf.Advertise)
	})
	if r := ready(); !r.Ready || !r.Joined {
		t.Errorf("%+v", r)
	}
	settled(t, "it does not count", func() bool {
		c := nodes[0].rounds.Cluster()
		return len(c.Nodes) == 4 && !slices.Contains(c.Budget.Worst, "x")
	})
	stop()
	if n := strings.Count(log.String(), "can't reach this one"); n != 1 {
		t.Errorf("its log says so %d times:\n%s", n, &log)
	}
}

func TestNodeWithoutAnAddressSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		conf Config
		want bool
	}{
		"everywhere": {Config{Store: database(t), Listen: "0.0.0.0:0", Insecure: true},
			true},
		"everywhere, advertised": {Config{Store: database(t), Listen: "0.0.0.0:0", Insecure: true,
			Advertise: "http://10.0.0.7:7700"}, false},
		"no API": {Config{Store: database(t)}, false},
		"alone": {Config{Store: "sqlite:" + t.TempDir() + "/rota.db",
			Listen: "0.0.0.0:0", Insecure: true}, false},
	} {
		var log bytes.Buffer
		c.conf.Log = slog.New(slog.NewTextHandler(&log, nil))
		n, err := Open(t.Context(), c.conf)
		if err != nil {
			t.Fatal(err)
		}
		var detail string
		settled(t, "the store has answered", func() bool {
			r := n.ready(t.Context())
			if r.Age > time.Hour {
				t.Fatalf("%s: the store has been silent for %v", name, r.Age)
			}
			detail = r.Detail
			return !strings.Contains(detail, "has not answered")
		})
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "advertise the URL") &&
			detail == noAddress; got != c.want || !got && detail != "" {
			t.Errorf("%s: it says %q, and logs:\n%s", name, detail, &log)
		}
	}
}

func TestNodeThatHasNotLookedAroundSaysThat(t *testing.T) {
	n, err := Open(t.Context(), Config{Store: "sqlite:" + t.TempDir() + "/rota.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := newCluster(n)
	if _, err := c.Cluster(t.Context()); !errors.Is(err, store.ErrNotYet) {
		t.Errorf("cluster: %v", err)
	}
	for _, err := range []error{c.UndrainNode(t.Context(), "n"),
		c.DrainNode(t.Context(), "n", "ada", true), c.ReleaseClaim(t.Context(), "a/b")} {
		if !errors.Is(err, store.ErrNotYet) {
			t.Errorf("got %v", err)
		}
	}
}
