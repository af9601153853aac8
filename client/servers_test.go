package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// clustered answers for a node of a cluster whose nodes are as listed: "STATE ADDRESS".
func clustered(t *testing.T, nodes *[]string) (url string, calls *atomic.Int64) {
	return fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			if r.Header.Get("Authorization") != "" {
				t.Error("a token was shown before it was clear who answers")
			}
			fmt.Fprint(w, `{"status":"ok"}`)
		case "/v1/nodes":
			var items []string
			for i, n := range *nodes {
				state, address, _ := strings.Cut(n, " ")
				items = append(items,
					fmt.Sprintf(
						`{"name":"n%d","state":%q,"address":%q,"claims":{"owned":1},"joined":null}`,
						i, state, address,
					))
			}
			fmt.Fprintf(w, `{"items":[%s],"next":""}`, strings.Join(items, ","))
		default:
			fmt.Fprint(w, `{"items":[],"next":""}`)
		}
	})
}

func TestNodesThatAnswerAreLearnedAndUsedWhenTheGivenOnesAreAway(t *testing.T) {
	var nodes []string
	first, _ := clustered(t, &nodes)
	second, calls := clustered(t, &nodes)
	gone := "http://127.0.0.1:1"
	sick, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "no") })
	draining, _ := clustered(t, &nodes)
	offline, _ := clustered(t, &nodes)
	nodes = []string{
		"working " + first + "/", "working " + second, "working " + second, "working " + gone,
		"working " + sick, "draining " + draining, "offline " + offline,
		"unreachable " + offline, "working ", "working ftp://x", "working http://u:p@h",
		"working http://h?q",
	}
	c := newClient(t, Config{Servers: []string{first}, Token: "secret", Attempts: 1})
	if err := c.learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := slices.Clone(c.servers.list)
	slices.Sort(list[1:])
	want := []string{second, draining}
	slices.Sort(want)
	if want = append([]string{first}, want...); !slices.Equal(list, want) {
		t.Errorf("servers %q, want %q", list, want)
	}
	c.servers.given[0], c.servers.list[0] = gone, gone // it dies
	c.servers.list = c.servers.list[:1]
	c.servers.set([]string{second})
	before := calls.Load()
	if _, _, err := c.Workers(t.Context()); err != nil || calls.Load() != before+1 {
		t.Errorf("%v after %d calls at the one that was learned", err, calls.Load()-before)
	}
}

func TestGivenServersAreNeverForgottenAndTheUsedOneStaysInUse(t *testing.T) {
	s := &servers{given: []string{"a", "b"}, list: []string{"a", "b"}}
	for _, step := range []struct {
		learned []string
		turns   int
		want    string // the list, the one in use in brackets
	}{
		{nil, 0, "[a] b"},
		{[]string{"c", "d"}, 0, "[a] b c d"},
		{nil, 2, "a b [c] d"},
		{[]string{"d", "c"}, 0, "a b d [c]"},
		{[]string{"d"}, 0, "a b d [c]"},
		{nil, 1, "[a] b d c"},
		{[]string{}, 0, "[a] b"},
	} {
		if step.learned != nil {
			s.set(step.learned)
		}
		for range step.turns {
			s.turn(s.use())
		}
		var got []string
		for i, server := range s.list {
			if i == s.at {
				server = "[" + server + "]"
			}
			got = append(got, server)
		}
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("after %v and %d turns: %s, want %s", step.learned, step.turns, text,
				step.want)
		}
	}
	if s.turn("b"); s.use() != "a" {
		t.Errorf("turned from one that is not in use: now %q", s.use())
	}
}

func TestTokenThatGoesOverTLSIsNotSentWithout(t *testing.T) {
	nodes := []view.Node{
		{State: view.NodeWorking, Address: "http://10.0.0.1:7700"},
		{State: view.NodeWorking, Address: "https://10.0.0.2:7700"},
	}
	for given, want := range map[string]int{"http://a": 2, "https://a": 1} {
		c := newClient(t, Config{Servers: []string{given}})
		if got := c.candidates(nodes); len(got) != want || got[want-1] != "https://10.0.0.2:7700" {
			t.Errorf("given %s: %v", given, got)
		}
	}
}

