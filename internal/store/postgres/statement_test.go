//go:build unix

package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// limited begins the end of a part of a statement that finds other rows when it is asked again.
var limited = regexp.MustCompile(`LIMIT \$|SKIP LOCKED`)

// asked are the words before a parenthesis whose inside is asked once (MATERIALIZED, ARRAY), or for
// one row of what stands before it (LATERAL).
var asked = regexp.MustCompile(`(MATERIALIZED|ARRAY|LATERAL) ?$`)

// A DELETE or UPDATE of few rows changes so many only if nothing asks again which those are.
// Planners that do are rare, so what the contract shows by chance is read here in every statement.
func TestStatementsThatChangeFewRowsAskOnceWhichThoseAre(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING || !strings.Contains(text.Value, "DELETE FROM") &&
				!strings.Contains(text.Value, "UPDATE rota.") {
				return true
			}
			for _, at := range limited.FindAllStringIndex(text.Value, -1) {
				seen++
				if before := opening(text.Value, at[0]); !asked.MatchString(text.Value[:before]) {
					t.Errorf("%s: a join may ask this again: %s", name,
						text.Value[max(before-20, 0):at[1]])
				}
			}
			return true
		})
	}
	if seen < 10 {
		t.Errorf("only %d statements were found: has their style changed?", seen)
	}
}

// opening is where the innermost parenthesis opens that a place of a text stands in; 0 = in none.
func opening(text string, at int) int {
	for depth := 0; at > 0; {
		at--
		switch text[at] {
		case ')':
			depth++
		case '(':
			if depth == 0 {
				return at
			}
			depth--
		}
	}
	return 0
}
