package tasks

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestADifferenceLeadsFromOneTextToTheOther(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	draw := func() (list []string) {
		for range luck.IntN(9) {
			list = append(list, string("abc"[luck.IntN(3)]))
		}
		return list
	}
	for range 2000 {
		from, to := draw(), draw()
		var left, right []string
		same := 0
		for _, line := range difference(from, to) {
			if line[0] != '+' {
				left = append(left, line[2:])
			}
			if line[0] != '-' {
				right = append(right, line[2:])
			}
			if line[0] == ' ' {
				same++
			}
		}
		if !slices.Equal(left, from) || !slices.Equal(right, to) {
			t.Fatalf("from %q to %q leads %q", from, to, difference(from, to))
		}
		if want := longest(from, to)[0][len(to)]; same != want {
			t.Fatalf("from %q to %q: %d lines are the same, want %d", from, to, same, want)
		}
	}
	got := difference([]string{"{", "1", "2", "}"}, []string{"{", "2", "3", "}"})
	if want := "  {|- 1|  2|+ 3|  }"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

func TestTooManyLinesAreComparedAtTheirEndsOnly(t *testing.T) {
	var from, to []string
	for i := range 5000 {
		from = append(from, fmt.Sprint("a", i))
		to = append(to, fmt.Sprint("b", i))
	}
	got := difference(append(from, "end"), append(to, "end"))
	if len(got) != 10001 || got[0] != "- a0" || got[5000] != "+ b0" || got[10000] != "  end" {
		t.Errorf("%d lines: %s, %s, %s", len(got), got[0], got[5000], got[len(got)-1])
	}
}

func TestContextsAreLaidOutAsATerminalMayShowThem(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "(none)"}, {`{"a":1e400,"b":[]}`, `{|  "a": 1e400,|  "b": []|}`},
		{"\"\u202e\u009b31m\"", `"\u202e 31m"`}, {"no json", "no json"},
		{strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
	} {
		if got, cut := linesOf(json.RawMessage(c.text)); strings.Join(got, "|") != c.want || cut {
			t.Errorf("%.20q: got %.60q, want %.60q", c.text, got, c.want)
		}
	}
	if got, cut := linesOf(json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)); !cut ||
		len(got) != 1 || len(got[0]) != comparedBytes {
		t.Errorf("a large one: %d lines, cut %v", len(got), cut)
	}
}
