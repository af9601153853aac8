package nodes_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
)

// A drain that somebody takes back while it is waited for is not done, and never will be. The node
// that answers may hear of the drain a beat after the one that took it.
func TestNodeDrainSaysThatItWasTakenBackWhileItWaited(t *testing.T) {
	for name, c := range map[string]struct {
		states []string // one after the other, the last one for ever
		code   int
		said   string
	}{
		"done":       {[]string{"working", "draining", "drained"}, cli.ExitDone, "box is drained"},
		"taken back": {[]string{"draining", "working"}, cli.ExitFailed, "taken back"},
		"cut off": {[]string{"draining", "unreachable", "draining", "drained"}, cli.ExitDone,
			"box is drained"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := c.states
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/nodes/box/drain", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("GET /v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"items":[{"name":"box","state":"`+states[0]+
					`","claims":{"owned":1}}],"next":""}`)
				states = states[min(1, len(states)-1):]
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			var told bytes.Buffer
			a := &app.App{
				Output: term.Output{Out: io.Discard, Err: &told, Now: time.Now},
				Env: func(name string) (value string, set bool) {
					return server.URL, name == "ROTA_SERVER"
				},
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			args := []string{"node", "drain", "box", "--wait", "--fixed"}
			if code := cli.Run(ctx, a, args); code != c.code ||
				!strings.Contains(told.String(), c.said) {
				t.Errorf("exit code %d; it told\n%s", code, told.String())
			}
		})
	}
}
