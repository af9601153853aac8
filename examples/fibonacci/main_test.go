package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestEveryNumberIsComputedOnceBySomeLane(t *testing.T) {
	const n, lanes = 22, 3
	var out strings.Builder
	if err := show(t.Context(), &out, n, lanes); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != n+1+lanes+1 {
		t.Fatalf("%d lines", len(lines))
	}
	a, b, total := 0, 1, 0.0
	for i, line := range lines[:n+1] {
		if want := fmt.Sprintf("F(%d) = %d", i, a); line != want {
			t.Errorf("%q, want %q", line, want)
		}
		a, b = b, a+b
		total += calls(i)
	}
	ran := map[string]int{}
	for i, line := range lines[n+1 : n+1+lanes] {
		var lane int
		var load float64
		var took string
		if _, err := fmt.Sscanf(
			line, "lane %d: load %f in %s", &lane, &load, &took,
		); err != nil || lane != i {
			t.Errorf("%q: %v", line, err)
		}
		total -= load
		_, numbers, _ := strings.Cut(line, took)
		for _, number := range strings.Fields(numbers) {
			ran[number]++
		}
	}
	for i := range n + 1 {
		if ran[fmt.Sprint(i)] != 1 {
			t.Errorf("F(%d) was computed %d times", i, ran[fmt.Sprint(i)])
		}
	}
	if total != 0 {
		t.Errorf("the loads differ by %v from what they are together", total)
	}
}

func TestLoadsAreExact(t *testing.T) {
	var count float64
	var counted func(i int)
	counted = func(i int) {
		if count++; i >= 2 {
			counted(i - 1)
			counted(i - 2)
		}
	}
	for i := range 20 {
		count = 0
		if counted(i); calls(i) != count {
			t.Errorf("slow(%d) takes %v calls, not %v", i, count, calls(i))
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, c := range [][2]int{{-1, 1}, {81, 1}, {1, 0}} {
		if err := show(t.Context(), io.Discard, c[0], c[1]); err == nil {
			t.Errorf("numbers to %d on %d lanes", c[0], c[1])
		}
	}
}
