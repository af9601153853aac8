package top

import (
	"context"
	"os"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/top"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// commands are the commands that show everything at once.
type commands struct{ *app.App }

// Commands are the commands that show everything at once.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.top()}
}

func (a commands) top() *cobra.Command {
	var once, doc bool
	cmd := a.Remote(&cobra.Command{
		Use:   "top",
		Short: "Watch the whole cluster in a terminal, and steer it",
		Long: `Watch how everything stands, live: the age of the oldest ready task, what waits and runs,
what died, nodes, workers, schedules, jobs, and the lists behind these numbers. Keys move,
filter, open a thing with why it does not run, drain workers, cancel and retry tasks, pause
and resume queues and group keys; ? lists them. What changes something is asked before.

When the server is away it says since when, and goes on when one answers.

--once prints how everything stands once, and so does a pipe; -o json and --json print it as
JSON, as GET /v1/overview answers.`,
		Example: `  rota top
  rota top --once
  rota top --json | jq .oldest_ready`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		if doc {
			if err := a.Format.Set("json"); err != nil {
				return err
			}
		}
		width, isTerminal := term.Terminal(a.Out)
		in, isFile := a.In.(*os.File)
		_, answers := term.Terminal(in)
		if once || a.JSON() || !isTerminal {
			return a.once(ctx, c, width)
		}
		if !isFile || !answers {
			return usage.Errorf("top reads keys, and stdin is no terminal; --once prints how everything stands")
		}
		return top.Run(ctx, top.Config{
			Source: &source{a.App, c}, In: in, Out: a.Out.(*os.File), Now: a.Now,
		})
	})
	cmd.Flags().BoolVar(&once, "once", false, "print how everything stands, and end")
	cmd.Flags().BoolVar(&doc, "json", false, "the same as JSON, as -o json")
	return cmd
}

// once prints how everything stands.
func (a commands) once(ctx context.Context, c *client.Client, width int) error {
	o, err := c.Overview(ctx)
	if err != nil {
		return err
	}
	return a.Show(o, func() string {
		const inPipe = 100
		if width == 0 {
			width = inPipe
		}
		now := a.Now()
		m, _ := top.New(now).Update(top.Stand{Overview: o, At: now})
		return m.Snapshot(width)
	})
}
