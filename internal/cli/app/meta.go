package app

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

// MetaFlag is a flag that is given once for each string that a task carries: --meta customer=7.
// "" says that there is none. What it was given stands in a pointer, so that flags can be compared.
type MetaFlag struct {
	List *map[string]string // nil = the flag was not given
}

// Set is part of pflag.Value.
func (f *MetaFlag) Set(text string) error {
	if f.List == nil {
		f.List = &map[string]string{}
	}
	if text == "" {
		return nil
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=TEXT")
	}
	if _, twice := (*f.List)[name]; twice {
		return fmt.Errorf("%s comes twice", name)
	}
	(*f.List)[name] = value
	var wrong task.InvalidError
	limits.CheckMeta(*f.List, &wrong, "meta")
	return wrong.Err()
}

// String is part of pflag.Value.
func (f *MetaFlag) String() string { return MetaText(f.Strings()) }

// Type is part of pflag.Value.
func (f *MetaFlag) Type() string { return "name=text" }

// TakesMany says that the flag may be given several times.
func (f *MetaFlag) TakesMany() {}

// Strings are what it was given; nil = nothing, or the flag was not given.
func (f *MetaFlag) Strings() map[string]string {
	if f.List == nil {
		return nil
	}
	return *f.List
}

// MetaText is what a task carries, for people.
func MetaText(list map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		parts = append(parts, name+"="+list[name])
	}
	return term.OneLine(strings.Join(parts, " "))
}
