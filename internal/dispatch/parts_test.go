package dispatch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// Memory waits for nobody, asks no clock and starts nothing: only the dispatcher around it does.
func TestMemoryAsksNoClockAndWaitsForNobody(t *testing.T) {
	around := append(parts(t), "core", "Dispatcher", "gather", "loads", "usual")
	for _, file := range sources(t) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || slices.Contains(around, receiver(f)) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt:
					t.Errorf("%s of %s starts or waits for something", f.Name.Name, receiver(f))
				case *ast.UnaryExpr:
					if n.Op == token.ARROW {
						t.Errorf("%s of %s waits on a channel", f.Name.Name, receiver(f))
					}
				case *ast.SelectorExpr:
					pkg, _ := n.X.(*ast.Ident)
					if pkg == nil || pkg.Name != "time" {
						break
					}
					switch n.Sel.Name {
					case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer",
						"NewTicker", "Tick":
						t.Errorf("%s of %s uses time.%s", f.Name.Name, receiver(f), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// parts are the dispatcher's: the types that have the core, and with it the lock and the store.
func parts(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if ok && slices.ContainsFunc(fields.Fields.List, isCore) {
				names = append(names, spec.Name.Name)
			}
			return false
		})
	}
	if !slices.Contains(names, "views") || slices.Contains(names, "memory") {
		t.Fatalf("the dispatcher's parts seem to be %v", names)
	}
	return names
}

// isCore tells whether a field of a struct embeds the core.
func isCore(f *ast.Field) bool {
	star, ok := f.Type.(*ast.StarExpr)
	if !ok || len(f.Names) > 0 {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "core"
}

// sources are the files of this package, without its tests.
func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	list, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// receiver is the type whose method f is.
func receiver(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	name, _ := typ.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
