package groups

import (
	"context"
	"strconv"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// jobLog is what `rota group logs` reads.
type jobLog struct {
	group, job string
	replica    int // negative = all
}

func (a commands) logs() *cobra.Command {
	var follow bool
	log := jobLog{}
	cmd := a.Remote(&cobra.Command{
		Use:   "logs NAME JOB",
		Short: "Print a job's log",
		Long: `Print what the replicas of a job logged: lines that were written to stdout go to stdout, all
others to stderr. A node keeps up to 1 MiB per job; what is too much is left out in the
middle. The number of the replica stands before each line, as 0| …; --replica keeps to one, and
its lines come as they are. With -o json the lines come one document each, and streams are
named stdout.0, stderr.1 … after the replica.

With -f it goes on until the job is removed, also when the server is away for a while;
Ctrl-C ends it before.`,
		Example: `  rota group logs tails access.log
  rota group logs tails access.log -f --replica 0`,
		Args: app.Takes("NAME", "JOB"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("group", args[0]); err != nil {
			return err
		}
		if err := app.CheckNames("job", args[1]); err != nil {
			return err
		}
		log.group, log.job = args[0], args[1]
		if follow {
			return a.followJobLog(ctx, c, log)
		}
		return a.wholeJobLog(ctx, c, log)
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job is removed")
	cmd.Flags().IntVar(&log.replica, "replica", -1, "only what this `replica` logged (default all)")
	return cmd
}

// followJobLog prints lines until the job is removed, or until somebody has seen enough: that is no
// failure.
func (a commands) followJobLog(ctx context.Context, c *client.Client, log jobLog) error {
	for line, err := range c.FollowJobLog(ctx, log.group, log.job, "") {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = a.printJobLine(log, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a commands) wholeJobLog(ctx context.Context, c *client.Client, log jobLog) error {
	for cursor := ""; ; {
		lines, next, err := c.JobLog(ctx, log.group, log.job, cursor, 1000)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := a.printJobLine(log, line); err != nil {
				return err
			}
		}
		if next == "" || len(lines) == 0 {
			return nil
		}
		cursor = next
	}
}

// printJobLine prints a line of a job's log. A stream is named after its replica, too; where there
// may be several that stands before the text.
func (a commands) printJobLine(log jobLog, line task.LogLine) error {
	stream, replica, named := strings.Cut(line.Stream, ".")
	if named && log.replica >= 0 && replica != strconv.Itoa(log.replica) {
		return nil
	}
	if a.JSON() {
		return a.PrintLine(line)
	}
	if named && log.replica < 0 {
		line.Text = replica + "| " + line.Text
	}
	line.Stream = stream
	return a.PrintLine(line)
}
