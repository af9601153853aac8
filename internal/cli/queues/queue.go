package queues

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/spf13/cobra"
)

// commands are the commands that look after queues.
type commands struct{ *app.App }

// Commands are the commands that look after queues.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.queue()}
}

func (a commands) queue() *cobra.Command {
	return app.Family("queue", "List, configure, pause and delete queues",
		`Look after queues. A queue is the configuration of one type of task; it comes to be, with
defaults, at the first submission to it.

Retention is how long finished tasks are kept: done and cancelled ones for 7 days, dead ones
for 30, if queue set does not say otherwise. Then they are deleted, with logs and contexts.`,
		`  rota queue ls
  rota queue show mail --last 1h           # what was done in it
  rota queue set mail --max-attempts 10 --retention 2d
  rota queue set mail --max-running 20 --rate 100/1s
  rota queue set mail --key-max-running 1 --fair
  rota queue explain mail                  # why its tasks do not run
  rota queue pause mail
  rota queue keys mail                     # whose tasks it has
  rota queue key pause mail customer-7`,
		a.list(), a.show(), a.set(), a.explain(),
		a.each("pause", "Hand out no more tasks of queues",
			`Hand out no more tasks of these queues. What runs goes on; submissions are taken.`,
			(*client.Client).PauseQueue),
		a.each("resume", "Hand out tasks of paused queues again",
			`Hand out tasks of paused queues again.`, (*client.Client).ResumeQueue),
		a.keys(), a.key(), a.remove())
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List queues and the counts of their tasks",
		Long: `List queues and the counts of their tasks. Done, dead and cancelled ones count as long as
they are kept. A queue is limited while --max-running or --rate hold ready tasks back, or, while
tasks are ready, some group keys run as many as --key-max-running allows, or are paused. OLDEST is
since when the longest waiting ready task is due. The whole configuration is shown with -o json,
and by queue set without flags.`,
		Example: `  rota queue ls
  rota queue ls -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		queues, err := c.Queues(ctx)
		if err != nil {
			return err
		}
		doc := term.Page[client.Queue]{Items: append([]client.Queue{}, queues...)}
		return a.Show(doc, func() string {
			blocks := slices.ContainsFunc(queues, func(q client.Queue) bool {
				return q.Counts.Blocked > 0
			})
			heads := []string{"QUEUE", "STATE", "#WAITING", "#READY", "#RUNNING", "#DONE", "#DEAD",
				"#CANCELLED", "#EXPIRED", "OLDEST"}
			if blocks {
				heads = slices.Insert(heads, 2, "#BLOCKED")
			}
			t := a.Table(heads...)
			for _, q := range queues {
				n := q.Counts
				cells := []string{
					q.Name, painted(&q), term.Count(n.Waiting), term.Count(n.Ready),
					term.Count(n.Running), term.Count(n.Done), term.Count(n.Dead),
					term.Count(n.Cancelled), term.Count(n.Expired),
					term.Short(q.OldestReady, a.Now()),
				}
				if blocks {
					cells = slices.Insert(cells, 2, term.Count(n.Blocked))
				}
				t.Add(cells...)
			}
			return t.String()
		})
	})
}

// unheard warns of nodes that did not take a change in.
func (a commands) unheard(nodes []string) {
	if len(nodes) > 0 {
		fmt.Fprintf(a.Err, "It is stored, and does not hold yet at: %s. They take it in as soon as they can; rota node ls shows how they are.\n",
			strings.Join(nodes, ", "))
	}
}

// Text is a queue's configuration in lines.
func Text(q client.Queue) string {
	s := term.Sheet{Indent: 15}
	line := func(name string, value any) { s.Line(name, fmt.Sprint(value)) }
	line("queue", term.Bold(q.Name))
	s.Line("title", term.OneLine(q.Title))
	s.Line("owner", term.OneLine(q.Owner))
	line("timeout", q.Timeout)
	line("silence", q.Silence)
	line("max-attempts", q.MaxAttempts)
	line("retry",
		fmt.Sprintf("%v × %v up to %v, jitter %v", q.Retry.Initial, q.Retry.Factor, q.Retry.Max,
			q.Retry.Jitter))
	line("hold-limit", q.HoldLimit)
	line("poll-interval", q.PollInterval)
	line("context-limit", term.Bytes(uint64(max(q.ContextLimit, 0))))
	line("retention", term.Days(q.Retention))
	line("retention-dead", term.Days(q.DeadKept))
	if q.FinalQueue != "" {
		line("final-queue", q.FinalQueue)
	}
	limitLines(&s, &q)
	line("paused", q.Paused)
	return s.String()
}

func (a commands) each(
	verb, short, long string, call func(*client.Client, context.Context, string) error,
) *cobra.Command {
	return a.ForEach("queue", &cobra.Command{
		Use: verb, Short: short, Long: long, Example: "  rota queue " + verb + " mail news",
	}, call)
}

func (a commands) remove() *cobra.Command {
	var force bool
	cmd := a.ForEach("queue", &cobra.Command{
		Use:   "rm",
		Short: "Delete queues with all their tasks",
		Long: `Delete queues with all their tasks, finished ones included. A queue with unfinished tasks
is only deleted with --force.`,
		Example: `  rota queue rm mail --force`,
	}, func(c *client.Client, ctx context.Context, name string) error {
		return c.DeleteQueue(ctx, name, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete unfinished tasks as well")
	return cmd
}
