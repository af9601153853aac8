package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

// fireOutcomes are what can come of a due time.
var fireOutcomes = []string{
	string(task.FireFired), string(task.FireSkipped), string(task.FireMissed),
	string(task.FireQueued),
}

func (a commands) fires() *cobra.Command {
	var outcome, since, until, cursor string
	var limit int
	cmd := a.Remote(&cobra.Command{
		Use:   "fires NAME",
		Short: "List what came of the due times of a schedule, newest first",
		Long: `List what came of the due times of a schedule, newest first, in its zone: fired with which
task, skipped or missed and why, or queued behind earlier tasks. Due times that were missed
in a long row share a line. Rows are kept for 90 days.

ENDED is how the task ended; it is empty while the task is not final, and when the task is not
kept any more and the schedule did not have to know (by --overlap, --notify or a follower).`,
		Example: "  rota schedule fires nightly\n  rota schedule fires nightly --outcome missed --since 48h",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		if outcome != "" && !slices.Contains(fireOutcomes, outcome) {
			return usage.Errorf("--outcome %q: want one of %s", outcome,
				strings.Join(fireOutcomes, ", "))
		}
		if limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		from, err := app.Moment("--since", since, a.Now())
		if err != nil {
			return err
		}
		to, err := app.Moment("--until", until, a.Now())
		if err != nil {
			return err
		}
		s, err := c.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		filter := client.FireFilter{Outcome: task.FireOutcome(outcome), Since: from, Until: to}
		var fires []view.Fire
		next := cursor
		for more := true; more; more = next != "" && len(fires) < limit {
			// of an outcome that is rare a page may have few, or none
			var some []view.Fire
			if some, next, err = c.Fires(ctx, args[0], filter, next, limit-len(fires)); err != nil {
				return err
			}
			fires = append(fires, some...)
		}
		doc := term.Page[fireDoc]{Items: docsOfFires(fires), Next: next}
		err = a.Show(doc, func() string { return FireTable(a.App, fires, s.Zone) })
		if err != nil {
			return err
		}
		if next != "" && !a.JSON() {
			fmt.Fprintf(a.Err, "There are more: this was --limit %d; go on with --cursor %s\n",
				limit, next)
		}
		return nil
	})
	f := cmd.Flags()
	f.StringVar(&outcome, "outcome", "",
		"due times with this `outcome`: "+strings.Join(fireOutcomes, ", "))
	f.StringVar(&since, "since", "", "due at this `time` or later: RFC 3339, or an age like 90m or 2d")
	f.StringVar(&until, "until", "", "due before this `time`: RFC 3339, or an age like 90m or 2d")
	f.IntVar(&limit, "limit", 100, "at most so many, up to 1,000")
	f.StringVar(&cursor, "cursor", "", "where an earlier list ended")
	app.Complete(cmd, "outcome", fireOutcomes...)
	return cmd
}

// FireTable lists due times of a schedule, and what came of each.
func FireTable(a *app.App, fires []view.Fire, zone string) string {
	t := a.Table("DUE ("+zone+")", "OUTCOME", "TASK", "ENDED", "BY", "#LATE", "NODE", "REASON")
	t.Below = true
	for _, f := range fires {
		id := "-"
		if f.Task != (view.TaskID{}) {
			id = f.Task.String()
		}
		due := f.At.In(ZoneOf(zone)).Format(zoneForm)
		reason := f.Reason
		if f.Count > 1 {
			reason = strings.TrimSpace(fmt.Sprintf("%s due times up to %s; %s", term.Count(f.Count),
				f.Through.In(ZoneOf(zone)).Format(zoneForm), f.Reason))
		}
		t.Add(due, paintedFire(f.Outcome), id, EndedText(f.Ended), string(f.Origin),
			lateText(f.Fired.Sub(f.At.Time)), f.Node, term.OneLine(reason))
	}
	return t.String()
}

// EndedText says how a task ended; of a dead one also which step was its last, since a "retry"
// would sound as if it were tried again.
func EndedText(word string) string {
	if kind, ok := task.ParseKind(word); ok && kind != task.KindRemoved &&
		kind.Leaves() == task.Dead {
		return "dead (" + word + ")"
	}
	return word
}

