package rota

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retired are words that this project once had for something that the field, or docs/DESIGN.md, has a word
// for. They don't come back: neither in code nor in comments nor in pages.
var retired = map[string]string{
	"chronicle": "outbox",
	"herald":    "sender (of notices)",
	"tally":     "counters",
	"tallies":   "counters",
	"sitter":    "worker session",
	"sqlstore":  "store/sqlite",
	"pgstore":   "store/postgres",
}

func TestRetiredWordsStayRetired(t *testing.T) {
	var words []string
	for word := range retired {
		words = append(words, word)
	}
	found := regexp.MustCompile(`(?i)(` + strings.Join(words, "|") + `)`)
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && name != "."):
			return filepath.SkipDir
		case e.IsDir() || name == "words_test.go" || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, word := range found.FindAllString(line, -1) {
				t.Errorf("%s:%d: %q is called %s now", name, n+1, word, retired[strings.ToLower(word)])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
