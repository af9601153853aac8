//go:build unix

package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rotahq/rota/pool"
)

func TestEverythingIsAnsweredThoughChildrenAreKilled(t *testing.T) {
	var out strings.Builder
	s := show{out: &out, children: 3, numbers: 30, every: 3}
	err := s.run(t.Context())
	t.Logf("%s", &out)
	if err != nil {
		t.Fatal(err)
	}
	if s.kills == 0 || strings.Count(out.String(), "is killed") != s.kills {
		t.Errorf("%d kills", s.kills)
	}
	for _, line := range []string{"27 takes 111 steps\n",
		"30 numbers, all answered and all right"} {
		if strings.Count(out.String(), line) != 1 {
			t.Errorf("it did not say %q once", line)
		}
	}
}

func TestTheProgramRefusesWhatIsNoNumber(t *testing.T) {
	child, err := pool.Command{Argv: []string{"sh", "-c", collatz}}.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	for _, request := range []any{0, -3, 1.5, "27", []int{1}, nil} {
		if err := child.Call(t.Context(), request, nil); !errors.Is(err,
			pool.ChildError("not a number from 1")) {
			t.Errorf("%v: %v", request, err)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, n := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
		s := &show{out: io.Discard, children: n[0], numbers: n[1], every: n[2]}
		if err := s.run(t.Context()); err == nil {
			t.Errorf("%d children, %d numbers, a kill every %d", s.children, s.numbers, s.every)
		}
	}
}