// lateText is how late something was, as exactly as it matters.
func lateText(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

// paintedFire is the outcome's word in its colour.
func paintedFire(o task.FireOutcome) string {
	switch o {
	case task.FireFired:
		return term.Green(string(o))
	case task.FireMissed:
		return term.Red(string(o))
	}
	return term.Yellow(string(o))
}

func (a commands) backfill() *cobra.Command {
	var from, to string
	var b client.Backfill
	cmd := a.Remote(&cobra.Command{
		Use:   "backfill NAME --from TIME --to TIME",
		Short: "Submit tasks of due times of the past that were not fired",
		Long: `Submit the tasks of due times that were missed or skipped, or that lie before the schedule
was made, from --from on and before --to, at most 10,000. What was fired stays as it is, so it
can be repeated, also after Ctrl-C, which may leave a part of it done. With --limit so many
tasks of the schedule are open at a time, and the others wait as queued: rota schedule pause
holds them, resume lets them go on. --dry-run only says which due times it would be.`,
		Example: `  rota schedule backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run
  rota schedule backfill nightly --from 168h --to 0s --limit 2`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		var err error
		if b.From, err = app.Moment("--from", from, a.Now()); err != nil {
			return err
		}
		if b.To, err = app.Moment("--to", to, a.Now()); err != nil {
			return err
		}
		if b.From.IsZero() || b.To.IsZero() {
			return usage.Errorf("schedule backfill needs --from and --to")
		}
		done, err := c.BackfillSchedule(ctx, args[0], b)
		if err != nil {
			return err
		}
		return a.Show(docOfBackfilled(&done), func() string {
			return backfillText(&done, b.DryRun)
		})
	})
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "the first due `time`: RFC 3339, or an age like 48h")
	f.StringVar(&to, "to", "",
		"the `time` before which the last one is: RFC 3339, or an age like 48h")
	f.IntVar(&b.Limit, "limit", 0, "tasks of the schedule at a time; 0 = all at once")
	f.BoolVar(&b.DryRun, "dry-run", false, "only say which due times it would be")
	return cmd
}

func backfillText(done *view.Backfilled, dryRun bool) string {
	var text strings.Builder
	queued := 0
	for i, at := range done.Times {
		id := ""
		if i < len(done.Fires) {
			id = "  " + done.Fires[i].Task.String()
			if done.Fires[i].Outcome == task.FireQueued {
				id = "  queued"
				queued++
			}
		}
		fmt.Fprintf(&text, "%s%s\n", at.UTC().Format(time.RFC3339), id)
	}
	verb := "fired"
	if dryRun {
		verb = "would be fired"
	}
	fmt.Fprintf(&text, "%s %s", term.Plural(len(done.Times)-queued, "due time"), verb)
	if queued > 0 {
		fmt.Fprintf(&text, ", %s queued", term.Count(queued))
	}
	if done.Fired > 0 {
		fmt.Fprintf(&text, "; %s were fired or queued before", term.Count(done.Fired))
	}
	return text.String() + "\n"
}

// errIncomplete is what an audit ends with that found something.
var errIncomplete = errors.New("incomplete")

func (a commands) audit() *cobra.Command {
	var from, to string
	cmd := a.Remote(&cobra.Command{
		Use:   "audit NAME",
		Short: "Compare what was due with what came of it",
		Long: `Compare the due times that the schedule demanded, by what it was at each time, with the rows
of what came of them. It says "complete", or lists due times without a row (holes) and rows
of times that were not due (strays), and exits 1.`,
		Example: "  rota schedule audit nightly\n  rota schedule audit nightly --from 168h",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("schedule", args...); err != nil {
			return err
		}
		begin, err := app.Moment("--from", from, a.Now())
		if err != nil {
			return err
		}
		end, err := app.Moment("--to", to, a.Now())
		if err != nil {
			return err
		}
		found, err := c.AuditSchedule(ctx, args[0], begin, end)
		if err != nil {
			return err
		}
		if err := a.Show(docOfAudit(&found), func() string {
			return auditText(&found)
		}); err != nil {
			return err
		}
		if !found.Complete {
			return fmt.Errorf("schedule %s: %w", args[0], errIncomplete)
		}
		return nil
	})
	cmd.Flags().StringVar(&from, "from", "",
		"due after this `time`: RFC 3339, or an age like 48h (default as far back as rows are kept)")
	cmd.Flags().StringVar(&to, "to", "",
		"due up to this `time`: RFC 3339, or an age like 48h (default all that were handled)")
	return cmd
}

// auditText says what an audit found.
func auditText(found *view.Audit) string {
	var text strings.Builder
	verdict := term.Green("complete")
	if !found.Complete {
		verdict = term.Red("incomplete")
	}
	fmt.Fprintf(&text,
		"%s: %s due after %s up to %s: %s fired (at most %s late), %s skipped, %s missed, %s queued",
		verdict, term.Count(found.Demanded), found.From.UTC().Format(time.RFC3339),
		found.To.UTC().Format(time.RFC3339),
		term.Count(found.Fired), time.Duration(found.Late), term.Count(found.Skipped),
		term.Count(found.Missed),
		term.Count(found.Queued))
	if found.Aside > 0 {
		fmt.Fprintf(&text, "; besides %s aside", term.Plural(int(found.Aside), "run"))
	}
	text.WriteString("\n")
	for _, at := range found.Holes {
		fmt.Fprintf(&text, "hole   %s was due, and has no row\n", at.UTC().Format(time.RFC3339Nano))
	}
	for _, at := range found.Strays {
		fmt.Fprintf(&text, "stray  %s was not due, and has a row\n",
			at.UTC().Format(time.RFC3339Nano))
	}
	return text.String()
}
