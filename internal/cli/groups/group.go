package groups

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// commands are the commands that look after groups of jobs.
type commands struct{ *app.App }

// Commands are the commands that look after groups of jobs.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.group()}
}

func (a commands) group() *cobra.Command {
	return app.Family("group", "Look after groups of jobs: endless work on exactly the right workers",
		`Look after groups of jobs. A job is endless work, as following one log file; rota keeps each
job of a group running on exactly --replicas different workers, within the capacity of
each, and moves it when workers come, go or tire. rota worker --group runs them.`,
		`  rota group set tails --replicas 2
  ls /var/log | rota group jobs tails --from -
  rota group show tails
  rota group plan tails --remove w1          # what if w1 died?`,
		a.set(), a.jobs(), a.list(), a.show(), a.explain(), a.plan(),
		a.each("rebalance", "Move jobs to better workers now",
			`Ask the node that looks after a group to spend its budget of moves now, so that the load is
spread evenly again. It moves no more than --moves of rota group set in one round, and each
replica runs on until its successor does.`, (*client.Client).RebalanceGroup),
		a.refresh(), a.logs(),
		a.each("pause", "Start, move and end nothing of groups",
			`Start, move and end nothing of these groups. What runs goes on, dead workers' jobs wait.`,
			(*client.Client).PauseGroup),
		a.each("resume", "Look after paused groups again",
			`Start, move and end again what is to be.`, (*client.Client).ResumeGroup),
		a.remove())
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List groups and how they stand",
		Long: `List groups and how they stand, in replicas: WANTED of all jobs; PENDING have no worker, and
rota group explain says why. BUDGET is how many workers, whichever they are, can die at once
with every replica still having a place.`,
		Example: "  rota group ls\n  rota group ls -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		groups, err := c.Groups(ctx)
		if err != nil {
			return err
		}
		return a.Show(term.Page[client.Group]{Items: append([]client.Group{}, groups...)},
			func() string {
				t := a.Table("GROUP", "STATE", "#JOBS", "#WANTED", "#RUNNING", "#STARTING",
					"#FAILED",
					"#PENDING", "#MOVING", "#BUDGET", "SUPERVISOR")
				for _, g := range groups {
					t.Add(g.Name, State(g), term.Count(g.Jobs), term.Count(g.Wanted),
						term.Count(g.Running), term.Count(g.Starting), term.Count(g.Failed),
						term.Count(g.Pending),
						term.Count(g.Moving), BudgetNumber(g.Budget), g.Supervisor)
				}
				return t.String()
			})
	})
}

// State is where a group stands, in one word.
func State(g client.Group) string {
	switch {
	case g.Paused:
		return term.Yellow("paused")
	case g.Pending > 0:
		return term.Red("short")
	case g.Failed > 0:
		return term.Yellow("failing")
	case g.Read.Error != "":
		return term.Yellow("stale")
	case g.Running < g.Wanted:
		return term.Yellow("busy")
	}
	return term.Green("well")
}

// BudgetNumber is how many workers of a group can die; ≥ stands before it when more may.
func BudgetNumber(b client.JobBudget) string {
	if b.Exact {
		return term.Count(b.Workers)
	}
	return "≥ " + term.Count(b.Workers)
}

func (a commands) each(
	verb, short, long string, call func(*client.Client, context.Context, string) error,
) *cobra.Command {
	return a.ForEach("group", &cobra.Command{
		Use: verb, Short: short, Long: long, Example: "  rota group " + verb + " tails",
	}, call)
}

func (a commands) refresh() *cobra.Command {
	var wait bool
	cmd := a.ForEach("group", &cobra.Command{
		Use:   "refresh",
		Short: "Read the sources of groups now",
		Long: `Ask the node that looks after a group to read its source now. With --wait it waits until that
was done, says what came of it, and exits 1 when the source failed.`,
		Example: "  rota group refresh crawl --wait",
	}, func(c *client.Client, ctx context.Context, name string) error {
		if err := c.RefreshGroup(ctx, name); err != nil || !wait {
			return err
		}
		return a.refreshed(ctx, c, name)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "until it was read")
	return cmd
}

// refreshed waits until a group's source was read.
func (a commands) refreshed(ctx context.Context, c *client.Client, name string) error {
	for {
		g, err := c.Group(ctx, name)
		if err != nil {
			return err
		}
		if g.Source.Kind == task.SourceAPI {
			fmt.Fprintf(a.Err, "%s has no source: its list is what rota group jobs put last\n",
				name)
			return nil
		}
		if !g.Read.Pending {
			if g.Read.Error != "" {
				return fmt.Errorf("source of %s: %s", name, term.OneLine(g.Read.Error))
			}
			fmt.Fprintf(a.Err, "%s has %s\n", name, term.Plural(int(g.Jobs), "job"))
			return nil
		}
		if err := pause.For(ctx, app.Poll); err != nil {
			return err
		}
	}
}

func (a commands) remove() *cobra.Command {
	var force bool
	cmd := a.ForEach("group", &cobra.Command{
		Use:   "rm",
		Short: "Delete groups with their jobs",
		Long: `Delete groups with their jobs and logs; workers end what they run of them. A group that has
jobs is only deleted with --force.`,
		Example: `  rota group rm tails --force`,
	}, func(c *client.Client, ctx context.Context, name string) error {
		err := c.DeleteGroup(ctx, name, force)
		if errors.Is(err, client.ErrConflict) && !force {
			err = fmt.Errorf("%w (--force deletes it with its jobs)", err)
		}
		return err
	})
	cmd.Flags().BoolVar(&force, "force", false, "even if they have jobs")
	return cmd
}
