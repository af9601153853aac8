package firing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostMethods is how many methods a type has at most: what can be read in one sitting.
const mostMethods = 60

func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
	for _, file := range sources(t) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[nameOfType(f.Recv.List[0].Type)]++
			}
		}
	}
	if methods["Firer"] == 0 || methods["core"] == 0 {
		t.Fatal("nothing was counted")
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods: give those about one noun a type of their own", name, n)
		}
	}
}

// A part can be read by itself, and then those that need it: none needs itself by way of others.
func TestPartsNeedEachOtherInNoCircle(t *testing.T) {
	needs := needsOfParts(t)
	if !slices.Contains(needs["watcher"], "edits") {
		t.Fatalf("the firer's parts seem to be %v", needs)
	}
	for changed := true; changed; {
		changed = false
		for name, list := range needs {
			if slices.ContainsFunc(list, func(of string) bool { return needs[of] != nil }) {
				continue
			}
			delete(needs, name) // all that it needs can be read before
			changed = true
		}
	}
	if len(needs) > 0 {
		t.Errorf("parts need each other in a circle: %v", needs)
	}
}

// needsOfParts are the firer's parts, the types that embed the core, each with the others of
// the package that it has a pointer to.
func needsOfParts(t *testing.T) map[string][]string {
	t.Helper()
	needs := map[string][]string{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || spec.Name.Name == "Firer" {
				return false
			}
			list := []string{}
			for _, f := range fields.Fields.List {
				if _, ok := f.Type.(*ast.StarExpr); ok {
					list = append(list, nameOfType(f.Type))
				}
			}
			if slices.Contains(list, "core") {
				needs[spec.Name.Name] = list
			}
			return false
		})
	}
	return needs
}

// sources are the files of this package, without its tests.
func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	list, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// nameOfType is the name of a type of this package, or of a pointer to one; else "".
func nameOfType(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
