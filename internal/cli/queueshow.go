package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a queueCommands) queueShow() *cobra.Command {
	var last time.Duration
	var stage string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show how a queue stands, and draw what was done in it",
		Long: `Show how a queue stands, and draw what was done in it lately: what was submitted, started
and ended, how many tasks were ready, and how long they waited and ran. Minutes are kept for a
day, hours for 90 days. Each column is a period; with -o json each is there with all its numbers.

Of --stage, submitted are the tasks that came into the stage, and done those that left it well.`,
		Example: `  rota queue show mail
  rota queue show mail --last 24h
  rota queue show order --stage pack --last 30d`,
		Args: takes("NAME"),
	}
	f := cmd.Flags()
	f.DurationVar(&last, "last", time.Hour, "draw so much time, up to 90d")
	f.StringVar(&stage, "stage", "", "draw this `stage` of the queue")
	return a.remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkNames("queue", args...); err != nil {
			return err
		}
		width, _ := term.Terminal(a.Out)
		step, err := columnOf(last, cmp.Or(width, 80)-historyMargin)
		if err != nil {
			return err
		}
		q, err := c.Queue(ctx, args[0])
		if err != nil {
			return absent(err, "queue", args[0], "the first submission creates it")
		}
		now := a.Now()
		periods, err := c.Stats(ctx, client.StatsQuery{
			Queue: args[0], Stage: stage, From: now.Add(step - last), To: now, Step: step,
		})
		if err != nil {
			return err
		}
		doc := struct {
			Queue   client.Queue  `json:"queue"`
			Step    view.Duration `json:"step"`
			Periods []view.Period `json:"periods"`
		}{q, view.Duration(step), periods}
		return a.Show(doc, func() string {
			what := "queue " + term.OneLine(q.Name)
			if stage != "" {
				what = "stage " + term.OneLine(stage)
			}
			return a.standText(&q) + "\n" + historyText(what, periods, step, now.In(time.Local))
		})
	})
}

// standText says how the tasks of a queue stand.
func (a queueCommands) standText(q *client.Queue) string {
	s := term.Sheet{Indent: historyNames}
	s.Line("queue", term.Bold(term.OneLine(q.Name)))
	s.Line("title", term.OneLine(q.Title))
	s.Line("owner", term.OneLine(q.Owner))
	s.Line("state", queueState(q))
	n := q.Counts
	tasks := fmt.Sprintf("%s waiting, %s ready, %s running", term.Count(n.Waiting),
		term.Count(n.Ready), term.Count(n.Running))
	if n.Blocked > 0 {
		tasks = term.Count(n.Blocked) + " blocked, " + tasks
	}
	s.Line("tasks", tasks)
	s.Line("kept", fmt.Sprintf("%s done, %s dead, %s cancelled, %s expired", term.Count(n.Done),
		term.Count(n.Dead), term.Count(n.Cancelled), term.Count(n.Expired)))
	if !q.OldestReady.IsZero() {
		s.Line("oldest", "ready for "+term.Round(a.Now().Sub(q.OldestReady)).String())
	}
	if limits := limitsText(q); limits != "" {
		s.Line("limits", limits)
	}
	s.Line("held by", heldText(q))
	return s.String()
}

// Columns of a drawing: in front of it are names, behind it two numbers.
const (
	historyNames  = 10
	historyMargin = historyNames + 1 + 2 + 12 + 2 + 10
	historyLeast  = 20 // columns, however narrow the terminal
	historyMost   = 120
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

// columnOf is how long a column is when so much time is drawn in so many.
func columnOf(last time.Duration, columns int) (time.Duration, error) {
	if last < time.Minute || last > hoursLast {
		return 0, usage.Errorf("--last %v: want 1m to 90d", last)
	}
	columns = min(max(columns, historyLeast), historyMost)
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

func historyRows() []row {
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
		sampled("ready", func(p *view.Period) *int64 { return p.Ready }),
		sampled("running", func(p *view.Period) *int64 { return p.Running }),
		timed("wait p95", func(p *view.Period) *view.Percentiles { return p.Wait }),
		timed("run p95", func(p *view.Period) *view.Percentiles { return p.Run }),
	}
}

// historyText draws periods.
func historyText(
	what string, periods []view.Period, step time.Duration, now time.Time,
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
	if last.Sub(first) >= 24*time.Hour {
		form = "Jan 2 15:04"
	}
	line := func(name, drawn, total, most string) {
		name = term.Faint(fmt.Sprintf("%-*s", historyNames, name))
		text := fmt.Sprintf("%s %-*s  %12s  %10s", name, len(periods), drawn, total, most)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("", "", "in all", "most")
	some := false
	for _, r := range historyRows() {
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
		return fmt.Sprintf("Nothing was done in %s from %s to %s.\n", what, first.Format(form),
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
