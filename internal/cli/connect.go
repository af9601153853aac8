package cli

import (
	"context"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

// remote makes cmd a command that talks to a node: with the flags to find one, and run in place of
// RunE.
func (a *App) remote(
	cmd *cobra.Command, run func(ctx context.Context, c *client.Client, args []string) error,
) *cobra.Command {
	cmd.Flags().AddFlagSet(a.shared)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd.Context(), c, args)
	}
	return cmd
}

// complete offers the words for the flag in shells. It panics when cmd has no such flag: our own
// bug.
func complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(
		flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp),
	); err != nil {
		panic(err)
	}
}

// client speaks to the nodes that --server names. It gives up sooner than a program would: a person
// is waiting; and a few calls are worth no stream.
func (a *App) client() (*client.Client, error) {
	return a.connect(client.Config{HTTPOnly: true})
}

// connect makes a client, with what conf says of streams.
func (a *App) connect(conf client.Config) (*client.Client, error) {
	c, err := client.New(client.Config{
		Servers: a.servers, Fixed: a.fixed, Token: a.token, UserAgent: "rota/" + version(),
		Attempts: 3, HTTPOnly: conf.HTTPOnly, Log: conf.Log,
	})
	if err != nil {
		return nil, usage.Errorf("%v", err)
	}
	return c, nil
}

// taskIDs parses the ids that a command was given, all before anything is done.
func taskIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = task.ParseID(arg); err != nil {
			return nil, usage.Errorf("%v", err)
		}
	}
	return ids, nil
}

// checkNames brings the names of a list into their one form, and refuses what can name no queue or
// worker before it is sent anywhere.
func checkNames(what string, list ...string) error {
	for i, name := range list {
		if list[i] = names.Canonical(name); !limits.ValidName(list[i]) {
			return usage.Errorf("%s %q %s", what, name, limits.NameRule)
		}
	}
	return nil
}

// Poll is how often a command that waits for something looks at it.
const Poll = 300 * time.Millisecond
