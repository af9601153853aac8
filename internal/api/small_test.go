package api

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostAsked is how many methods calls ask for at most: what can be read in one sitting.
const mostAsked = 8

// sums are interfaces of which no calls ask for all: whoever puts a node together gives them.
var sums = map[string]bool{"Engine": true, "Cluster": true}

func TestInterfacesAreSmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := interfaces{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if i, is := n.Type.(*ast.InterfaceType); is {
					asked[n.Name.Name] = i
				}
			case *ast.Field: // of a type without a name
				if i, is := n.Type.(*ast.InterfaceType); is {
					asked[name+": "+n.Names[0].Name] = i
				}
			}
			return true
		})
	}
	if asked.methods("Cluster") == 0 {
		t.Fatal("nothing was counted")
	}
	for name := range asked {
		if n := asked.methods(name); n > mostAsked && !sums[name] {
			t.Errorf("%s has %d methods: no calls are to ask for so many", name, n)
		}
	}
}

// interfaces are those of the package, by name.
type interfaces map[string]*ast.InterfaceType

// methods counts those of an interface, with those of the interfaces in it.
func (all interfaces) methods(name string) (n int) {
	of, known := all[name]
	if !known {
		return 0
	}
	for _, m := range of.Methods.List {
		if n += len(m.Names); len(m.Names) == 0 {
			n += all.methods(nameOf(m.Type))
		}
	}
	return n
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
