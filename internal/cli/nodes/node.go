package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

// commands are the commands that look after the nodes of a cluster.
type commands struct{ *app.App }

// Commands are the commands about the nodes of a cluster.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.node(), c.claim(), c.cluster(), c.forecast()}
}

func (a commands) node() *cobra.Command {
	return app.Family("node", "Look after the nodes of a cluster",
		`Look after the nodes of a cluster: the servers that share one store. Any of them answers
for all.`,
		"  rota node ls\n  rota node drain box-2 --wait",
		a.list(), a.drain(), a.undrain(), a.release())
}

// State is the node's state in its colour.
func State(s view.NodeState) string {
	switch s {
	case view.NodeWorking:
		return term.Green(string(s))
	case view.NodeLeft:
		return string(s)
	case view.NodeDraining, view.NodeDrained:
		return term.Yellow(string(s))
	}
	return term.Red(string(s))
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List nodes",
		Long: `List the nodes that share the store, and those that stopped or died during the last day:
DOWN says when.

SCORE says how busy a node is, from 0 (idle) to 100: 64 parts CPU, 32 parts tasks that it
runs itself, 4 parts memory. KEYS is how many keys it looks after, of how many it may.`,
		Example: "  rota node ls\n  rota node ls -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return err
		}
		return a.Show(term.Page[view.Node]{Items: append([]view.Node{}, nodes...)},
			func() string {
				return a.table(nodes)
			})
	})
}

func (a commands) table(nodes []view.Node) string {
	t := a.Table("NODE", "STATE", "#SCORE", "#CPU", "#MEMORY", "#KEYS", "UP", "SEEN", "DOWN",
		"ADDRESS")
	for _, n := range nodes {
		t.Add(n.Name, State(n.State), fmt.Sprintf("%.2f", n.Score),
			fmt.Sprintf("%.0f%%", 100*n.CPU), fmt.Sprintf("%.0f%%", 100*n.Memory),
			fmt.Sprintf("%d of %d", n.Claims.Owned, n.Claims.Cap),
			term.Short(n.Joined.Time, a.Now()),
			term.Short(n.Seen.Time, a.Now()), term.Short(n.Down.Time, a.Now()),
			term.OneLine(n.Address))
	}
	return t.String()
}

func (a commands) drain() *cobra.Command {
	var (
		force, wait bool
		count       int
		cmd         *cobra.Command
	)
	cmd = a.Remote(&cobra.Command{
		Use:   "drain NAME",
		Short: "Let a node take nothing new and give back what it looks after",
		Long: `Let a node take nothing new and give the keys that it looks after to others, each after
its current work. It stays so until rota node undrain, restarts included; then it can be
stopped without anybody noticing.

The last node that works is not drained, nor one without which fewer nodes could die than
--tolerance of rota serve promises: --force does it all the same. Ctrl-C during --wait only
ends the waiting. Undrained before it gave everything back, it keeps the rest.

With --count it gives back so many keys of each kind and works on, as rota node release --each.`,
		Example: "  rota node drain box-2\n  rota node drain box-2 --wait\n  rota node drain box-2 --count 3",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := errors.Join(
			app.CheckNames("node", args...), app.CheckGiven(cmd.Flags(), "count"),
		); err != nil {
			return err
		}
		if count != 0 {
			if wait {
				return usage.Errorf("--wait is for a whole drain: with --count the node works on")
			}
			return a.shed(ctx, c, args[0], client.Shedding{Count: count, Each: true, Force: force})
		}
		if err := c.DrainNode(ctx, args[0], force); err != nil {
			if errors.Is(err, client.ErrConflict) {
				err = fmt.Errorf("%w (--force)", err)
			}
			return err
		}
		if wait {
			return a.drained(ctx, c, args[0])
		}
		return nil
	})
	cmd.Flags().BoolVar(&force, "force", false, "even if too much depends on the other nodes then")
	cmd.Flags().IntVar(&count, "count", 0, "only so many keys of each kind; the node works on")
	cmd.Flags().BoolVar(&wait, "wait", false,
		"until it looks after nothing and holds no task any more; what is left is told on stderr")
	return cmd
}

// drained waits until a node is, and tells what is left whenever that changes. The node that
// answers may hear of the drain a beat after the one that was asked for it; one that works all the
// same is not drained for good.
func (a commands) drained(ctx context.Context, c *client.Client, name string) error {
	said, heard := "", false
	late := time.Now().Add(app.HearsDrains)
	for {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(nodes, func(n view.Node) bool { return n.Name == name })
		if i < 0 || nodes[i].State == view.NodeOffline ||
			nodes[i].State == view.NodeLeft {
			fmt.Fprintf(a.Err, "%s has stopped\n", name)
			return nil
		}
		n := nodes[i]
		heard = heard || n.State == view.NodeDraining
		switch left := leftOf(n); {
		case n.State == view.NodeWorking && (heard || time.Now().After(late)):
			return fmt.Errorf("%s: its drain was taken back meanwhile", name)
		case n.State == view.NodeDrained:
			fmt.Fprintf(a.Err, "%s is drained\n", name)
			return nil
		case left != said:
			said = left
			fmt.Fprintf(a.Err, "%s still looks after %s\n", name, left)
		}
		select {
		case <-time.After(app.Poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func leftOf(n view.Node) string {
	left := term.Plural(n.Claims.Owned, "key") + " and holds " + term.Plural(n.Tasks, "task")
	if n.Running > 0 {
		left += " and runs " + term.Plural(n.Running, "task")
	}
	return left
}

func (a commands) undrain() *cobra.Command {
	return a.ForEach("node", &cobra.Command{
		Use:     "undrain",
		Short:   "Let drained nodes take work again",
		Long:    "Let drained nodes take work again. It may be said at any time, before they are drained, too.",
		Example: "  rota node undrain box-2",
	}, (*client.Client).UndrainNode)
}

func (a commands) release() *cobra.Command {
	var shed client.Shedding
	cmd := a.Remote(&cobra.Command{
		Use:   "release NAME",
		Short: "Let a node give so many of its keys back",
		Long: `Let a node give so many of the keys that it looks after back, those first that are least its
own, and print which. Other nodes take them when it is done with its current work; those that
somebody gave to it stay. It goes on taking tasks, and where rebalancing is auto it gets its share
again after a minute: rota cluster set --rebalance manual leaves it so.

More than the other nodes may own is refused, with the number.`,
		Example: "  rota node release box-2 --count 5\n  rota node release box-2 --count 2 --kind group",
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		return a.shed(ctx, c, args[0], shed)
	})
	f := cmd.Flags()
	f.IntVar(&shed.Count, "count", 0, "so many keys; needed")
	f.StringVar(&shed.Kind, "kind", "", "only keys of this `kind`, as schedule or group")
	f.BoolVar(&shed.Each, "each", false, "so many of each kind")
	f.BoolVar(&shed.Force, "force", false, "even if the other nodes may not own so many more")
	return cmd
}

// shed lets a node give keys back, and prints them.
func (a commands) shed(
	ctx context.Context, c *client.Client, node string, shed client.Shedding,
) error {
	if err := app.CheckNames("node", node); err != nil {
		return err
	}
	if shed.Count < 1 {
		return usage.Errorf("--count must be at least 1")
	}
	keys, err := c.ReleaseNode(ctx, node, shed)
	if err != nil {
		return forced(err, shed.Force)
	}
	return a.Show(term.Page[string]{Items: append([]string{}, keys...)}, func() string {
		text := ""
		for _, key := range keys {
			text += term.OneLine(key) + "\n"
		}
		return text
	})
}
