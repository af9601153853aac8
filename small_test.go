package rota

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostMethods is what can be read in one sitting: a type has at most so many methods.
const mostMethods = 60

// large are types that have more, and why.
var large = map[string]string{
	"client.Client":                  "a program finds the calls of the API in one place, by their names",
	"internal/store/model.Model":     "one rule after the other, all on the same few tables",
	"internal/store/storetest.scene": "the words in which the suite's stories are written",
	"internal/store/walk.walk":       "each is one thing that a walk may do",
}

func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
	for name, text := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				methods[filepath.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for name, n := range methods {
		switch _, excused := large[name]; {
		case n > mostMethods && !excused:
			t.Errorf("%s has %d methods: give those about one noun a type of their own", name, n)
		case n <= mostMethods && excused:
			t.Errorf("%s has %d methods: it needs no excuse", name, n)
		}
	}
	for name := range large {
		if methods[name] == 0 {
			t.Errorf("there is no %s to excuse", name)
		}
	}
}

// receiver is the name of a type, of a pointer to one, or of one with parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
