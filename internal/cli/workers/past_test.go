package workers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/clitest"
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
