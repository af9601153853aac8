package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) keys() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "keys NAME",
		Short: "List the group keys of a queue that have work, or of which something is said",
		Long: `List the group keys (submit --group-key) of a queue that have tasks which are ready or run, and
those that are paused or weigh more than others: those with the most work first, at most 1,000.
The state of a key says whether a task of it may begin: open; paused; full, when as many run as may;
rate, while its rate is used up; order, when its tasks go in order and one that began is not over;
stopped, when a dead one stops them.`,
		Example: `  rota queue keys mail
  rota queue keys mail -o json`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("queue", args...); err != nil {
			return err
		}
		keys, err := c.Keys(ctx, args[0])
		if err != nil {
			return app.Absent(err, "queue", args[0], "the first submission creates it")
		}
		if keys.Items == nil {
			keys.Items = []view.QueueKey{}
		}
		return a.Show(keys, func() string {
			t := a.Table("KEY", "#READY", "#RUNNING", "#WEIGHT", "PAUSED", "STATE")
			for i := range keys.Items {
				k := &keys.Items[i]
				state := KeyStateText(k, a.Now())
				if k.State != view.KeyOpen {
					state = term.Yellow(state)
				}
				t.Add(term.OneLine(k.Key), term.Count(k.Ready), term.Count(k.Running),
					term.Count(k.Weight), term.Yellow(PausedText(&k.KeyRule, a.Now())), state)
			}
			text := t.String()
			if keys.Cut {
				text += term.Faint("There is more work than was looked at: numbers may be too small, and keys missing.") + "\n"
			}
			return text
		})
	})
}

// KeyStateText says whether a task of a key may begin, and for how long its rate lets none.
func KeyStateText(k *view.QueueKey, now time.Time) string {
	if k.State == view.KeyRate {
		return "rate for " + term.Round(max(k.OpensAt.Sub(now), 0)).String()
	}
	return string(k.State)
}

// PausedText says until when a key is paused; "" = it is not.
func PausedText(r *view.KeyRule, now time.Time) string {
	switch {
	case !r.Paused:
		return ""
	case r.PausedUntil.IsZero():
		return "until it is resumed"
	}
	return "for " + term.Round(r.PausedUntil.Sub(now)).String()
}

func (a commands) key() *cobra.Command {
	return app.Family("key", "Pause, resume and weigh single group keys of a queue",
		`Say something of single group keys of a queue (submit --group-key): pause one, so that nothing of
it begins while others go on, or give its turn more tasks than those of others.`,
		`  rota queue key pause mail customer-7 --for 10m
  rota queue key resume mail customer-7
  rota queue key weigh mail customer-7 --weight 5
  rota queue keys mail                     # what is said, and how much work they have`,
		a.keyPause(), a.keyResume(), a.keyWeigh())
}

func (a commands) keyPause() *cobra.Command {
	var last time.Duration
	cmd := &cobra.Command{
		Use:   "pause QUEUE KEY",
		Short: "Let nothing of a group key begin",
		Long: `Let nothing of a group key begin, for a while (--for) or until it is resumed. What runs goes on,
and so do other keys; submissions are taken. It holds at every node once it is answered.`,
		Example: `  rota queue key pause mail customer-7
  rota queue key pause mail customer-7 --for 10m`,
	}
	cmd.Flags().DurationVar(&last, "for", 0, "so long; without it until the key is resumed")
	return a.keyCommand(cmd, func(
		ctx context.Context, c *client.Client, queue, key string,
	) (view.KeyRule, error) {
		if cmd.Flags().Changed("for") && last <= 0 {
			return view.KeyRule{}, usage.Errorf("--for %v: want a time above 0", last)
		}
		return c.PauseKey(ctx, queue, key, last)
	})
}

func (a commands) keyResume() *cobra.Command {
	return a.keyCommand(&cobra.Command{
		Use:     "resume QUEUE KEY",
		Short:   "Let tasks of a paused group key begin again",
		Long:    `Let tasks of a paused group key begin again, at once.`,
		Example: `  rota queue key resume mail customer-7`,
	}, func(
		ctx context.Context, c *client.Client, queue, key string,
	) (view.KeyRule, error) {
		return c.ResumeKey(ctx, queue, key)
	})
}

func (a commands) keyWeigh() *cobra.Command {
	var weight int
	cmd := &cobra.Command{
		Use:   "weigh QUEUE KEY",
		Short: "Say how many tasks a turn of a group key has",
		Long: `Say how many tasks a turn of a group key has, where keys take turns (queue set --fair): of a key
that weighs 5 as many begin as of five others. 1 takes it back.`,
		Example: `  rota queue key weigh mail customer-7 --weight 5
  rota queue key weigh mail customer-7 --weight 1    # as all others`,
	}
	cmd.Flags().IntVar(&weight, "weight", 0, "tasks of a turn, 1 to 1000")
	return a.keyCommand(cmd, func(
		ctx context.Context, c *client.Client, queue, key string,
	) (view.KeyRule, error) {
		if !cmd.Flags().Changed("weight") {
			return view.KeyRule{}, usage.Errorf("queue key weigh needs --weight")
		}
		return c.WeighKey(ctx, queue, key, weight)
	})
}

// keyCommand is a command that changes what is said of a key, and shows it.
func (a commands) keyCommand(cmd *cobra.Command, change func(
	ctx context.Context, c *client.Client, queue, key string,
) (view.KeyRule, error)) *cobra.Command {
	cmd.Args = app.Takes("QUEUE", "KEY")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("queue", args[:1]...); err != nil {
			return err
		}
		rule, err := change(ctx, c, args[0], args[1])
		if err != nil {
			return app.Absent(err, "queue", args[0], "the first submission creates it")
		}
		a.unheard(rule.Unheard)
		return a.Show(rule, func() string {
			s := term.Sheet{Indent: 8}
			s.Line("queue", term.OneLine(args[0]))
			s.Line("key", term.Bold(term.OneLine(rule.Key)))
			s.Line("weight", fmt.Sprint(rule.Weight))
			paused := "no"
			if rule.Paused {
				paused = term.Yellow(PausedText(&rule, a.Now()))
			}
			s.Line("paused", paused)
			return s.String()
		})
	})
}
