package rota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The order service is short: so many lines, without those that are blank or a comment.
func TestTheOrderServiceIsShort(t *testing.T) {
	names, err := filepath.Glob("examples/orders/*.go")
	if err != nil {
		t.Fatal(err)
	}
	const most = 150
	lines := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	if lines == 0 || lines > most {
		t.Errorf("it has %d lines, want at most %d", lines, most)
	}
}

// Each example is a program with a test and a page, and the page of all names it.
func TestEachExampleHasATestAndAPage(t *testing.T) {
	index, err := os.ReadFile("examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() {
			continue
		}
		for _, pattern := range []string{"main.go", "*_test.go", "README.md"} {
			found, err := filepath.Glob(filepath.Join("examples", name, pattern))
			if err != nil || len(found) == 0 {
				t.Errorf("%s has no %s: %v", name, pattern, err)
			}
		}
		if !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("examples/README.md does not name %s", name)
		}
	}
}
