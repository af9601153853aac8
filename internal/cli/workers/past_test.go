package workers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/clitest"
	"github.com/rotahq/rota/internal/term"
)

// showWorker runs `rota worker show`, which is to exit with a code.
func showWorker(t *testing.T, a *app.App, want int, args ...string) {
	t.Helper()
	args = append([]string{"worker", "show"}, args...)
	if code := cli.Run(t.Context(), a, args); code != want {
		t.Fatalf("%q: exit code %d, want %d; it printed\n%s", args, code, want, a.Out)
	}
}

// A worker's past is drawn as a queue's is, but for what no worker does.
func TestWorkerShowDrawsWhatTheWorkerDid(t *testing.T) {
	a, _, out, asked := clitest.Did(t)
	showWorker(t, a, cli.ExitDone, "w1", "--last", "1h")
	got := ansi.Strip(out.String())
	for _, want := range []string{
		"worker     w1\n", "\nstarted    ▁▁", "\ndone       ▁▁",
		"last 3ms",
		"a column is 2m, from ", "tails  a.log",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "submitted") {
		t.Errorf("no worker submits:\n%s", got)
	}
	for line := range strings.Lines(got) {
		if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d wide: %q", n, line)
		}
	}
	if asked.Get("worker") != "w1" || asked.Get("queue") != "" || asked.Get("step") != "2m0s" {
		t.Errorf("asked for %v", asked)
	}
}

// A worker that is forgotten has a past all the same, and one that never was has none.
func TestWorkerShowSaysWhatIsKnownOfAWorkerThatIsGone(t *testing.T) {
	for _, x := range []struct {
		name  string
		wants []string
	}{
		{"w2", []string{"worker     w2\n", "state      gone: no node knows it any more\n",
			"ended      30m ago, worker w2 left\n", "last task  between ", "\ndone       ▁▁"}},
		{"w4", nil},
	} {
		a, _, out, _ := clitest.Did(t)
		if x.wants == nil {
			showWorker(t, a, cli.ExitNotFound, x.name, "--last", "1h")
			continue
		}
		showWorker(t, a, cli.ExitDone, x.name, "--last", "1h")
		got := ansi.Strip(out.String())
		for _, want := range x.wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: it lacks %q:\n%s", x.name, want, got)
			}
		}
	}
}

func TestWorkerShowInJSONHasThePeriods(t *testing.T) {
	a, _, out, _ := clitest.Did(t)
	showWorker(t, a, cli.ExitDone, "w1", "-o", "json")
	var doc struct {
		Name        string
		Assignments []struct{ Job string }
		Step        string
		Periods     []struct{ Done int64 }
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, p := range doc.Periods {
		sum += p.Done
	}
	if doc.Name != "w1" || len(doc.Assignments) != 1 || doc.Step != "2m0s" ||
		len(doc.Periods) != 29 || sum != 2*29*30/2 {
		t.Errorf("%+v, %d done", doc, sum)
	}
}

// The end of a worker is found behind those of thousands of others, by when it worked last.
func TestWorkerShowFindsTheEndOfAWorkerAmongMany(t *testing.T) {
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	const others = 8_000
	ends := make([]string, others, others+1) // one after the other within the last hour
	at := func(i int) time.Time {
		return noon.Add(time.Duration(i-others) * 400 * time.Millisecond)
	}
	event := func(i int, name string) string {
		return fmt.Sprintf(`{"seq":%d,"time":%q,"kind":"worker.left","subject":%q,"text":"%s left"}`,
			i, at(i).Format(time.RFC3339Nano), name, name)
	}
	for i := range others {
		ends[i] = event(i, "other")
	}
	ends = append(ends, event(others, "w2"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		from, next, asked := 0, "", r.URL.Query()
		if cursor := asked.Get("cursor"); cursor != "" {
			from, _ = strconv.Atoi(cursor)
		} else if since, err := time.Parse(time.RFC3339Nano, asked.Get("since")); err == nil {
			for from < others && at(from).Before(since) {
				from++
			}
		}
		to := min(from+1000, len(ends))
		if to < len(ends) {
			next = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `{"items":[%s],"next":%q}`, strings.Join(ends[from:to], ","), next)
	})
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[{"at":"2026-11-25T11:30:00Z","started":1},`+
			`{"at":"2026-11-25T11:50:00Z","started":1},{"at":"2026-11-25T11:58:00Z"}]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	out := new(bytes.Buffer)
	a := &app.App{
		Output: term.Output{Out: out, Err: io.Discard, Now: func() time.Time { return noon }},
		Env: func(name string) (value string, set bool) {
			return server.URL, name == "ROTA_SERVER"
		},
	}
	showWorker(t, a, cli.ExitDone, "w2", "--last", "1h")
	if got := ansi.Strip(out.String()); !strings.Contains(got, "ended      now, w2 left\n") {
		t.Errorf("it does not tell of the end:\n%s", got)
	}
}
