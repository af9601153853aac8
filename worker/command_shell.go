package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// defaultShell runs command lines that name no other.
const defaultShell = "/bin/sh"

// ShellTask is the context of a task that brings its own command line, as those of imported
// crontabs do.
type ShellTask struct {
	Command string `json:"command"`
	Shell   string `json:"shell,omitempty"` // that runs it with -c; "" = /bin/sh
	// besides the worker's own variables; HOME is also where it runs
	Env   map[string]string `json:"env,omitempty"`
	Stdin string            `json:"stdin,omitempty"`
}

// Shell makes a handler that runs the command line that each task brings in its context, a
// [ShellTask]. Whoever may submit to the queue may then run anything as the worker's user, so only
// the worker's operator can ask for it. c is as for [Command], without Argv; so are exit codes, the
// output file, the log, and what happens when time is over. A context that is no ShellTask fails
// for good. So does one that another worker wrote, in a report of an earlier stage, unless that
// worker's access token names the queue (task.Handout.InScope): whoever may work elsewhere may not
// say what runs here.
func Shell(c CommandConfig) (Handler, error) {
	c = c.withDefaults()
	c.Argv = []string{defaultShell}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure shell: %w", err)
	}
	return func(ctx context.Context, t task.Handout) task.Outcome {
		if t.ContextBy != "" && !t.InScope && (c.Worker == "" || t.ContextBy != c.Worker) {
			return task.Fail(fmt.Errorf("context: worker %q wrote it, whose access token does not name queue %q in its scope: a shell runs only what was submitted",
				t.ContextBy, t.Queue))
		}
		line, err := parseShellTask(t.Context)
		if err != nil {
			return task.Fail(fmt.Errorf("context: %w", err))
		}
		return line.on(c).attempt(ctx, t, []byte(line.Stdin))
	}, nil
}

// parseShellTask reads a context. A zero byte, which no program takes, is refused by package wire.
func parseShellTask(b json.RawMessage) (ShellTask, error) {
	var line ShellTask
	if err := wire.Strict(b, &line); err != nil {
		return line, err
	}
	if strings.TrimSpace(line.Command) == "" {
		return line, errors.New("command: is missing")
	}
	for name := range line.Env {
		if name == "" || strings.Contains(name, "=") {
			return line, fmt.Errorf("env: %.40q is no variable", name)
		}
	}
	return line, nil
}

// on is how a worker's command runs the line.
func (l *ShellTask) on(c CommandConfig) CommandConfig {
	c.Argv = []string{cmp.Or(l.Shell, defaultShell), "-c", l.Command}
	c.Dir = cmp.Or(l.Env["HOME"], c.Dir)
	c.Env = c.environment()
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		c.Env = append(c.Env, name+"="+l.Env[name])
	}
	return c
}
