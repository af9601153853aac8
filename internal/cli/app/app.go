package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/pflag"
)

// App is one run of the program: what it reads, where it writes, and what all commands were told.
type App struct {
	term.Output                             // stdout and stderr, the format of results, the clock
	In          io.Reader                   // stdin
	Env         func(string) (string, bool) // looks a variable of the environment up

	// What the flags say that mean the same in every command that has them.
	shared  *pflag.FlagSet // these flags
	Config  string         // the settings file; "" = none
	Servers []string       // URLs of nodes
	fixed   bool           // keep to Servers
	Token   string         // the access token; "" = none

	rereads atomic.Bool // a node runs: SIGHUP makes it read its tokens again, and ends nothing

	begun bool         // the command itself has begun: what fails from here on is no wrong usage
	Leash worker.Leash // of the commands that a worker runs
}

// New is one run of the program with these streams and this environment.
func New(in io.Reader, out, err io.Writer, env func(string) (string, bool)) *App {
	return &App{Output: term.Output{Out: out, Err: err, Now: time.Now}, In: in, Env: env}
}

// HeedsHangups tells whether SIGHUP has a meaning to the command that runs: then it ends nothing.
func (a *App) HeedsHangups() bool { return a.rereads.Load() }

// HeedHangups says that from now on SIGHUP has a meaning to the command that runs.
func (a *App) HeedHangups() { a.rereads.Store(true) }

// KillCommands kills at once what a worker in this process runs.
func (a *App) KillCommands() { a.Leash.Kill() }

// Explain is err in words that say what to do about it, where that is known.
func (a *App) Explain(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Sprintf("no server at %s: start one with `rota serve`, or name it with --server",
			strings.Join(a.Servers, " or "))
	case errors.Is(err, client.ErrUnauthorized) && (inTask(a.Env) || inJob(a.Env)):
		return err.Error() +
			": inside a task or job ROTA_TOKEN is the token of the hand-out, no access token; give one with --token, or as token in the file that ROTA_CONFIG names"
	case errors.Is(err, client.ErrUnauthorized):
		return err.Error() + ": give an access token with --token or ROTA_TOKEN"
	case errors.Is(err, client.ErrForbidden):
		return err.Error() +
			": another token is needed; the server's --token-file says its role and, for a worker's, the --name it is good for"
	}
	return err.Error()
}

// inTask tells whether this process is part of a command that a worker runs for a task.
func inTask(env func(string) (string, bool)) bool {
	task, _ := env("ROTA_TASK")
	return task != ""
}

// inJob tells whether this process is part of a command that a worker runs for a job. Two variables
// tell, since users may have ROTA_JOB as a setting of theirs.
func inJob(env func(string) (string, bool)) bool {
	job, _ := env("ROTA_JOB")
	fence, _ := env("ROTA_FENCE")
	return job != "" && fence != ""
}
