package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// eventServer has a log of events whose cursors are their seqs.
type eventServer struct {
	streams []string // their queries
	stream  func(n int, w http.ResponseWriter, r *http.Request)
}

func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.streams = append(s.streams, r.URL.Query().Encode())
	s.stream(len(s.streams), w, r)
}

// send sends the events of some seqs, and the id of the first without an event.
func send(w http.ResponseWriter, id string, seqs ...int) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "id: %s\n\n:\n\n", id)
	for _, seq := range seqs {
		fmt.Fprintf(w,
			"id: %d\ndata: {\"seq\":%d,\"kind\":\"node.online\",\"time\":\"2026-11-21T08:00:00.000Z\",\"fields\":{\"a\":\"b\"}}\n\n",
			seq, seq)
	}
	w.(http.Flusher).Flush()
}

func follow(t *testing.T, s *eventServer, f EventFilter, want int) (seqs []int64, err error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := New(Config{Fixed: true, Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range c.FollowEvents(ctx, f, "") {
		if err != nil {
			return seqs, err
		}
		if e.Kind != "node.online" || e.Fields["a"] != "b" || e.Time.IsZero() {
			t.Errorf("event %+v", e)
		}
		if seqs = append(seqs, e.Seq); len(seqs) == want {
			break
		}
	}
	return seqs, nil
}

func TestFollowedEventsGoOnWhereAStreamBroke(t *testing.T) {
	s := &eventServer{}
	s.stream = func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			send(w, "4") // it ends before anything happened: what happens now is not to be missed
		case 2:
			send(w, "4", 5, 6)
			panic(http.ErrAbortHandler)
		case 3:
			http.Error(w, "", http.StatusServiceUnavailable)
		default:
			send(w, "6", 7)
		}
	}
	seqs, err := follow(t, s,
		EventFilter{
			Kinds: []string{"node.*", "x"}, Since: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
		}, 3)
	if err != nil || !slices.Equal(seqs, []int64{5, 6, 7}) {
		t.Errorf("followed %v, %v", seqs, err)
	}
	const filter = "kind=node.%2A%2Cx&since=2026-11-21T08%3A00%3A00Z"
	if want := []string{filter, "cursor=4&" + filter, "cursor=6&" + filter,
		"cursor=6&" + filter}; !slices.Equal(s.streams, want) {
		t.Errorf("asked for %q\nwant %q", s.streams, want)
	}
}

