package workers

import (
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/limits"
)

func TestWorkersDefaultNameKeepsTheRule(t *testing.T) {
	for host, want := range map[string]string{
		"Box":                    "box-7",
		"box.example.org":        "box.example.org-7",
		"Anns MacBook":           "anns-macbook-7",
		"--x":                    "x-7",
		"机器":                     "机器-7",
		"\u202e":                 "host-7",
		"":                       "host-7",
		strings.Repeat("a", 500): strings.Repeat("a", 100) + "-7",
	} {
		got := nameHere(host, 7)
		if got != want || !limits.ValidName(got) {
			t.Errorf("nameHere(%q) = %q, want %q", host, got, want)
		}
	}
}
