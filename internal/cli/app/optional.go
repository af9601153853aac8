package app

import (
	"github.com/spf13/pflag"
)

// Optional makes a function that points to at value when the named flag was given, and leaves it
// nil otherwise.
func Optional[T any](value *T, flags *pflag.FlagSet, name string, to **T) func() {
	return func() {
		if flags.Changed(name) {
			*to = value
		}
	}
}

// TitleFlag is a flag of all that has a title.
func TitleFlag(f *pflag.FlagSet, to **string) func() {
	return Optional(f.String("title", "",
		"what people call it, `text` in any language; \"\" = nothing (default nothing)"), f, "title", to)
}

// OwnerFlag is a flag of all that somebody answers for.
func OwnerFlag(f *pflag.FlagSet, to **string) func() {
	return Optional(f.String("owner", "",
		"`who` answers for it, a mail address or a name; \"\" = nobody (default nobody)"), f, "owner", to)
}
