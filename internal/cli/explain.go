package cli

import (
	"context"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a taskCommands) taskExplain() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "explain ID",
		Short: "Say why a task does not run",
		Long: `Say what holds a task back now, what would change that and, where it can be said, when it
will probably begin: its queue is paused, no worker takes its tasks, a limit of its queue or of
its group key holds it back, all workers are full, others come first, group keys take turns, it is
not due, it backs off after an attempt that failed, it waits for a signal, for its children or for
other tasks, or it was not begun in time.`,
		Example: "  rota task explain 1pq3v0m7d2k5g10",
		Args:    takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		e, err := c.ExplainTask(ctx, ids[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.whyNot(e) })
	})
}

func (a queueCommands) queueExplain() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "explain NAME",
		Short: "Say why the tasks of a queue do not run",
		Long: `Say how the tasks of a queue stand, what holds the ready ones back and what would change
that.`,
		Example: "  rota queue explain mail",
		Args:    takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("queue", args[0]); err != nil {
			return err
		}
		e, err := c.ExplainQueue(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.whyNot(e) })
	})
}

func (a nodeCommands) claimExplain() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "explain KEY",
		Short: "Say why no node looks after a key",
		Long: `Say why no node looks after a key, or why it is not with the node that somebody gave it
to, and what would change that.`,
		Example: "  rota claim explain group/feeds",
		Args:    takes("KEY"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		e, err := c.ExplainClaim(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.whyNot(e) })
	})
}

// whyNot is an explanation as text.
func (a *App) whyNot(e view.Explanation) string {
	var b strings.Builder
	b.WriteString(term.Bold(e.State))
	if !e.Starts.IsZero() {
		if e.Starts.After(a.Now()) {
			b.WriteString(", probably begins " + term.Short(e.Starts.Time, a.Now()))
		} else {
			b.WriteString(", about to begin")
		}
	}
	if !e.Expires.IsZero() {
		b.WriteString(", expires " + term.Short(e.Expires.Time, a.Now()) + " unless it is begun before")
	}
	b.WriteByte('\n')
	for _, r := range e.Reasons {
		b.WriteString("  " + term.OneLine(r.Text) + "\n")
		if r.Change != "" {
			b.WriteString("    " + term.OneLine(r.Change) + "\n")
		}
	}
	return b.String()
}
