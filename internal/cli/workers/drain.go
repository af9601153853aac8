package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) drain() *cobra.Command {
	var (
		what client.WorkerDrain
		wait bool
		cmd  *cobra.Command
	)
	cmd = a.Remote(&cobra.Command{
		Use:   "drain NAME…",
		Short: "Let workers give up their work, all of it or a part",
		Long: `Let workers finish the tasks that they run and take nothing new; their jobs move to other
workers, a few at a time, each running on until its successor does. rota worker undrain takes it
back at any time.

With --shed they give up only a part: so many units of their capacity are to be free until they
are undrained, and they go on with the rest.

It says what that costs: how many replicas move, how many tasks are to end, and about how long it
takes; with --dry-run it says only that. It is refused where replicas have no other place, with
what would have to be added; with --force these stay where they are.

With --deadline what is left by then is taken from them: tasks begin elsewhere, and so do replicas
that have a place there; the others wait for one.

With --wait it waits until they have given up what they are to, and tells what is left on stderr;
Ctrl-C only ends the waiting.`,
		Example: "  rota worker drain box-4711\n  rota worker drain box-4711 --wait\n" +
			"  rota worker drain box-4711 --shed 30 --dry-run\n" +
			"  rota worker drain box-4711 --shed 30 --deadline 10m",
		Args: app.Takes("NAME…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("worker", args...); err != nil {
			return err
		}
		if what.Shed < 0 || what.Within < 0 {
			return usage.Errorf("--shed and --deadline must not be negative")
		}
		if err := app.CheckGiven(cmd.Flags(), "shed"); err != nil {
			return err
		}
		prices := make([]view.WorkerDrained, 0, len(args))
		err := app.Each(args, func(name string) error {
			price, err := c.DrainWorkerWith(ctx, name, what)
			if err != nil {
				return forceHint(err, what.Force)
			}
			prices = append(prices, price)
			if !what.DryRun {
				fmt.Fprintf(a.Err, "%s: %s\n", name, drainText(&price))
				if price.Effect != "" {
					fmt.Fprintf(a.Err, "%s: %s\n", name, term.OneLine(price.Effect))
				}
			}
			return nil
		})
		if what.DryRun {
			return errors.Join(err, a.showPrices(prices))
		}
		if err != nil || !wait {
			return err
		}
		asked := make(map[string]*view.WorkerDrained, len(prices))
		for i := range prices {
			asked[args[i]] = &prices[i]
		}
		return app.Each(args, func(name string) error {
			return a.drained(ctx, c, name, asked[name])
		})
	})
	flags := cmd.Flags()
	flags.Float64Var(&what.Shed, "shed", 0,
		"so many units of their capacity are to be free (default all: they take nothing new)")
	flags.DurationVar(&what.Within, "deadline", 0,
		"after so long, what is left is taken from them; 0 = never")
	flags.BoolVar(&what.DryRun, "dry-run", false, "only say what it costs")
	flags.BoolVar(&what.Force, "force", false, "even where replicas have no other place: they stay")
	flags.BoolVar(&wait, "wait", false,
		"until they have given up what they are to; what is left is told on stderr")
	return cmd
}

// forceHint says how a refused drain is done all the same.
func forceHint(err error, forced bool) error {
	if errors.Is(err, client.ErrConflict) && !forced {
		return fmt.Errorf("%w; with --force it is done all the same", err)
	}
	return err
}

// drainText is what a drain costs, in a line.
func drainText(p *view.WorkerDrained) string {
	return fmt.Sprintf("%s and %s to give up, %s, about %s", term.Plural(p.Jobs, "job"),
		term.Plural(p.Tasks, "task"), term.Plural(p.Moves, "move"), minutesText(p.Minutes))
}

// minutesText is how long something takes, for people.
func minutesText(minutes float64) string {
	return time.Duration(minutes * float64(time.Minute)).Round(time.Second).String()
}

