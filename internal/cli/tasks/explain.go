package tasks

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

func (a commands) explain() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "explain ID",
		Short: "Say why a task does not run",
		Long: `Say what holds a task back now, what would change that and, where it can be said, when it
will probably begin: its queue is paused, no worker takes its tasks, a limit of its queue or of
its group key holds it back, all workers are full, others come first, group keys take turns, it is
not due, it backs off after an attempt that failed, it waits for a signal, for its children or for
other tasks, or it was not begun in time.`,
		Example: "  rota task explain 1pq3v0m7d2k5g10",
		Args:    app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		e, err := c.ExplainTask(ctx, ids[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.WhyNot(e) })
	})
}
