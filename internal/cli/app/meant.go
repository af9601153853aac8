package app

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotahq/rota/internal/usage"
)

// meant is a question to whoever mistyped a word; "" when nothing known is near.
func meant(word, lead string, known []string) string {
	if near := usage.Nearest(word, known); near != "" {
		return "; did you mean " + lead + near + "?"
	}
	return ""
}

// mistypedFlag adds to the error of an unknown flag which one was probably meant.
func mistypedFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return usage.Errorf("%v%s", err, meant(unknown.GetSpecifiedName(), "--", known))
}

// mistypedCommand is what the root does with a word that names no command.
func mistypedCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			known = append(known, sub.Name())
		}
	}
	slices.Sort(known)
	return usage.Errorf("unknown command %q%s", args[0], meant(args[0], "", known))
}