// showPrices shows what drains would cost.
func (a commands) showPrices(prices []view.WorkerDrained) error {
	return a.Show(term.Page[view.WorkerDrained]{Items: prices}, func() string {
		t := a.Table("WORKER", "#JOBS", "#TASKS", "#MOVES", "#TIME", "BREAKS", "EFFECT")
		for i := range prices {
			p := &prices[i]
			breaks := "-"
			if len(p.Breaks) > 0 {
				breaks = fmt.Sprintf("%s: %s", strings.Join(p.Breaks, ", "), p.Add)
			}
			t.Add(p.Name, term.Count(p.Jobs), term.Count(p.Tasks), term.Count(p.Moves),
				minutesText(p.Minutes), term.OneLine(breaks), term.OneLine(p.Effect))
		}
		return t.String()
	})
}

// drained waits until a worker has given up what it was asked to, and tells what is left whenever
// that changes. The node that answers may hear of the drain a beat after the one that was asked for
// it; a worker of which it says nothing of the kind any more, or not at all, has given up nothing
// for good.
func (a commands) drained(
	ctx context.Context, c *client.Client, name string, asked *view.WorkerDrained,
) error {
	said, heard, silent := "", false, false
	late := time.Now().Add(app.HearsDrains)
	for {
		w, err := c.Worker(ctx, name)
		switch {
		case errors.Is(err, client.ErrNotFound),
			err == nil && !w.Active && w.State != task.WorkerSilent:
			fmt.Fprintf(a.Err, "%s has stopped\n", name)
			return nil
		case err != nil:
			return err
		case w.State == task.WorkerSilent: // what it had counts until others may begin it
			if !silent {
				fmt.Fprintf(a.Err, "%s is silent: what it had is its own until it is heard of "+
					"again, or found dead\n", name)
			}
			w.Draining, w.Shed = asked.Draining, asked.Shed
		}
		silent = w.State == task.WorkerSilent
		if w.Draining != asked.Draining || w.Shed != asked.Shed {
			if heard || time.Now().After(late) {
				return fmt.Errorf("%s: its drain was changed or taken back meanwhile", name)
			}
			if err := pause.For(ctx, app.Poll); err != nil {
				return err
			}
			continue
		}
		heard = true
		left, err := a.leftToGive(ctx, c, &w)
		if err != nil {
			return err
		}
		if left == "" {
			if w.Draining {
				fmt.Fprintf(a.Err, "%s is drained\n", name)
			} else {
				fmt.Fprintf(a.Err, "%s has given up what it was to\n", name)
			}
			return nil
		}
		if left != said {
			said = left
			fmt.Fprintf(a.Err, "%s still runs %s\n", name, left)
		}
		if err := pause.For(ctx, app.Poll); err != nil {
			return err
		}
	}
}

// leftToGive is what a worker still runs that it is to give up; "" = nothing.
func (a commands) leftToGive(
	ctx context.Context, c *client.Client, w *task.Worker,
) (string, error) {
	if !w.Draining {
		if over := w.Used - max(w.Capacity-w.Shed, 0); over > 0 {
			return fmt.Sprintf("%v units more than it is to", over), nil
		}
		return "", nil
	}
	assigned := w.Jobs
	if w.Running+w.Jobs == 0 { // a job that it was given just before may start yet
		jobs, err := JobsOf(ctx, c, w.Name)
		if err != nil {
			return "", err
		}
		if assigned = len(jobs); assigned == 0 {
			return "", nil
		}
	}
	return term.Plural(assigned, "job") + " and " + term.Plural(w.Running, "task"), nil
}

func (a commands) undrain() *cobra.Command {
	return a.ForEach("worker", &cobra.Command{
		Use:     "undrain",
		Short:   "Let workers take work again",
		Long:    `Let drained workers take tasks and jobs again, and those that shed a part of their capacity use all of it.`,
		Example: "  rota worker undrain box-4711",
	}, (*client.Client).UndrainWorker)
}
