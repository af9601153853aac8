//go:build unix

package worker

import (
	"os/exec"
	"slices"
	"testing"
)

// What stands for a command hands all its variables on.
func TestStarterStandsForCommandsThatAShellTakesVariablesFrom(t *testing.T) {
	for _, c := range []struct {
		variable string
		shell    bool
	}{
		{"PATH=/bin", true},
		{"_a9=b.c-d", true},
		{"Z=", true},
		{"a.b=1", false},
		{"x-y=1", false},
		{"9a=1", false},
		{"BASH_FUNC_f%%=() { true; }", false},
		{"ä=1", false},
		{"=C:=1", false},
	} {
		for _, starter := range [][]string{nil, {"/opt/starter", "now"}} {
			cmd := exec.Command("true", "now", "")
			program := cmd.Path
			cmd.Env = []string{"A=1", c.variable, "B=2"}
			begin, err := held(cmd, starter)
			if err != nil {
				t.Fatal(err)
			}
			begin()
			want := slices.Concat(starter, []string{program, "now", ""})
			if got := cmd.Args; c.shell || starter == nil {
				if cmd.Path != "/bin/sh" || !slices.Equal(got[len(got)-3:], want[len(want)-3:]) {
					t.Errorf("%s, starter %q: %s %q", c.variable, starter, cmd.Path, got)
				}
			} else if cmd.Path != "/opt/starter" || !slices.Equal(got, want) {
				t.Errorf("%s: %s %q, want %q", c.variable, cmd.Path, got, want)
			}
		}
	}
}
