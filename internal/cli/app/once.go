package app

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotahq/rota/view"
)

// once is the value of a flag that takes one. Given twice with different values it is refused: the
// last one would win in silence, also where somebody meant both, as with --after a --after b.
type once struct {
	pflag.Value
	given *string
}

// Set is part of pflag.Value.
func (o *once) Set(text string) error {
	if o.given != nil && *o.given != text {
		return fmt.Errorf("it is %q already, and takes one value", *o.given)
	}
	o.given = &text
	if o.Type() != "duration" {
		return o.Value.Set(text)
	}
	d, err := view.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("want a duration like 90s, 1h30m or 2d")
	}
	return o.Value.Set(d.String())
}

// Override gives a flag another value than its caller has.
func Override(f *pflag.Flag, text string) error {
	if o, ok := f.Value.(*once); ok {
		return o.Value.Set(text)
	}
	return f.Value.Set(text)
}

// takeOnce has each flag of a command and those below it that is no list take one value.
func takeOnce(cmd *cobra.Command) {
	wrap := func(f *pflag.Flag) {
		_, wrapped := f.Value.(*once) // commands share flags
		if !wrapped && !takesMany(f) {
			f.Value = &once{Value: f.Value}
			if f.DefValue == "0s" || strings.Contains(f.Usage, "(default") {
				f.DefValue = "0" // which help leaves out: 0s it knows only of its own flags
			}
		}
	}
	cmd.Flags().VisitAll(wrap)
	cmd.PersistentFlags().VisitAll(wrap)
	for _, sub := range cmd.Commands() {
		takeOnce(sub)
	}
}

// manyValues is the value of a flag that adds what it is given to what it was given before.
type manyValues interface{ TakesMany() }

// takesMany tells whether a flag adds what it is given to what it was given before.
func takesMany(f *pflag.Flag) bool {
	switch f.Value.(type) {
	case pflag.SliceValue, manyValues:
		return true
	}
	return false
}
