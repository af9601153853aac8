package rota

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Measured figures stand in docs/figures.md. Other pages carry copies between marks, which `make
// figures` writes, and no throughput of their own.
func TestFiguresStandOnOnePage(t *testing.T) {
	marked := regexp.MustCompile(`(?s)<!-- figures: (\S+) -->\n(.*?)<!-- end -->`)
	published := regexp.MustCompile(`[0-9][0-9,.]* ?(tasks|fires|submissions)/s`)
	read := func(name string) string {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	original := make(map[string]string)
	for _, m := range marked.FindAllStringSubmatch(read("docs/figures.md"), -1) {
		original[m[1]] = m[2]
	}
	if len(original) == 0 {
		t.Fatal("docs/figures.md has no marks")
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(pages, "README.md") {
		switch filepath.Base(name) {
		case "figures.md", "pool.md", "tick.md":
			// the last two have figures of their own, which bench/machines writes
			continue
		}
		page := read(name)
		for _, m := range marked.FindAllStringSubmatch(page, -1) {
			if m[2] != original[m[1]] {
				t.Errorf("%s: the copy of %q differs from docs/figures.md", name, m[1])
			}
		}
		for _, m := range published.FindAllString(marked.ReplaceAllString(page, ""), -1) {
			t.Errorf("%s publishes %q outside the marks: it belongs into docs/figures.md", name, m)
		}
	}
}
