package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// metaFlag is a flag that is given once for each string that a task carries: --meta customer=7.
// "" says that there is none. What it was given stands in a pointer, so that flags can be compared.
type metaFlag struct {
	list *map[string]string // nil = the flag was not given
}

func (f *metaFlag) Set(text string) error {
	if f.list == nil {
		f.list = &map[string]string{}
	}
	if text == "" {
		return nil
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=TEXT")
	}
	if _, twice := (*f.list)[name]; twice {
		return fmt.Errorf("%s comes twice", name)
	}
	(*f.list)[name] = value
	var wrong task.InvalidError
	limits.CheckMeta(*f.list, &wrong, "meta")
	return wrong.Err()
}

func (f *metaFlag) String() string { return metaText(f.strings()) }

// Type is that of a pflag.Value.
func (f *metaFlag) Type() string { return "name=text" }

// TakesMany says that the flag may be given several times.
func (f *metaFlag) TakesMany() {}

// strings are what it was given; nil = nothing, or the flag was not given.
func (f *metaFlag) strings() map[string]string {
	if f.list == nil {
		return nil
	}
	return *f.list
}

// metaText is what a task carries, for people.
func metaText(list map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		parts = append(parts, name+"="+list[name])
	}
	return term.OneLine(strings.Join(parts, " "))
}