func TestManyNodesAreLearnedInPart(t *testing.T) {
	var nodes []view.Node
	for i := range 3 * maxLearned {
		nodes = append(nodes, view.Node{
			State: view.NodeWorking, Address: fmt.Sprintf("http://10.0.0.1:%d", 1000+i),
		})
	}
	c := newClient(t, Config{})
	if got := c.candidates(nodes); len(got) != maxLearned {
		t.Errorf("%d candidates", len(got))
	}
}

func TestNodesAreAskedForBesideTheCallsOnceAMinute(t *testing.T) {
	c := newClient(t, Config{})
	at := time.Now()
	if ctx := c.servers.ask(at); ctx == nil {
		t.Fatal("not asked at the start")
	}
	if c.servers.ask(at.Add(time.Hour)) != nil {
		t.Error("asked twice at a time")
	}
	c.servers.asked(at.Add(learnEvery))
	if c.servers.ask(at.Add(learnEvery-1)) != nil {
		t.Error("asked again too soon")
	}
	ctx := c.servers.ask(at.Add(learnEvery))
	if ctx == nil {
		t.Fatal("not asked again")
	}
	c.servers.stop()
	if ctx.Err() == nil {
		t.Error("Close does not end the asking")
	}
	c.servers.asked(at)
}

func TestFirstCallAsksForNodesUnlessTheServersAreFixed(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		var nodes []string
		url, calls := clustered(t, &nodes)
		c, err := New(Config{Servers: []string{url}, Fixed: fixed})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Workers(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.flights.Wait()
		c.Close()
		if want := map[bool]int64{false: 2, true: 1}[fixed]; calls.Load() != want {
			t.Errorf("fixed %v: %d calls, want %d", fixed, calls.Load(), want)
		}
	}
}

func TestClosedClientDoesNotWaitForNodesThatDoNotAnswer(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	asking := c.servers.ask(time.Now())
	c.flights.Go(func() {
		<-asking.Done()
		c.servers.asked(time.Now())
	})
	c.Close()
	if err := asking.Err(); err != context.Canceled {
		t.Errorf("asking ended with %v", err)
	}
}

// A process that is stopped takes calls, and answers none. The calls of others must not wait until
// their time is over.
func TestCallsAtAServerThatIsLeftGoOnAtTheNext(t *testing.T) {
	waiting := make(chan struct{}, 2)
	hung, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		if strings.HasSuffix(r.URL.Path, "/hold") {
			waiting <- struct{}{}
		}
		<-r.Context().Done()
	})
	well, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"tasks":[],"poll_interval":"1s"}`)
	})
	c := newClient(t, Config{Servers: []string{hung, well}, Timeout: time.Hour, Attempts: 1})
	held := make(chan error, 1)
	go func() {
		_, err := c.Hold(t.Context(), task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Wait: time.Minute,
		})
		held <- err
	}()
	<-waiting
	long, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Hold(
		long, task.HoldRequest{Worker: "w", Queues: []string{"q"}, Wait: time.Minute},
	); !errors.Is(err, context.DeadlineExceeded) || c.servers.use() != hung {
		t.Errorf("a caller that waits for work and goes: %v, now at %s", err, c.servers.use())
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Beat(
		brief, task.Beat{Worker: "w", Incarnation: "i"},
	); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a beat: %v", err)
	}
	if err := <-held; err != nil {
		t.Errorf("the call that waited: %v", err)
	}
	if c.servers.use() != well || len(c.servers.calls) != 0 {
		t.Errorf("at %s, %d calls are noted", c.servers.use(), len(c.servers.calls))
	}
}

func TestNodesWhoseWorkersAreMissingAreNamedOnce(t *testing.T) {
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w, `{"items":[{"name":"w1","node":"a"}],"next":"c","missing":["n3","n2"]}`)
			return
		}
		fmt.Fprint(w, `{"items":[{"name":"w2","node":"b"}],"next":"","missing":["n2"]}`)
	})
	c := newClient(t, Config{Servers: []string{url}})
	workers, missing, err := c.Workers(t.Context())
	if err != nil || len(workers) != 2 || workers[1].Node != "b" ||
		!slices.Equal(missing, []string{"n2", "n3"}) {
		t.Errorf("%+v, missing %q, %v", workers, missing, err)
	}
}

// A node that is cut off from its store answers, but does nothing.
func TestServerThatStaysInTroubleIsLeft(t *testing.T) {
	sick, first := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 503, "no store")
	})
	well, second := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"items":[],"next":""}`)
	})
	c := newClient(t, Config{Servers: []string{sick, well}})
	for range 2 {
		if _, _, err := c.Workers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if first.Load() != 2 || second.Load() != 2 {
		t.Errorf("%d and %d calls, want 2 at the one in trouble and all others at the other",
			first.Load(), second.Load())
	}
}

