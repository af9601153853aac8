package app

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/rotahq/rota/internal/usage"
)

// optional is the value of a flag that is pointed to once the flag is given.
type optional[T any] struct {
	pflag.Value
	value *T
	to    **T
}

// Set is part of pflag.Value.
func (o *optional[T]) Set(text string) error {
	*o.to = o.value
	return o.Value.Set(text)
}

// Optional adds a flag by one of the methods that declare flags, as f.Duration is. When the flag is
// given, to points at its value; otherwise it stays nil.
func Optional[T any](
	f *pflag.FlagSet, declare func(name string, zero T, text string) *T, to **T, name, text string,
) {
	value := declare(name, *new(T), text)
	flag := f.Lookup(name)
	flag.Value = &optional[T]{flag.Value, value, to}
}

// word is the value of a flag that takes a word of a type.
type word[T ~string] struct{ value *T }

// Set is part of pflag.Value.
func (w word[T]) Set(text string) error {
	*w.value = T(text)
	return nil
}

// String is part of pflag.Value.
func (w word[T]) String() string { return string(*w.value) }

// Type is part of pflag.Value.
func (w word[T]) Type() string { return "string" }

// Word declares, for Optional, flags that take a word of a type.
func Word[T ~string](f *pflag.FlagSet) func(name string, zero T, text string) *T {
	return func(name string, zero T, text string) *T {
		f.Var(word[T]{&zero}, name, text)
		return &zero
	}
}

// TitleFlag adds a flag of all that has a title.
func TitleFlag(f *pflag.FlagSet, to **string) {
	Optional(f, f.String, to, "title",
		"what people call it, `text` in any language; \"\" = nothing (default nothing)")
}

// OwnerFlag adds a flag of all that somebody answers for.
func OwnerFlag(f *pflag.FlagSet, to **string) {
	Optional(f, f.String, to, "owner",
		"`who` answers for it, a mail address or a name; \"\" = nobody (default nobody)")
}

// CheckGiven refuses 0 for durations and numbers whose default is another one: a call that has it
// leaves it out.
func CheckGiven(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if !f.Changed(name) {
			continue
		}
		if zero := f.Lookup(name).Value.String(); zero == "0s" || zero == "0" {
			return usage.Errorf("--%s: must be more than %s, or left out", name, zero)
		}
	}
	return nil
}

// CheckNotEmpty refuses flags that were given as nothing, as by a variable of a script that is not
// set, where that would be taken for a flag that was left out.
func CheckNotEmpty(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f.Changed(name) && f.Lookup(name).Value.String() == "" {
			return usage.Errorf("--%s: must not be empty, or left out", name)
		}
	}
	return nil
}

// Grace is a grace as a worker's configuration has it, where 0 is the default: 0s is none, the
// shortest one there is.
func Grace(d time.Duration) time.Duration {
	if d == 0 {
		return 1
	}
	return d
}
