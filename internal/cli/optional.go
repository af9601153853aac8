package cli

import (
	"github.com/spf13/pflag"
)

// optional makes a function that points to at value when the named flag was given, and leaves it
// nil otherwise.
func optional[T any](value *T, flags *pflag.FlagSet, name string, to **T) func() {
	return func() {
		if flags.Changed(name) {
			*to = value
		}
	}
}

// titleFlag and ownerFlag are flags of all that has a title and an owner.
func titleFlag(f *pflag.FlagSet, to **string) func() {
	return optional(f.String("title", "",
		"what people call it, `text` in any language; \"\" = nothing (default nothing)"), f, "title", to)
}

func ownerFlag(f *pflag.FlagSet, to **string) func() {
	return optional(f.String("owner", "",
		"`who` answers for it, a mail address or a name; \"\" = nobody (default nobody)"), f, "owner", to)
}
