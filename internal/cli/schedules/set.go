package schedules

import (
	"context"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setFlags are those of `rota schedule set` that are no value of the API as they stand.
type setFlags struct {
	starts, ends, next        string
	context, overlap, misfire string
	after                     []string
	afterMode, afterOn        string
	onDead                    string
	jitter                    string
	notify, origins           []string
	slow                      time.Duration
	meta                      app.MetaFlag
}

func (a commands) set() *cobra.Command {
	var change client.ScheduleChange
	var in setFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a schedule or change it",
		Long: `Create a schedule or change it, and print all of it. What no flag names stays as it is, or
gets its default in a new one.

--cron takes five fields (minute, hour, day of month, month, day of week), six with seconds
in front, @daily and its like, or @every 90s; rota schedule next --cron shows what it means.
In place of it --after names a schedule to follow, or several: the task is submitted when
theirs ended well, or as --after-on says. Or it is --manual: rota schedule run submits it.
Times are written as 2026-12-01T08:00:00+01:00, or as how long from now: 90m.`,
		Example: `  rota schedule set nightly --cron '30 2 * * *' --zone Europe/Berlin --queue reports --context '{"kind":"sales"}'
  rota schedule set nightly --overlap skip --jitter 30s --misfire all --misfire-window 6h
  rota schedule set nightly-mail --after nightly --queue mail
  rota schedule set report --after load-a,load-b --queue reports       # when both are done
  rota schedule set clean --after load-a,load-b --after-mode any --after-on failed --queue q
  rota schedule set nightly --parallel 3 --overlap queue               # the fourth waits
  rota schedule set nightly --on-dead stop                             # paused when its task dies
  rota schedule set reindex --manual --queue reports                   # rota schedule run reindex
  rota schedule set nightly --set-next 2026-12-24T12:00:00+01:00      # this once
  rota schedule set nightly --title 'Sales of the day' --owner ana@example.com`,
		Args: app.Takes("NAME"),
	}
	f := cmd.Flags()
	set := []func(){
		app.Optional(f.String("cron", "", "`expression` that says when it is due"), f, "cron",
			&change.Cron),
		app.Optional(f.Bool("manual", false,
			"no due times, in place of --cron: it runs by hand, by a backfill, or as a follower (default false)"),
			f, "manual", &change.Manual),
		app.Optional(f.Duration("after-delay", 0,
			"how long after what it follows ended the task is due, as 30s (default none)"), f,
			"after-delay", &change.AfterDelay),
		app.Optional(f.Int("parallel", 0,
			"so many of its tasks may run before --overlap decides, which is skip then unless it is given; 0 = one (default 0)"),
			f, "parallel", &change.Parallel),
		app.Optional(f.String("zone", "",
			"`zone` of the expression's times of day, as Europe/Berlin (default UTC)"), f, "zone",
			&change.Zone),
		app.Optional(f.String("calendar", "",
			"`calendar` on whose days it is due; \"\" takes it away (default all days)"), f,
			"calendar", &change.Calendar),
		app.Optional(f.Bool("paused", false, "skip due times until it is resumed (default false)"), f,
			"paused", &change.Paused),
		app.Optional(f.String("queue", "", "`queue` of the tasks"), f, "queue", &change.Queue),
		app.Optional(f.String("stage", "", "first `stage` of the tasks (default none)"), f, "stage",
			&change.Stage),
		app.Optional(f.Duration("priority", 0,
			"head start of the tasks in the queue, as 30s (default none)"), f, "priority",
			&change.Priority),
		app.Optional(f.Int("max-attempts", 0,
			"attempts per stage; 0 = the queue's (default the queue's)"), f, "max-attempts",
			&change.MaxAttempts),
		app.Optional(f.Duration("timeout", 0, "longest attempt; 0 = the queue's (default the queue's)"),
			f, "timeout", &change.Timeout),
		app.Optional(f.Duration("start-within", 0,
			"a task that nobody begins so long after it is due expires; 0 = no limit (default none)"),
			f, "start-within", &change.StartWithin),
		app.Optional(f.Duration("misfire-window", 0,
			"what is later than this, and than a minute, is missed, whatever --misfire says (default 24h)"), f, "misfire-window",
			&change.MisfireWindow),
		app.TitleFlag(f, &change.Title), app.OwnerFlag(f, &change.Owner),
	}
	in.add(cmd)
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		for _, take := range set {
			take()
		}
		if err := a.takeFlags(&change, f, &in); err != nil {
			return err
		}
		if reflect.DeepEqual(change, client.ScheduleChange{}) { // as with queues
			s, err := c.Schedule(ctx, args[0])
			if err != nil {
				return app.Absent(err, "schedule", args[0],
					"schedule set with --cron, --after or --manual, and --queue, creates it")
			}
			return a.Show(s, func() string { return Text(a.App, &s) })
		}
		s, err := c.PutSchedule(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.Show(s, func() string { return Text(a.App, &s) })
	})
}

