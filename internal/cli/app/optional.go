package app

import (
	"github.com/spf13/pflag"

	"github.com/rotahq/rota/internal/usage"
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

// CheckGiven refuses 0s for durations whose default is another one: a call that has it leaves it
// out.
func CheckGiven(f *pflag.FlagSet, durations ...string) error {
	for _, name := range durations {
		if f.Changed(name) && f.Lookup(name).Value.String() == "0s" {
			return usage.Errorf("--%s: must be more than 0s, or left out", name)
		}
	}
	return nil
}
