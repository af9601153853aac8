package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// happened is what every fake's log of events begins with.
var happened = []store.Event{
	{Seq: 1, Time: moment.UnixMicro(), Key: "k1", Kind: "node.online", Subject: "n1",
		Text: "node n1 came", Fields: map[string]string{"token": "7"}},
	{Seq: 2, Time: moment.Add(time.Minute).UnixMicro(), Key: "k2", Kind: "store.full",
		Subject: "n1", Text: "no room <&>\nat all"},
	{Seq: 3, Time: moment.Add(time.Hour).UnixMicro(), Key: "k3", Kind: "node.offline",
		Subject: "n1", Text: "node n1 left"},
}

func (f *fake) Events(_ context.Context, q store.EventQuery) (store.EventPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := store.EventPage{Next: q.After}
	for _, e := range append(slices.Clone(happened), f.events...) {
		if e.Seq <= q.After || len(page.Events) == q.Limit {
			continue
		}
		page.Next = e.Seq
		if e.Time >= q.Since && store.Matches(q.Kinds, e.Kind) {
			page.Events = append(page.Events, e)
		}
	}
	return page, f.err
}

// happen adds an event.
func (f *fake) happen(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, store.Event{
		Seq: int64(len(happened) + len(f.events) + 1), Time: moment.UnixMicro(), Kind: kind,
	})
}

// notified are the fakes' notifiers.
var notified = []store.Notifier{
	{Name: "mail", Kind: "email", On: []string{"node.*"}, Server: "mail:587", TLS: "starttls",
		User: "u", From: "a@b", To: []string{"c@d"}, Secrets: store.Secrets{Password: "s3cret"},
		Served: store.Progress{Delivered: 2, Failing: moment.UnixMicro(), Trouble: "no route"}},
	{Name: "ops", Kind: "webhook", On: []string{"*"}, Subjects: []string{"n*"}, Format: "telegram",
		Chat: "-1", Secrets: store.Secrets{
			URL: "https://s3cret.example.com/bot-s3cret/x?s3cret", Key: "s3cret",
		},
		Served: store.Progress{Delivered: 3}},
}

func (f *fake) PutNotifier(
	_ context.Context, n store.Notifier,
) (store.Changed[store.Notifier], error) {
	var e task.InvalidError
	if !limits.ValidName(n.Name) {
		e.Add("path.name", "%s", limits.NameRule)
	}
	if n.Kind != "email" && n.Kind != "webhook" {
		e.Add("body.kind", "must be email or webhook")
	}
	if err := e.Err(); err != nil {
		return store.Changed[store.Notifier]{}, err
	}
	created := !slices.ContainsFunc(notified, func(old store.Notifier) bool {
		return old.Name == n.Name
	})
	return store.Changed[store.Notifier]{Is: n, Created: created},
		f.change("put notifier %s %s %v %v %q %q %q", n.Name, n.Kind, n.On, n.Subjects,
			string(n.Secrets.URL), string(n.Secrets.Key), string(n.Secrets.Password))
}

func (f *fake) Notifiers(context.Context) ([]store.Notifier, error) {
	return slices.Clone(notified), f.err
}

func (f *fake) standing(name string) error {
	if f.err == nil && !slices.ContainsFunc(notified, func(n store.Notifier) bool {
		return n.Name == name
	}) {
		return fmt.Errorf("notifier %q: %w", name, store.ErrNotFound)
	}
	return f.err
}

func (f *fake) DeleteNotifier(_ context.Context, name string) error {
	if err := f.standing(name); err != nil {
		return err
	}
	return f.change("delete notifier %s", name)
}

func (f *fake) TestNotifier(_ context.Context, name string) (string, error) {
	if err := f.standing(name); err != nil {
		return "", err
	}
	if name == "mail" {
		return "no route", nil
	}
	return "", f.change("test notifier %s", name)
}

