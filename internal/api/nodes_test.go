package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What the fake says of the cluster: two nodes, one of them in trouble, and three keys.

func (f *fake) Cluster(context.Context) (store.Cluster, error) {
	return store.Cluster{
		Keys: 3, Unowned: 1, Working: 1, Tolerance: 1, AtOnce: 0, Weakest: []string{"n1"}, Rebalance: "auto",
		Store: "postgres", Chores: []store.Chore{{Name: "beat", Node: "n1"}},
		Nodes: []store.Node{
			{Name: "n1", Address: "http://10.0.0.1:7700", State: "working", Score: 12.5, CPU: .25,
				Memory: .5, Executors: 8, Running: 3, Owned: 2, Target: 3, Cap: 4, Alarm: 9,
				Joined: moment.UnixMicro(), Seen: moment.UnixMicro()},
			{Name: "n2", State: "unreachable", Strikes: []store.Strike{{By: "n1", Misses: 4}}},
		},
	}, f.err
}

func (f *fake) node(name string) error {
	if name != "n1" && name != "n2" {
		return fmt.Errorf("node %q: %w", name, store.ErrNotFound)
	}
	return nil
}

func (f *fake) DrainNode(_ context.Context, name, by string, force bool) error {
	if err := f.node(name); err != nil {
		return err
	}
	if name == "n1" && !force {
		return fmt.Errorf("drain node %q: it is the last node that works: %w", name,
			store.ErrConflict)
	}
	return f.change("drain node %s by %s, force %v", name, by, force)
}

func (f *fake) UndrainNode(_ context.Context, name string) error {
	if err := f.node(name); err != nil {
		return err
	}
	return f.change("undrain node %s", name)
}

func (f *fake) ShedNode(_ context.Context, s store.Shedding) ([]string, error) {
	if err := f.node(s.Node); err != nil {
		return nil, err
	}
	if s.Count > 3 && !s.Force {
		return nil, fmt.Errorf("%w: shed keys of node %q: the other nodes may own 3 more keys, and not %d",
			store.ErrForcible, s.Node, s.Count)
	}
	return []string{"mailbox/a", "mailbox/b"}, f.change("shed %+v", s)
}

func (f *fake) SetRebalance(_ context.Context, when string) error {
	return f.change("rebalance %s", when)
}

func (f *fake) AssignClaim(_ context.Context, a store.ClaimAssignment) error {
	switch {
	case !strings.HasPrefix(a.Key, "mailbox/"):
		return fmt.Errorf("key %q: %w", a.Key, store.ErrNotFound)
	case a.Node == "n2":
		return fmt.Errorf("%w: assign %s to node %q: it is unreachable", store.ErrConflict, a.Key, a.Node)
	case !a.Force && a.Key == "mailbox/b":
		return fmt.Errorf("%w: assign %s to node %q: it owns 4 keys, and 4 is what it may own",
			store.ErrForcible, a.Key, a.Node)
	}
	return f.change("assign %+v", a)
}

func (f *fake) Claims(context.Context) ([]store.Claim, error) {
	return []store.Claim{
		{Key: "mailbox/a", Owner: "n1", Token: 7, Since: moment.UnixMicro(),
			Until: moment.UnixMicro()},
		{Key: "mailbox/b", Owner: "n1", Token: 1, Until: moment.UnixMicro()}, {
			Key: "mailbox/c", Assigned: "n2", AssignedBy: "ada", AssignedUntil: moment.UnixMicro(),
		},
	}, f.err
}

func (f *fake) Rescan(context.Context) error { return f.change("rescan") }

func (f *fake) ReleaseClaim(_ context.Context, key string) error {
	if !strings.HasPrefix(key, "mailbox/") {
		return fmt.Errorf("key %q: %w", key, store.ErrNotFound)
	}
	return f.change("release %s", key)
}

func (s *stage) Workers(ctx context.Context, here bool) ([]task.Worker, []string, error) {
	return s.now().Workers(ctx, here)
}

func (s *stage) DrainWorker(
	ctx context.Context, name string, what store.Drain, here bool,
) error {
	return s.now().DrainWorker(ctx, name, what, here)
}

func (s *stage) UndrainWorker(ctx context.Context, name string, here bool) error {
	return s.now().UndrainWorker(ctx, name, here)
}

func (s *stage) DeleteWorker(ctx context.Context, name string, here bool) error {
	return s.now().DeleteWorker(ctx, name, here)
}

func (s *stage) Cluster(ctx context.Context) (store.Cluster, error) { return s.now().Cluster(ctx) }

func (s *stage) DrainNode(ctx context.Context, name, by string, force bool) error {
	return s.now().DrainNode(ctx, name, by, force)
}