func TestFollowingEndsWithWhatNoOtherTryMends(t *testing.T) {
	s := &eventServer{stream: func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"status":403,"title":"Forbidden","detail":"no"}`)
	}}
	if seqs, err := follow(t, s, EventFilter{}, 1); !errors.Is(err, ErrForbidden) ||
		len(seqs) != 0 || len(s.streams) != 1 {
		t.Errorf("followed %v, %v in %d streams", seqs, err, len(s.streams))
	}
}

// An event that can't be read is an error: the next stream would begin behind it, as if it had been
// read.
func TestFollowingLeavesOutNoEventInSilence(t *testing.T) {
	s := &eventServer{stream: func(_ int, w http.ResponseWriter, _ *http.Request) {
		send(w, "0", 1)
		io.WriteString(w, "id: 2\ndata: {\"seq\":\"two\"}\n\n")
		send(w, "2", 3)
	}}
	if seqs, err := follow(t, s, EventFilter{}, 2); !errors.Is(err, errUnreadable) ||
		len(seqs) != 1 || len(s.streams) != 1 {
		t.Errorf("followed %v, %v in %d streams", seqs, err, len(s.streams))
	}
}

func TestNotifierCallsSayWhatTheyAreGiven(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(b)))
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/fails/test"):
			io.WriteString(w, `{"delivered":false,"trouble":"no route"}`)
		case strings.HasSuffix(r.URL.Path, "/test"):
			io.WriteString(w, `{"delivered":true,"trouble":""}`)
		case r.Method == http.MethodPut:
			io.WriteString(w,
				`{"name":"ops","kind":"webhook","on":["*"],"signed":true,"failing":null,"delivered":3}`)
		case strings.HasPrefix(r.URL.Path, "/v1/events"):
			io.WriteString(w, `{"items":[{"seq":1},{"seq":2}],"next":"2"}`)
		default:
			io.WriteString(w,
				`{"items":[{"name":"ops","failing":"2026-11-21T08:00:00.000Z","trouble":"no route"}],"next":""}`)
		}
	}))
	defer server.Close()
	c, err := New(Config{Fixed: true, Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if n, err := c.PutNotifier(ctx, "ops",
		NotifierConf{Kind: "webhook", On: []string{"*"}, URL: "https://x/",
			Secret: "k"}); err != nil || !n.Signed || n.Delivered != 3 || !n.Failing.IsZero() {
		t.Errorf("put: %+v, %v", n, err)
	}
	if all, err := c.Notifiers(ctx); err != nil || len(all) != 1 || all[0].Failing.IsZero() ||
		all[0].Trouble != "no route" {
		t.Errorf("list: %+v, %v", all, err)
	}
	if err := c.TestNotifier(ctx, "ops"); err != nil {
		t.Errorf("test: %v", err)
	}
	if err := c.TestNotifier(ctx, "fails"); !errors.Is(err, ErrUndelivered) ||
		err.Error() != `test notifier "fails": not delivered: no route` {
		t.Errorf("test of one that fails: %v", err)
	}
	if err := c.DeleteNotifier(ctx, "ops"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if events, next, err := c.Events(
		ctx, EventFilter{Kinds: []string{"a"}}, "7", 2,
	); err != nil || len(events) != 2 || next != "2" {
		t.Errorf("events: %+v, %q, %v", events, next, err)
	}
	want := []string{
		`PUT /v1/notifiers/ops {"kind":"webhook","on":["*"],"url":"https://x/","secret":"k"}`,
		"GET /v1/notifiers?limit=1000", "POST /v1/notifiers/ops/test",
		"POST /v1/notifiers/fails/test", "DELETE /v1/notifiers/ops",
		"GET /v1/events?cursor=7&kind=a&limit=2",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q\nwant  %q", asked, want)
	}
}

// A server that is stopped, or off, ends no stream: its silence does.
func TestFollowerLeavesAServerThatFallsSilent(t *testing.T) {
	quit := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(w, "0", 1)
		select {
		case <-quit:
		case <-r.Context().Done():
		}
	}))
	defer hung.Close()
	defer close(quit)
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// not even a header
		select {
		case <-quit:
		case <-r.Context().Done():
		}
	}))
	defer mute.Close()
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("cursor"); got != "1" {
			t.Errorf("goes on behind %q", got)
		}
		send(w, "1", 2)
		<-r.Context().Done()
	}))
	defer well.Close()
	c, err := New(Config{Fixed: true, Servers: []string{hung.URL, mute.URL, well.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.silence = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var seqs []int64
	for e, err := range c.FollowEvents(ctx, EventFilter{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, e.Seq); len(seqs) == 2 {
			break
		}
	}
	if !slices.Equal(seqs, []int64{1, 2}) {
		t.Errorf("read %v", seqs)
	}
}

// What a reader does with an event takes its own time: no server falls silent meanwhile.
func TestFollowerStaysAtItsServerWhileItsReaderIsSlow(t *testing.T) {
	rested := make(chan struct{}) // closed when the reader has had its time
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(w, "0", 1)
		select {
		case <-rested:
			send(w, "1", 2)
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))
	defer well.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("the server was left for another")
		send(w, "1", 2)
	}))
	defer other.Close()
	c, err := New(Config{Fixed: true, Servers: []string{well.URL, other.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.silence = time.Second // also a busy machine has answered by then
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var seqs []int64
	for e, err := range c.FollowEvents(ctx, EventFilter{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, e.Seq); len(seqs) == 2 {
			break
		}
		time.Sleep(3 * c.silence / 2)
		close(rested)
	}
	if !slices.Equal(seqs, []int64{1, 2}) || c.servers.use() != well.URL {
		t.Errorf("read %v, and uses %s", seqs, c.servers.use())
	}
}

// A node that is cut off from its store refuses streams as it refuses calls, for which clients turn
// to another node.
func TestFollowersTurnToAnotherNodeWhenOneStaysInTrouble(t *testing.T) {
	for name, was := range map[string]bool{"from the start": false, "later": true} {
		var away atomic.Bool
		away.Store(!was)
		sick, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if away.Swap(true) {
				refuse(w, http.StatusServiceUnavailable, "this node can't reach its store")
				return
			}
			send(w, "4")
		})
		well, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { send(w, "4", 5) })
		c := newClient(t, Config{Servers: []string{sick, well}})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for e, err := range c.FollowEvents(ctx, EventFilter{}, "4") {
			if err != nil || e.Seq != 5 {
				t.Errorf("%s: event %d, %v", name, e.Seq, err)
			}
			break
		}
	}
}

// What is longer than an event may be is as long when it comes again.
func TestAnEventThatIsTooLongIsNotAskedForForEver(t *testing.T) {
	s := &eventServer{stream: func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 7\ndata: %s\n\n", strings.Repeat("x", longestEvent))
	}}
	if _, err := follow(t, s, EventFilter{}, 1); !errors.Is(err, errUnreadable) ||
		len(s.streams) != 1 {
		t.Errorf("%v in %d streams", err, len(s.streams))
	}
}
