package rota

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

// mostMethods is what can be read in one sitting: a type has at most so many methods.
const mostMethods = 60

// large are types that have more, and why.
var large = map[string]string{
	"client.Client":                  "a program finds the calls of the API in one place, by their names",
	"internal/store/fault.Door":      "the calls of the contract, a line each, and how they fail",
	"internal/store/model.Model":     "one rule after the other, all on the same few tables",
	"internal/store/storetest.scene": "the words in which the suite's stories are written",
	"internal/store/walk.walk":       "each is one thing that a walk may do",
}

func TestTypesAreSmall(t *testing.T) {
	story.Whole(t)
	methods := map[string]int{}
	eachDecl(t, func(dir string, d ast.Decl) {
		if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
			methods[dir+"."+typeName(f.Recv.List[0].Type)]++
		}
	})
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

// cores are what the parts of large types embed (ADR 71).
var cores = []string{"core", "database"}

// A part can be read by itself, and then those that need it: none needs itself by way of others.
func TestPartsNeedEachOtherInNoCircle(t *testing.T) {
	story.Whole(t)
	needs := partsOf(t)
	for _, part := range []string{
		"internal/dispatch.settlements", "internal/scheduler.claims", "internal/firing.watcher",
		"internal/store/postgres.upkeep", "internal/store/sqlite.upkeepCalls",
	} {
		if len(needs[part]) == 0 {
			t.Errorf("%s seems to need no other part: %v", part, slices.Sorted(maps.Keys(needs)))
		}
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

// partsOf are the types that embed a core, each with the types of its package that it has a pointer
// to. What embeds parts besides is the whole, and none.
func partsOf(t *testing.T) map[string][]string {
	t.Helper()
	needs, embeds := map[string][]string{}, map[string][]string{}
	eachDecl(t, func(dir string, d ast.Decl) {
		g, is := d.(*ast.GenDecl)
		if !is {
			return
		}
		for _, spec := range g.Specs {
			spec, is := spec.(*ast.TypeSpec)
			if !is {
				continue
			}
			fields, is := spec.Type.(*ast.StructType)
			if !is {
				continue
			}
			name := dir + "." + spec.Name.Name
			list, hasCore := []string{}, false
			for _, f := range fields.Fields.List {
				of := typeName(f.Type)
				if len(f.Names) == 0 {
					hasCore = hasCore || slices.Contains(cores, of)
					embeds[name] = append(embeds[name], dir+"."+of)
				}
				if _, is := f.Type.(*ast.StarExpr); is {
					list = append(list, dir+"."+of)
				}
			}
			if hasCore {
				needs[name] = list
			}
		}
	})
	maps.DeleteFunc(needs, func(name string, _ []string) bool {
		return slices.ContainsFunc(embeds[name], func(of string) bool {
			return needs[of] != nil && of != name
		})
	})
	return needs
}

// eachDecl visits what the tree's sources declare, but for tests, with the folder of each.
func eachDecl(t *testing.T, visit func(dir string, d ast.Decl)) {
	t.Helper()
	for name, text := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			visit(filepath.Dir(name), d)
		}
	}
}

// typeName is the name of a type, of a pointer to one, or of one with parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
