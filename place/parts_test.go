package place

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostMethods is how many methods a type has at most: what can be read in one sitting.
const mostMethods = 60

func TestTypesAreSmall(t *testing.T) {
	list, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]int{}
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if name, ok := of.(*ast.Ident); ok {
				methods[name.Name]++
			}
		}
	}
	if methods["board"] == 0 || methods["filling"] == 0 {
		t.Fatal("nothing was counted")
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods: give those about one step a type of their own", name, n)
		}
	}
}