func (s *stage) UndrainNode(ctx context.Context, name string) error {
	return s.now().UndrainNode(ctx, name)
}

func (s *stage) ShedNode(ctx context.Context, shed store.Shedding) ([]string, error) {
	return s.now().ShedNode(ctx, shed)
}

func (s *stage) SetRebalance(ctx context.Context, when string) error {
	return s.now().SetRebalance(ctx, when)
}

func (s *stage) AssignClaim(ctx context.Context, a store.ClaimAssignment) error {
	return s.now().AssignClaim(ctx, a)
}

func (s *stage) Claims(ctx context.Context) ([]store.Claim, error) { return s.now().Claims(ctx) }

func (s *stage) Rescan(ctx context.Context) error { return s.now().Rescan(ctx) }

func (s *stage) ReleaseClaim(ctx context.Context, key string) error {
	return s.now().ReleaseClaim(ctx, key)
}

// clusterOf is e itself when it knows of nodes, else a fake.
func clusterOf(e Engine) Cluster {
	if c, ok := e.(Cluster); ok {
		return c
	}
	return newFake()
}

func TestRefusedDrainSaysWhyAndHowItIsDoneAllTheSame(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	response, text := ask(t, a, "POST /v1/nodes/n1/drain", "")
	for _, want := range []string{"it is the last node that works",
		`"errors":[{"location":"body.force","message":"true drains it all the same"}]`} {
		if response.StatusCode != http.StatusConflict || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %q", response.StatusCode, text, want)
		}
	}
	if got := f.changed(); len(got) > 0 {
		t.Errorf("refused, and done all the same: %v", got)
	}
	if response, text := ask(
		t, a, "POST /v1/nodes/n1/drain", `{"force":true}`,
	); response.StatusCode != http.StatusOK {
		t.Errorf("with force: %d %s", response.StatusCode, text)
	}
	if got, want := f.changed(),
		[]string{"drain node n1 by anonymous, force true"}; !slices.Equal(got, want) {
		t.Errorf("done %q, want %q", got, want)
	}
}

func TestNodesThatDidNotAnswerAreNamedAndNoError(t *testing.T) {
	f := newFake()
	f.missing = []string{"n2", "n3"}
	a := newAPI(t, f, nil)
	if response, text := ask(
		t, a, "GET /v1/workers?limit=1", "",
	); response.StatusCode != http.StatusOK || !strings.Contains(text, `"missing":["n2","n3"]`) {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if _, text := ask(
		t, a, "GET /v1/workers?here=true", "",
	); !strings.Contains(text, `"missing":[]`) {
		t.Errorf("of this node: %s", text)
	}
	if response, text := ask(t, a, "GET /v1/workers/w1", ""); response.StatusCode != http.StatusOK {
		t.Errorf("a worker that is known: %d %s", response.StatusCode, text)
	}
	response, text := ask(t, a, "GET /v1/workers/w9", "")
	if response.StatusCode != http.StatusServiceUnavailable ||
		response.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, "n2, n3 did not answer") {
		t.Errorf("a worker that may be theirs: %d %s", response.StatusCode, text)
	}
	if response, _ := ask(
		t, a, "GET /v1/workers/w9?here=true", "",
	); response.StatusCode != http.StatusNotFound {
		t.Errorf("a worker that is not of this node: %d", response.StatusCode)
	}
}

func TestOtherNodesMayDoEverythingAndNobodyElseInTheirName(t *testing.T) {
	f := newFake()
	peer := func(r *http.Request) (string, bool) {
		return "n2", r.Header.Get("Authorization") == "Rota-Node good"
	}
	a := newAPI(t, f, func(c *Config) { c.Tokens, c.Peer = testTokens(t), peer })
	deaf := newAPI(t, f, func(c *Config) { c.Tokens = testTokens(t) })
	for _, c := range []struct {
		api    *API
		header string
		want   int
	}{
		{a, "Rota-Node good", 200}, {a, "Rota-Node bad", 401}, {a, "Bearer good", 401},
		{a, "Rota-Node admin-token", 401}, {a, "Bearer admin-token", 200},
		{deaf, "Rota-Node good", 401}, {deaf, "Rota-Node admin-token", 401},
	} {
		response, text := ask(t, c.api, "POST /v1/nodes/n2/drain", "", "Authorization: "+c.header)
		if response.StatusCode != c.want {
			t.Errorf("%s: %d %s, want %d", c.header, response.StatusCode, text, c.want)
		}
	}
	if got := f.changed(); !slices.Contains(got, "drain node n2 by n2, force false") {
		t.Errorf("done: %q", got)
	}
}
