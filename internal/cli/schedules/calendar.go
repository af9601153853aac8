package schedules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) calendar() *cobra.Command {
	return app.Family("calendar", "Keep the days on which schedules are due, or are not",
		`Look after calendars: named sets of days. A schedule with a calendar (rota schedule set
--calendar) is not due on its days to skip, as holidays, or on any but its days to keep.
Days are those of the schedule's zone.`,
		`  rota calendar set holidays --skip 2026-12-25,2026-12-26
  rota schedule set nightly --calendar holidays`,
		a.calendarSet(), a.calendarList(), a.calendarShow(), a.calendarRemove())
}

func (a commands) calendarSet() *cobra.Command {
	var skip, keep []string
	var from string
	cmd := a.Remote(&cobra.Command{
		Use:   "set NAME (--skip DAY… | --keep DAY…)",
		Short: "Create a calendar or replace its days",
		Long: `Create a calendar or replace its days, for the schedules that have it, too, from now on.
Days are written as 2026-12-25. --from reads more of them from a file, - is stdin: the first
word of each line; empty lines and those that begin with # are skipped.`,
		Example: `  rota calendar set holidays --skip 2026-12-25,2026-12-26
  rota calendar set closing --keep '' --from days.txt`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("calendar", args...); err != nil {
			return err
		}
		days, err := a.readDays(from)
		if err != nil {
			return err
		}
		calendar := task.Calendar{
			Name: args[0], Skip: words[string](skip), Keep: words[string](keep),
		}
		if keep != nil {
			calendar.Keep = append(calendar.Keep, days...)
		} else {
			calendar.Skip = append(calendar.Skip, days...)
		}
		var e task.InvalidError
		if limits.CheckCalendar(&calendar, &e, "calendar"); e.Err() != nil {
			return usage.Errorf("%v", &e)
		}
		return c.PutCalendar(ctx, calendar)
	})
	f := cmd.Flags()
	f.StringSliceVar(&skip, "skip", nil, "`days` on which nothing is due")
	f.StringSliceVar(&keep, "keep", nil, "the only `days` on which something is")
	f.StringVar(&from, "from", "", "`file` with more days: to skip, or with --keep to keep")
	return cmd
}

// readDays reads the days of a file; "" is no file.
func (a commands) readDays(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	text, err := a.ReadFrom(name)
	if err != nil {
		return nil, err
	}
	var days []string
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if _, err := time.Parse(time.DateOnly, words[0]); err != nil {
			return nil, usage.Errorf("%s: line %d: %.40q: write a day as in 2026-12-25", name, n,
				words[0])
		}
		days = append(days, words[0])
	}
	return days, nil
}

func (a commands) calendarList() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "ls",
		Short:   "List calendars",
		Long:    `List calendars: how many days they have, and which are the first and the last.`,
		Example: "  rota calendar ls\n  rota calendar ls -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Calendars(ctx)
		if err != nil {
			return err
		}
		return a.Show(term.Page[view.CalendarLine]{Items: append([]view.CalendarLine{},
			list...)}, func() string {
			t := a.Table("CALENDAR", "#SKIP", "#KEEP", "FIRST", "LAST")
			for _, l := range list {
				t.Add(l.Name, term.Count(l.Skip), term.Count(l.Keep), l.First, l.Last)
			}
			return t.String()
		})
	})
}

func (a commands) calendarShow() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "show NAME",
		Short:   "Print the days of a calendar",
		Long:    `Print the days of a calendar, a line each: skip or keep, and the day.`,
		Example: "  rota calendar show holidays",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("calendar", args...); err != nil {
			return err
		}
		calendar, err := c.Calendar(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(calendar, func() string {
			var b strings.Builder
			for _, day := range calendar.Skip {
				fmt.Fprintf(&b, "skip %s\n", day)
			}
			for _, day := range calendar.Keep {
				fmt.Fprintf(&b, "keep %s\n", day)
			}
			return b.String()
		})
	})
}

func (a commands) calendarRemove() *cobra.Command {
	return a.ForEach("calendar", &cobra.Command{
		Use:     "rm",
		Short:   "Delete calendars that no schedule has",
		Long:    `Delete calendars. One that a schedule has is refused.`,
		Example: "  rota calendar rm holidays",
	}, (*client.Client).DeleteCalendar)
}
