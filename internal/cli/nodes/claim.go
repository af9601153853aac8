package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) claim() *cobra.Command {
	return app.Family("claim", "Look after the keys that nodes share out",
		`Look after the keys that nodes share out: each schedule, group, and whatever programs
claim has one node that looks after it. Rota shares them out by itself; these commands show
who has what, and let a person decide.`,
		"  rota claim ls --owner box-2\n  rota claim assign group/feeds box-1 --for 2h",
		a.claimList(), a.claimShow(), a.claimExplain(),
		a.claimAssign(), a.claimRelease(), a.claimRescan())
}

func (a commands) claimList() *cobra.Command {
	var filter client.ClaimFilter
	cmd := a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List keys, and who looks after them",
		Long: `List keys, and who looks after them. A key is its kind, a slash and its name:
schedule/backup, group/feeds. ASSIGNED is the node that somebody gave the key to, and for how
long yet.`,
		Example: "  rota claim ls\n  rota claim ls --kind group --owner box-2\n  rota claim ls --owner - -o json",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		claims, err := c.Claims(ctx, filter)
		if err != nil {
			return err
		}
		return a.Show(term.Page[view.Claim]{Items: append([]view.Claim{}, claims...)},
			func() string { return a.claimTable(claims) })
	})
	f := cmd.Flags()
	f.StringVar(&filter.Owner, "owner", "", "only keys of this `node`; - = those that nobody has")
	f.StringVar(&filter.Kind, "kind", "", "only keys of this `kind`, as schedule or group")
	f.BoolVar(&filter.Assigned, "assigned", false, "only keys that somebody gave to a node")
	return cmd
}

func (a commands) claimTable(claims []view.Claim) string {
	t := a.Table("KEY", "OWNER", "SINCE", "#TOKEN", "ASSIGNED")
	for _, c := range claims {
		owner := c.Owner
		if owner == "" {
			owner = term.Yellow("nobody")
		}
		assigned := ""
		if c.Assigned != nil {
			assigned = fmt.Sprintf("to %s, %s left", c.Assigned.Node, a.left(c))
		}
		t.Add(term.OneLine(c.Key), owner, term.Short(c.Since.Time, a.Now()), fmt.Sprint(c.Token),
			assigned)
	}
	return t.String()
}

// left is how long an assignment stands yet.
func (a commands) left(c view.Claim) time.Duration {
	return c.Assigned.Until.Sub(a.Now()).Round(time.Second)
}

func (a commands) claimShow() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "show KEY",
		Short:   "Show who looks after a key",
		Long:    "Show who looks after a key, since when, and whether somebody gave it to a node.",
		Example: "  rota claim show group/feeds",
		Args:    app.Takes("KEY"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		claim, err := c.ClaimOf(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(claim, func() string { return a.claimText(claim) })
	})
}

func (a commands) claimText(c view.Claim) string {
	s := term.Sheet{Indent: 10}
	s.Line("key", term.Bold(term.OneLine(c.Key)))
	if c.Owner == "" {
		s.Line("owner", term.Yellow("nobody just now"))
	} else {
		s.Line("owner", c.Owner)
	}
	s.Line("since", term.Short(c.Since.Time, a.Now()))
	s.Line("token", fmt.Sprint(c.Token))
	if c.Assigned != nil {
		s.Line("assigned", fmt.Sprintf("to %s by %s, for another %v", c.Assigned.Node,
			c.Assigned.By, a.left(c)))
	}
	return s.String()
}

func (a commands) claimAssign() *cobra.Command {
	var (
		how client.ClaimAssignment
		cmd *cobra.Command
	)
	cmd = a.Remote(&cobra.Command{
		Use:   "assign KEY NODE",
		Short: "Give a key to a node",
		Long: `Give a key to a node. Whoever has it finishes what it is at and gives it back, and then
that node takes it: exactly one looks after it at any time. It stays there, whatever
rebalancing would do, until --for is over, or until it is released or assigned again, or the
node can't look after it. While the node is drained, unreachable or gone others have it.

A node that may own no more keys is refused, with the number; --force does it all the same.`,
		Example: "  rota claim assign group/feeds box-1\n  rota claim assign schedule/backup box-2 --for 8h",
		Args:    app.Takes("KEY", "NODE"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		err := errors.Join(app.CheckNames("node", args[1]), app.CheckGiven(cmd.Flags(), "for"))
		if err == nil {
			err = forced(c.AssignClaim(ctx, args[0], args[1], how), how.Force)
		}
		return err
	})
	cmd.Flags().DurationVar(&how.For, "for", time.Hour, "so long it stays there, at most 8760h")
	cmd.Flags().BoolVar(&how.Force, "force", false, "even if the node owns as many keys as it may")
	return cmd
}

// forced tells of --force where the answer to a refused call tells of force.
func forced(err error, force bool) error {
	if problem := (*client.Error)(nil); errors.As(err, &problem) && !force &&
		strings.Contains(err.Error(), "may own") {
		return fmt.Errorf("%w (--force)", err)
	}
	return err
}

func (a commands) claimRelease() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "release KEY…",
		Short: "Let the owners of keys give them back",
		Long: `Let the owners of keys give them back after their current work, within two beats. Other
nodes are the first to take them then. An assignment of the key is over.`,
		Example: "  rota claim release group/feeds",
		Args:    app.Takes("KEY…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		return app.Each(args, func(key string) error { return c.ReleaseClaim(ctx, key) })
	})
}

func (a commands) claimRescan() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "rescan",
		Short: "Wait until a node has looked at all keys again",
		Long: `Wait until the node that answers has looked at all keys again, and claimed what is for it to
claim. Every node does by itself with each of its beats, so it takes two of them at most.`,
		Example: "  rota claim rescan",
		Args:    app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error { return c.RescanClaims(ctx) })
}

func (a commands) claimExplain() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "explain KEY",
		Short: "Say why no node looks after a key",
		Long: `Say why no node looks after a key, or why it is not with the node that somebody gave it
to, and what would change that.`,
		Example: "  rota claim explain group/feeds",
		Args:    app.Takes("KEY"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		e, err := c.ExplainClaim(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(e, func() string { return a.WhyNot(e) })
	})
}
