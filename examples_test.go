package rota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
