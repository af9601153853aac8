package cli

import (
	"bytes"
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
