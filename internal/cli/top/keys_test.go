package top

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/top"
)

// topBefore is the source of `rota top` before a server that has one queue, and these keys of it.
func topBefore(t *testing.T, queue, keys string) (s *source, calls *[]string) {
	t.Helper()
	calls = &[]string{}
	mux := http.NewServeMux()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			*calls = append(*calls, r.Method+" "+r.URL.EscapedPath())
			io.WriteString(w, text)
		}
	}
	mux.HandleFunc("GET /v1/queues/mail", answer(queue))
	mux.HandleFunc("GET /v1/queues/mail/keys", answer(keys))
	mux.HandleFunc("POST /v1/queues/mail/keys/{key}/{verb}", answer(`{}`))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Servers: []string{server.URL}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	return &source{&app.App{Output: term.Output{Now: func() time.Time { return noon }}}, c}, calls
}

// flat is a list as text, a row a line.
func flat(l top.List) string {
	var b strings.Builder
	for _, r := range l.Rows {
		for _, c := range r.Cells {
			b.WriteString(c.Text + "|")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestTopListsKeysWhereAQueueGoesByThem(t *testing.T) {
	const idle = `{"key":"ann","paused":false,"paused_until":null,"state":"open","weight":1,` +
		`"ready":3,"running":2}`
	full := strings.Replace(idle, `"open"`, `"full"`, 1)
	fast := strings.Replace(idle, `"open"`, `"rate","opens_at":"2026-11-25T12:00:02Z"`, 1)
	stopped := strings.Replace(idle, `"open"`, `"stopped"`, 1)
	const held = `{"key":"a/b","paused":true,"state":"paused",` +
		`"paused_until":"2026-11-25T12:29:00Z","opens_at":"2026-11-25T12:29:00Z","weight":5,` +
		`"ready":1,"running":2}`
	const annIsOpen, annIsFull = "ann|open|3|2|1||\n", "ann|full|3|2|1||\n"
	const annWaits, annStops = "ann|rate for 2s|3|2|1||\n", "ann|stopped|3|2|1||\n"
	const isHeld = "a/b|paused|1|2|5|for 29m0s|\n"
	for name, c := range map[string]struct {
		queue, keys, want string
		looked            bool
	}{
		"nothing":                {`{}`, idle, "", false},
		"fair":                   {`{"fair":true}`, idle, annIsOpen, true},
		"full of each key":       {`{"per_key":{"max_running":2}}`, full, annIsFull, true},
		"room of each key":       {`{"per_key":{"max_running":3}}`, idle, annIsOpen, true},
		"rate of each key":       {`{"per_key":{"rate":"1/1s"}}`, idle, annIsOpen, true},
		"rate that is used up":   {`{"per_key":{"rate":"1/1s"}}`, fast, annWaits, true},
		"a dead task":            {`{"per_key":{"max_running":1}}`, stopped, annStops, true},
		"own limits":             {`{"max_running":9,"limits":{}}`, idle, "", true},
		"own limits and a pause": {`{"max_running":9,"limits":{}}`, held, isHeld, true},
		"a pause":                {`{"limits":{}}`, held + "," + idle, isHeld + annIsOpen, true},
	} {
		s, calls := topBefore(t, c.queue, `{"items":[`+c.keys+`],"cut":false,"next":null}`)
		l, err := s.List(t.Context(), top.Query{Screen: top.Keys, Queue: "mail"})
		if err != nil || flat(l) != c.want || (c.want == "") != (l.Note != "") {
			t.Errorf("%s: %q, note %q, %v", name, flat(l), l.Note, err)
		}
		if looked := len(*calls) > 1; looked != c.looked {
			t.Errorf("%s: asked %v", name, *calls)
		}
	}
}

func TestTopTellsWhenNotAllKeysWereLookedAt(t *testing.T) {
	s, _ := topBefore(t, `{"fair":true}`, `{"items":[],"cut":true,"next":null}`)
	l, err := s.List(t.Context(), top.Query{Screen: top.Keys, Queue: "mail"})
	if err != nil || l.Note == "" {
		t.Errorf("note %q, %v", l.Note, err)
	}
}

func TestTopOpensPausesAndResumesAKey(t *testing.T) {
	s, calls := topBefore(t, `{"fair":true}`, `{"items":[{"key":"..","paused":true,"state":"paused","weight":5,`+
		`"ready":12345,"running":2}],"cut":false,"next":null}`)
	for key, want := range map[string]string{
		"..": "paused until it is resumed", "gone": "ready 0",
	} {
		text, err := s.Open(t.Context(), top.Thing{Screen: top.Keys, ID: key, Queue: "mail"}, 80)
		words := strings.Join(strings.Fields(ansi.Strip(text)), " ")
		if err != nil || !strings.Contains(words, want) || !strings.Contains(words, "key "+key) {
			t.Errorf("key %q: %q, %v", key, words, err)
		}
	}
	*calls = nil
	for _, verb := range []top.Verb{top.Pause, top.Resume} {
		thing := top.Thing{Screen: top.Keys, ID: "..", Queue: "mail"}
		if _, err := s.Act(t.Context(), top.Action{Verb: verb, Thing: thing}); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	want := "[POST /v1/queues/mail/keys/%2E%2E/pause POST /v1/queues/mail/keys/%2E%2E/resume]"
	if got := fmt.Sprint(*calls); got != want {
		t.Errorf("called %s", got)
	}
}
