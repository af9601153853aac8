package app

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
)

// completeWithin is how long a shell waits for names that a server knows.
const completeWithin = 300 * time.Millisecond

// namesOf are what a server knows by name, for shells to offer.
var namesOf = map[string]func(context.Context, *client.Client) ([]string, error){
	"queue": func(ctx context.Context, c *client.Client) (names []string, err error) {
		list, err := c.Queues(ctx)
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names, err
	},
	"group": func(ctx context.Context, c *client.Client) (names []string, err error) {
		list, err := c.Groups(ctx)
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names, err
	},
	"hook": func(ctx context.Context, c *client.Client) (names []string, err error) {
		list, err := c.Hooks(ctx)
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names, err
	},
	"schedule": func(ctx context.Context, c *client.Client) (names []string, err error) {
		list, err := c.Schedules(ctx)
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names, err
	},
}

// flagsThatName are flags that take a name, and of what.
var flagsThatName = map[string]string{
	"queue": "queue", "final-queue": "queue", "group": "group", "after": "schedule",
}

// completeNames lets shells offer the names of queues, groups and schedules wherever a command
// takes one. A server that does not answer at once offers none.
func (a *App) completeNames(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		kind := cmd.Name()
		if sub.Name() == "submit" || sub.Name() == "forecast" || kind == "key" {
			kind = "queue"
		}
		if namesOf[kind] != nil && sub.ValidArgsFunction == nil && !sub.HasSubCommands() &&
			strings.Contains(sub.Use, " ") {
			sub.ValidArgsFunction = a.offer(kind, strings.Contains(sub.Use, "…"))
		}
		for flag, kind := range flagsThatName {
			if sub.Flags().Lookup(flag) == nil {
				continue
			}
			// a command that offers something of its own there keeps that
			_ = sub.RegisterFlagCompletionFunc(flag, a.offer(kind, true))
		}
		a.completeNames(sub)
	}
}

// offer asks the server that the command line names.
func (a *App) offer(kind string, many bool) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, begun string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !many || configure(a, cmd) != nil {
			return nil, nothing
		}
		c, err := client.New(client.Config{
			Servers: a.Servers, Fixed: true, Token: a.Token, UserAgent: "rota/" + Version(),
			Attempts: 1, Timeout: completeWithin,
		})
		if err != nil {
			return nil, nothing
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		names, err := namesOf[kind](ctx, c)
		if err != nil {
			return nil, nothing
		}
		var some []string
		for _, name := range names {
			if strings.HasPrefix(name, begun) {
				some = append(some, name)
			}
		}
		return some, nothing
	}
}
