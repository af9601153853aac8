package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rotahq/rota/view"
)

func TestFollowedOverviewIsWholeWhateverOfItChanges(t *testing.T) {
	streams := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/overview/stream" {
			http.NotFound(w, r)
			return
		}
		streams++
		tell := func(kind, data string) {
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
			w.(http.Flusher).Flush()
		}
		if streams == 1 {
			tell("snapshot", `{"node":"n1","ready":3,"oldest_ready":{"queue":"q","age":"1m0s"},`+
				`"budget":1,"queues":[{"queue":"q","ready":3,"oldest_ready":"1m0s"}],`+
				`"totals":{"done":9007199254740993}}`)
			tell("patch", `{"ready":0,"oldest_ready":null,"queues":[{"queue":"q","oldest_ready":null}]}`)
			panic(http.ErrAbortHandler)
		}
		tell("snapshot", `{"node":"n2","ready":1}`)
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := New(Config{Fixed: true, Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []view.Overview
	for o, err := range c.FollowOverview(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, o); len(got) == 3 {
			break
		}
	}
	first, second, third := got[0], got[1], got[2]
	if first.Ready != 3 || time.Duration(first.OldestReady.Age) != time.Minute ||
		*first.Budget != 1 || *first.Queues[0].OldestReady != view.Duration(time.Minute) ||
		first.Totals.Done != 9007199254740993 {
		t.Errorf("the first: %+v", first)
	}
	if second.Node != "n1" || second.Ready != 0 || second.OldestReady != nil ||
		second.Queues[0].OldestReady != nil || second.Totals.Done != 9007199254740993 {
		t.Errorf("patched: %+v", second)
	}
	if third.Node != "n2" || third.Ready != 1 || third.Budget != nil || third.Queues != nil {
		t.Errorf("of another stream: %+v", third)
	}
}

func TestOverviewOfAServerThatHasNoneIsAnError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c, err := New(Config{Fixed: true, Servers: []string{server.URL}, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Overview(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	n := 0
	for _, err := range c.FollowOverview(t.Context()) {
		if n++; !errors.Is(err, ErrNotFound) {
			t.Errorf("followed: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("yielded %d times", n)
	}
}
