package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostMethods is how many methods are declared on a type at most. What is promoted from a part that
// it embeds is the part's.
const mostMethods = 60

func TestTypesAreSmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				methods[nameOf(f.Recv.List[0].Type)]++
			}
		}
	}
	if methods["Store"] == 0 || methods["conn"] == 0 {
		t.Fatal("nothing was counted")
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods: give what is about one noun a type of its own", name, n)
		}
	}
}

// nameOf is the name of a type, of a pointer to one, or of one with parameters.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
