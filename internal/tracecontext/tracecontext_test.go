package tracecontext

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

const sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestOnlyWhatIsWellFormedIsPassedOn(t *testing.T) {
	for _, c := range []struct{ parent, state, wantParent, wantState string }{
		{sample, "", sample, ""},
		{sample, "congo=t61rcWkgMzE,rojo@a=00f0", sample, "congo=t61rcWkgMzE,rojo@a=00f0"},
		{strings.TrimSuffix(sample, "1") + "0", "", strings.TrimSuffix(sample, "1") + "0", ""},
		{"cc" + sample[2:], "", "cc" + sample[2:], ""},
		{"cc" + sample[2:] + "-what-may-be", "", "cc" + sample[2:] + "-what-may-be", ""},
		{"cc" + sample[2:] + "what", "", "", ""},
		{"cc" + sample[2:] + "-\n", "", "", ""},
		{"", "a=b", "", ""},
		{sample + "-more", "a=b", "", ""},
		{sample[:54], "", "", ""},
		{"ff" + sample[2:], "", "", ""},
		{strings.ToUpper(sample), "", "", ""},
		{"00-" + strings.Repeat("0", 32) + sample[35:], "", "", ""},
		{sample[:36] + strings.Repeat("0", 16) + "-01", "", "", ""},
		{strings.ReplaceAll(sample, "-", "_"), "", "", ""},
		{sample[:53] + "0x", "", "", ""},
		{"cc" + sample[2:] + "-" + strings.Repeat("a", 300), "", "", ""},
		{strings.Repeat("é", 40), "", "", ""},
		{sample, "no member", sample, ""},
		{sample, "A=b", sample, ""},
		{sample, "a=b,a=c", sample, ""},
		{sample, "a=b=c", sample, ""},
		{sample, "a=é", sample, ""},
		{sample, "a=" + strings.Repeat("b", 300), sample, ""},
		{sample, strings.TrimSuffix(strings.Repeat("a=b,", 40), ","), sample, ""},
	} {
		parent, state := Of(map[string]string{Parent: c.parent, State: c.state})
		if parent != c.wantParent || state != c.wantState {
			t.Errorf("%q, %q: %q, %q", c.parent, c.state, parent, state)
		}
	}
}

func TestATraceOfTheEnvironmentRefusesNoTask(t *testing.T) {
	full := map[string]string{}
	for i := range 16 {
		full[fmt.Sprint("k", i)] = "v"
	}
	almost := maps.Clone(full)
	delete(almost, "k0")
	with := func(m map[string]string, pairs ...string) map[string]string {
		m = maps.Clone(m)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	none := map[string]string{}
	env := map[string]string{ParentVariable: sample, StateVariable: "a=b"}
	for _, c := range []struct {
		name            string
		meta, env, want map[string]string
	}{
		{"nothing", nil, nil, nil},
		{"a trace", nil, env, with(none, Parent, sample, State, "a=b")},
		{"another's", with(none, Parent, "mine"), env, with(none, Parent, "mine")},
		{"another's state", with(none, State, "mine=1"), map[string]string{ParentVariable: sample},
			with(none, Parent, sample)},
		{"no trace", with(none, "customer", "7"), map[string]string{ParentVariable: "x"},
			with(none, "customer", "7")},
		{"no room", full, env, full},
		{"room for one", almost, env, with(almost, Parent, sample)},
	} {
		before := maps.Clone(c.meta)
		got := With(c.meta, func(name string) (string, bool) {
			text, ok := c.env[name]
			return text, ok
		})
		if !maps.Equal(got, c.want) || !maps.Equal(c.meta, before) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
