package schedules

import (
	"context"
	"math"
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

// setFlags are what `rota schedule set` was told.
type setFlags struct {
	schedule           client.ScheduleChange // but for what is below
	notices            client.NoticesChange
	starts, ends, next string
	context, jitter    string
	after              []string
	notify, origins    []string
	meta               app.MetaFlag
	given              *pflag.FlagSet
}

func (a commands) set() *cobra.Command {
	var f setFlags
	cmd := a.Remote(&cobra.Command{
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
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		change, err := f.change(a.App)
		if err != nil {
			return err
		}
		s, err := app.Setting[client.ScheduleChange, client.Schedule]{
			Kind: "schedule", Read: c.Schedule, Put: c.PutSchedule,
			Creates: "schedule set with --cron, --after or --manual, and --queue, creates it",
		}.Apply(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.Show(s, func() string { return Text(a.App, &s) })
	})
	f.add(cmd)
	return cmd
}

func (f *setFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	f.given = s
	app.TitleFlag(s, &f.schedule.Title)
	app.OwnerFlag(s, &f.schedule.Owner)
	app.Optional(s, s.Bool, &f.schedule.Paused, "paused",
		"skip due times until it is resumed (default false)")
	f.addDue(cmd)
	f.addTasks(cmd)
	f.addNotices(cmd)
}

// addDue adds the flags for when the schedule is due.
func (f *setFlags) addDue(cmd *cobra.Command) {
	s := cmd.Flags()
	app.Optional(s, s.String, &f.schedule.Cron, "cron",
		"`expression` that says when it is due")
	app.Optional(s, s.String, &f.schedule.Zone, "zone",
		"`zone` of the expression's times of day, as Europe/Berlin (default UTC)")
	app.Optional(s, s.String, &f.schedule.Calendar, "calendar",
		"`calendar` on whose days it is due; \"\" takes it away (default all days)")
	app.Optional(s, s.Bool, &f.schedule.Manual, "manual",
		"no due times, in place of --cron: it runs by hand, by a backfill, or as a follower (default false)")
	s.StringSliceVar(&f.after, "after", nil,
		"`schedules` to follow, in place of --cron, with commas between them; \"\" = none")
	app.Optional(s, app.Word[task.AfterMode](s), &f.schedule.AfterMode, "after-mode",
		"`how many` of the tasks of several must have ended: all that belong together, or any (default all)")
	app.Complete(cmd, "after-mode", string(task.AfterAll), string(task.AfterAny))
	app.Optional(s, app.Word[task.AfterOn](s), &f.schedule.AfterOn, "after-on",
		"`how` they must have ended: done, failed or ended, which is in any way (default done)")
	app.Complete(cmd, "after-on", string(task.AfterDone), string(task.AfterFailed),
		string(task.AfterEnded))
	app.Optional(s, s.Duration, &f.schedule.AfterDelay, "after-delay",
		"how long after what it follows ended the task is due, as 30s (default none)")
	s.StringVar(&f.starts, "starts", "",
		"`time` before which it is not due; \"\" takes it away (default none)")
	s.StringVar(&f.ends, "ends", "",
		"`time` after which it is not due; \"\" takes it away (default none)")
	s.StringVar(&f.next, "set-next", "",
		"the next due `time`, whatever the expression says; \"\" = as it says (default as it says)")
	app.Optional(s, app.Word[task.Misfire](s), &f.schedule.Misfire, "misfire",
		"`which` of the due times are fired that every node missed: skip, once (the newest) or all (the newest 100) (default once)")
	app.Complete(cmd, "misfire", string(task.MisfireSkip), string(task.MisfireOnce),
		string(task.MisfireAll))
	app.Optional(s, s.Duration, &f.schedule.MisfireWindow, "misfire-window",
		"what is later than this, and than a minute, is missed, whatever --misfire says (default 24h)")
	s.StringVar(&f.jitter, "jitter", "",
		"`span` over which tasks are spread at random: 30s, or a share of the time to the next, as 0.1; 0 = none (default none)")
}

// addTasks adds the flags for its tasks, and for what becomes of those that meet.
func (f *setFlags) addTasks(cmd *cobra.Command) {
	s := cmd.Flags()
	app.Optional(s, s.String, &f.schedule.Queue, "queue",
		"`queue` of the tasks")
	app.Optional(s, s.String, &f.schedule.Stage, "stage",
		"first `stage` of the tasks (default none)")
	s.StringVar(&f.context, "context", "",
		"`JSON` value for the tasks, - for stdin, or @file; null takes it away (default none)")
	s.Var(&f.meta, "meta",
		"a `name=text` that the tasks carry, in place of those before; repeat it for more; \"\" = none (default none)")
	app.Optional(s, s.Duration, &f.schedule.Priority, "priority",
		"head start of the tasks in the queue, as 30s (default none)")
	app.Optional(s, s.Int, &f.schedule.MaxAttempts, "max-attempts",
		"attempts per stage; 0 = the queue's (default the queue's)")
	app.Optional(s, s.Duration, &f.schedule.Timeout, "timeout",
		"longest attempt; 0 = the queue's (default the queue's)")
	app.Optional(s, s.Duration, &f.schedule.StartWithin, "start-within",
		"a task that nobody begins so long after it is due expires; 0 = no limit (default none)")
	app.Optional(s, s.Int, &f.schedule.Parallel, "parallel",
		"so many of its tasks may run before --overlap decides, which is skip then unless it is given; 0 = one (default 0)")
	app.Optional(s, app.Word[task.Overlap](s), &f.schedule.Overlap, "overlap",
		"`what` to do while a task of an earlier due time is not final: allow, skip, queue or replace (default allow)")
	app.Complete(cmd, "overlap", string(task.OverlapAllow), string(task.OverlapSkip),
		string(task.OverlapQueue), string(task.OverlapReplace))
	app.Optional(s, app.Word[task.OnDead](s), &f.schedule.OnDead, "on-dead",
		"`what` becomes of the schedule when its task is dead: continue, or stop: it is paused until it is resumed (default continue)")
	app.Complete(cmd, "on-dead", string(task.OnDeadContinue), string(task.OnDeadStop))
}

// addNotices adds the flags for what of its tasks is told.
func (f *setFlags) addNotices(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringSliceVar(&f.notify, "notify", nil,
		"`events` of its tasks to tell of: submitted, failed, timeout, dead, done, slow, missed; \"\" = none (default none)")
	app.Complete(cmd, "notify", string(task.NoticeSubmitted), string(task.NoticeFailed),
		string(task.NoticeTimeout), string(task.NoticeDead), string(task.NoticeDone),
		string(task.NoticeSlow), string(task.NoticeMissed))
	s.StringSliceVar(&f.origins, "notify-of", nil,
		"only of tasks that came so: schedule, manual, backfill, after, retry; \"\" = all (default all)")
	app.Complete(cmd, "notify-of", string(task.OriginSchedule), string(task.OriginManual),
		string(task.OriginBackfill), string(task.OriginAfter), string(task.OriginRetry))
	app.Optional(s, s.Duration, &f.notices.Slow, "slow",
		"a task is slow that is not final so long after it was submitted")
}

// change is the change that the flags ask for.
func (f *setFlags) change(a *app.App) (change client.ScheduleChange, err error) {
	change = f.schedule
	now := a.Now()
	for _, t := range []struct {
		flag, text string
		to         **time.Time
	}{
		{"starts", f.starts, &change.Starts}, {"ends", f.ends, &change.Ends},
		{"set-next", f.next, &change.Next},
	} {
		if f.given.Changed(t.flag) {
			at, err := future("--"+t.flag, t.text, now)
			if err != nil {
				return change, err
			}
			*t.to = &at
		}
	}
	if change.Context, err = a.ReadJSON("--context", f.context); err != nil {
		return change, err
	}
	change.Meta = f.meta.List
	if f.given.Changed("after") {
		change.After = new(strings.Join(words[string](f.after), ","))
	}
	if f.given.Changed("jitter") {
		j, err := parseJitter(f.jitter)
		if err != nil {
			return change, err
		}
		change.Jitter = &j
	}
	notices := f.notices
	if f.given.Changed("notify") {
		notices.On = new(words[task.Notice](f.notify))
	}
	if f.given.Changed("notify-of") {
		notices.Origins = new(words[task.Origin](f.origins))
	}
	if notices != (client.NoticesChange{}) {
		change.Notices = &notices
	}
	return change, nil
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
