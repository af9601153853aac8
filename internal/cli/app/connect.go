package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// Remote makes cmd a command that talks to a node: with the flags to find one, and run in place of
// RunE.
func (a *App) Remote(
	cmd *cobra.Command, run func(ctx context.Context, c *client.Client, args []string) error,
) *cobra.Command {
	a.AddShared(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd.Context(), c, args)
	}
	return cmd
}

// ForEach makes cmd, whose Use is its verb, a command that makes a call for each NAME of a noun it
// is given, whatever becomes of the others.
func (a *App) ForEach(
	noun string, cmd *cobra.Command, call func(*client.Client, context.Context, string) error,
) *cobra.Command {
	cmd.Use += " NAME…"
	cmd.Args = Takes("NAME…")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := CheckNames(noun, args...); err != nil {
			return err
		}
		return Each(args, func(name string) error { return call(c, ctx, name) })
	})
}

// Complete offers the words for the flag in shells. It panics when cmd has no such flag: our own
// bug.
func Complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(
		flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp),
	); err != nil {
		panic(err)
	}
}

// Client speaks to the nodes that --server names. It gives up sooner than a program would: a person
// is waiting; and a few calls are worth no stream.
func (a *App) Client() (*client.Client, error) {
	return a.Connect(client.Config{HTTPOnly: true})
}

// Connect makes a client, with what conf says of streams.
func (a *App) Connect(conf client.Config) (*client.Client, error) {
	c, err := client.New(client.Config{
		Servers: a.Servers, Fixed: a.fixed, Token: a.Token, UserAgent: "rota/" + Version(),
		Attempts: 3, HTTPOnly: conf.HTTPOnly, Log: conf.Log,
	})
	if err != nil {
		return nil, usage.Errorf("%v", err)
	}
	return c, nil
}

// CheckNames brings the names of a list into their one form, and refuses what can name no queue or
// worker before it is sent anywhere.
func CheckNames(what string, list ...string) error {
	for i, name := range list {
		if list[i] = names.Canonical(name); !limits.ValidName(list[i]) {
			return usage.Errorf("%s %q %s", what, name, limits.NameRule)
		}
	}
	return nil
}

// Poll is how often a command that waits for something looks at it.
const Poll = 300 * time.Millisecond

// HearsDrains is how long a node may take to hear of a drain that another one was asked for: a few
// beats.
const HearsDrains = 15 * time.Second

// Passes tells whether an error may pass by itself: no answer, or one that says: not now.
func Passes(err error) bool {
	var refused *client.Error
	return !errors.As(err, &refused) || errors.Is(err, client.ErrUnavailable)
}

// Absent says of a thing that was to be shown, and is not there, how it would come to be.
func Absent(err error, what, name, how string) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("there is no %s %q (%s): %w", what, name, how, client.ErrNotFound)
	}
	return err
}
