package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

// contextView is a context in JSON, with the fields of the API.
type contextView struct {
	Seq     int32           `json:"seq"`
	Stage   string          `json:"stage"`
	Outcome task.Kind       `json:"outcome,omitzero"`
	By      string          `json:"by,omitempty"`
	Time    term.Stamp      `json:"time"`
	Context json.RawMessage `json:"context"`
}

func (a commands) contexts() *cobra.Command {
	var cursor string
	var limit int
	cmd := a.Remote(&cobra.Command{
		Use:   "contexts ID",
		Short: "Show what each stage of a task was handed, and what changed from one to the next",
		Long: `Show the contexts of a task, oldest first: the one that was submitted, and one for each step
from which on the task had another stage or another context than before: a report, an edit, a
retry that begins with an earlier one. Of each but the first it shows what changed: - was
there, + came. Of what is longer than 64 KiB the beginning is shown; -o json has all of it.
When there are more than --limit, the cursor to go on from is printed to stderr (with -o json
it stands in "next").`,
		Example: `  rota task contexts 1pq3v0m7d2k5g10
  rota task contexts 1pq3v0m7d2k5g10 --limit 1000 -o json`,
		Args: app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		var all []task.StageContext
		next := cursor
		for {
			var page []task.StageContext
			page, next, err = c.Contexts(ctx, ids[0], next, min(limit-len(all), 1000))
			if err != nil {
				return err
			}
			if all = append(all, page...); next == "" || len(all) >= limit {
				break
			}
		}
		doc := term.Page[contextView]{Items: make([]contextView, len(all)), Next: next}
		for i, s := range all {
			doc.Items[i] = contextView{
				s.Seq, s.Stage, s.Outcome, s.By, term.Stamp(s.Time), taskview.OrNull(s.Context),
			}
		}
		if err := a.Show(doc, func() string { return a.contextsText(all) }); err != nil {
			return err
		}
		if next != "" && !a.JSON() {
			fmt.Fprintf(a.Err, "There are more: this was --limit %d; go on with --cursor %s\n",
				limit, next)
		}
		return nil
	})
	f := cmd.Flags()
	f.IntVar(&limit, "limit", 100, "at most so many contexts")
	f.StringVar(&cursor, "cursor", "", "where an earlier list ended")
	return cmd
}

func (a commands) contextsText(all []task.StageContext) string {
	var b strings.Builder
	var before []string
	for i, s := range all {
		what := "submitted"
		if s.Seq >= 0 {
			what = fmt.Sprintf("#%d %s by %s", s.Seq, s.Outcome, s.By)
		}
		stage := term.OneLine(s.Stage)
		if stage == "" {
			stage = "-"
		}
		fmt.Fprintf(&b, "%s  %s  %s\n", term.Bold(stage), what, term.Short(s.Time, a.Now()))
		lines, cut := linesOf(s.Context)
		switch {
		case i == 0:
			for _, line := range lines {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		case slices.Equal(lines, before) && !cut:
			fmt.Fprintln(&b, term.Faint("  (as before)"))
		default:
			for _, line := range difference(before, lines) {
				fmt.Fprintln(&b, painted(line))
			}
		}
		if cut {
			fmt.Fprintln(&b, term.Faint(fmt.Sprintf("  … %d bytes; -o json has all of them",
				len(s.Context))))
		}
		before = lines
	}
	return b.String()
}

// painted is a line of a difference in its colour.
func painted(line string) string {
	switch line[0] {
	case '-':
		return term.Red(line)
	case '+':
		return term.Green(line)
	}
	return line
}
