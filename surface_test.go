package rota

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var surfaceUpdate = flag.Bool("surface.update", false, "write testdata/surface.txt again")

// public are the packages that programs may import. What stands in their files is a promise.
var public = []string{
	".", "balance", "client", "cron", "lease", "place", "pool", "rotatest", "task", "tick", "view",
	"worker",
}

// What programs may call stands in a file, so that a change of it is seen for what it is.
func TestThePublicSurfaceIsWhatStandsInTheFile(t *testing.T) {
	var b bytes.Buffer
	for _, dir := range append(slices.Clone(public), "otel") { // a module of its own
		if err := surface(&b, dir); err != nil {
			t.Fatal(err)
		}
	}
	const file = "testdata/surface.txt"
	if *surfaceUpdate {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, stands := lineSet(b.String()), lineSet(string(want))
	for line := range got {
		if !stands[line] {
			t.Errorf("new: %s", line)
		}
	}
	for line := range stands {
		if !got[line] {
			t.Errorf("gone: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if that is meant: go test . -run Surface -surface.update, and a line in CHANGELOG.md")
	}
}

func lineSet(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(text) {
		set[strings.TrimSpace(line)] = true
	}
	return set
}

// surface writes a line for each exported name of a package: constants, variables, functions, types
// with their fields, methods. What an alias stands for is listed where it is declared.
func surface(b *bytes.Buffer, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	d, err := doc.NewFromFiles(files, parsed, module+"/"+dir)
	if err != nil {
		return err
	}
	l := list{b, files, d.Name}
	l.values(append(d.Consts, d.Vars...))
	l.functions("", d.Funcs)
	for _, t := range d.Types {
		l.values(append(t.Consts, t.Vars...))
		l.functions("", t.Funcs)
		l.functions(t.Name, t.Methods)
		for _, spec := range t.Decl.Specs {
			l.typ(spec.(*ast.TypeSpec))
		}
	}
	return nil
}

// list writes the names of a package.
type list struct {
	b     *bytes.Buffer
	files *token.FileSet
	name  string
}

func (l list) line(format string, args ...any) {
	fmt.Fprintf(l.b, "%s: %s\n", l.name, fmt.Sprintf(format, args...))
}

// text is how Go writes a part of the tree, in one line.
func (l list) text(n ast.Node) string {
	var b strings.Builder
	if err := printer.Fprint(&b, l.files, n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (l list) values(list []*doc.Value) {
	for _, v := range list {
		for _, name := range v.Names {
			if ast.IsExported(name) {
				l.line("%s %s", v.Decl.Tok, name)
			}
		}
	}
}

func (l list) functions(of string, list []*doc.Func) {
	for _, f := range list {
		f.Decl.Doc, f.Decl.Body = nil, nil
		if of == "" || ast.IsExported(of) {
			l.line("%s", l.text(f.Decl))
		}
	}
}

// typ writes a type, and its exported fields or methods.
func (l list) typ(t *ast.TypeSpec) {
	parameters, is := "", " "
	if t.TypeParams != nil {
		parameters = "[" + l.names(t.TypeParams) + "]"
	}
	if t.Assign.IsValid() {
		is = " = "
	}
	head := "type " + t.Name.Name + parameters + is
	switch x := t.Type.(type) {
	case *ast.StructType:
		l.line("%sstruct", head)
		l.fields(t.Name.Name, x.Fields)
	case *ast.InterfaceType:
		l.line("%sinterface", head)
		l.fields(t.Name.Name, x.Methods)
	default:
		l.line("%s%s", head, l.text(t.Type))
	}
}

func (l list) fields(of string, list *ast.FieldList) {
	for _, f := range list.List {
		tag := ""
		if f.Tag != nil {
			tag, _, _ = strings.Cut(strings.TrimPrefix(f.Tag.Value, "`"), " ")
			tag = " " + strings.TrimSuffix(tag, "`")
		}
		if len(f.Names) == 0 {
			l.line("%s embeds %s%s", of, l.text(f.Type), tag)
		}
		for _, name := range f.Names {
			if name.IsExported() {
				l.line("%s.%s %s%s", of, name.Name, l.text(f.Type), tag)
			}
		}
	}
}

func (l list) names(list *ast.FieldList) string {
	var all []string
	for _, f := range list.List {
		for _, name := range f.Names {
			all = append(all, name.Name+" "+l.text(f.Type))
		}
	}
	return strings.Join(all, ", ")
}