func TestEventPagesLeadFromOneToTheNext(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	var got []int64
	cursor := ""
	for range 10 {
		var page list[view.Event]
		if _, text := ask(
			t, a, "GET /v1/events?limit=1&kind=node.*&cursor="+cursor, "",
		); json.Unmarshal([]byte(text), &page) != nil {
			t.Fatal(text)
		}
		for _, e := range page.Items {
			got = append(got, e.Seq)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, []int64{1, 3}) || cursor != "" {
		t.Errorf("read %v, then %q", got, cursor)
	}
}

// listen opens the stream of events on a real connection, and answers its lines as they come.
func listen(t *testing.T, a *API, query, last string) (lines <-chan string, stop func()) {
	t.Helper()
	server := httptest.NewServer(a.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/events/stream"+query,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 ||
		kind != "text/event-stream" {
		t.Fatalf("%d %s", response.StatusCode, kind)
	}
	c := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(response.Body); s.Scan(); {
			select {
			case c <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, func() {
		cancel()
		response.Body.Close()
		<-done
		server.Close()
	}
}

// next is the next event of a stream: its lines up to an empty one.
func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	var b strings.Builder
	for {
		select {
		case line := <-lines:
			if line == "" {
				return b.String()
			}
			b.WriteString(line + "\n")
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing after %q", b.String())
		}
	}
}

func TestEventStreamGoesOnWhereItsReaderWas(t *testing.T) {
	const first = `data: {"seq":1,"time":"2026-10-01T12:00:00.123Z","kind":"node.online","subject":"n1","text":"node n1 came","fields":{"token":"7"}}` +
		"\n"
	for _, c := range []struct {
		name, query, last string
		want              []string // beginnings
	}{
		{"now", "", "", []string{"id: 3\n", "id: 4\ndata: {\"seq\":4,", "id: 5\n"}},
		{"behind one", "", "2", []string{"id: 2\n", "id: 3\n", "id: 4\n", "id: 5\n"}},
		{"from the first", "", "0",
			[]string{
				"id: 0\n", "id: 1\n" + first, "id: 2\ndata: {\"seq\":2,", "id: 3\n", "id: 4\n",
			}},
		{"from a time", "?since=2026-10-01T12:01:00Z", "",
			[]string{"id: 0\n", "id: 2\n", "id: 3\n"}},
		{"of a kind", "?kind=store.*,test.b", "0", []string{"id: 0\n", "id: 2\n", "id: 5\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			a := newAPI(t, f, func(c *Config) { c.Poll = time.Millisecond })
			lines, stop := listen(t, a, c.query, c.last)
			for i, want := range c.want {
				if i == 1 {
					f.happen("test.a")
					f.happen("test.b")
				}
				if got := next(t, lines); !strings.HasPrefix(got, want) {
					t.Errorf("event %d is %q, want %q", i, got, want)
				}
			}
			stop()
			if n := a.follows.open(); n != 0 {
				t.Errorf("%d streams are still counted", n)
			}
		})
	}
}

func TestEventStreamsAreCountedAndEndWithTheServer(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	a.follows.limit = 1
	lines, stop := listen(t, a, "", "")
	next(t, lines)
	if response, text := ask(t, a, "GET /v1/events/stream", ""); response.StatusCode != 503 {
		t.Errorf("a second one: %d %s", response.StatusCode, text)
	}
	a.close()
	stop()
}

func TestNoAnswerShowsASecret(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	for _, call := range []struct{ call, body string }{
		{"GET /v1/notifiers", ""},
		{"GET /v1/notifiers/ops", ""},
		{"GET /v1/notifiers/mail", ""},
		{"PUT /v1/notifiers/ops",
			`{"kind":"webhook","on":["*"],"url":"https://x/s3cret","secret":"s3cret","password":"s3cret"}`},
		{"PUT /v1/notifiers/ops", `{"kind":"s3cret?","on":["*"],"url":"https://x/s3cret"}`},
		{"PUT /v1/notifiers/ops", `{"secret":s3cret}`},
		{"PUT /v1/notifiers/ops", `{"secret":["s3cret"]}`},
		{"GET /v1/hooks", ""},
		{"GET /v1/hooks/builds", ""},
		{"PUT /v1/hooks/builds", `{"scheme":"github","queue":"q","secrets":["s3cret"]}`},
		{"PUT /v1/hooks/builds", `{"secrets":"s3cret"}`},
		{"PUT /v1/hooks/builds", `{"secrets":[s3cret]}`},
	} {
		_, text := ask(t, a, call.call, call.body)
		if strings.Contains(strings.ReplaceAll(text, "https://s3cret.example.com", ""), "s3cret") {
			t.Errorf("%s %s: %s", call.call, call.body, text)
		}
	}
}

// The cursor of another store, or of one that was put back, would miss all that happens up to
// there.
func TestCursorBeyondTheLastEventIsRefused(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	last := len(happened)
	for target, status := range map[string]int{
		fmt.Sprintf("/v1/events?cursor=%d", last):          200,
		fmt.Sprintf("/v1/events?cursor=%d", last+1):        422,
		"/v1/events?cursor=9223372036854775807":            422,
		fmt.Sprintf("/v1/events/stream?cursor=%d", last+1): 422,
	} {
		response, text := ask(t, a, "GET "+target, "")
		if response.StatusCode != status || status != 200 &&
			!strings.Contains(text, fmt.Sprintf("which is %d", last)) {
			t.Errorf("%s: %d %s", target, response.StatusCode, text)
		}
	}
}
