package app

import (
	"testing"
)

func FuzzParseSettings(f *testing.F) {
	for _, seed := range []string{"", "a: 1", "a: {b: [c, d]}", "a:\n  b: {c: d}\n", "- a",
		"a: &x 1\nb: *x", "? [a]\n: b", "a: !!binary eA==", "\x00", "a: {b: {c: {d: e}}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := parseSettings([]byte(text))
		if err != nil && settings != nil {
			t.Fatal("settings beside an error")
		}
		for _, s := range settings {
			if !s.list && len(s.values) != 1 || s.line < 1 {
				t.Fatalf("%+v is no setting", s)
			}
		}
	})
}
