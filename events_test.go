package rota

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/outbox"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
)

// written are the texts of a store's events.
func written(t *testing.T, s *model.Model) (texts []string) {
	t.Helper()
	page, err := s.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		texts = append(texts, e.Kind+": "+e.Text)
	}
	return texts
}

func wantWritten(t *testing.T, s *model.Model, want ...string) {
	t.Helper()
	if got := written(t, s); !slices.Equal(got, want) {
		t.Errorf("written down:\n%q\nwant\n%q", got, want)
	}
}

func TestWhatTheSchedulerTellsIsWrittenDown(t *testing.T) {
	s := model.New(time.Now)
	events := schedulerEvents{outbox.New(outbox.Config{Node: "n1", Append: s.Append})}
	for range 2 { // by two nodes, or again
		err := events.Tell(t.Context(),
			// it says so itself
			scheduler.Event{Key: "1", Kind: scheduler.NodeJoined, Node: "n2"}, scheduler.Event{
				Key: "2", Kind: scheduler.NodeLeft, Node: "n2",
			},
			scheduler.Event{
				Key: "3", Kind: scheduler.NodeOffline, Node: "n2",
				Detail: "it was working, it is offline",
			},
			scheduler.Event{Key: "4", Kind: scheduler.BudgetBroken, Detail: "fewer nodes may die"},
			scheduler.Event{
				Key: "5", Kind: scheduler.AlarmRaised, Node: "n3", Detail: "it owns 9 keys",
			},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	wantWritten(t, s, "node.offline: node n2: it was working, it is offline",
		"budget.broken: the cluster: fewer nodes may die", "alarm.raised: node n3: it owns 9 keys")
	page, err := s.Events(t.Context(), store.EventQuery{Limit: 10})
	if err != nil || page.Events[0].Subject != "n2" || page.Events[1].Subject != "" {
		t.Errorf("%+v, %v", page.Events, err)
	}
}

// A node of a file says when it comes and when it goes, and tells whoever is to be told.
func TestNodeTellsThatItCameAndLeft(t *testing.T) {
	conf := Config{Store: "sqlite:" + t.TempDir() + "/rota.db", Name: "n1"}
	var got []string
	for range 2 {
		n, err := Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	page, err := n.store.Events(t.Context(), store.EventQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		got = append(got, fmt.Sprint(e.Seq, " ", e.Kind))
	}
	if want := []string{"1 node.online", "2 node.offline", "3 node.online",
		"4 node.offline"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What happens reaches whoever is to be told, through the API, the log and the way out.
func TestAnEventReachesItsWebhook(t *testing.T) {
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- r.Header.Get("Webhook-Id") + " " + string(b)
	}))
	defer receiver.Close()
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + t.TempDir() + "/rota.db", Name: "n1", Listen: "127.0.0.1:0",
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutNotifier(
		ctx, "ops", client.NotifierConf{Kind: "webhook", On: []string{"test.*"}, URL: receiver.URL},
	); err != nil {
		t.Fatal(err)
	}
	if err := c.TestNotifier(ctx, "ops"); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.HasPrefix(text, "test-") {
		t.Errorf("the test is %s", text)
	}
	n.outbox.Add(store.Event{Kind: "test.happened", Subject: "x", Text: "it \"happened\""})
	text := <-got
	for e, err := range c.FollowEvents(ctx,
		client.EventFilter{Since: time.Now().Add(-time.Hour), Kinds: []string{"test.*"}}, "") {
		want := fmt.Sprintf(`evt-%d {"type":"test.happened","timestamp":"%s","data":{"seq":%d,`,
			e.Seq, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Seq)
		if err != nil || !strings.HasPrefix(text, want) ||
			!strings.Contains(text, `"text":"it \"happened\""`) {
			t.Errorf("%v: got %s, want %s", err, text, want)
		}
		break
	}
}

// Of two nodes of a database one tells; when it leaves, the other goes on with what it was just
// telling. Nothing is told twice.
func TestOneOfTwoNodesTellsEachEventOnce(t *testing.T) {
	told, begun := make(chan string, 100), make(chan string, 100)
	var hold atomic.Bool // the next message, until its sender hangs up
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Webhook-Id")
		if _, err := io.ReadAll(r.Body); err != nil {
			// the server notices that a sender hangs up when it has read all
			t.Error(err)
		}
		if hold.CompareAndSwap(true, false) {
			begun <- id
			<-r.Context().Done()
			return
		}
		told <- id
	}))
	defer receiver.Close()
	defer receiver.CloseClientConnections() // nothing is held any more
	dsn := pgtest.Shared(t).Database(t)
	start := func(name string) (*Node, func()) {
		n, err := Open(t.Context(), Config{
			Store: dsn, Name: name, Beat: 100 * time.Millisecond, Listen: "127.0.0.1:0",
			AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, running(t, n)
	}
	note := func(n *Node) {
		n.outbox.Add(store.Event{Kind: "test", Subject: n.conf.Name})
	}
	var got []string
	hear := func(from chan string, messages int) {
		t.Helper()
		for range messages {
			select {
			case id := <-from:
				got = append(got, id)
			case <-time.After(time.Minute):
				t.Fatalf("told of %v, and of no more", got)
			}
		}
	}
	a, stopA := start("a")
	if _, err := speaks(t, a).PutNotifier(t.Context(), "ops",
		client.NotifierConf{Kind: "webhook", On: []string{"test"}, URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	note(a)
	hear(told, 1) // so it is a who tells
	b, _ := start("b")
	for range 5 {
		note(a)
		note(b)
	}
	hear(told, 10)
	hold.Store(true)
	note(b)
	hear(begun, 1) // all before it are done with
	stopA()
	hear(told, 1)
	page, err := b.store.Events(t.Context(), store.EventQuery{Kinds: []string{"test"}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range page.Events {
		want = append(want, fmt.Sprintf("evt-%d", e.Seq))
	}
	want = append(want, want[len(want)-1]) // begun by a, told by b
	if !slices.Equal(got, want) || len(told) > 0 {
		t.Errorf("told of %v and %d more, want %v", got, len(told), want)
	}
}
