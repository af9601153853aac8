package clitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
)

// Did is a server that says what worker w1 and queue mail did: each minute as many tasks as its
// number in the hour says. It notes what it is asked about the past.
func Did(t *testing.T) (a *app.App, c *client.Client, out *bytes.Buffer, asked *url.Values) {
	t.Helper()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	asked = new(url.Values)
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/v1/workers/w1": `{"name":"w1","active":true,"state":"active","capacity":4}`,
		"/v1/groups":     `{"items":[{"name":"tails"}],"next":""}`,
		"/v1/groups/tails/assignments": `{"items":[{"job":"a.log","replica":0,"worker":"w1",` +
			`"state":"running","since":null}],"next":""}`,
		"/v1/queues/mail":         `{"name":"mail","counts":{"ready":3}}`,
		"/v1/queues/mail/explain": `{"reasons":[]}`,
		"/v1/events": `{"items":[{"seq":1,"time":"2026-11-25T11:20:00Z","kind":"worker.silent","subject":"w2",` +
			`"text":"worker w2 is silent"},{"seq":2,"time":"2026-11-25T11:30:00Z","kind":"worker.left",` +
			`"subject":"w2","text":"worker w2 left"},{"seq":3,"time":"2026-11-25T11:40:00Z",` +
			`"kind":"worker.left","subject":"w3","text":"worker w3 left"}],"next":null}`,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, text)
		})
	}
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, r *http.Request) {
		*asked = r.URL.Query()
		step, err := time.ParseDuration(asked.Get("step"))
		from, err2 := time.Parse(time.RFC3339Nano, asked.Get("from"))
		if err != nil || err2 != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		var items []string
		for at := from.Truncate(step); at.Before(noon); at = at.Add(step) {
			if asked.Get("worker") == "w4" {
				items = append(items, fmt.Sprintf(`{"at":%q}`, at.Format(time.RFC3339)))
				continue
			}
			items = append(items, fmt.Sprintf(`{"at":%q,"started":%d,"done":%d,"wait":{"p95":"3ms"}}`,
				at.Format(time.RFC3339), at.Minute(), at.Minute()))
		}
		io.WriteString(w, `{"items":[`+strings.Join(items, ",")+`]}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Servers: []string{server.URL}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	out = new(bytes.Buffer)
	a = &app.App{
		Output: term.Output{Out: out, Err: io.Discard, Now: func() time.Time { return noon }},
		Env: func(name string) (value string, set bool) {
			return server.URL, name == "ROTA_SERVER"
		},
	}
	return a, c, out, asked
}
