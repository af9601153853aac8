package rota

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// whom says who calls verbs that need no example: the standard library does, by an interface.
var whom = map[string]string{
	"String": "fmt", "Error": "fmt", "Is": "errors", "As": "errors", "Unwrap": "errors",
	"MarshalText": "encoding/json", "UnmarshalText": "encoding/json",
	"MarshalJSON": "encoding/json", "UnmarshalJSON": "encoding/json",
}

// unshown are the verbs without an example, and why.
var unshown = map[string]string{
	"(*task.InvalidError).Add":   "what checks input adds; programs read Fields",
	"(*task.InvalidError).Err":   "likewise",
	"(task.ID).Append":           "String, for those who write very many",
	"(task.Token).Append":        "likewise",
	"(task.ID).Seed":             "spreads back-off over tasks, see Backoff.Delay",
	"(task.Kind).Fits":           "what nodes and stores decide by",
	"(task.Kind).Leaves":         "likewise",
	"(task.Kind).Reportable":     "likewise",
	"(*client.Error).Superseded": "package worker asks",
	"(*worker.Leash).Kill":       "of processes that are only workers, as rota worker is",
	"(pool.Lane).Close":          "the pool calls",
	"(*lease.Memory).Acquire":    "a Keeper calls",
	"(*lease.Memory).End":        "likewise",
	"(*lease.Memory).Renew":      "likewise",
}

// Each verb that a program may call, a function or a method of a public package, is called in the
// example files of these packages: whoever reads go doc sees it in use.
func TestEachPublicVerbHasAnExample(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads sources: short runs, which look for races, need not")
	}
	from := exportData(t)
	shown := map[string]bool{}
	for _, dir := range public {
		inExamples(t, from, dir, func(verb *types.Func) { shown[verb.Origin().FullName()] = true })
	}
	stands := map[string]bool{}
	for _, dir := range public {
		pkg, err := from.Import(path.Join(module, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range verbsOf(pkg) {
			name := strings.ReplaceAll(verb.FullName(), module+"/", "")
			stands[name] = true
			switch _, excused := unshown[name]; {
			case !shown[verb.FullName()] && !excused && whom[verb.Name()] == "":
				t.Errorf("no example calls %s", name)
			case shown[verb.FullName()] && excused:
				t.Errorf("%s has an example: it needs no excuse", name)
			}
		}
	}
	for name := range unshown {
		if !stands[name] {
			t.Errorf("there is no %s to excuse", name)
		}
	}
}

// exportData reads what the compiler keeps of packages, as go vet does.
func exportData(t *testing.T) types.Importer {
	args := []string{"list", "-export", "-deps", "-test", "-f",
		"{{if .Export}}{{.ImportPath}}\t{{.Export}}{{end}}"}
	for _, dir := range public {
		args = append(args, "./"+dir)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	files := map[string]string{}
	for line := range bytes.Lines(out) {
		if name, file, ok := strings.Cut(strings.TrimSpace(string(line)), "\t"); ok {
			files[name] = file
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		if files[name] == "" {
			return nil, fmt.Errorf("no export data of %s", name)
		}
		return os.Open(files[name])
	})
}

// inExamples calls f for each function or method that the examples of a package call, and what else
// stands in files of examples. Some examples stand beside the package, others inside it.
func inExamples(t *testing.T, from types.Importer, dir string, f func(*types.Func)) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var beside, inside, examples []*ast.File
	for _, name := range names {
		if ok, err := build.Default.MatchFile(dir, filepath.Base(name)); err != nil || !ok {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file.Name.Name, "_test") {
			beside = append(beside, file)
		} else {
			inside = append(inside, file)
		}
		if strings.HasSuffix(name, "_test.go") {
			examples = append(examples, file)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: from, Error: func(error) {}} // go vet reports them
	check.Check(path.Join(module, dir), set, inside, info)
	check.Check(path.Join(module, dir)+"_test", set, beside, info)
	for _, file := range examples {
		whole := strings.HasPrefix(filepath.Base(set.Position(file.Pos()).Filename), "example_")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl: // of other files only the examples themselves
				return whole || strings.HasPrefix(n.Name.Name, "Example")
			case *ast.Ident:
				if verb, ok := info.Uses[n].(*types.Func); ok {
					f(verb)
				}
			}
			return true
		})
	}
}

// verbsOf are the functions of a package and the methods of its types that are exported.
func verbsOf(pkg *types.Package) (all []*types.Func) {
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			all = append(all, o)
		case *types.TypeName:
			named, ok := o.Type().(*types.Named)
			if !ok || o.IsAlias() {
				continue
			}
			for m := range named.Methods() {
				if m.Exported() {
					all = append(all, m)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *types.Func) int {
		return strings.Compare(a.FullName(), b.FullName())
	})
	return all
}
