package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

func TestExitCodeTellsUsageFromFailureFromAbsence(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("boom"), 1},
		{usage.Errorf("no"), 2},
		{fmt.Errorf("wrapped: %w", usage.Errorf("no")), 2},
		{&client.Error{Status: 404}, 3},
		{fmt.Errorf("read task: %w", &client.Error{Status: 404}), 3},
		{&client.Error{Status: 409}, 1},
		{errors.Join(&client.Error{Status: 409}, &client.Error{Status: 404}), 3},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// Long help, units and an example are a promise to the user; a new command must not forget them.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &App{Output: term.Output{Now: time.Now}, env: os.LookupEnv}
	root := a.root()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s has no help", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of itself", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func TestUnreachableServerIsExplained(t *testing.T) {
	a := &App{servers: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}}
	got := a.explain(t.Context(), fmt.Errorf("submit: %w", client.ErrUnreachable))
	if want := "no server at http://127.0.0.1:1 or http://127.0.0.1:2: start one with `rota serve`, or name it with --server"; got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}

func TestProgressOfARunningTaskIsShown(t *testing.T) {
	a := &App{Output: term.Output{Now: time.Now}}
	v := task.View{
		ID: task.ID{Batch: 1 << 40}, State: task.Running, Progress: 0.37, Note: "page 3\nof 8",
	}
	if got := ansi.Strip(a.taskText(v)); !strings.Contains(got, "progress   37% page 3 of 8\n") {
		t.Errorf("text =\n%s", got)
	}
	doc, err := json.Marshal(viewOf(v))
	if err != nil || !strings.Contains(string(doc), `"progress":0.37,"note":"page 3\nof 8"`) {
		t.Errorf("document = %s, %v", doc, err)
	}
	v.Progress, v.Note = 0, ""
	if got := a.taskText(v); strings.Contains(got, "progress") {
		t.Errorf("of one that says nothing the text is\n%s", got)
	}
}

func TestInterruptIsNoMystery(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := new(App).explain(
		ctx, fmt.Errorf("read: %w", context.Canceled),
	); got != "interrupted" {
		t.Errorf("explain = %q", got)
	}
}

func TestVerdictIsAnErrorUnlessDone(t *testing.T) {
	id := task.ID{Batch: 1 << 40, N: 7}
	for _, c := range []struct {
		view task.View
		want string
	}{
		{task.View{ID: id, State: task.Done}, ""},
		{task.View{ID: id, State: task.Cancelled}, "was cancelled"},
		{task.View{ID: id, State: task.Dead, Attempt: 5,
			Steps: []task.Step{{Kind: task.KindRetry, Error: "no\nroute"}}},
			"is dead after attempt 5: no route"},
		{task.View{ID: id, State: task.Dead, Attempt: 5, Steps: []task.Step{{Kind: task.KindLost}}},
			"is dead after attempt 5: lost"},
	} {
		err := verdict(c.view)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("verdict(%v) = %v, want %q", c.view.State, err, c.want)
		}
	}
}
