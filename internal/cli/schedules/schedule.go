package schedules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/await"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// commands are the commands that look after schedules and calendars.
type commands struct{ *app.App }

// Commands are the commands that look after schedules and calendars.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.schedule(), c.calendar()}
}

func (a commands) schedule() *cobra.Command {
	return app.Family("schedule", "Have tasks submitted at their times",
		`Look after schedules. A schedule submits a task at each of its due times, exactly once,
whatever node fires it and whatever dies; every due time leaves a row that says what came
of it, and rota schedule audit proves it. Workers take the tasks from their queue as any
other.`,
		`  rota schedule set nightly --cron '30 2 * * *' --zone Europe/Berlin --queue reports
  rota schedule next nightly               # when it is due, and what clocks do to it
  rota schedule fires nightly              # what came of its due times
  rota schedule audit nightly`,
		a.set(), a.list(), a.show(), a.next(), a.fires(),
		a.run(),
		a.each("pause", "Skip the due times of schedules",
			`Pause schedules: each due time is skipped, with a row that says so, until they are resumed.
Tasks that were submitted go on.`, (*client.Client).PauseSchedule),
		a.each("resume", "Fire the due times of paused schedules again",
			`Let paused schedules go on. What was due meanwhile stays skipped; rota schedule backfill
submits it.`, (*client.Client).ResumeSchedule),
		a.backfill(), a.audit(),
		a.each("rm", "Delete schedules and what is known of their due times",
			`Delete schedules and the rows of their due times. Tasks that were submitted stay. One that
another follows (--after) is refused.`, (*client.Client).DeleteSchedule),
		a.importFile())
}

func (a commands) each(
	verb, short, long string, call func(*client.Client, context.Context, string) error,
) *cobra.Command {
	return a.ForEach("schedule", &cobra.Command{
		Use: verb, Short: short, Long: long, Example: "  rota schedule " + verb + " nightly",
	}, call)
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List schedules and how they stand",
		Long: `List schedules: when they are due next, when they were fired last and what became of that
task (fired: it is not final), and which node fires them. Dates are those of the schedule's
zone.`,
		Example: "  rota schedule ls\n  rota schedule ls -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Schedules(ctx)
		if err != nil {
			return err
		}
		return a.Show(term.Page[client.Schedule]{Items: append([]client.Schedule{}, list...)},
			func() string {
				t := a.Table("SCHEDULE", "STATE", "NEXT", "LAST", "OUTCOME", "DUE", "ZONE", "QUEUE",
					"OWNER")
				now := a.Now()
				for _, s := range list {
					zone := ZoneOf(s.Zone)
					next := term.ShortIn(s.Next, now, zone)
					if s.Paused { // it is due when it goes on
						next = "-"
					}
					t.Add(s.Name, State(&s), next,
						term.ShortIn(s.Last, now, zone), EndedText(s.LastOutcome),
						term.OneLine(DueText(&s)), s.Zone, s.Queue, s.Owner)
				}
				return t.String()
			})
	})
}

// State is where a schedule stands, in one word.
func State(s *client.Schedule) string {
	switch {
	case s.Paused:
		return term.Yellow("paused")
	case s.After != "":
		return term.Green("follows")
	case s.Manual:
		return term.Green("manual")
	case s.Next.IsZero():
		return term.Faint("over")
	}
	return term.Green("active")
}

// DueText says when a schedule is due.
func DueText(s *client.Schedule) string {
	switch {
	case s.After != "":
		return "after " + afterText(s)
	case s.Manual:
		return "by hand"
	}
	return s.Cron
}

// afterText says what a schedule follows, and how, as far as that is not the default.
func afterText(s *client.Schedule) string {
	text := s.After
	if len(s.Parents()) > 1 {
		text = string(s.AfterMode) + " of " + strings.Join(s.Parents(), ", ")
	}
	if s.AfterOn != task.AfterDone && s.AfterOn != "" {
		text += ", " + string(s.AfterOn)
	}
	if s.AfterDelay > 0 {
		text += ", " + s.AfterDelay.String() + " later"
	}
	return text
}