func (in *setFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.starts, "starts", "",
		"`time` before which it is not due; \"\" takes it away (default none)")
	f.StringVar(&in.ends, "ends", "",
		"`time` after which it is not due; \"\" takes it away (default none)")
	f.StringVar(&in.next, "set-next", "",
		"the next due `time`, whatever the expression says; \"\" = as it says (default as it says)")
	f.Var(&in.meta, "meta",
		"a `name=text` that the tasks carry, in place of those before; repeat it for more; \"\" = none (default none)")
	f.StringVar(&in.context, "context", "",
		"`JSON` value for the tasks, - for stdin, or @file; null takes it away (default none)")
	f.StringSliceVar(&in.after, "after", nil,
		"`schedules` to follow, in place of --cron, with commas between them; \"\" = none")
	f.StringVar(&in.afterMode, "after-mode", "",
		"`how many` of the tasks of several must have ended: all that belong together, or any (default all)")
	f.StringVar(&in.afterOn, "after-on", "",
		"`how` they must have ended: done, failed or ended, which is in any way (default done)")
	f.StringVar(&in.onDead, "on-dead", "",
		"`what` becomes of the schedule when its task is dead: continue, or stop: it is paused until it is resumed (default continue)")
	f.StringVar(&in.overlap, "overlap", "",
		"`what` to do while a task of an earlier due time is not final: allow, skip, queue or replace (default allow)")
	f.StringVar(&in.misfire, "misfire", "",
		"`which` of the due times are fired that every node missed: skip, once (the newest) or all (the newest 100) (default once)")
	f.StringVar(&in.jitter, "jitter", "",
		"`span` over which tasks are spread at random: 30s, or a share of the time to the next, as 0.1; 0 = none (default none)")
	f.StringSliceVar(&in.notify, "notify", nil,
		"`events` of its tasks to tell of: submitted, failed, timeout, dead, done, slow, missed; \"\" = none (default none)")
	f.StringSliceVar(&in.origins, "notify-of", nil,
		"only of tasks that came so: schedule, manual, backfill, after, retry; \"\" = all (default all)")
	f.DurationVar(&in.slow, "slow", 0,
		"a task is slow that is not final so long after it was submitted")
	app.Complete(cmd, "overlap", string(task.OverlapAllow), string(task.OverlapSkip),
		string(task.OverlapQueue), string(task.OverlapReplace))
	app.Complete(cmd, "after-mode", string(task.AfterAll), string(task.AfterAny))
	app.Complete(cmd, "after-on", string(task.AfterDone), string(task.AfterFailed),
		string(task.AfterEnded))
	app.Complete(cmd, "on-dead", string(task.OnDeadContinue), string(task.OnDeadStop))
	app.Complete(cmd, "notify", string(task.NoticeSubmitted), string(task.NoticeFailed),
		string(task.NoticeTimeout), string(task.NoticeDead), string(task.NoticeDone),
		string(task.NoticeSlow), string(task.NoticeMissed))
	app.Complete(cmd, "notify-of", string(task.OriginSchedule), string(task.OriginManual),
		string(task.OriginBackfill), string(task.OriginAfter), string(task.OriginRetry))
	app.Complete(cmd, "misfire", string(task.MisfireSkip), string(task.MisfireOnce),
		string(task.MisfireAll))
}

// takeFlags adds to a change what the flags say that were given.
func (a commands) takeFlags(
	change *client.ScheduleChange, given *pflag.FlagSet, in *setFlags,
) (err error) {
	now := a.Now()
	for _, t := range []struct {
		flag, text string
		to         **time.Time
	}{
		{"starts", in.starts, &change.Starts}, {"ends", in.ends, &change.Ends},
		{"set-next", in.next, &change.Next},
	} {
		if given.Changed(t.flag) {
			at, err := future("--"+t.flag, t.text, now)
			if err != nil {
				return err
			}
			*t.to = &at
		}
	}
	if given.Changed("context") {
		if change.Context, err = a.ReadJSON("--context", in.context); err != nil {
			return err
		}
	}
	if given.Changed("meta") {
		change.Meta = in.meta.List
	}
	if given.Changed("after") {
		change.After = new(strings.Join(words[string](in.after), ","))
	}
	if given.Changed("after-mode") {
		change.AfterMode = (*task.AfterMode)(&in.afterMode)
	}
	if given.Changed("after-on") {
		change.AfterOn = (*task.AfterOn)(&in.afterOn)
	}
	if given.Changed("on-dead") {
		change.OnDead = (*task.OnDead)(&in.onDead)
	}
	if given.Changed("overlap") {
		change.Overlap = (*task.Overlap)(&in.overlap)
	}
	if given.Changed("misfire") {
		change.Misfire = (*task.Misfire)(&in.misfire)
	}
	if given.Changed("jitter") {
		j, err := parseJitter(in.jitter)
		if err != nil {
			return err
		}
		change.Jitter = &j
	}
	if given.Changed("notify") || given.Changed("notify-of") || given.Changed("slow") {
		change.Notices = &client.NoticesChange{}
	}
	if given.Changed("notify") {
		change.Notices.On = new(words[task.Notice](in.notify))
	}
	if given.Changed("notify-of") {
		change.Notices.Origins = new(words[task.Origin](in.origins))
	}
	if given.Changed("slow") {
		change.Notices.Slow = &in.slow
	}
	return nil
}

// words are the words of a flag; "" is none.
func words[T ~string](list []string) []T {
	made := make([]T, 0, len(list))
	for _, w := range list {
		if w != "" {
			made = append(made, T(w))
		}
	}
	return made
}

// parseJitter reads a duration, or a share.
func parseJitter(text string) (task.Jitter, error) {
	if share, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(share) &&
		!math.IsInf(share, 0) {
		return task.Jitter{Share: share}, nil
	}
	d, err := view.ParseDuration(text)
	if err != nil {
		return task.Jitter{},
			usage.Errorf(
				"--jitter %q: want a duration as 30s, or a share of the time to the next due time as 0.1",
				text,
			)
	}
	return task.Jitter{Max: d}, nil
}

// future is a time as flags take it that lies ahead: RFC 3339, or how long from now; "" is the zero
// time.
func future(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := view.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{},
			usage.Errorf("%s %q: want a time like %s or a span from now like 90m or 2d", flag, text,
				now.UTC().Format(time.RFC3339))
	}
	return t, nil
}
