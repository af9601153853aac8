package app

import (
	"errors"
	"strings"

	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// Family is a command that only has subcommands.
func Family(use, short, long, example string, members ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, DisableFlagsInUseLine: true,
		RunE: NeedsMember(members),
	}
	cmd.AddCommand(members...)
	return cmd
}

// NeedsMember is what a command does that does nothing by itself.
func NeedsMember(members []*cobra.Command) func(*cobra.Command, []string) error {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name()
	}
	return func(cmd *cobra.Command, args []string) error {
		known := strings.Join(names, ", ")
		if len(args) == 0 {
			return usage.Errorf("%s needs a command: %s", cmd.Name(), known)
		}
		return usage.Errorf("%s has no command %q; it has %s%s", cmd.Name(), args[0], known,
			meant(args[0], "", names))
	}
}

// Takes makes an argument check: exactly the named arguments, or at least them when the last one
// ends with "…".
func Takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		command := strings.TrimPrefix(cmd.CommandPath(), "rota ")
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…")
		switch {
		case len(args) < len(names):
			return usage.Errorf("%s needs %s", command, strings.Join(names[len(args):], " "))
		case len(args) > len(names) && !many:
			return usage.Errorf("%s does not take %q", command, args[len(names)])
		}
		return nil
	}
}

// Each does f to all of them, whatever becomes of the others, and joins the errors.
func Each[T any](all []T, f func(T) error) error {
	var wrong []error
	for _, one := range all {
		if err := f(one); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}
