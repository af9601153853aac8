package queues

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setFlags are what `rota queue set` was told.
type setFlags struct {
	queue  client.QueueChange // but for what is below
	retry  client.RetryChange
	perKey client.KeyLimitsChange
}

func (a commands) set() *cobra.Command {
	var f setFlags
	cmd := a.Remote(&cobra.Command{
		Use:   "set NAME",
		Short: "Create a queue or change its configuration",
		Long: `Create a queue or change its configuration, and print all of it. What no flag names stays
as it is, or gets its default in a new queue; without a flag nothing is created or changed.
Durations are written as 90s, 10m, 24h or 30d.

--max-running, --rate and --burst limit the queue over all nodes and workers together; 0 takes a
limit away. What a dead node or an unheard worker has counts until it is recorded as lost.
--key-max-running, --key-rate and --key-burst limit the tasks of each group key by itself (submit
--group-key); those without one they do not limit. With --fair group keys take turns; with
--fair=false rank decides which task is next.`,
		Example: `  rota queue set mail --timeout 30s --max-attempts 10
  rota queue set mail --max-running 20 --rate 100/1s --burst 20
  rota queue set mail --max-running 0                         # no limit any more
  rota queue set mail --key-max-running 1 --key-rate 5/1s --key-burst 5 --fair
  rota queue set mail --key-max-running 0 --key-rate 0 --fair=false
  rota queue set mail --retry-initial 5s --retry-factor 1     # every 5 s
  rota queue set mail --title 'Mail to customers' --owner ana@example.com`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("queue", args...); err != nil {
			return err
		}
		q, err := app.Setting[client.QueueChange, client.Queue]{
			Kind: "queue", Read: c.Queue, Put: c.PutQueue,
			Creates: "the first submission creates it, or queue set with a setting, as --max-attempts 5",
		}.Apply(ctx, args[0], f.change())
		if err != nil {
			return err
		}
		a.unheard(q.Unheard)
		return a.Show(q, func() string { return Text(q) })
	})
	f.add(cmd)
	return cmd
}

func (f *setFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	app.Optional(s, s.Duration, &f.queue.Timeout, "timeout",
		"longest attempt (default 10m)")
	app.Optional(s, s.Duration, &f.queue.Silence, "silence",
		"longest without a sign of life of a worker (default 15s)")
	app.Optional(s, s.Int, &f.queue.MaxAttempts, "max-attempts",
		"attempts per stage (default 5)")
	app.Optional(s, s.Duration, &f.retry.Initial, "retry-initial",
		"pause before the second attempt (default 1s)")
	app.Optional(s, s.Duration, &f.retry.Max, "retry-max",
		"longest pause between attempts (default 10s)")
	app.Optional(s, s.Float64, &f.retry.Factor, "retry-factor",
		"from one pause to the next; 1 = always the same (default 2)")
	app.Optional(s, s.Float64, &f.retry.Jitter, "retry-jitter",
		"share of a pause, 0 to 1, that it may be off (default 0.1)")
	app.Optional(s, s.Int, &f.queue.HoldLimit, "hold-limit",
		"tasks per hold of workers that name no limit, up to 1,000 (default 100)")
	app.Optional(s, s.Duration, &f.queue.PollInterval, "poll-interval",
		"for workers that do not long-poll (default 10s)")
	app.Optional(s, s.Int64, &f.queue.ContextLimit, "context-limit",
		"largest context in bytes (default 16777216)")
	app.Optional(s, s.Duration, &f.queue.Retention, "retention",
		"how long done and cancelled tasks are kept (default 168h)")
	app.Optional(s, s.Duration, &f.queue.DeadKept, "retention-dead",
		"how long dead tasks are kept (default 720h)")
	app.Optional(s, s.String, &f.queue.FinalQueue, "final-queue",
		"`queue` that gets a task, to be tried until it is done, for each task that dies; \"\" = none (default none)")
	app.TitleFlag(s, &f.queue.Title)
	app.OwnerFlag(s, &f.queue.Owner)
	f.addLimits(s)
}

// addLimits adds the flags for limits of a queue and of each of its group keys.
func (f *setFlags) addLimits(s *pflag.FlagSet) {
	const rateText = " begin, `count/time`, as 100/1s or 5/1m; 0 = any speed, and no burst (default 0)"
	rate := func(name string, none task.Rate, text string) *task.Rate {
		rate := new(task.Rate)
		s.TextVar(rate, name, none, text)
		return rate
	}
	app.Optional(s, s.Int, &f.queue.MaxRunning, "max-running",
		"tasks that run at a time; 0 = any number (default 0)")
	app.Optional(s, rate, &f.queue.Rate, "rate", "how fast tasks"+rateText)
	app.Optional(s, s.Int, &f.queue.Burst, "burst",
		"how many may begin at once after a rest; 0 = the rate's count (default 0)")
	app.Optional(s, s.Int, &f.perKey.MaxRunning, "key-max-running",
		"tasks of each group key that run at a time; 0 = any number (default 0)")
	app.Optional(s, rate, &f.perKey.Rate, "key-rate", "how fast tasks of each group key"+rateText)
	app.Optional(s, s.Int, &f.perKey.Burst, "key-burst",
		"how many of a group key may begin at once after a rest; 0 = the key rate's count (default 0)")
	app.Optional(s, app.Word[task.OnDead](s), &f.perKey.OnDead, "key-on-dead",
		"where tasks of a group key go in order (--key-max-running 1), what becomes of the key when one is dead: `continue`, or stop until that one is retried or deleted (default continue)")
	app.Optional(s, s.Bool, &f.queue.Fair, "fair",
		"group keys take turns, however many tasks each has (default false: rank decides)")
}

// change is the change that the flags ask for.
func (f *setFlags) change() client.QueueChange {
	change := f.queue
	if f.retry != (client.RetryChange{}) {
		change.Retry = &f.retry
	}
	if f.perKey != (client.KeyLimitsChange{}) {
		change.PerKey = &f.perKey
	}
	return change
}
