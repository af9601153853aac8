package workers_test

import (
	"bytes"
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

// draining is a node that takes a drain, answered with price, and says of the worker one thing
// after the other, the last one for ever.
func draining(t *testing.T, price string, says ...string) (a *app.App, told *bytes.Buffer) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/workers/w1/drain", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, price)
	})
	mux.HandleFunc("GET /v1/groups", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[],"next":""}`)
	})
	mux.HandleFunc("GET /v1/workers/w1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name":"w1","active":true,"capacity":8,`+says[0]+`}`)
		says = says[min(1, len(says)-1):]
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	told = new(bytes.Buffer)
	return &app.App{
		Output: term.Output{Out: io.Discard, Err: told, Now: time.Now},
		Env: func(name string) (value string, set bool) {
			return server.URL, name == "ROTA_SERVER"
		},
	}, told
}

// The node that is asked may hear of the drain a beat after the one that took it.
func TestDrainWaitsUntilTheNodeHasHeardOfIt(t *testing.T) {
	for name, x := range map[string]struct {
		flags, price string
		says         []string
		left, done   string
	}{
		"whole": {
			"", `{"name":"w1","draining":true}`,
			[]string{`"running_tasks":2,"used":2`, `"draining":true,"running_tasks":2,"used":2`,
				`"draining":true`},
			"w1 still runs 0 jobs and 2 tasks\n", "w1 is drained\n",
		},
		"a part": {
			"--shed=6", `{"name":"w1","shed":6}`,
			[]string{`"running_tasks":4,"used":4`, `"shed":1,"running_tasks":4,"used":4`,
				`"shed":6,"running_tasks":4,"used":4`, `"shed":6,"running_tasks":2,"used":2`},
			"w1 still runs 2 units more than it is to\n", "w1 has given up what it was to\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, told := draining(t, x.price, x.says...)
			args := append([]string{"worker", "drain", "w1", "--wait"}, strings.Fields(x.flags)...)
			if code := cli.Run(t.Context(), a, args); code != cli.ExitDone {
				t.Errorf("exit code %d", code)
			}
			if got := told.String(); !strings.HasSuffix(got, x.left+x.done) {
				t.Errorf("it told:\n%s", got)
			}
		})
	}
}

// What a worker that is silent was given counts as its own until it is found dead.
func TestDrainWaitsForWhatASilentWorkerHas(t *testing.T) {
	for name, x := range map[string]struct {
		says []string
		done string
	}{
		"found dead": {
			[]string{`"draining":true,"running_tasks":2,"used":2`,
				`"state":"silent","active":false,"draining":true,"running_tasks":2,"used":2`,
				`"state":"silent","active":false,"running_tasks":1,"used":1`,
				`"state":"silent","active":false,"draining":true`},
			"w1 is silent: what it had is its own until it is heard of again, or found dead\n" +
				"w1 still runs 0 jobs and 1 task\nw1 is drained\n",
		},
		"left": {
			[]string{`"state":"left","active":false,"draining":true,"running_tasks":2`},
			"w1 has stopped\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, told := draining(t, `{"name":"w1","draining":true}`, x.says...)
			if code := cli.Run(
				t.Context(), a, []string{"worker", "drain", "w1", "--wait"},
			); code != cli.ExitDone {
				t.Errorf("exit code %d", code)
			}
			if got := told.String(); !strings.HasSuffix(got, x.done) {
				t.Errorf("it told:\n%s", got)
			}
		})
	}
}

// A drain that somebody takes back is not done.
func TestDrainSaysThatItWasTakenBackWhileItWaited(t *testing.T) {
	a, told := draining(t, `{"name":"w1","draining":true}`,
		`"draining":true,"running_tasks":2,"used":2`, `"running_tasks":2,"used":2`)
	if code := cli.Run(
		t.Context(), a, []string{"worker", "drain", "w1", "--wait"},
	); code != cli.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if got := told.String(); !strings.Contains(got, "w1: its drain was changed or taken back") {
		t.Errorf("it told:\n%s", got)
	}
}
