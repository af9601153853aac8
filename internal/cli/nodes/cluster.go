package nodes

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) cluster() *cobra.Command {
	cmd := a.Remote(&cobra.Command{
		Use:   "cluster",
		Short: "Show how the cluster stands, and what it can bear",
		Long: `Show how the cluster stands, as the node that answers saw it with its last beat.

K keys (schedules, groups, and what programs claim) are each looked after by one of the S
nodes that work. With n, the --tolerance of rota serve, a node may own 1 + K / max(S - n, 1)
keys: so n nodes can die at once, and the others have room for all keys. How many can
die just now is the budget; the nodes named there are those whose death would hurt most.`,
		Example: "  rota cluster\n  rota cluster -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		cluster, err := c.Cluster(ctx)
		if err != nil {
			return err
		}
		return a.Show(cluster, func() string { return a.clusterText(cluster) })
	})
	cmd.AddCommand(a.clusterSet())
	return cmd
}

func (a commands) clusterText(c view.Cluster) string {
	s := term.Sheet{Indent: 10}
	nodes := 0
	for _, n := range c.Nodes {
		if n.State != view.NodeLeft {
			nodes++
		}
	}
	s.Line("nodes", fmt.Sprintf("S = %d of %d work, n = %d", c.Working, nodes, c.Tolerance))
	s.Line("keys", keysText(c))
	s.Line("rebalance", c.Rebalance)
	s.Line("budget", budgetText(c))
	s.Line("weakest", weakestText(c.Budget.Weakest))
	s.Line("workers",
		fmt.Sprintf("%d of them can die with every replica still placeable", c.Budget.Workers))
	for _, chore := range c.Chores {
		s.Line("chores", choreText(chore))
	}
	s.Line("store", c.Store)
	s.Line("version", c.Version)
	return s.String() + "\n" + a.table(c.Nodes)
}

// choreText says who did a chore last; a cluster that has just begun has nobody who did.
func choreText(chore view.Chore) string {
	if chore.Node == "" {
		return chore.Name + ": not done yet"
	}
	return fmt.Sprintf("%s: done by %s last", chore.Name, chore.Node)
}

func keysText(c view.Cluster) string {
	text := fmt.Sprintf("K = %s", term.Count(c.Keys))
	switch {
	case c.Unowned > 0:
		return text + ", " + term.Yellow(term.Count(c.Unowned)+" looked after by nobody just now")
	case c.Keys > 0:
		return text + ", each looked after by a node"
	}
	return text
}

// budgetText says how many nodes can die now.
func budgetText(c view.Cluster) string {
	var text string
	switch n := c.Budget.Nodes; {
	case c.Working == 0:
		return term.Red("no node works")
	case c.Working == 1:
		text = "no node can die: it is the only one that works"
	case n == 0:
		text = "no node can die without keys left over"
	default:
		text = fmt.Sprintf("any %s can die at once, with every key still ownable",
			term.Plural(n, "node"))
	}
	if c.Budget.Nodes < c.Tolerance {
		return term.Yellow(text + fmt.Sprintf("; n promises %d", c.Tolerance))
	}
	return term.Green(text)
}

// weakestText says whose death would hurt most.
func weakestText(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "the death of " + names[0] + " would hurt most"
	}
	return "the deaths of " + term.Enumerated(names) +
		" would hurt most: all of them at once are one too many"
}

func (a commands) clusterSet() *cobra.Command {
	var when string
	cmd := a.Remote(&cobra.Command{
		Use:   "set",
		Short: "Change what holds for all nodes",
		Long: `Change what holds for all nodes; each follows with its next beat. With --rebalance auto a node
gives keys back while it has more than its share and another has fewer. With manual it gives
back only what is above its cap: below that a person decides (rota claim, rota node release).
--rebalance of rota serve is only what a new cluster begins with.`,
		Example: "  rota cluster set --rebalance manual",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		if when != "auto" && when != "manual" {
			return usage.Errorf("cluster set needs --rebalance auto or manual")
		}
		return c.SetRebalance(ctx, when)
	})
	cmd.Flags().StringVar(&when, "rebalance", "", "auto or `manual`")
	app.Complete(cmd, "rebalance", "auto", "manual")
	return cmd
}
