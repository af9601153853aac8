package app

import (
	"github.com/rotahq/rota/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare makes root the root of this run, before commands are put below it: it gives it the
// run's streams, makes the flags that commands share, and has the settings read before a command
// begins.
func (a *App) Prepare(root *cobra.Command) {
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.RunE = mistypedCommand
	root.SetFlagErrorFunc(mistypedFlag)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := configure(a, cmd); err != nil {
			return err
		}
		a.begun = true
		return nil
	}
	root.PersistentFlags().StringVar(&a.Config, "config", "",
		"YAML `file` with settings (default none)")

	a.shared = pflag.NewFlagSet("shared", pflag.ContinueOnError)
	a.shared.StringSliceVar(&a.Servers, "server", []string{client.DefaultServer},
		"`URL` of a node; repeat it to name others to turn to when one is away")
	a.shared.BoolVar(&a.fixed, "fixed", false,
		"keep to the nodes that --server names; else the others of their cluster are turned to, too")
	a.shared.StringVar(&a.Token, "token", "",
		"access `token`; better kept in ROTA_TOKEN or the config file, out of the list of processes")
	a.shared.VarP(&a.Format, "output", "o", "`format` of the result: table or json")
}

// AddShared gives a command those flags of these names that mean the same in every command that
// has them; without names all of them. It does so after prepare.
func (a *App) AddShared(flags *pflag.FlagSet, names ...string) {
	if len(names) == 0 {
		flags.AddFlagSet(a.shared)
	}
	for _, name := range names {
		flags.AddFlag(a.shared.Lookup(name))
	}
}

// Finish gives the commands below root what all of them have: lists can be watched, shells offer
// names, and a flag that is no list takes one value.
func (a *App) Finish(root *cobra.Command) {
	watchLists(a, root)
	a.completeNames(root)
	takeOnce(root)
}

// HasBegun tells whether the command itself has begun: what went wrong before that is wrong usage.
func (a *App) HasBegun() bool { return a.begun }
