package schedules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// mostTimes is how many due times a server tells at once: enough for a picture of a week, unless
// they are many a day.
const mostTimes = 1000

func (a commands) next() *cobra.Command {
	var r client.PreviewRequest
	var from string
	n := 10
	cmd := a.Remote(&cobra.Command{
		Use:   "next NAME | --cron EXPRESSION",
		Short: "Draw the coming due times of a schedule, or of an expression",
		Long: `Draw the coming due times of a schedule, or of an expression that is none yet: each with its
day, its local time and distance from UTC, how long it is until then, and what clocks that
change do to it; then the days of a week by the half hour (a figure is how often, # is ten
and more), up to the 1,000th due time; when none lies in a week, from the first one on.`,
		Example: `  rota schedule next nightly
  rota schedule next --cron '30 2 * * *' --zone Europe/Berlin --from 2026-10-23T00:00:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (r.Cron != "") {
				return usage.Errorf("schedule next needs NAME, or --cron")
			}
			return nil
		},
	}, func(ctx context.Context, c *client.Client, args []string) error {
		begin, err := future("--from", from, a.Now())
		switch {
		case err != nil:
			return err
		case n < 1 || n > mostTimes:
			return usage.Errorf("--count must be 1 to %d", mostTimes)
		}
		if begin.IsZero() {
			begin = a.Now()
		}
		r.From, r.Count = begin, mostTimes
		var coming previewDoc
		if len(args) == 0 {
			coming, err = preview(ctx, c, r)
		} else {
			coming, err = comingOf(ctx, c, args[0], r)
		}
		if err != nil {
			return err
		}
		shown := coming
		shown.Times = coming.Times[:min(n, len(coming.Times))]
		shown.Notes = slices.DeleteFunc(shown.Notes, func(note noteDoc) bool {
			return !slices.ContainsFunc(shown.Times, note.At.Equal)
		})
		return a.Show(shown, func() string {
			return a.comingTable(&shown) +
				weekPicture(coming.Times, begin, ZoneOf(coming.Zone), len(coming.Times) < mostTimes)
		})
	})
	f := cmd.Flags()
	f.StringVar(&r.Cron, "cron", "", "an `expression`, in place of a schedule")
	f.StringVar(&r.Zone, "zone", "", "`zone` of the expression's times of day (default UTC)")
	f.StringVar(&r.Calendar, "calendar", "",
		"`calendar` on whose days the expression is due (default all days)")
	f.StringVar(&r.Name, "name", "", "`name` that chooses what H in the expression stands for")
	f.StringVar(&from, "from", "",
		"due after this `time`: RFC 3339, or a span from now like 48h (default now)")
	f.IntVar(&n, "count", n, "so many due times, up to 1,000; the picture shows more")
	return cmd
}

func preview(
	ctx context.Context, c *client.Client, r client.PreviewRequest,
) (previewDoc, error) {
	p, err := c.PreviewSchedule(ctx, r)
	return docOfPreview(&p), err
}

// comingOf is the preview of a schedule, as it stands: paused ones are due all the same.
func comingOf(
	ctx context.Context, c *client.Client, name string, r client.PreviewRequest,
) (previewDoc, error) {
	if err := app.CheckNames("schedule", name); err != nil {
		return previewDoc{}, err
	}
	if r.Zone != "" || r.Calendar != "" || r.Name != "" {
		return previewDoc{},
			usage.Errorf("--zone, --calendar and --name go with --cron: %s has its own", name)
	}
	s, err := c.Schedule(ctx, name)
	if err != nil {
		return previewDoc{}, err
	}
	switch {
	case s.After != "":
		return previewDoc{},
			fmt.Errorf("schedule %s has no times of its own: it follows %s", name, s.After)
	case s.Manual:
		return previewDoc{},
			fmt.Errorf("schedule %s has no times: it is manual; rota schedule run %s", name, name)
	}
	if s.Next.IsZero() {
		return previewDoc{
			Times: []time.Time{}, Notes: []noteDoc{}, Zone: s.Zone,
			Sentence: "It is due no more.",
		}, nil
	}
	r.Cron, r.Zone, r.Calendar, r.Name = s.Cron, s.Zone, s.Calendar, name
	ahead := s.Next.After(r.From)
	if ahead { // nothing is due before it, whatever the expression says
		r.From = s.Next.Add(-time.Second)
	}
	p, err := preview(ctx, c, r)
	if err != nil {
		return p, err
	}
	if ahead && (len(p.Times) == 0 || !p.Times[0].Equal(s.Next)) {
		p.Times = append([]time.Time{s.Next}, p.Times...)
		p.Notes = append([]noteDoc{{At: s.Next, Text: "chosen by hand, this once"}},
			p.Notes...)
	}
	if s.Paused {
		p.Sentence += "; it is paused, and skips what is due"
	}
	for i, at := range p.Times {
		if !s.Ends.IsZero() && at.After(s.Ends) {
			p.Times = p.Times[:i]
			break
		}
	}
	return p, nil
}

// comingTable lists due times.
func (a commands) comingTable(p *previewDoc) string {
	zone, now := ZoneOf(p.Zone), a.Now()
	notes := map[int64]string{}
	for _, note := range p.Notes {
		notes[note.At.UnixNano()] = note.Text
	}
	t := a.Table("DUE ("+p.Zone+")", "FROM NOW", "NOTE")
	t.Below = true
	for _, at := range p.Times {
		t.Add(at.In(zone).Format(zoneForm), distance(at, now), term.OneLine(notes[at.UnixNano()]))
	}
	text := term.Bold(term.OneLine(p.Sentence)) + "\n"
	if len(p.Times) == 0 {
		return text
	}
	return text + "\n" + t.String()
}

// pictureDays and pictureCells are the size of a picture: a week, by the half hour.
const (
	pictureDays  = 7
	pictureCells = 48
)

// weekPicture draws due times from a moment on, a day a line, by the half hour of a zone's clocks.
// What lies behind the last of times is left out unless these are all; nothing is drawn of times
// that fill no hour. When none lies in the week, it is the week of the first.
func weekPicture(times []time.Time, from time.Time, zone *time.Location, all bool) string {
	if len(times) > 0 && dayNumber(times[0].In(zone))-dayNumber(from.In(zone)) >= pictureDays {
		from = times[0]
	}
	if len(times) == 0 || !all && times[len(times)-1].Sub(from) < time.Hour {
		return ""
	}
	var counts [pictureDays][pictureCells]int
	first := dayNumber(from.In(zone))
	for _, t := range times {
		local := t.In(zone)
		if day := dayNumber(local) - first; day < pictureDays {
			counts[day][local.Hour()*2+local.Minute()/30]++
		}
	}
	end := times[len(times)-1].In(zone)
	var b strings.Builder
	b.WriteString("\n" + term.Faint("           0     3     6     9     12    15    18    21") +
		"\n")
	for day := range counts {
		if !all && first+day > dayNumber(end) {
			break
		}
		date := from.In(zone).AddDate(0, 0, day)
		line := []rune(date.Format("Mon Jan 02") + " ")
		for cell, n := range counts[day] {
			known := all || first+day < dayNumber(end) || cell <= end.Hour()*2+end.Minute()/30
			line = append(line, pictureCell(n, known))
		}
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// pictureCell is how often something is due in a cell.
func pictureCell(n int, known bool) rune {
	switch {
	case n == 0 && !known:
		return ' '
	case n == 0:
		return '·'
	case n < 10:
		return '0' + rune(n)
	}
	return '#'
}

// dayNumber numbers the days of a calendar, by the date that t shows.
func dayNumber(t time.Time) int {
	return int(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0,
		time.UTC).Unix() / (24 * 60 * 60))
}
