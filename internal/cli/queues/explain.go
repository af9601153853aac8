package queues

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

func (a commands) explain() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "explain NAME",
		Short: "Say why the tasks of a queue do not run",
		Long: `Say how the tasks of a queue stand, what holds the ready ones back and what would change
that.`,
		Example: "  rota queue explain mail",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("queue", args[0]); err != nil {
			return err
		}
		e, err := c.ExplainQueue(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.WhyNot(e) })
	})
}
