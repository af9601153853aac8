package cli

import (
	"context"
	"encoding/json"
	"io"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

func (a *App) taskLogs() *cobra.Command {
	var follow bool
	cmd := a.remote(&cobra.Command{
		Use:   "logs ID",
		Short: "Print a task's log",
		Long: `Print what the task's attempts logged: lines that were written to stdout go to stdout,
all others to stderr. A node keeps up to 1 MiB per task; what is too much is
left out in the middle. With -o json the lines come one document each.

With -f it goes on until the task has ended, also when the server is away for a while;
Ctrl-C ends it before.`,
		Example: `  rota task logs 1pq3v0m7d2k5g10
  rota task logs -f 1pq3v0m7d2k5g10      # until the task ends`,
		Args: takes("ID"),
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
func (a *App) followLines(ctx context.Context, c *client.Client, id task.ID) error {
	for line, err := range c.FollowLines(ctx, id, "") {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.printLine(line); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) allLines(ctx context.Context, c *client.Client, id task.ID) error {
	for cursor := ""; ; {
		lines, next, err := c.Lines(ctx, id, cursor, 1000)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := a.printLine(line); err != nil {
				return err
			}
		}
		if next == "" || len(lines) == 0 {
			return nil
		}
		cursor = next
	}
}

// printLine prints one line of a log. On a terminal without its control sequences: they come from
// somewhere else and could do more than colour the text.
func (a *App) printLine(line task.LogLine) error {
	if a.JSON() {
		e := json.NewEncoder(a.Out)
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			Time   term.Stamp `json:"time"`
			Stream string     `json:"stream"`
			Text   string     `json:"text"`
		}{term.Stamp(line.Time), line.Stream, line.Text})
	}
	w := a.Out
	if line.Stream != "stdout" {
		w = a.Err
	}
	if _, ok := term.Terminal(w); ok {
		text := term.OneLine(ansi.Strip(line.Text))
		if line.Stream == "stderr" {
			text = term.Yellow(text)
		}
		_, err := lipgloss.Fprintf(w, "%s %s\n",
			term.Faint(line.Time.Local().Format("15:04:05.000")), text)
		return err
	}
	_, err := io.WriteString(w, line.Text+"\n")
	return err
}