func TestClusterIsReadAsItIs(t *testing.T) {
	var asked []string
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body) // empty of most
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		switch r.URL.Path {
		case "/v1/claims":
			fmt.Fprint(w,
				`{"items":[{"key":"k/a","owner":"n1","token":7,"since":null,"until":"2026-10-01T12:00:00.123Z"}],"next":""}`)
		case "/v1/cluster":
			fmt.Fprint(w, `{"K":3,"S":2,"unowned":1,"tolerance":1,"nodes":[{"name":"n1","state":"working","cpu":0.5,"claims":{"owned":2,"target":2,"cap":4,"alarm":9},"strikes":[{"by":"n2","misses":3}],"joined":"2026-10-01T12:00:00.123Z","seen":null}],
				"budget":{"nodes":1,"workers":5,"weakest":["n1","n2"]},"store":"postgres","version":"1","chores":[{"name":"beat","node":"n1"}]}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	})
	c := newClient(t, Config{Servers: []string{url}})
	at := view.Time{Time: time.Date(2026, 10, 1, 12, 0, 0, 123e6, time.UTC)}
	got, err := c.Cluster(t.Context())
	want := fmt.Sprintf("%+v", view.Cluster{
		Keys: 3, Working: 2, Unowned: 1, Tolerance: 1, Store: "postgres", Version: "1",
		Chores: []view.Chore{{Name: "beat", Node: "n1"}},
		Nodes: []view.Node{
			{Name: "n1", State: view.NodeWorking, CPU: .5,
				Claims:  view.NodeClaims{Owned: 2, Target: 2, Cap: 4, Alarm: 9},
				Strikes: []view.Strike{{By: "n2", Misses: 3}}, Joined: at},
		},
		Budget: view.Budget{Nodes: 1, Workers: 5, Weakest: []string{"n1", "n2"}},
	})
	if text := fmt.Sprintf("%+v", got); err != nil || text != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
	claims, err := c.Claims(t.Context(), ClaimFilter{})
	if want := []view.Claim{{Key: "k/a", Owner: "n1", Token: 7, Until: at}}; err != nil ||
		!slices.Equal(claims, want) {
		t.Errorf("claims %+v, %v", claims, err)
	}
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error {
			return c.DrainNode(
				ctx, "n1", true,
			)
		}, func(ctx context.Context) error {
			return c.UndrainNode(ctx, "n1")
		},
		func(ctx context.Context) error { return c.ReleaseClaim(ctx, "k/a") }, c.RescanClaims,
	} {
		if err := call(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if text, want := strings.Join(asked[2:], "; "),
		`POST /v1/nodes/n1/drain {"force":true}; POST /v1/nodes/n1/undrain; POST /v1/claims/release {"key":"k/a"}; POST /v1/claims/rescan`; text != want {
		t.Errorf("asked %s, want %s", text, want)
	}
}

// Who only follows must know where to turn when its server dies, too.
func TestFollowerAsksForNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	asked := false
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			asked = true
			cancel()
		}
		fmt.Fprint(w, `{"items":[],"next":""}`)
	})
	c, err := New(Config{Servers: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, err := range c.FollowEvents(ctx, EventFilter{}, "") {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	c.flights.Wait()
	if !asked {
		t.Error("it followed for seconds and never asked")
	}
}
