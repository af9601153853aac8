package tasks

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

func (a commands) logs() *cobra.Command {
	var follow bool
	cmd := a.Remote(&cobra.Command{
		Use:   "logs ID",
		Short: "Print a task's log",
		Long: `Print what the task's attempts logged: lines that were written to stdout go to stdout,
all others to stderr. A node keeps up to 1 MiB per task; what is too much is
left out in the middle. With -o json the lines come one document each.

With -f it goes on until the task has ended, also when the server is away for a while;
Ctrl-C ends it before.`,
		Example: `  rota task logs 1pq3v0m7d2k5g10
  rota task logs -f 1pq3v0m7d2k5g10      # until the task ends`,
		Args: app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if follow {
			return a.followLines(ctx, c, ids[0])
		}
		return a.allLines(ctx, c, ids[0])
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	return cmd
}

// followLines prints lines until the task has ended, or until somebody has seen enough: that is no
// failure.
func (a commands) followLines(ctx context.Context, c *client.Client, id task.ID) error {
	for line, err := range c.FollowLines(ctx, id, "") {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.PrintLine(line); err != nil {
			return err
		}
	}
	return nil
}

func (a commands) allLines(ctx context.Context, c *client.Client, id task.ID) error {
	for cursor := ""; ; {
		lines, next, err := c.Lines(ctx, id, cursor, 1000)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := a.PrintLine(line); err != nil {
				return err
			}
		}
		if next == "" || len(lines) == 0 {
			return nil
		}
		cursor = next
	}
}
