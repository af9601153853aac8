package postgres

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a part calls can be read without it, and it can't be read without what it calls.
func TestPartsCallOneAnotherInNoCircle(t *testing.T) {
	calls := map[string][]string{} // by each part of Store
	eachNode(t, func(n ast.Node) {
		spec, is := n.(*ast.TypeSpec)
		if !is {
			return
		}
		fields, is := spec.Type.(*ast.StructType)
		if !is {
			return
		}
		for _, f := range fields.Fields.List {
			calls[spec.Name.Name] = append(calls[spec.Name.Name], nameOf(f.Type))
		}
	})
	parts := calls["Store"]
	if len(parts) < 10 {
		t.Fatalf("Store has the parts %v", parts)
	}
	var walk func(path []string)
	walk = func(path []string) {
		for _, next := range calls[path[len(path)-1]] {
			switch {
			case slices.Contains(path, next):
				t.Errorf("parts call one another in a circle: %v", append(path, next))
			case slices.Contains(parts, next):
				walk(append(slices.Clone(path), next))
			}
		}
	}
	for _, part := range parts {
		walk([]string{part})
	}
}

// eachNode visits the package's sources, but for tests.
func eachNode(t *testing.T, visit func(ast.Node)) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
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
