package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
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

// Who used a flag wrongly is told its name, not the place in a call that it made.
func TestWhatIsWrongWithAFlagIsSaidOfTheFlag(t *testing.T) {
	wrong := func(locations ...string) error {
		e := &client.Error{Status: 422, Detail: "no good"}
		for _, l := range locations {
			e.Errors = append(e.Errors, task.FieldError{Location: l, Message: "is wrong"})
		}
		return fmt.Errorf("put it: %w", e)
	}
	cmd := &cobra.Command{}
	cmd.Flags().Int("max-attempts", 0, "")
	cmd.Flags().Int("retry-max", 0, "")
	cmd.Flags().Int("key-burst", 0, "")
	for _, c := range []struct {
		err  error
		want string // "" = as it was
	}{
		{wrong("body.max_attempts"), "--max-attempts: is wrong"},
		{wrong("max_attempts", "body.retry.max"),
			"--max-attempts: is wrong; --retry-max: is wrong"},
		{wrong("body.per_key.burst"), "--key-burst: is wrong"},
		{wrong("body.max_attempts", "body.queue"), ""},
		{wrong("body.tasks[3].max_attempts"), ""},
		{wrong(), ""},
		{errors.New("max_attempts: boom"), ""},
	} {
		got := inFlags(cmd, c.err)
		if want := cmp.Or(c.want, c.err.Error()); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if exitCode(got) != exitCode(c.err) {
			t.Errorf("%q exits with %d", got, exitCode(got))
		}
	}
}

// Long help, units and an example are a promise to the user; a new command must not forget them.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &app.App{Output: term.Output{Now: time.Now}, Env: os.LookupEnv}
	root := rootOf(a)
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
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			if strings.Count(line, "(default") > 1 {
				t.Errorf("%s: two defaults: %s", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func TestEveryListCanBeWatched(t *testing.T) {
	a := app.New(nil, new(bytes.Buffer), new(bytes.Buffer), func(string) (string, bool) {
		return "", false
	})
	lists := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "ls" {
			lists++
			if cmd.Flags().Lookup("watch") == nil ||
				!strings.Contains(cmd.Example, cmd.CommandPath()+" --watch") {
				t.Errorf("%s can't be watched", cmd.CommandPath())
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootOf(a))
	if lists < 9 {
		t.Errorf("only %d lists were found", lists)
	}
}