// Text is a schedule in lines.
func Text(a *app.App, v *client.Schedule) string {
	now := a.Now()
	s := term.Sheet{Indent: 12}
	s.Line("schedule", term.Bold(v.Name))
	s.Line("title", term.OneLine(v.Title))
	s.Line("responsible", term.OneLine(v.Responsible))
	s.Line("state", State(v))
	s.Line("due", term.OneLine(DueText(v)))
	s.Line("zone", v.Zone)
	s.Line("calendar", v.Calendar)
	s.Line("starts", inZone(v.Starts, v.Zone, now))
	s.Line("ends", inZone(v.Ends, v.Zone, now))
	next := inZone(v.Next, v.Zone, now)
	if v.NextChosen {
		next += ", chosen by hand: not due before"
	}
	s.Line("next", next)
	if !v.Last.IsZero() {
		s.Line("last",
			fmt.Sprintf("%s, task %s, %s", inZone(v.Last, v.Zone, now), v.LastTask,
				EndedText(v.LastOutcome)))
	}
	s.Line("owner", v.Owner)
	s.Line("queue", v.Queue)
	s.Line("stage", term.OneLine(v.Stage))
	s.Line("context", term.OneLine(string(v.Context)))
	s.Line("meta", app.MetaText(v.Meta))
	if v.Priority != 0 {
		s.Line("priority", v.Priority.String())
	}
	if v.MaxAttempts != 0 {
		s.Line("attempts", fmt.Sprint(v.MaxAttempts))
	}
	if v.Timeout != 0 {
		s.Line("timeout", v.Timeout.String())
	}
	if v.StartWithin != 0 {
		s.Line("start within", v.StartWithin.String())
	}
	overlap := string(v.Overlap)
	if v.Parallel > 0 {
		overlap = fmt.Sprintf("%s, at most %d at once", v.Overlap, v.Parallel)
	}
	s.Line("overlap", overlap)
	if v.OnDead == task.OnDeadStop {
		s.Line("on dead", "stop: it is paused then")
	}
	s.Line("misfire", fmt.Sprintf("%s, within %s", v.Misfire, term.Days(v.MisfireWindow)))
	s.Line("jitter", jitterText(v.Jitter))
	s.Line("notify", noticesText(&v.Notices))
	return s.String()
}

func jitterText(j task.Jitter) string {
	switch {
	case j.Share != 0:
		return fmt.Sprintf("%v of the time to the next", j.Share)
	case j.Max != 0:
		return "up to " + j.Max.String()
	}
	return ""
}

func noticesText(n *task.Notices) string {
	if len(n.On) == 0 {
		return ""
	}
	text := joinWords(n.On)
	if len(n.Origins) > 0 {
		text += ", of " + joinWords(n.Origins)
	}
	if n.Slow > 0 {
		text += ", slow after " + n.Slow.String()
	}
	return text
}

func joinWords[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return strings.Join(list, " ")
}

// ZoneOf is the zone of a name, as far as this machine knows it, else UTC.
func ZoneOf(name string) *time.Location {
	if zone, err := time.LoadLocation(name); err == nil {
		return zone
	}
	return time.UTC
}

// zoneForm is a time in a zone, with its day of the week and its distance from UTC.
const zoneForm = "Mon 2006-01-02 15:04:05 -07:00"

// inZone is a time as the clocks of a zone show it, and how far away it is; "" = none.
func inZone(t time.Time, zone string, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.In(ZoneOf(zone)).Format(zoneForm), distance(t, now))
}

// distance is how far a time is from now, in two units.
func distance(t, now time.Time) string {
	d := t.Sub(now)
	text := twoUnits(d.Abs())
	switch {
	case text == "0s":
		return "now"
	case d < 0:
		return text + " ago"
	}
	return "in " + text
}

// twoUnits is a duration in its two largest units.
func twoUnits(d time.Duration) string {
	const day = 24 * time.Hour
	units := []struct {
		name string
		span time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.span || i == len(units)-1 {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.span, u.name)
		if rest := d % u.span / units[i+1].span; rest > 0 {
			text += fmt.Sprintf(" %d%s", rest, units[i+1].name)
		}
		return text
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func (a commands) run() *cobra.Command {
	var wait bool
	cmd := a.Remote(&cobra.Command{
		Use:   "run NAME",
		Short: "Submit the task of a schedule now",
		Long: `Submit the task of a schedule now and print its id, aside of the due times, paused or not,
whatever runs. With --wait the command ends when the task does, as rota submit --wait.`,
		Example: "  rota schedule run nightly\n  rota schedule run nightly --wait",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		f, err := c.RunSchedule(ctx, args[0])
		if err != nil {
			return err
		}
		if wait {
			return await.Result(ctx, a.App, c, f.Task.ID)
		}
		return a.Show(docOfFire(&f), func() string { return f.Task.String() + "\n" })
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the task ended and print its result")
	return cmd
}
