package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// sent is what became of a signal, in JSON.
type sent struct {
	Delivered bool `json:"delivered"`
	Repeated  bool `json:"repeated"`
}

// taskSignal sends a signal to a task.
func (a commands) taskSignal() *cobra.Command {
	var payload, key string
	cmd := a.Remote(&cobra.Command{
		Use:   "signal ID NAME",
		Short: "Send a signal to a task that waits for it, or will",
		Long: `Send the signal NAME to a task. A stage that waits for it begins, and is told the payload
and who sent it; if none waits, the signal stands until one does or the task is deleted.
Each call counts, but for calls with the same --key, which count once.`,
		Example: `  rota task signal 1pq3v0m7d2k5g10 approved
  rota task signal 1pq3v0m7d2k5g10 approved --payload '{"by":"ann","limit":500}'
  rota task signal 1pq3v0m7d2k5g10 paid --payload @receipt.json --key receipt-77`,
		Args: app.Takes("ID", "NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args[:1])
		if err != nil {
			return err
		}
		return a.sendSignal(ctx, c, task.SignalRequest{Task: ids[0], Name: args[1], Key: key},
			payload)
	})
	cmd.Flags().StringVar(&payload, "payload", "",
		"what it carries: a `JSON` value of at most 64 KiB, - for stdin, or @file")
	cmd.Flags().StringVar(&key, "key", "", "calls with the same `key` count once")
	return cmd
}

// signal sends a signal to whoever waits for its name and key.
func (a commands) signal() *cobra.Command {
	var payload string
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "signal NAME KEY",
		Short: "Send a signal to the task that waits for its name and key",
		Long: `Send the signal NAME with KEY, which the waiting task names, too: so whoever sends it need not
know the task. It ends the wait of the task that has waited for it the longest. If none does, it
stands for --keep: it may come first. Meanwhile the same NAME and KEY count once.`,
		Example: `  rota signal paid order-7
  rota signal paid order-7 --payload '{"euro":12.50}'
  rota signal paid order-7 --payload @receipt.json --keep 72h`,
		Args: app.Takes("NAME", "KEY"),
	}
	f := cmd.Flags()
	f.StringVar(&payload, "payload", "",
		"what it carries: a `JSON` value of at most 64 KiB, - for stdin, or @file")
	f.DurationVar(&keep, "keep", 0, "how long it stands while nobody waits for it, "+
		"as 90s or 72h (default 24h)")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckGiven(f, "keep"); err != nil {
			return err
		}
		return a.sendSignal(ctx, c, task.SignalRequest{
			Name: args[0], Key: args[1], Keep: keep,
		}, payload)
	})
}

func (a commands) sendSignal(
	ctx context.Context, c *client.Client, s task.SignalRequest, payload string,
) (err error) {
	if s.Payload, err = a.ReadJSON("--payload", payload); err != nil {
		return err
	}
	e := &task.InvalidError{}
	limits.CheckSignal(&s, e, "signal")
	if err := bare(e, "signal."); err != nil {
		return err
	}
	got, err := c.Signal(ctx, s)
	if err != nil {
		return err
	}
	return a.Show(sent(got), func() string { return sentText(&s, got) + "\n" })
}

func sentText(s *task.SignalRequest, got task.SignalReceipt) string {
	text := "No task waits for it yet: it stands as long as the task"
	switch {
	case got.Delivered && got.Repeated:
		return "It had been sent before, and a task has got it"
	case got.Delivered:
		return "A task has got it"
	case s.Task == (task.ID{}) && got.Repeated:
		text = "No task waits for it yet"
	case s.Task == (task.ID{}):
		keep := s.Keep
		if keep == 0 {
			keep = limits.DefaultKeep
		}
		text = fmt.Sprintf("No task waits for it yet: it stands for %v", keep)
	}
	if got.Repeated {
		text += "; it had been sent before"
	}
	return text
}

// awaitsText is what a blocked task waits for.
func awaitsText(a *task.Awaits, now time.Time) string {
	if a == nil {
		return ""
	}
	if a.Others {
		return "other tasks, see after"
	}
	text := "signal " + term.OneLine(a.Signal)
	if a.Signal == "" {
		if text = "its children"; a.First {
			text = "its children, or the first that is dead"
		}
	}
	if a.Key != "" {
		text += fmt.Sprintf(", key %q", term.OneLine(a.Key))
	}
	if a.Until.IsZero() {
		return text
	}
	text += ", until " + term.Short(a.Until, now)
	if a.Else != "" {
		text += fmt.Sprintf(", else stage %q", term.OneLine(a.Else))
	}
	return text
}
