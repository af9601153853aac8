package rota

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

// retired are words that this project once had for something that the field, or docs/DESIGN.md, has
// a word for. They don't come back: neither in code nor in comments nor in pages.
var retired = map[string]string{
	"chronicle": "outbox",
	"herald":    "sender (of notices)",
	"tally":     "counters",
	"tallies":   "counters",
	"sitter":    "worker session",
	"sqlstore":  "store/sqlite",
	"pgstore":   "store/postgres",
	"seating":   "store/rules/assign",
}

func TestRetiredWordsStayRetired(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() &&
			(e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && name != "."):
			return filepath.SkipDir
		case e.IsDir() || name == "words_test.go" || filepath.Ext(name) != ".go" &&
			filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		low := strings.ToLower(string(text))
		for word, now := range retired {
			if at := strings.Index(low, word); at >= 0 {
				t.Errorf("%s:%d: %q is called %s now", name, 1+strings.Count(low[:at], "\n"), word,
					now)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// retiredNames are common words that some packages once used as names for something else. Nothing
// there is declared under them again. The list grows with the packages that are done.
var retiredNames = map[string][]string{
	"internal/dispatch": {"abroad", "finding", "strays", "unsure", "vouch",
		"vouched"},
	"internal/scheduler":      {"strays", "unsure"},
	"internal/store/postgres": {"concern", "desk", "enter", "hall"},
	"internal/firing": {"aside", "lot", "passed", "ruling", "said", "shoot", "sight", "subject",
		"told", "volley"},
	"internal/supervise": {"crew", "guest", "intent", "ledger", "picture", "roster", "sight"},
}

func TestRetiredNamesStayRetired(t *testing.T) {
	story.Whole(t)
	for _, f := range parseTree(t) {
		words := retiredNames[f.pkg]
		if f.test || words == nil {
			continue
		}
		for _, name := range declared(f.file) {
			for _, word := range words {
				if strings.EqualFold(name, word) || strings.EqualFold(name, word+"s") {
					t.Errorf("%s declares %q, a name that package %s has given up", f.name, name,
						f.pkg)
				}
			}
		}
	}
}

// declared lists the types, functions, methods, fields, parameters, constants and variables that a
// file declares.
func declared(f *ast.File) (names []string) {
	add := func(list ...*ast.Ident) {
		for _, id := range list {
			names = append(names, id.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.Field:
			add(n.Names...)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						add(id)
					}
				}
			}
		}
		return true
	})
	return names
}
