package chart

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

// History is what a queue, a stage of one or a worker did lately, as GET /v1/stats answers.
type History struct {
	Step    view.Duration `json:"step"`
	Periods []view.Period `json:"periods"`

	of  client.StatsQuery
	now time.Time
}

// Of asks what was done in so much time, in periods of a step.
func Of(
	ctx context.Context, a *app.App, c *client.Client, of client.StatsQuery,
	last, step time.Duration,
) (h History, err error) {
	h.of, h.now, h.Step = of, a.Now(), view.Duration(step)
	of.From, of.To, of.Step = h.now.Add(step-last), h.now, step
	h.Periods, err = c.Stats(ctx, of)
	return h, err
}

// LastFlag says how much time is drawn.
func LastFlag(cmd *cobra.Command, last *time.Duration) {
	cmd.Flags().DurationVar(last, "last", time.Hour, "draw so much time, up to 90d")
}

// ColumnHere is how long a column is when so much time is drawn where the command writes.
func ColumnHere(a *app.App, last time.Duration) (time.Duration, error) {
	width, _ := term.Terminal(a.Out)
	return Column(last, cmp.Or(width, 80)-Margin)
}

// Text draws it.
func (h *History) Text() string {
	rows := allRows()
	where := "in queue " + term.OneLine(h.of.Queue)
	switch {
	case h.of.Worker != "":
		where = "by worker " + term.OneLine(h.of.Worker)
		// no worker submits
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.name == "submitted" })
	case h.of.Stage != "":
		where = "in stage " + term.OneLine(h.of.Stage)
	}
	return draw(where, rows, h.Periods, time.Duration(h.Step), h.now.In(time.Local))
}

// Columns of a drawing: in front of it are names, behind it two numbers.
const (
	Names        = 10
	Margin       = Names + 1 + 2 + 12 + 2 + 10
	leastColumns = 20 // columns, however narrow the terminal
	mostColumns  = 120
)

// steps are how long a column may be.
var steps = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour,
	12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 96 * time.Hour, 8 * 24 * time.Hour}

// Minutes reach back so far, and hours so far.
const (
	minutesLast = 24 * time.Hour
	hoursLast   = 90 * 24 * time.Hour
)

// Column is how long a column is when so much time is drawn in so many.
func Column(last time.Duration, columns int) (time.Duration, error) {
	if last < time.Minute || last > hoursLast {
		return 0, usage.Errorf("--last %v: want 1m to 90d", last)
	}
	columns = min(max(columns, leastColumns), mostColumns)
	for _, step := range steps {
		if int(last/step) <= columns && (last <= minutesLast || step >= time.Hour) {
			return step, nil
		}
	}
	return steps[len(steps)-1], nil
}

// row is one line of a drawing: a number of each period, and how it is written. unknown = -1.
type row struct {
	name  string
	of    func(*view.Period) float64
	write func(float64) string
	gauge bool // the last is said in place of the sum
	rare  bool // left out while it is zero
}

func allRows() []row {
	tasks := func(n float64) string { return term.Count(int64(n)) }
	lasted := func(n float64) string { return term.Round(time.Duration(n)).String() }
	counted := func(name string, rare bool, of func(*view.Period) int64) row {
		return row{name, func(p *view.Period) float64 { return float64(of(p)) }, tasks, false, rare}
	}
	sampled := func(name string, of func(*view.Period) *int64) row {
		return row{name, func(p *view.Period) float64 {
			if n := of(p); n != nil {
				return float64(*n)
			}
			return -1
		}, tasks, true, true}
	}
	timed := func(name string, of func(*view.Period) *view.Percentiles) row {
		return row{name, func(p *view.Period) float64 {
			if d := of(p); d != nil {
				return float64(d.P95)
			}
			return -1
		}, lasted, true, true}
	}
	return []row{
		counted("submitted", false, func(p *view.Period) int64 { return p.Submitted }),
		counted("started", false, func(p *view.Period) int64 { return p.Started }),
		counted("done", false, func(p *view.Period) int64 { return p.Done }),
		counted("retried", true, func(p *view.Period) int64 { return p.Retried }),
		counted("dead", true, func(p *view.Period) int64 { return p.Dead }),
		counted("cancelled", true, func(p *view.Period) int64 { return p.Cancelled }),
		counted("expired", true, func(p *view.Period) int64 { return p.Expired }),
		counted("lost", true, func(p *view.Period) int64 { return p.Lost }),
		counted("timed out", true, func(p *view.Period) int64 { return p.TimedOut }),
		counted("passed", true, func(p *view.Period) int64 { return p.Passed }),
		counted("snoozed", true, func(p *view.Period) int64 { return p.Snoozed }),
		counted("released", true, func(p *view.Period) int64 { return p.Released }),
		counted("woken", true, func(p *view.Period) int64 { return p.Woken }),
		sampled("ready", func(p *view.Period) *int64 { return p.Ready }),
		sampled("running", func(p *view.Period) *int64 { return p.Running }),
		timed("wait p95", func(p *view.Period) *view.Percentiles { return p.Wait }),
		timed("run p95", func(p *view.Period) *view.Percentiles { return p.Run }),
	}
}

// draw draws periods. where is of whom they are, as in "in queue mail".
func draw(
	where string, rows []row, periods []view.Period, step time.Duration, now time.Time,
) string {
	var b strings.Builder
	if len(periods) == 0 {
		return ""
	}
	first, last := periods[0].At.In(now.Location()), periods[len(periods)-1].At.Add(step)
	if last = last.In(now.Location()); last.After(now) { // the last column goes on
		last = now
	}
	form := "15:04"
	if last.Sub(first) >= 24*time.Hour || first.Day() != last.Day() {
		form = "Jan 2 15:04"
	}
	line := func(name, drawn, total, most string) {
		name = term.Faint(fmt.Sprintf("%-*s", Names, name))
		text := fmt.Sprintf("%s %-*s  %12s  %10s", name, len(periods), drawn, total, most)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("", "", "in all", "most")
	some := false
	for _, r := range rows {
		numbers := make([]float64, len(periods))
		total, most := 0.0, 0.0
		for i := range periods {
			numbers[i] = r.of(&periods[i])
			most = max(most, numbers[i])
			switch {
			case !r.gauge:
				total += numbers[i]
			case numbers[i] >= 0:
				total = numbers[i]
			}
		}
		some = some || most > 0
		all := r.write(total)
		if r.gauge {
			all = "last " + all
		}
		if most > 0 || !r.rare {
			line(r.name, term.Spark(numbers), all, r.write(most))
		}
	}
	if !some {
		return fmt.Sprintf("Nothing was done %s from %s to %s.\n", where, first.Format(form),
			last.Format(form))
	}
	fmt.Fprintf(&b, "%s\n", term.Faint(fmt.Sprintf("a column is %s, from %s to %s",
		whole(step), first.Format(form), last.Format(form))))
	return b.String()
}

// whole writes a duration of whole minutes without its zeros: 5m, 2h, 30h, 4d.
func whole(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return strings.TrimSuffix(d.String(), "0s")
}
